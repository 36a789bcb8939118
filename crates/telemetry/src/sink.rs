//! Destinations of records: a database, JSON lines, Prometheus metrics, `tracing`.

pub mod jsonl;
pub mod metrics;
pub mod sqlite;
pub mod trace;

use crate::record::TimedRecord;

/// A destination of records. Runs on the recorder's thread, so a slow sink delays other sinks but
/// no request.
pub trait Sink: Send {
    /// Returns the name of the sink, for messages.
    fn name(&self) -> &'static str;

    /// Writes a batch, which may be empty. `active` requests have not ended yet; `dropped` events
    /// were never recorded.
    ///
    /// # Errors
    /// [`WriteFailure`] if records are lost. Records that the sink keeps for a later batch are not
    /// lost.
    fn write(
        &mut self,
        batch: &[TimedRecord],
        active: usize,
        dropped: u64,
    ) -> Result<(), WriteFailure>;

    /// Writes the remaining records and ends the run.
    ///
    /// # Errors
    /// [`WriteFailure`] if records are lost, as for [`Sink::write`].
    fn close(&mut self, dropped: u64) -> Result<(), WriteFailure>;
}

/// The failure of a [`Sink`] to write records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteFailure {
    /// Number of records that are lost.
    pub lost: u64,
    /// The reason of the failure.
    pub why: String,
}
