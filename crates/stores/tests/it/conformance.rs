//! Every store passes the contract.

use std::sync::Arc;

use docstokg_stores::clock::SystemClock;
use docstokg_stores::conformance;
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
