//! Every store passes the contract.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use docstokg_stores::StoreError;
use docstokg_stores::clock::SystemClock;
use docstokg_stores::conformance;
use docstokg_stores::conformance::wrapper::{Treatment, Wrapped};
use docstokg_stores::fallback::Fallback;
use docstokg_stores::memory::MemoryStore;
use docstokg_stores::multiprocess::MultiprocessStore;
use docstokg_stores::redis::RedisStore;
use docstokg_stores::sqlite::SqliteStore;

#[test]
fn the_memory_store_keeps_the_contract() {
    conformance::run_all(&MemoryStore::new(Arc::new(SystemClock)));
}

#[test]
fn the_sqlite_store_keeps_the_contract() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = SqliteStore::open(&directory.path().join("state.sqlite"), Arc::new(SystemClock)).expect("a store");
    conformance::run_all(&store);
}

#[test]
fn the_multiprocess_store_keeps_the_contract() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = MultiprocessStore::open(&directory.path().join("limits.shm"), Arc::new(SystemClock)).expect("a store");
    conformance::run_all(&store);
}

#[test]
fn the_redis_store_keeps_the_contract() {
    let server = crate::server::Server::start();
    let store = RedisStore::open(&server.dsn(), Arc::new(SystemClock)).expect("a store");
    conformance::run_all(&store);
}

#[test]
fn wrappers_keep_the_contract() {
    let inner = || Arc::new(MemoryStore::new(Arc::new(SystemClock)));
    let counted = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&counted);
    let counting = Wrapped::new(inner(), move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        Treatment::Pass
    });
    conformance::run_all(&counting);
    assert!(counted.load(Ordering::SeqCst) > 2_000, "everything was counted");
    conformance::run_all(&Wrapped::new(inner(), |_| Treatment::Delay(3)));
    conformance::run_all(&Fallback::new(inner(), Arc::new(SystemClock), Arc::new(|_: &str| ())));
    // Every tenth question fails: whoever goes on alone is as strict as the contract asks.
    let asked = AtomicUsize::new(0);
    let failing = Wrapped::new(inner(), move |op| match asked.fetch_add(1, Ordering::SeqCst) % 10 {
        9 if op == "enter" => Treatment::Fail(StoreError::Away { store: "the store".to_owned(), why: "a test".to_owned() }),
        _ => Treatment::Pass,
    });
    let failing = Fallback::new(Arc::new(failing), Arc::new(SystemClock), Arc::new(|_: &str| ()));
    conformance::a_block_is_obeyed_by_the_very_next_enter(&failing);
    conformance::sites_do_not_see_each_other(&failing);
}
