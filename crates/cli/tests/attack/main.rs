//! The attack suite: malicious origins, files, flags and processes, on loopback, against the real
//! program.
//!
//! Judged by: no crash, memory under a bound, the other works of the run in their usual time,
//! nothing secret written, nothing outside the output and state directories touched. `cargo test`
//! runs a short form; `cargo xtask attack` all of it.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a failed expectation is a failed test"
)]

#[path = "../it/download_world.rs"]
#[allow(
    dead_code,
    reason = "shared with the other tests of the program, which use more of it"
)]
mod download_world;
#[path = "../it/support.rs"]
#[allow(
    dead_code,
    reason = "shared with the other tests of the program, which use more of it"
)]
mod support;

#[path = "../../../stores/tests/it/server.rs"]
#[allow(dead_code, reason = "the tests of stores use more of it")]
mod server;

// The length of the suite, and its table of results.
mod response_forms;
// A run with its exit, memory and time.
mod measured;
// A directory as it was before.
mod snapshot;
// Hostile works beside healthy ones, and the judgement.
mod header_fields;

// What a hostile page costs.
mod costs;
// Corrupt files of state and output, a full disk, symbolic links.
mod damage;
// Ontologies nested deeper than any stack.
mod nested;
// Malicious answers.
mod origins;
// Several processes on one store while it, or they, are stopped and killed.
mod request_storms;
// Nonsense on the command line and in lists.
mod command_words;
