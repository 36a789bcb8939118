//! What happened in a run: recorded while it goes on, summarised and shown afterwards.
//!
//! The hub tells its observers every event. A [`Recorder`] is such an observer: it puts events into
//! a bounded queue and returns; a thread of its own makes [`record`]s of them and hands these to
//! the [`sink`]s. Nothing here slows, steers or fails a request; what cannot be written is dropped
//! and counted. [`summary`] and [`report`] read the database of runs back, whether a run is
//! finished, running or was killed.

pub mod assemble;
pub mod record;
pub mod recorder;
pub mod report;
pub mod run;
pub mod serve;
pub mod sink;
pub mod summary;

pub use recorder::Recorder;
pub use run::Run;
