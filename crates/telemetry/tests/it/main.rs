//! Telemetry, from the events of a hub to the text of a summary.
#![allow(
    clippy::expect_used,
    clippy::cast_precision_loss,
    reason = "a failed expectation is a failed test"
)]

// the events of scripted requests, as JSON lines
mod journeys;
// figures against the origin's own ledger
mod figures_against_ledger;
// planted secrets are in no output
mod secrets;
// locked databases, failing sinks, other versions; dropped events
mod lost_records;
// which breaker refused, how long, who opened it; an older database
mod recorded_refusals;
// the queries in deploy/ use metrics that are exported
mod deploy;
mod support;
