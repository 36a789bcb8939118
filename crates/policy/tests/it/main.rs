//! Decisions against independent oracles.

#![allow(
    clippy::expect_used,
    clippy::cast_precision_loss,
    reason = "a failed expectation is a failed test, and its counts are small"
)]

// Every status in one table.
mod classify;
// The HTTP cache: RFC 9111 by section, the public suite, an oracle.
mod freshness;
// Exact windows against brute force.
mod limiter;

// Even pacing.
mod pacing;

// Records that an earlier version wrote.
mod stored_records;
// Learned limits of a site.
mod learned;
// The breaker under random interleavings.
mod breaker;
// Breaker and budgets as one step.
mod site;
// Headers, rates, hosts and URLs of any spelling.
mod fuzz;
// The entry functions of these parsers, which the fuzz targets share.
mod parsers;
// Stated quotas: what is left, until when.
mod quota;
// Rate headers: what services send, what the RFC drafts show, and what follows from it.
mod rate_headers;
// robots.txt: the examples of RFC 9309 and the files that sites really have.
mod robots;
// Questions with defaults for everything that a test does not care about.
mod support;
