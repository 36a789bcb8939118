//! How long a store usually takes to answer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The usual time between question and answer: falls at once to what was seen, and rises slowly.
#[derive(Debug, Default)]
pub(super) struct RoundTrip {
    micros: AtomicU64,
}

impl RoundTrip {
    /// Takes in how long an answer took.
    pub(super) fn note(&self, took: Duration) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let usual = self.micros.load(Ordering::Relaxed);
        // Two that come at once may lose one of them: it is an estimate.
        self.micros.store(
            if took < usual {
                took
            } else {
                usual + (took - usual) / 8
            },
            Ordering::Relaxed,
        );
    }

    /// Returns the usual time.
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
