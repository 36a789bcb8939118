//! Sites that layout 3 left on a server, with a script that decided itself: they are converted at
//! their first use, and nothing is lost.

use std::collections::HashMap;
use std::time::Duration;

use docstokg_policy::breaker::{BreakerPolicy, BreakerState, OpenReason};
use docstokg_policy::host::Host;
use docstokg_policy::role::Role;
use docstokg_policy::site::{AdmissionDecision, AdmissionRequest, LanePolicy, RefusalReason};
use docstokg_policy::time::BootInstant;
use docstokg_stores::conformance::arrive;
use docstokg_stores::redis::RedisStore;
use docstokg_stores::{BudgetKey, SiteView};
use redis::{Commands, Connection};

use crate::clock::ManualClock;
use crate::server::Server;
use crate::worker::WorkerClient;

/// Keys as version 0.1 with layout 3 wrote them: a name and the bytes.
const RECORDS: &str = include_str!("../../fixtures/redis_layout_3.txt");
/// When the last of them was written, in microseconds of the server.
const WRITTEN: u64 = 1_700_000_085_300_000;

/// A server with those records, and a process of this version.
struct Upgrade {
    server: Server,
    connection: Connection,
    store: RedisStore,
}

fn key(site: &str) -> String {
    format!("docstokg:{{{site}}}")
}

impl Upgrade {
    fn start() -> Self {
        let server = Server::start();
        let client = redis::Client::open(server.dsn()).expect("a DSN");
        let mut connection = client.get_connection().expect("a connection");
        let lines = RECORDS.lines().filter(|line| !line.starts_with('#'));
        let records: HashMap<&str, &str> = lines.filter_map(|line| line.split_once(' ')).collect();
        assert_eq!(records.len(), 9, "all of them");
        for (site, hex) in records {
            let digits = hex.as_bytes().chunks(2).map(|two| {
                let two = std::str::from_utf8(two).expect("digits");
                u8::from_str_radix(two, 16).expect("a byte")
            });
            let raw: Vec<u8> = digits.collect();
            let _: () = connection.set(key(site), raw).expect("it is stored");
        }
        let clock = ManualClock::at(WRITTEN + 1);
        let store = RedisStore::open(&server.dsn(), clock.shared()).expect("a store");
        Self {
            server,
            connection,
            store,
        }
    }

    fn client(&self, site: &str, rates: &str, slots: Option<u32>) -> WorkerClient {
        let mut client = WorkerClient::new(&self.store, site, rates, slots);
        client.site = self.store.site_on_own_time(&site.into());
        let host = Host::parse("a.example").expect("a host");
        client.costs[0].budget = client.site.budget(&BudgetKey::Role(host, Role::Metadata));
        client
    }
}

/// Returns how much of the window of a client is used in its budget, or in another one.
fn used(client: &WorkerClient, budget: usize) -> u64 {
    let view = arrive(client.site.view());
    let windows = &client.costs[0].windows;
    view.site.budgets()[budget].used(windows, &windows.list()[0], view.now)
}

fn refusal(client: &WorkerClient) -> (RefusalReason, Duration) {
    match client.enter() {
        AdmissionDecision::Refused(refusal) => {
            let now = BootInstant::from_micros(WRITTEN + 1);
            (refusal.reason, refusal.until.since(now))
        }
        other => panic!("expected a refusal, got {other:?}"),
    }
}

#[test]
fn permits_survive_a_change_of_layout() {
    let upgrade = Upgrade::start();
    let rings = upgrade.client("rings", "5/HOUR", None);
    assert_eq!(used(&rings, 0), 4);
    assert!(matches!(rings.enter(), AdmissionDecision::Go(_)));
    let (reason, until) = refusal(&rings);
    assert!(matches!(reason, RefusalReason::Rate { .. }));
    assert!(until > Duration::from_secs(3_400), "{until:?}");

    let both = upgrade.client("both", "9/HOUR", None);
    let common = both.site.budget(&BudgetKey::Common);
    assert_eq!([used(&both, 0), used(&both, common)], [8, 3]);

    let large = upgrade.client("large", "5000/HOUR", None);
    assert!(matches!(large.enter(), AdmissionDecision::Go(_)));
    assert_eq!(used(&large, 0), 301);
}

#[test]
fn blocks_and_open_breakers_survive_a_change_of_layout() {
    let mut upgrade = Upgrade::start();
    let (reason, until) = refusal(&upgrade.client("blocked", "9/HOUR", None));
    let RefusalReason::Open {
        reason: OpenReason::Operator(why),
        ..
    } = reason
    else {
        panic!("{reason:?}")
    };
    assert_eq!(&*why, "maintenance");
    assert!(until > Duration::from_secs(6_900), "{until:?}");

    let open = upgrade.client("open", "900/HOUR", None);
    let view = arrive(open.site.view());
    assert_eq!(view.state(), BreakerState::HalfOpen, "its time has passed");
    assert_eq!(view.failures(), 5);
    assert!(view.site.breaker().opened_by().is_some(), "and by whom");
    let entry = open.enter();
    assert!(
        matches!(&entry, AdmissionDecision::Go(permit) if permit.probe),
        "{entry:?}"
    );
    let entry = open.enter();
    assert!(
        matches!(entry, AdmissionDecision::Refused(_)),
        "one at a time: {entry:?}"
    );

    let isolated = upgrade.client("isolated", "9/HOUR", None);
    let policy = LanePolicy {
        isolated: true,
        ..LanePolicy::new(BreakerPolicy::default())
    };
    let ask = AdmissionRequest {
        role: Role::Artifact,
        ..AdmissionRequest::at_once(&isolated.costs, policy)
    };
    let entry = arrive(isolated.site.enter(&ask)).entry;
    assert!(matches!(entry, AdmissionDecision::Refused(_)), "{entry:?}");
    assert!(
        matches!(isolated.enter(), AdmissionDecision::Go(_)),
        "its role alone"
    );
    let retries = arrive(isolated.site.view()).site.retries();
    assert!(retries.spent() > 0, "what retries have spent");
    // It is converted for good, and lasts as long as it would have.
    let converted: Vec<u8> = upgrade.connection.get(key("isolated")).expect("a record");
    assert_eq!(converted[0], 4);
    let lasts: u64 = upgrade.connection.ttl(key("isolated")).expect("it expires");
    assert!(lasts > 30 * 86_400, "{lasts}");
}

#[test]
fn reservations_and_slots_survive_a_change_of_layout() {
    let upgrade = Upgrade::start();
    let slots = upgrade.client("slots", "9/HOUR", Some(1));
    let entry = slots.enter();
    assert!(
        matches!(entry, AdmissionDecision::WaitForSlot { .. }),
        "{entry:?}"
    );
    let waits = upgrade.client("waits", "1/HOUR", None);
    let SiteView { site, now, .. } = arrive(waits.site.view());
    assert_eq!(site.budgets()[0].count_waiting(now), 1);
}

#[test]
fn declared_quotas_survive_a_change_of_layout() {
    let upgrade = Upgrade::start();
    let view = arrive(upgrade.client("learning", "5000/SECOND", None).site.view());
    assert!(view.site.quotas().is_some());
    let other = RedisStore::open(&upgrade.server.dsn(), ManualClock::at(WRITTEN + 1).shared());
    let site = other.expect("a store").site_on_own_time(&"learning".into());
    let again = arrive(site.view());
    assert_eq!(again.site.quotas(), view.site.quotas());
}
