//! A shared store that is unavailable for a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use docstokg_policy::breaker::OpenReason;
use docstokg_policy::classify::AttemptMeaning;
use docstokg_policy::host::Host;
use docstokg_policy::role::Role;
use docstokg_policy::site::{AdmissionDecision, AttemptResult, RefusalReason};
use docstokg_policy::time::BootInstant;
use docstokg_stores::clock::SystemClock;
use docstokg_stores::conformance::arrive;
use docstokg_stores::conformance::wrapper::{HookedStore, Treatment};
use docstokg_stores::fallback::Fallback;
use docstokg_stores::memory::MemoryStore;
use docstokg_stores::{BudgetKey, SiteHandle, SiteKey, StateStore, StoreError, StoreReply};
use parking_lot::Mutex;

use super::{check, is_go};
use crate::clock::ManualClock;
use crate::worker::WorkerClient;

/// Wraps a store that does not answer while `unavailable` is set.
fn losing(store: Arc<dyn StateStore>, unavailable: &Arc<AtomicBool>) -> Arc<dyn StateStore> {
    let unavailable = Arc::clone(unavailable);
    Arc::new(HookedStore::new(store, move |_| {
        let error = StoreError::Unavailable {
            store: "the store".to_owned(),
            why: "a test".to_owned(),
        };
        if unavailable.load(Ordering::SeqCst) {
            Treatment::Fail(error)
        } else {
            Treatment::Forward
        }
    }))
}

/// Lets time pass for a process that checks now and then.
fn advance(clock: &ManualClock, client: &WorkerClient, millis: u64) {
    for _ in 0..millis / 500 {
        clock.advance(500_000);
        check(client);
    }
}

#[test]
fn while_the_store_is_unavailable_the_process_uses_its_share_and_reports_it_once() {
    let unavailable = Arc::new(AtomicBool::new(false));
    let clock = ManualClock::at_wall(1_000_000_000, 0);
    let shared: Arc<dyn StateStore> = Arc::new(MemoryStore::new(clock.shared()));
    let said: Arc<Mutex<Vec<String>>> = Arc::default();
    let notice = {
        let said = Arc::clone(&said);
        Arc::new(move |text: &str| said.lock().push(text.to_owned()))
    };
    let store = Fallback::new(losing(shared, &unavailable), clock.shared(), notice, 4);
    let client = WorkerClient::new(&store, "a.example", "2/SECOND+5/HOUR", None);
    assert!(is_go(&client) && is_go(&client) && !is_go(&client));
    unavailable.store(true, Ordering::SeqCst);
    assert!(
        matches!(client.enter(), AdmissionDecision::Wait(_)),
        "the short window counts as full, and is waited for"
    );
    advance(&clock, &client, 6_000);
    assert!(is_go(&client), "and is free again in its time");
    advance(&clock, &client, 5_000);
    assert!(
        is_go(&client),
        "what filled the short window does not count in the long one"
    );
    advance(&clock, &client, 5_000);
    assert!(is_go(&client), "the fifth in this hour");
    advance(&clock, &client, 5_000);
    assert!(
        !is_go(&client),
        "what was permitted before the outage counts in the long one"
    );
    assert_eq!(said.lock().len(), 1, "{:?}", said.lock());
    assert!(said.lock()[0].contains("the store does not answer: a test"));
    unavailable.store(false, Ordering::SeqCst);
    clock.advance(1_000_000);
    assert!(
        !is_go(&client),
        "others may not have noticed: nothing is sent for a check and a window"
    );
    clock.advance(2_900_000);
    assert!(!is_go(&client));
    clock.advance(100_000);
    assert!(is_go(&client), "then the shared window has room");
    assert_eq!(said.lock().len(), 2, "{:?}", said.lock());
    assert!(said.lock()[1].contains("back"));
}

/// A store that a number of processes share, of which this one is the first.
struct Crowded(Arc<dyn StateStore>, u32);

impl StateStore for Crowded {
    fn site(&self, key: &SiteKey) -> Arc<dyn SiteHandle> {
        self.0.site(key)
    }

