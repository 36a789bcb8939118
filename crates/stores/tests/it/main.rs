//! Stores as processes use them: real files, a real server, real processes that are killed.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a failed expectation is a failed test"
)]

// The store of responses.
mod cache;
// Every store keeps the contract.
mod conformance;
// Processes that share a log and the pure functions agree.
mod agreement;
// Limits that processes learn together, on every store.
mod learning;
// A model of processes that wait: each gets a turn, on every store.
mod waiter_positions;
// Faults, and the sentence for each.
mod faults;
// A hostile server.
mod hostile_server;
// Killing, for the test and for `cargo xtask soak`.
mod killed_processes;
// Four processes, forks, and kills.
mod processes;
// A clock that a test sets.
mod clock;
// A Redis server of our own.
mod server;
// A link to it that takes time, or breaks.
mod slow_link;
// This program again, as a process that uses a store.
mod worker;

#[test]
#[ignore = "the other tests run it in a process of its own"]
fn as_a_worker() {
    worker::work();
}

#[test]
#[ignore = "the other tests run it in a process of its own"]
fn as_a_cache_worker() {
    cache::worker::work();
}
