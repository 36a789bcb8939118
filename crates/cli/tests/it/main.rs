//! The program as a person or a script meets it: real processes against real sockets.

#![allow(clippy::expect_used, reason = "a failed expectation is a failed test")]

// Works in, files out; killed, interrupted, full, foreign.
mod download;
// What a download leaves behind and says at its end; cookies as a browser has them.
mod endings;
// fetch: answers, refusals, faults, files.
mod fetch;
// Help, wrong flags, configuration.
mod manners;
// What a run came to.
mod summary;
// What processes share, and an operator's commands.
mod state;
// Starting the program and an origin for it.
mod support;
// A web of several hosts, and downloads from it.
mod world;
// A real nginx that ends connections in the ordinary ways.
mod nginx;
// Answers that are made to harm, and odd ones.
mod hostile;
