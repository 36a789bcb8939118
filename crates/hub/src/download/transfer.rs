//! How far a download is, for a display of progress.

use std::sync::atomic::{AtomicU64, Ordering};

/// How far a download is. Written by the hub, read by the caller.
#[derive(Debug, Default)]
pub struct Transfer {
    received: AtomicU64,
    /// Zero where the server does not say.
    expected: AtomicU64,
}

impl Transfer {
    /// Returns the bytes of the file so far, those of earlier attempts included.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Returns the size of the whole file, where the server states it.
    #[must_use]
    pub fn expected(&self) -> Option<u64> {
        Some(self.expected.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0)
    }

    /// An attempt begins with bytes that are there already, and expects so many more.
    pub(crate) fn begin(&self, there: u64, more: Option<u64>) {
        self.received.store(there, Ordering::Relaxed);
        let whole = more.map_or(0, |more| there.saturating_add(more));
        self.expected.store(whole, Ordering::Relaxed);
    }

    pub(crate) fn receive(&self, bytes: u64) {
        self.received.fetch_add(bytes, Ordering::Relaxed);
    }
}
