//! What this process has seen of the origin behind a site, beside the breaker that all processes
//! share: whether it serves, refuses or fails, and what follows for the next requests.

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
    /// Holds requests back while the host fails.
    pub(super) failure_throttle: FailureThrottle,
    /// Holds the requests back that waited for the end of an outage.
    slow_start: SlowStart,
    /// What a 503 of the origin means.
    unavailable: UnavailableLog,
    /// When this process last read an answer that blocks the site, in microseconds: permits from
    /// before that are not used, though the store learns of it shortly after.
    blocked_at: AtomicU64,
    /// When the last request was sent that the origin served, in microseconds; 0 before the first.
    served_at: AtomicU64,
    /// When the first request was sent that failed since the origin last served one, in
    /// microseconds; 0 before the first.
    failed_at: AtomicU64,
}

/// The headers of an answer, as far as they say how its origin is.
pub(crate) struct HealthSign {
    /// What the status means by itself.
    pub(crate) outcome: AttemptMeaning,
    /// A 503 of a host whose limits are learned, and the distance at which requests go to it.
    pub(crate) unavailable: Option<Duration>,
    pub(crate) sent: BootInstant,
    pub(crate) answered: BootInstant,
}

impl HostHealth {
    /// Takes in the headers of an answer, and returns what they mean: some servers refuse with 503
    /// what is too fast.
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

    /// Returns when the last request of this process was sent that gave a sign of life.
    pub(crate) fn last_served(&self) -> Option<BootInstant> {
        let served = self.served_at.load(Ordering::Acquire);
        (served > 0).then(|| BootInstant::from_micros(served))
    }

    /// Takes note of a request that failed or was refused.
    pub(super) fn note_failure(&self, sent: BootInstant) {
        let served = self.served_at.load(Ordering::Acquire);
        let first_of_row = |earlier: u64| (earlier <= served).then_some(sent.as_micros());
        let _ = self
            .failed_at
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, first_of_row);
    }

    /// Returns when the first request of this process was sent that failed since the origin last
    /// served one; `None` while it serves.
    pub(crate) fn silent_since(&self) -> Option<BootInstant> {
        let failed = self.failed_at.load(Ordering::Acquire);
        let served = self.served_at.load(Ordering::Acquire);
        (failed > served).then(|| BootInstant::from_micros(failed))
    }

    /// Takes note of an answer that asks for no requests: those that were permitted before it are
    /// not sent after it.
    pub(super) fn note_block(&self, now: BootInstant) {
        self.blocked_at.store(now.as_micros(), Ordering::Release);
    }

    /// Returns whether a block began after a permit was given.
    pub(super) fn was_blocked_since(&self, permit: &Permit) -> bool {
        self.blocked_at.load(Ordering::Acquire) > permit.at.as_micros()
    }

    /// Takes note of a transition of the breaker that this process brought about.
    pub(super) fn note_transition(&self, transition: &Transition, now: BootInstant) {
        self.breaker.note(transition, now);
        self.slow_start.note(transition, now);
        self.failure_throttle.end();
    }

    /// Returns the transition that an answer of the store shows to have happened elsewhere.
    pub(super) fn seen_by_answer(
        &self,
        entry: &AdmissionDecision,
        now: BootInstant,
    ) -> Option<Transition> {
        let transition = self.breaker.by_answer(entry, now)?;
        self.slow_start.note(&transition, now);
        Some(transition)
    }

    /// Returns the transition that a heartbeat shows to have happened elsewhere.
    pub(super) fn seen_by_heartbeat(
        &self,
        condition: &BreakerCondition,
        now: BootInstant,
    ) -> Option<Transition> {
        let transition = self.breaker.by_heartbeat(condition, now)?;
        self.slow_start.note(&transition, now);
        Some(transition)
    }

    /// Returns until when the breaker is open, as this process last saw it.
    pub(super) fn open_until(&self, now: BootInstant) -> Option<BootInstant> {
        self.breaker.open_until(now)
    }

    /// Tells whether the breaker was closed all the time since an instant, as far as is known.
    pub(crate) fn is_closed_since(&self, instant: BootInstant) -> bool {
        self.breaker.is_closed_since(instant)
    }

    /// Returns when the next request goes after an outage, if that is later than now.
    pub(super) fn slow_start_turn(&self, now: BootInstant) -> Option<BootInstant> {
        self.slow_start.turn(now)
    }
}
