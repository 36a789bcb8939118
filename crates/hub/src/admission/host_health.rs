//! The health of the origin behind a site, as this process has seen it.
//!
//! All processes share the breaker of the site. In addition, each process records whether the
//! origin serves, refuses or fails, and delays its next requests accordingly.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use docstokg_policy::breaker::Transition;
use docstokg_policy::classify::AttemptMeaning;
use docstokg_policy::site::{AdmissionDecision, BreakerCondition, Permit};

mod failure_throttle;
mod last_breaker_state;
mod slow_start;
mod unavailable_log;

pub(super) use failure_throttle::ThrottleHold;

use self::failure_throttle::FailureThrottle;
use self::last_breaker_state::LastBreakerState;
use self::slow_start::SlowStart;
use self::unavailable_log::UnavailableLog;
use crate::clock::BootInstant;

/// The health of an origin, as this process sees it.
#[derive(Default)]
pub(crate) struct HostHealth {
    breaker: LastBreakerState,
    /// Limits requests in flight while the host fails.
    pub(super) failure_throttle: FailureThrottle,
    /// Spreads the requests that waited for the end of an outage over a few seconds.
    slow_start: SlowStart,
    /// Distinguishes an origin that is down from one that throttles by 503.
    unavailable: UnavailableLog,
    /// The time at which this process last read a response that blocks the site, in microseconds.
    /// Permits from before that time are not used, even if the store does not know of the block
    /// yet.
    blocked_at: AtomicU64,
    /// The send time of the last request that the origin served, in microseconds; 0 before the
    /// first.
    served_at: AtomicU64,
    /// The send time of the first request that failed since the origin last served one, in
    /// microseconds; 0 before the first failure.
    failed_at: AtomicU64,
}

/// The facts in the headers of a response that show the health of their origin.
pub(crate) struct HealthSign {
    /// The [`AttemptMeaning`] of the status alone, without regard to earlier responses.
    pub(crate) outcome: AttemptMeaning,
    /// The usual time between two requests, if the response is a 503 and the limits of the host are
    /// learned; otherwise `None`.
    pub(crate) unavailable: Option<Duration>,
    pub(crate) sent: BootInstant,
    pub(crate) answered: BootInstant,
}

impl HostHealth {
    /// Records the headers of a response and returns their meaning. A failure becomes
    /// [`AttemptMeaning::Throttled`] if it is a 503 of an origin that is known to throttle in that
    /// way.
    pub(crate) fn judge(&self, sign: &HealthSign) -> AttemptMeaning {
        let HealthSign { sent, answered, .. } = *sign;
        if matches!(
            sign.outcome,
            AttemptMeaning::Success | AttemptMeaning::Neutral
        ) {
            self.served_at.fetch_max(sent.as_micros(), Ordering::AcqRel);
        }
        let is_refusal = match (sign.outcome, sign.unavailable) {
            (AttemptMeaning::Success, _) => {
                self.unavailable.note_served(sent, answered);
                false
            }
            (AttemptMeaning::Failure, Some(distance)) => {
                (self.unavailable).count_unavailable(sent, distance, answered)
            }
            _ => false,
        };
        if is_refusal {
            AttemptMeaning::Throttled
        } else {
            sign.outcome
        }
    }

    /// Returns the send time of the last request of this process that the origin served; `None`
    /// before the first.
    pub(crate) fn last_served(&self) -> Option<BootInstant> {
        let served = self.served_at.load(Ordering::Acquire);
        (served > 0).then(|| BootInstant::from_micros(served))
    }

    /// Records that a request that was sent at `sent` failed or was refused.
    pub(super) fn note_failure(&self, sent: BootInstant) {
        let served = self.served_at.load(Ordering::Acquire);
        let first_of_row = |earlier: u64| (earlier <= served).then_some(sent.as_micros());
        let _ = self
            .failed_at
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, first_of_row);
    }

    /// Returns the send time of the first request that failed since the origin last served one;
    /// `None` while the origin serves.
    pub(crate) fn silent_since(&self) -> Option<BootInstant> {
        let failed = self.failed_at.load(Ordering::Acquire);
        let served = self.served_at.load(Ordering::Acquire);
        (failed > served).then(|| BootInstant::from_micros(failed))
    }

    /// Records that a response read at `now` blocks the site. Requests that were permitted earlier
    /// and are not sent yet must not be sent.
    pub(super) fn note_block(&self, now: BootInstant) {
        self.blocked_at.store(now.as_micros(), Ordering::Release);
    }

    /// Returns whether a block began after the store gave the [`Permit`].
    pub(super) fn was_blocked_since(&self, permit: &Permit) -> bool {
        self.blocked_at.load(Ordering::Acquire) > permit.at.as_micros()
    }

    /// Records a [`Transition`] of the breaker that this process caused.
    pub(super) fn note_transition(&self, transition: &Transition, now: BootInstant) {
        self.breaker.note(transition, now);
        self.slow_start.note(transition, now);
        self.failure_throttle.end();
    }

    /// Returns the [`Transition`] that another process must have made according to a decision of
    /// the store, or `None`. Starts or ends the slow start accordingly.
    pub(super) fn seen_by_answer(
        &self,
        entry: &AdmissionDecision,
        now: BootInstant,
    ) -> Option<Transition> {
        let transition = self.breaker.by_answer(entry, now)?;
        self.slow_start.note(&transition, now);
        Some(transition)
    }

    /// Returns the [`Transition`] that another process must have made according to a heartbeat, or
    /// `None`. Starts or ends the slow start accordingly.
    pub(super) fn seen_by_heartbeat(
        &self,
        condition: &BreakerCondition,
        now: BootInstant,
    ) -> Option<Transition> {
        let transition = self.breaker.by_heartbeat(condition, now)?;
        self.slow_start.note(&transition, now);
        Some(transition)
    }

    /// Returns the instant until which the breaker is open, as this process last saw it.
    pub(super) fn open_until(&self, now: BootInstant) -> Option<BootInstant> {
        self.breaker.open_until(now)
    }

    /// Returns whether the breaker is closed and has not changed since `instant`, as far as this
    /// process knows.
    pub(crate) fn is_closed_since(&self, instant: BootInstant) -> bool {
        self.breaker.is_closed_since(instant)
    }

    /// Counts the next request of a slow start, and returns the instant at which it may be sent;
    /// `None` for now.
    pub(super) fn slow_start_turn(&self, now: BootInstant) -> Option<BootInstant> {
        self.slow_start.turn(now)
    }
}
