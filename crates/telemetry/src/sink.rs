//! Destinations of records: a database, JSON lines, Prometheus metrics, `tracing`.

pub mod jsonl;
pub mod metrics;
pub mod sqlite;
pub mod trace;

use crate::record::TimedRecord;

/// Takes records. Runs on the recorder's thread, so a slow sink delays other sinks and no request.
pub trait Sink: Send {
    /// Returns its name, for messages.
    fn name(&self) -> &'static str;

    /// Writes a batch, which may be empty. `active` requests have not ended yet; `dropped` events
    /// were never recorded.
    ///
    /// # Errors
    /// Records could not be written. Those that the sink keeps for a later batch are not lost.
    fn write(
        &mut self,
        batch: &[TimedRecord],
        active: usize,
        dropped: u64,
    ) -> Result<(), WriteFailure>;

    /// Writes the remaining records and ends the run.
    ///
    /// # Errors
    /// As [`Sink::write`].
    fn close(&mut self, dropped: u64) -> Result<(), WriteFailure>;
}

/// A sink could not write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteFailure {
    /// Records that are lost.
    pub lost: u64,
    /// Why.
    pub why: String,
}
