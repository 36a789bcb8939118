//! Telemetry of a run: recorded while it runs, summarised and shown afterwards.
//!
//! The hub reports every event to its observers. A [`Recorder`] is such an observer: it puts events
//! into a bounded queue and returns; its own thread turns them into [`record`]s and passes these to
//! the [`sink`]s. Nothing here delays, steers or fails a request; what cannot be written is dropped
//! and counted. [`summary`] and [`report`] read the database of runs, whether a run is finished,
//! running or was killed. [`html`] is how all pages for people are written.

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
