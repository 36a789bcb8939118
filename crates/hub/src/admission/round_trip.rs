//! The usual duration of a store operation. A store with long operations counts as distant.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// An estimate of the time between an operation and its reply. A shorter time replaces the estimate
/// at once; a longer one raises it slowly.
#[derive(Debug, Default)]
pub(super) struct RoundTrip {
    micros: AtomicU64,
}

impl RoundTrip {
    /// Records the duration of one operation.
    pub(super) fn note(&self, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let usual = self.micros.load(Ordering::Relaxed);
        // If two calls overlap, one value may be lost, which does not matter for an estimate.
        self.micros.store(
            if took < usual {
                took
            } else {
                usual + (took - usual) / 8
            },
            Ordering::Relaxed,
        );
    }

    /// Returns the usual duration of an operation.
    pub(super) fn usual(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_follows_a_distant_store_and_ignores_one_pause() {
        let trip = RoundTrip::default();
        for _ in 0..40 {
            trip.note(Duration::from_millis(160));
        }
        assert!(trip.usual() > Duration::from_millis(150));
        trip.note(Duration::from_secs(1));
        assert!(trip.usual() < Duration::from_millis(300));
        trip.note(Duration::from_millis(160));
        assert_eq!(trip.usual(), Duration::from_millis(160));
    }
}
