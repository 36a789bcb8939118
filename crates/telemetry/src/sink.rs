//! Where records go.

pub mod jsonl;
pub mod metrics;
pub mod sqlite;
pub mod trace;

use crate::record::Stamped;

/// Takes records. Works on the recorder's thread, so it may take its time, but not for ever.
pub trait Sink: Send {
    /// Returns its name, for messages.
    fn name(&self) -> &'static str;

    /// Writes a batch, which may be empty; `under_way` requests have not ended yet, `dropped`
    /// events never came.
    ///
    /// # Errors
    /// Something could not be written; what may still be written later is not lost yet.
    fn write(&mut self, batch: &[Stamped], under_way: usize, dropped: u64) -> Result<(), Failed>;

    /// Writes what is left and ends the run.
    ///
    /// # Errors
    /// As [`Sink::write`].
    fn close(&mut self, dropped: u64) -> Result<(), Failed>;
}

/// A sink could not write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// How many records are lost for good.
    pub lost: u64,
    /// Why.
    pub why: String,
}
