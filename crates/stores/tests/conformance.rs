//! Every store passes the contract.

use std::sync::Arc;

use docstokg_stores::clock::SystemClock;
use docstokg_stores::conformance;
use docstokg_stores::memory::MemoryStore;

#[test]
fn the_memory_store_keeps_the_contract() {
    conformance::run_all(&MemoryStore::new(Arc::new(SystemClock)));
}
