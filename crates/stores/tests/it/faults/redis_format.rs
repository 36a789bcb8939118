//! What this layout has written stays readable: whoever changes how an operation or a site is
//! written has to raise the layout, and read the earlier one.

use std::fmt::Write;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use docstokg_policy::adaptive::AdaptivePolicy;
use docstokg_policy::breaker::{BreakerPolicy, OpenReason, RollingWindow};
use docstokg_policy::classify::AttemptMeaning;
use docstokg_policy::site::{AdmissionDecision, AdmissionRequest, LanePolicy, Permit};
use docstokg_policy::time::BootInstant;
use docstokg_stores::conformance::arrive;
use docstokg_stores::redis::RedisStore;
use docstokg_stores::{SiteHandle, SiteView};
use redis::{Commands, Connection};

use crate::clock::ManualClock;
use crate::server::Server;
use crate::worker::{WorkerClient, remaining};

const START: u64 = 1_700_000_000_000_000;
const KEYS: [&str; 2] = ["docstokg:{log}", "docstokg:{snapshot}"];

/// The file with the two records: in hexadecimal digits, one on each line.
fn fixture() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/redis_layout_4.txt")
}

fn start() -> (Server, Connection, RedisStore) {
    let server = Server::start();
    let client = redis::Client::open(server.dsn()).expect("a DSN");
    let connection = client.get_connection().expect("a connection");
    let clock = ManualClock::at(START);
    let store = RedisStore::open(&server.dsn(), clock.shared()).expect("a store");
    (server, connection, store)
}

/// Returns a question in which everything is set.
fn full_ask(client: &WorkerClient) -> AdmissionRequest {
    let breaker = BreakerPolicy {
        window: Some(RollingWindow {
            threshold_failures: NonZeroU32::MIN.saturating_add(8),
            within: Duration::from_secs(8),
            cooldown: Duration::from_secs(4),
        }),
        throttle_block: Some(Duration::from_secs(1)),
        ..BreakerPolicy::default()
    };
    let plain = client.ask(BootInstant::FAR);
    let policy = LanePolicy {
        breaker: breaker.into(),
        adaptive: Some(AdaptivePolicy::default()),
        ..LanePolicy::clone(&plain.policy)
    };
    AdmissionRequest {
        policy: policy.into(),
        jitter_sample: 0.25,
        backlog: 7,
        credits: 2,
        ..plain
    }
}

fn go(site: &dyn SiteHandle, ask: &AdmissionRequest) -> Permit {
    match arrive(site.enter(ask)).entry {
        AdmissionDecision::Go(permit) => permit,
        other => panic!("expected a go, got {other:?}"),
    }
}

/// Records an operation of every kind, in an order in which each of them does something.
fn record_all(client: &WorkerClient) {
    let (site, ask) = (&*client.site, full_ask(client));
    let longest = Duration::from_secs(600);
    arrive(site.block(longest, &OpenReason::Operator("a word".into())));
    arrive(site.unblock());
    let permits = [(); 4].map(|()| go(site, &ask));
    let reserved = match arrive(site.enter(&ask)).entry {
        AdmissionDecision::Wait(reserved) => reserved,
        other => panic!("expected a reservation, got {other:?}"),
    };
    arrive(site.confirm(&ask, reserved.id));
    arrive(site.state_quotas(&ask, &permits[0], &remaining(300)));
    arrive(site.settle_headers(&ask, &permits[0], AttemptMeaning::Success));
    arrive(site.hold(&ask, &permits[1], longest));
    arrive(site.sent(&ask, &permits[1], longest));
    arrive(site.stamp(&ask, &permits[1]));
    arrive(site.leave(&ask, permits[2].id, Some(permits[2].stamp)));
    arrive(site.renew(&[permits[3].id], longest));
    client.settle(&permits[3], AttemptMeaning::Failure);
    arrive(site.forget_adaptation());
    arrive(site.forget_learned());
    client.settle(&permits[0], AttemptMeaning::Throttled);
}

#[test]
#[ignore = "writes the fixture of a new layout"]
fn write_the_records() {
    let (_server, mut connection, store) = start();
    for (name, times) in [("log", 1), ("snapshot", 16)] {
        let mut client = WorkerClient::learning(&store, name, "4/HOUR");
        client.site = store.site_on_own_time(&name.into());
        client.costs[0].budget = client.site.budget(&docstokg_stores::BudgetKey::Common);
        record_all(&client);
        for _ in 1..times {
            arrive(client.site.renew(&[1; 200], Duration::from_secs(1)));
        }
        arrive(client.site.view());
    }
    let hex = |key| {
        let raw: Vec<u8> = connection.get(key).expect("a record");
        let mut digits = String::new();
        for byte in raw {
            write!(digits, "{byte:02x}").expect("memory");
        }
        digits + "\n"
    };
    std::fs::write(fixture(), KEYS.map(hex).concat()).expect("a file");
}

#[test]
fn records_of_this_layout_stay_readable() {
    let (_server, mut connection, store) = start();
    let records = std::fs::read_to_string(fixture()).expect("the fixture");
    for (key, hex) in KEYS.iter().zip(records.lines()) {
        let digits = hex.as_bytes().chunks(2);
        let byte = |two| u8::from_str_radix(str::from_utf8(two).expect("digits"), 16);
        let raw: Vec<u8> = digits.map(|two| byte(two).expect("a byte")).collect();
        let _: () = connection.set(key, raw).expect("it is stored");
    }
    for name in ["log", "snapshot"] {
        let site = store.site_on_own_time(&name.into());
        let SiteView { site, budgets, now } = arrive(site.view());
        assert_eq!(budgets, ["common"], "{name}");
        let budget = &site.budgets()[0];
        assert_eq!(
            budget.instants().count(),
            3,
            "{name}: of four one was given back"
        );
        assert_eq!(budget.count_waiting(now), 1, "{name}");
        assert_eq!(site.breaker().failures(), 2, "{name}");
        assert!(
            site.learned().is_some() && site.quotas().is_none(),
            "{name}"
        );
    }
}
