//! The crate from outside: through its public interface, with real files and sockets.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a failed expectation is a failed test"
)]
#![expect(
    clippy::print_stdout,
    reason = "workers report to the test that started them"
)]

mod facade; // one call before each request: seed behaviours under a simulated clock
mod facade_processes; // the same across processes that share a directory, and across a fork
mod facade_settings; // how its settings are read
mod pull; // pulls from the origin's side, under a simulated clock
mod pull_again; // pulls into a library that has something already
mod pull_gates; // what keeps a file out of the library
mod pull_portals; // portals: final answers, keys that stay where they belong
mod pull_secrets; // credentials in addresses: used, and never written
mod pull_versions; // versions and formats that are requested for, and what must not become a version
mod pull_world; // registries and file hosts for them
mod sources; // every source against answers of its real shape
mod support; // what tests share
