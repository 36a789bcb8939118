//! Telemetry of a run: recorded during the run, summarised and shown afterwards.
//!
//! The hub reports every event to its observers. A [`Recorder`] is such an observer: it puts events
//! into a bounded queue and returns. Its thread converts them to [`record`]s and passes these to
//! the [`sink`]s. Telemetry never delays, controls or fails a request; records that cannot be
//! written are dropped and counted.
//!
//! [`summary`] and [`report`] read the database of runs, while a run is active and afterwards. All
//! pages for people are written by [`html`].

pub mod assemble;
pub mod config;
pub mod html;
pub mod metrics_server;
pub mod record;
pub mod recorder;
pub mod report;
mod run;
pub mod sink;
pub mod summary;

pub use recorder::Recorder;
pub use run::RunIdentity;