    fn list(&self) -> StoreReply<Vec<SiteKey>> {
        self.0.list()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn flush(&self) -> StoreReply<()> {
        self.0.flush()
    }

    fn peers(&self) -> Option<u32> {
        Some(self.1)
    }
}

#[test]
fn an_hour_among_many_processes_is_not_waited_for() {
    let unavailable = Arc::new(AtomicBool::new(false));
    let clock = ManualClock::at_wall(1_000_000_000, 0);
    let shared: Arc<dyn StateStore> = Arc::new(MemoryStore::new(clock.shared()));
    let store = Crowded(losing(shared, &unavailable), 6);
    let store = Fallback::new(Arc::new(store), clock.shared(), Arc::new(|_: &str| ()), 4);
    let client = WorkerClient::new(&store, "a.example", "2/SECOND+500/HOUR", None);
    assert!(is_go(&client));
    unavailable.store(true, Ordering::SeqCst);
    let (mut sent, begun) = (Vec::new(), clock.micros());
    // Its turn comes every few seconds, and the test checks often enough to meet it.
    for _ in 0..1_500 {
        clock.advance(20_000);
        clock.advance_wall(20_000);
        check(&client);
        if is_go(&client) {
            sent.push((clock.micros() - begun) / 1_000);
        }
    }
    assert!(
        sent.first().is_some_and(|first| *first < 10_000) && sent.len() >= 5,
        "one sixth of two a second, after a pause: {sent:?}"
    );
    assert!(
        sent.windows(2).all(|two| two[1] - two[0] >= 3_000),
        "{sent:?}"
    );
}

#[test]
fn a_block_is_obeyed_while_the_store_is_unavailable() {
    let unavailable = Arc::new(AtomicBool::new(false));
    let shared: Arc<dyn StateStore> = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
    let store = Fallback::new(
        losing(Arc::clone(&shared), &unavailable),
        Arc::new(SystemClock),
        Arc::new(|_: &str| ()),
        4,
    );
    let client = WorkerClient::new(&store, "a.example", "1000/HOUR", None);
    arrive(shared.site(&"a.example".into()).block(
        Duration::from_secs(60),
        &OpenReason::Operator("lunch".into()),
    ));
    assert!(!is_go(&client));
    unavailable.store(true, Ordering::SeqCst);
    let AdmissionDecision::Refused(refusal) = client.enter() else {
        panic!("sent to a blocked host")
    };
    assert!(matches!(
        refusal.reason,
        RefusalReason::Open {
            reason: OpenReason::Operator(_),
            ..
        }
    ));
}

#[test]
fn a_retry_after_of_an_outage_is_sent_when_the_store_is_back() {
    let unavailable = Arc::new(AtomicBool::new(true));
    let clock = ManualClock::at_wall(1_000_000_000, 0);
    let shared: Arc<dyn StateStore> = Arc::new(MemoryStore::new(clock.shared()));
    let store = Fallback::new(
        losing(Arc::clone(&shared), &unavailable),
        clock.shared(),
        Arc::new(|_: &str| ()),
        4,
    );
    let (client, other) = (
        WorkerClient::new(&store, "a.example", "1000/HOUR", None),
        WorkerClient::new(&*shared, "a.example", "1000/HOUR", None),
    );
    let AdmissionDecision::Go(permit) = client.enter() else {
        panic!("it continues with its own store")
    };
    let report = AttemptResult {
        outcome: AttemptMeaning::Throttled,
        retry_after: Some(Duration::from_secs(600)),
        sent: permit.at,
        wants_retry: false,
        maybe_refused: false,
    };
    arrive(
        client
            .site
            .settle(&client.ask(BootInstant::ZERO), &permit, &report),
    );
    unavailable.store(false, Ordering::SeqCst);
    clock.advance(2_000_000);
    for client in [&client, &other] {
        let AdmissionDecision::Refused(refusal) = client.enter() else {
            panic!("asked again before Retry-After")
        };
        assert!(
            matches!(
                refusal.reason,
                RefusalReason::Open {
                    reason: OpenReason::RetryAfter,
                    ..
                }
            ),
            "{refusal:?}"
        );
        assert_eq!(
            refusal.until.as_micros(),
            1_000_000_000 + 600_000_000,
            "to the instant that the server stated"
        );
    }
}

#[test]
fn every_budget_counts_as_full_when_the_store_becomes_unavailable() {
    let unavailable = Arc::new(AtomicBool::new(false));
    let clock = ManualClock::at_wall(1_000_000_000, 0);
    let shared: Arc<dyn StateStore> = Arc::new(MemoryStore::new(clock.shared()));
    let store = Fallback::new(
        losing(shared, &unavailable),
        clock.shared(),
        Arc::new(|_: &str| ()),
        1,
    );
    let metadata = WorkerClient::new(&store, "a.example", "8/SECOND", None);
    let mut artifact = WorkerClient::new(&store, "a.example", "8/SECOND", None);
    artifact.site = Arc::clone(&metadata.site);
    artifact.costs[0].budget = artifact.site.budget(&BudgetKey::Role(
        Host::parse("a.example").expect("a host"),
        Role::Artifact,
    ));
    unavailable.store(true, Ordering::SeqCst);
    assert!(
        !is_go(&metadata) && !is_go(&artifact),
        "neither knows what others were permitted just before"
    );
    clock.advance(2_100_000);
    assert!(
        !is_go(&metadata),
        "others may lose the store a little later"
    );
    clock.advance(1_000_000);
    let AdmissionDecision::Go(_) = metadata.enter() else {
        panic!("no request is before it")
    };
    assert!(is_go(&artifact), "and both are free again in their time");
    // No request asks for a minute. The store has been back since, and other processes use it.
    unavailable.store(false, Ordering::SeqCst);
    clock.advance(60_000_000);
    assert!(!is_go(&metadata), "a check of a minute ago is not valid");
}
