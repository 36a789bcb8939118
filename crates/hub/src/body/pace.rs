//! The minimum pace of a body. A slower transfer fails.

use std::time::Duration;

use crate::clock::BootInstant;

/// The minimum pace of a body, and the bytes counted in the current window of time.
#[derive(Clone, Copy)]
pub(super) struct MinimumPace {
    pub(super) idle: Duration,
    pub(super) least: u64,
    pub(super) window: Duration,
    pub(super) since: BootInstant,
    pub(super) bytes: u64,
}

impl MinimumPace {
    /// Counts a chunk of `bytes`, and returns whether fewer bytes than required arrived in the last
    /// complete window of time.
    pub(super) fn is_too_slow(&mut self, bytes: u64, now: BootInstant) -> bool {
        self.bytes += bytes;
        let elapsed = now.since(self.since);
        if self.least == 0 || elapsed < self.window {
            return false;
        }
        let slow = u128::from(self.bytes) * 1_000 < u128::from(self.least) * elapsed.as_millis();
        (self.since, self.bytes) = (now, 0);
        slow
    }
}
