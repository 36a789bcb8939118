//! Telemetry, from what a hub does to what a person reads.
#![expect(clippy::expect_used, clippy::unwrap_used, reason = "tests")]

// the same events as lines, for scripted journeys
mod journeys;
// figures against the origin's own ledger
mod figures;
// nothing that is planted comes out anywhere
mod secrets;
// locked, full and foreign databases; dropped events
mod losses;
// what deploy/ asks for is what is exported
mod deploy;
mod support;
