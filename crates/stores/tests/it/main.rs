//! Stores as processes meet them: real files, a real server, real processes that are really killed.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a failed expectation is a failed test"
)]

// Every store keeps the contract.
mod conformance;
// The script and the pure functions agree.
mod twins;
// A model of processes that wait: everyone gets a turn, on every store.
mod positions;
// Files and keys of an earlier version.
mod layouts;
// What goes wrong, and the sentence for it.
mod faults;
// A server that means harm.
mod hostile;
// Killing, for the test and for `cargo xtask soak`.
mod kills;
// Four processes, forks, and kills.
mod processes;
// A server of our own.
mod server;
// This program again, as a process that uses a store.
mod worker;

#[test]
#[ignore = "the other tests run it in a process of its own"]
fn as_a_worker() {
    worker::work();
}
