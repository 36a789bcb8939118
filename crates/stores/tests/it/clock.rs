//! A clock that a test sets.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use docstokg_policy::time::{BootInstant, Clock, Timestamp};

/// A clock that stands still until a test moves it.
pub(crate) struct ManualClock {
    boot: AtomicU64,
    wall: AtomicI64,
}

impl ManualClock {
    /// Makes a clock at these microseconds since boot, and at the start of wall time.
    pub(crate) fn at(boot: u64) -> Arc<Self> {
        Self::at_wall(boot, 0)
    }

    /// Makes a clock at these microseconds since boot and of wall time.
    pub(crate) fn at_wall(boot: u64, wall: i64) -> Arc<Self> {
        Arc::new(Self {
            boot: AtomicU64::new(boot),
            wall: AtomicI64::new(wall),
        })
    }

    /// Returns the microseconds since boot.
    pub(crate) fn micros(&self) -> u64 {
        self.boot.load(Ordering::SeqCst)
    }

    pub(crate) fn set(&self, boot: u64) {
        self.boot.store(boot, Ordering::SeqCst);
    }

    pub(crate) fn advance(&self, micros: u64) {
        self.boot.fetch_add(micros, Ordering::SeqCst);
    }

    pub(crate) fn advance_wall(&self, micros: i64) {
        self.wall.fetch_add(micros, Ordering::SeqCst);
    }

    /// Returns the clock as stores take it.
    pub(crate) fn shared(self: &Arc<Self>) -> Arc<dyn Clock> {
        Arc::clone(self) as Arc<dyn Clock>
    }
}

impl Clock for ManualClock {
    fn boot(&self) -> BootInstant {
        BootInstant::from_micros(self.micros())
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_micros(self.wall.load(Ordering::SeqCst))
    }
}
