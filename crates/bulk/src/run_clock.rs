//! The clock of a run.

use std::sync::Arc;

use docstokg_hub::clock::{BootInstant, Runtime, Timestamp};

/// A clock that starts at the system time and then advances with the boot clock. So if the system
/// time is changed during the run, no deferred item becomes due too early or too late. Cheap to
/// clone.
#[derive(Clone)]
pub struct RunClock {
    runtime: Arc<dyn Runtime>,
    begun: (Timestamp, BootInstant),
}

impl RunClock {
    /// Starts the clock of a run.
    #[must_use]
    pub fn begin(runtime: Arc<dyn Runtime>) -> Self {
        let begun = (runtime.wall(), runtime.boot());
        Self { runtime, begun }
    }

    /// Returns the time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.begun.0 + self.runtime.boot().since(self.begun.1)
    }

    /// Converts a time to a [`BootInstant`]; a time in the past is converted to the current
    /// instant.
    #[must_use]
    pub fn instant(&self, at: Timestamp) -> BootInstant {
        self.runtime.boot() + at.since(self.now())
    }

    /// Returns the [`Runtime`] of the run.
    #[must_use]
    pub const fn runtime(&self) -> &Arc<dyn Runtime> {
        &self.runtime
    }
}
