//! The failure throttle: limits requests in flight while a host fails.
//!
//! After a failure, as many requests may be in flight as further failures would open the breaker.
//! So a failing host receives no more requests than the breaker needs, however slow its responses
//! are.
//!
//! Each process counts its own requests as in flight until the headers of their responses arrive.
//! The throttle ends with any response that is not a failure, and [`MAX_FAILURE_WAIT`] after the
//! last failure. A request whose terms end earlier is not delayed.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use docstokg_policy::classify::AttemptMeaning;
use tokio::sync::Notify;

use crate::clock::BootInstant;

/// Maximum time after a failure during which new requests wait for others in flight.
const MAX_FAILURE_WAIT: Duration = Duration::from_secs(2);

/// The numbers that the throttle needs: the requests to a site in flight, and its failures in a
/// row.
#[derive(Default)]
pub(in crate::admission) struct FailureThrottle {
    unanswered: AtomicU32,
    failures: AtomicU32,
    /// The time of the last failure, in microseconds of the boot clock.
    failed_at: AtomicU64,
    pub(in crate::admission) changed: Notify,
}

/// The number of failures because of which a request waits, and the end of that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::admission) struct ThrottleHold {
    pub(in crate::admission) failures: u32,
    pub(in crate::admission) until: BootInstant,
}

impl FailureThrottle {
    /// Counts a request as in flight until [`FailureThrottle::note_answer`].
    pub(in crate::admission) fn note_sent(&self) {
        self.unanswered.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that a request is no longer in flight: the headers of its response have arrived, or
    /// will never arrive. `outcome` is their meaning, if known.
    pub(in crate::admission) fn note_answer(
        &self,
        outcome: Option<AttemptMeaning>,
        now: impl FnOnce() -> BootInstant,
    ) {
        self.unanswered.fetch_sub(1, Ordering::Relaxed);
        let failures = self.failures.load(Ordering::Relaxed);
        match outcome {
            Some(AttemptMeaning::Failure) => {
                self.failed_at.store(now().as_micros(), Ordering::Relaxed);
                self.failures.fetch_add(1, Ordering::Relaxed);
            }
            Some(_) if failures > 0 => self.failures.store(0, Ordering::Relaxed),
            Some(_) | None => {}
        }
        if failures > 0 {
            self.changed.notify_waiters();
        }
    }

    /// Ends the throttle after the breaker has opened or closed: from now on, the breaker alone
    /// decides.
    pub(super) fn end(&self) {
        self.failures.store(0, Ordering::Relaxed);
        self.changed.notify_waiters();
    }

    /// Returns the [`ThrottleHold`] of a new request; `None` if the request may be sent now.
    pub(in crate::admission) fn holds(
        &self,
        fail_max: u32,
        now: impl FnOnce() -> BootInstant,
    ) -> Option<ThrottleHold> {
        let failures = self.failures.load(Ordering::Relaxed);
        if failures == 0 {
            return None;
        }
        let most = fail_max.saturating_sub(failures).max(1);
        let failed_at = BootInstant::from_micros(self.failed_at.load(Ordering::Relaxed));
        let until = failed_at + MAX_FAILURE_WAIT;
        let is_held = self.unanswered.load(Ordering::Relaxed) >= most && now() < until;
        is_held.then_some(ThrottleHold { failures, until })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> BootInstant {
        BootInstant::from_micros(1_000_000_000 + seconds * 1_000_000)
    }

    fn sent(requests: u32) -> FailureThrottle {
        let throttle = FailureThrottle::default();
        for _ in 0..requests {
            throttle.note_sent();
        }
        throttle
    }

    /// Returns the number of failures because of which a request waits; `None` if it may be sent.
    fn held(throttle: &FailureThrottle, now: BootInstant) -> Option<u32> {
        throttle.holds(5, || now).map(|held| held.failures)
    }

    fn fails(throttle: &FailureThrottle) {
        throttle.note_answer(Some(AttemptMeaning::Failure), || at(0));
    }

    #[test]
    fn no_more_wait_for_an_answer_than_failures_are_left() {
        let throttle = sent(4);
        assert_eq!(held(&throttle, at(0)), None, "nothing has failed");
        fails(&throttle);
        assert_eq!(held(&throttle, at(0)), None, "three wait, four may");
        throttle.note_sent();
        assert_eq!(held(&throttle, at(0)), Some(1));
        for _ in 0..3 {
            fails(&throttle);
        }
        assert_eq!(held(&throttle, at(0)), Some(4), "one waits");
        throttle.note_answer(None, || at(0));
        assert_eq!(held(&throttle, at(0)), None, "one may always go");
    }

    #[test]
    fn failure_throttle_ends_with_another_response_or_with_time() {
        for outcome in [
            AttemptMeaning::Success,
            AttemptMeaning::Neutral,
            AttemptMeaning::Throttled,
        ] {
            let throttle = sent(9);
            fails(&throttle);
            assert!(held(&throttle, at(1)).is_some());
            assert_eq!(held(&throttle, at(2)), None);
            throttle.note_answer(Some(outcome), || at(1));
            assert_eq!(held(&throttle, at(1)), None, "{outcome:?}");
        }
    }
}
