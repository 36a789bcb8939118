//! Runs against real servers that enforce a rate. A program of its own: cargo runs it alone, and
//! servers that count milliseconds are not met beside other tests.

#![allow(clippy::expect_used, reason = "a failed expectation is a failed test")]

#[path = "../it/servers.rs"]
#[allow(dead_code, reason = "shared as well")]
mod servers;
#[path = "../it/support.rs"]
#[allow(
    dead_code,
    reason = "shared with the other tests of the program, which use more of it"
)]
mod support;
// nginx and HAProxy, with the limit configured and unknown.
mod real_servers;
