//! Telemetry, from what a hub does to what a person reads.
#![allow(
    clippy::expect_used,
    clippy::cast_precision_loss,
    reason = "a failed expectation is a failed test"
)]

// the same events as lines, for scripted journeys
mod journeys;
// figures against the origin's own ledger
mod figures;
// nothing that is planted comes out anywhere
mod secrets;
// locked, full and foreign databases; dropped events
mod losses;
// whose breaker refused, how long, who opened it; an older database
mod truth;
// what deploy/ asks for is what is exported
mod deploy;
mod support;
