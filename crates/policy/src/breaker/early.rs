//! Early probes: the schedule of an outage that failures and connection faults opened.
//!
//! A fixed reset turns an outage of ten seconds into one of a minute. So the next probe comes after
//! a share of the time that the outage has lasted, and no later than the fixed reset would allow.
//! The outage is one open however many of its probes fail. Until the fixed reset would have ended,
//! one probe is in flight at a time.

use std::time::Duration;

use super::{Breaker, BreakerPolicy, BreakerState, FailureHistory, OpenReason, Transition};
use crate::time::BootInstant;

/// The shortest time to the next probe.
const MIN_PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// The next probe comes after one part in so many of the time since the first open.
const PROBE_INTERVAL_DIVISOR: u32 = 5;
/// By which share of itself the wait is spread, to either side.
const PROBE_SPREAD_SHARE: f64 = 0.1;

/// Returns how long after a failed probe was sent the next one comes, in an outage that has lasted for
/// `elapsed`.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a wait in microseconds is exact in a double, and not negative"
)]
pub(super) fn wait(elapsed: Duration, cap: Duration, jitter_sample: f64) -> Duration {
    let middle = (elapsed / PROBE_INTERVAL_DIVISOR)
        .max(MIN_PROBE_INTERVAL)
        .min(cap);
    // In whole microseconds.
    let spread = 1.0 - PROBE_SPREAD_SHARE + 2.0 * PROBE_SPREAD_SHARE * jitter_sample;
    Duration::from_micros((middle.as_micros() as f64 * spread).floor() as u64)
}

/// A probe that failed.
#[derive(Clone, Copy, Debug)]
pub(super) struct FailedProbe {
    /// When it was sent.
    pub(super) sent: BootInstant,
    /// The jitter sample of early probes, where they apply.
    pub(super) jitter_sample: Option<f64>,
    /// How long the host is to be left alone, if that was stated or learned.
    pub(super) wait: Option<Duration>,
    /// Whether the server refused the request: it is up.
    pub(super) is_refusal: bool,
}

impl FailedProbe {
    /// Returns when the next probe comes, in an outage that has lasted for `elapsed`: by the
    /// schedule, and no earlier than the server said. The time that the answer took is part of the
    /// schedule's wait, up to half of it.
    fn next(self, elapsed: Duration, cap: Duration, now: BootInstant) -> Option<BootInstant> {
        let jitter_sample = self.jitter_sample?;
        let wait = wait(elapsed, cap, jitter_sample);
        let half = Duration::from_micros(u64::try_from(wait.as_micros() / 2).unwrap_or(u64::MAX));
        let scheduled = (self.sent + wait).max(now + half);
        Some(
            self.wait
                .map_or(scheduled, |stated| scheduled.max(now + stated)),
        )
    }
}

impl Breaker {
    /// Returns when the running outage opened the breaker first, if early probes apply to it.
    fn outage_began(&self) -> Option<BootInstant> {
        self.trip.as_ref()?;
        let began = self.past.as_deref()?.turned_at;
        (began > BootInstant::ZERO).then_some(began)
    }

    /// Returns the reset in force: of the open that there is, or of the next one.
    #[must_use]
    pub fn reset_in_force(&self, policy: &BreakerPolicy) -> Duration {
        let opens = |past: &FailureHistory| if self.has_tripped() { past.opens } else { 0 };
        let past = self.past.as_deref();
        let (opens, learned) = past.map_or((0, Duration::ZERO), |past| {
            (opens(past), past.learned_reset)
        });
        policy.reset_after(opens, learned)
    }

    /// Returns whether a probe at `now` is an early one: before the fixed reset would have ended.
    pub(super) fn probes_early(&self, policy: &BreakerPolicy, now: BootInstant) -> bool {
        policy.early_probes
            && self
                .outage_began()
                .is_some_and(|began| now < began + self.reset_in_force(policy))
    }

    /// Waits for the next probe of a running outage after one that failed, and returns `None`
    /// where early probes do not apply. The open stays the one that it is.
    pub(super) fn await_next_probe(
        &mut self,
        policy: &BreakerPolicy,
        probe: FailedProbe,
        now: BootInstant,
    ) -> Option<Transition> {
        let (began, cap) = (self.outage_began()?, self.reset_in_force(policy));
        let until = probe.next(now.since(began), cap, now)?;
        let (from, fail_count) = (self.state(now), self.failures);
        let trip = self.trip.as_deref_mut()?;
        trip.open_until = until;
        trip.half_open = false;
        trip.leases.clear();
        self.generation = self.generation.wrapping_add(1);
        Some(Transition {
            from,
            to: BreakerState::Open,
            fail_count,
            reset: Some(until.since(now)),
            reason: Some(OpenReason::EarlyProbeFailed),
        })
    }
}
