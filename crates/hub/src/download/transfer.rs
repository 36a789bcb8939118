//! The progress of a download, for a display.

use std::sync::atomic::{AtomicU64, Ordering};

/// The progress of a download. The hub updates the numbers, and the caller reads them.
#[derive(Debug, Default)]
pub struct Transfer {
    received: AtomicU64,
    /// The expected size of the whole file in bytes; zero if it is unknown.
    expected: AtomicU64,
}

impl Transfer {
    /// Returns the size of the file so far in bytes, with the bytes of earlier attempts.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Returns the size of the whole file in bytes; `None` if the server declares no length.
    #[must_use]
    pub fn expected(&self) -> Option<u64> {
        Some(self.expected.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0)
    }

    /// Begins an attempt that continues after `there` existing bytes, with `more` bytes expected.
    pub(crate) fn begin(&self, there: u64, more: Option<u64>) {
        self.received.store(there, Ordering::Relaxed);
        let whole = more.map_or(0, |more| there.saturating_add(more));
        self.expected.store(whole, Ordering::Relaxed);
    }

    pub(crate) fn receive(&self, bytes: u64) {
        self.received.fetch_add(bytes, Ordering::Relaxed);
    }
}
