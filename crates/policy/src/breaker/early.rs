//! Early probes: the schedule of probes in an outage after failures or connection faults.
//!
//! With a fixed reset of a minute, an outage of ten seconds costs a minute. Therefore the next
//! probe is sent after a share of the outage's length so far, and not much later than the fixed
//! reset allows. An outage counts as one open, even if many of its probes fail. Before the end of
//! the fixed reset, one probe is in flight at a time.

use std::time::Duration;

use super::{Breaker, BreakerPolicy, BreakerState, FailureHistory, OpenReason, Transition};
use crate::time::BootInstant;

/// The shortest wait before an early probe, without its random spread.
const MIN_PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// The divisor of the time since the outage began that gives the wait for the next probe.
const PROBE_INTERVAL_DIVISOR: u32 = 5;
/// The largest share by which a random spread shortens or lengthens the wait for a probe.
const PROBE_SPREAD_SHARE: f64 = 0.1;

/// Returns the wait from a failed probe to the next one, in an outage that has lasted for
/// `elapsed`. `cap` limits the wait before its random spread.
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
    // Boot instants count whole microseconds.
    let spread = 1.0 - PROBE_SPREAD_SHARE + 2.0 * PROBE_SPREAD_SHARE * jitter_sample;
    Duration::from_micros((middle.as_micros() as f64 * spread).floor() as u64)
}

/// A probe that failed.
#[derive(Clone, Copy, Debug)]
pub(super) struct FailedProbe {
    /// The instant at which the probe was sent.
    pub(super) sent: BootInstant,
    /// The random number for the wait before an early probe; `None` if early probes do not apply.
    pub(super) jitter_sample: Option<f64>,
    /// The time without requests that the server declared or a learned limit requires.
    pub(super) wait: Option<Duration>,
    /// Set if the server refused the request, which shows that the server is up.
    pub(super) is_refusal: bool,
}

impl FailedProbe {
    /// Returns the instant of the next probe, in an outage that has lasted for `elapsed`; `None` if
    /// early probes do not apply. A wait that the server declared is observed in full. The
    /// scheduled wait begins when the failed probe is sent, but half of the wait always follows the
    /// response.
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
    /// Returns when the current outage first opened the breaker. Returns `None` if the breaker is
    /// closed, or if early probes do not apply.
    fn outage_began(&self) -> Option<BootInstant> {
        self.trip.as_ref()?;
        let began = self.past.as_deref()?.turned_at;
        (began > BootInstant::ZERO).then_some(began)
    }

    /// Returns the reset, the length of an open: that of the current open or, for a closed
    /// [`Breaker`], of the next one.
    #[must_use]
    pub fn reset_in_force(&self, policy: &BreakerPolicy) -> Duration {
        let opens = |past: &FailureHistory| if self.has_tripped() { past.opens } else { 0 };
        let past = self.past.as_deref();
        let (opens, learned) = past.map_or((0, Duration::ZERO), |past| {
            (opens(past), past.learned_reset)
        });
        policy.reset_after(opens, learned)
    }

    /// Returns whether a probe at `now` is early: before the end of the fixed reset.
    pub(super) fn probes_early(&self, policy: &BreakerPolicy, now: BootInstant) -> bool {
        policy.early_probes
            && self
                .outage_began()
                .is_some_and(|began| now < began + self.reset_in_force(policy))
    }

    /// Schedules the next probe of an outage after a failed one, within the same open. Returns
    /// `None` if early probes do not apply.
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
