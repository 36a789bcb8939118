//! Destinations of records: a database, JSON lines, Prometheus metrics, `tracing`.

pub mod jsonl;
pub mod metrics;
pub mod sqlite;
pub mod trace;

use crate::record::TimedRecord;

/// A destination of records. The recorder's thread calls one sink after another, so a slow sink delays
/// other sinks but no request.
pub trait Sink: Send {
    /// Returns the name of the sink, for messages.
    fn name(&self) -> &'static str;

    /// Writes a batch of records, which may be empty. `active` is the number of requests that have
    /// not ended; `dropped` is the number of events that were not recorded so far.
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
