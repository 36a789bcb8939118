//! Every store passes the contract.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use docstokg_policy::breaker::OpenReason;
use docstokg_policy::classify::AttemptMeaning;
use docstokg_policy::site::{AdmissionDecision, RefusalReason, RequestOperation, SiteOperation};
use docstokg_stores::clock::SystemClock;
use docstokg_stores::conformance;
use docstokg_stores::conformance::arrive;
use docstokg_stores::conformance::wrapper::{HookedStore, Treatment};
use docstokg_stores::fallback::Fallback;
use docstokg_stores::memory::MemoryStore;
use docstokg_stores::multiprocess::MultiprocessStore;
use docstokg_stores::redis::RedisStore;
use docstokg_stores::split::SplitStore;
use docstokg_stores::sqlite::SqliteStore;
use docstokg_stores::{StateStore, StoreError};

#[test]
fn the_memory_store_keeps_the_contract() {
    let store = MemoryStore::new(Arc::new(SystemClock));
    conformance::run_all(&store);
}

#[test]
fn the_sqlite_store_keeps_the_contract() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = SqliteStore::open(
        &directory.path().join("state.sqlite"),
        Arc::new(SystemClock),
    )
    .expect("a store");
    conformance::run_all(&store);
}

#[test]
fn the_multiprocess_store_keeps_the_contract() {
    let directory = tempfile::tempdir().expect("a directory");
    let store =
        MultiprocessStore::open(&directory.path().join("limits.shm"), Arc::new(SystemClock))
            .expect("a store");
    conformance::run_all(&store);
}

#[test]
fn the_redis_store_keeps_the_contract() {
    let server = crate::server::Server::start();
    let store = RedisStore::open(&server.dsn(), Arc::new(SystemClock)).expect("a store");
    conformance::run_all(&store);
}

#[test]
fn breakers_and_limits_in_two_stores_keep_the_contract() {
    let directory = tempfile::tempdir().expect("a directory");
    let sqlite = || {
        Arc::new(
            SqliteStore::open(
                &directory.path().join("state.sqlite"),
                Arc::new(SystemClock),
            )
            .expect("a store"),
        )
    };
    let memory = || Arc::new(MemoryStore::new(Arc::new(SystemClock)));
    conformance::run_all(&SplitStore::new(sqlite(), memory()));
    conformance::run_all(&SplitStore::new(memory(), memory()));
    let server = crate::server::Server::start();
    let redis = Arc::new(RedisStore::open(&server.dsn(), Arc::new(SystemClock)).expect("a store"));
    conformance::run_all(&SplitStore::new(redis, memory()));
    let other = crate::server::Server::start();
    let redis = Arc::new(RedisStore::open(&other.dsn(), Arc::new(SystemClock)).expect("a store"));
    conformance::run_all(&SplitStore::new(memory(), redis));
}

/// A probe that the limiter's store refuses or keeps waiting releases its lease.
#[test]
fn a_probe_is_not_lost_to_a_limit_in_another_store() {
    let memory = || Arc::new(MemoryStore::new(Arc::new(SystemClock)));
    let store = SplitStore::new(memory(), memory());
    let client = crate::worker::WorkerClient::new(&store, "a.example", "1/HOUR", None);
    let AdmissionDecision::Go(permit) = client.enter() else {
        panic!("the first")
    };
    arrive(store.site(&"a.example".into()).block(
        Duration::from_millis(1),
        &OpenReason::Operator("test".into()),
    ));
    client.settle(&permit, AttemptMeaning::Success);
    #[expect(
        clippy::disallowed_methods,
        reason = "a block of a millisecond ends in real time"
    )]
    std::thread::sleep(Duration::from_millis(5));
    for _ in 0..3 {
        let AdmissionDecision::Refused(refusal) = client.enter() else {
            panic!("the window is full")
        };
        assert!(
            matches!(refusal.reason, RefusalReason::Rate { .. }),
            "the lease is free each time: {refusal:?}"
        );
    }
}

#[test]
fn wrappers_keep_the_contract() {
    let inner = || Arc::new(MemoryStore::new(Arc::new(SystemClock)));
    let counted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&counted);
    let counting = HookedStore::new(inner(), move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        Treatment::Forward
    });
    conformance::run_all(&counting);
    assert!(
        counted.load(Ordering::SeqCst) > 2_000,
        "everything was counted"
    );
    conformance::run_all(&HookedStore::new(inner(), |_| Treatment::Delay(3)));
    conformance::run_all(&Fallback::new(
        inner(),
        Arc::new(SystemClock),
        Arc::new(|_: &str| ()),
        4,
    ));
    // Every tenth operation fails: the own store is as strict as the contract asks.
    let asked = AtomicUsize::new(0);
    let failing = HookedStore::new(inner(), move |operation| {
        let enters = matches!(
            operation,
            Some(SiteOperation::Request(_, RequestOperation::Enter { .. }))
        );
        match asked.fetch_add(1, Ordering::SeqCst) % 10 {
            9 if enters => Treatment::Fail(StoreError::Unavailable {
                store: "the store".to_owned(),
                why: "a test".to_owned(),
            }),
            _ => Treatment::Forward,
        }
    });
    let failing = Fallback::new(
        Arc::new(failing),
        Arc::new(SystemClock),
        Arc::new(|_: &str| ()),
        4,
    );
    conformance::a_block_is_obeyed_by_the_very_next_enter(&failing);
    conformance::sites_do_not_see_each_other(&failing);
}
