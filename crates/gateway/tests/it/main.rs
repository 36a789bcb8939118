//! A gateway in this process, between plain sockets and scripted origins.

#![allow(clippy::expect_used, reason = "a failed expectation is a failed test")]

// A client as plain as possible.
mod client;
// Requests and answers: refused, passed on, stored.
mod requests;
// A running gateway.
mod running_gateway;
// Limits, slow clients and slots.
mod waits;
