//! Decisions against independent oracles.

// Every status in one table.
mod classify;
// Exact windows against brute force.
mod limiter;
// The breaker under random interleavings.
mod breaker;
// Breaker and budgets as one step.
mod site;
// Questions with everything that does not matter filled in.
mod support;
