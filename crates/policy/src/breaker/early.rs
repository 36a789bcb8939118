//! Early probes: the schedule of probes in an outage after failures or connection faults.
//!
//! A fixed reset makes a minute of an outage of ten seconds. Therefore the next probe is
//! sent after a share of the outage's length so far, and no later than the fixed reset allows. An
//! outage counts as one open, even if many of its probes fail. Before the end of the fixed reset,
//! one probe is in flight at a time.

use std::time::Duration;

use super::{Breaker, BreakerPolicy, BreakerState, FailureHistory, OpenReason, Transition};
use crate::time::BootInstant;

/// The shortest time to the next probe.
const MIN_PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// The divisor of the time since the first open that gives the time to the next probe.
const PROBE_INTERVAL_DIVISOR: u32 = 5;
/// The share of the wait by which a random spread shortens or lengthens it.
const PROBE_SPREAD_SHARE: f64 = 0.1;

/// Returns the wait from a failed probe to the next one, in an outage that has lasted for
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
    // Boot instants count whole microseconds.
    let spread = 1.0 - PROBE_SPREAD_SHARE + 2.0 * PROBE_SPREAD_SHARE * jitter_sample;
    Duration::from_micros((middle.as_micros() as f64 * spread).floor() as u64)
}

/// A probe that failed.
#[derive(Clone, Copy, Debug)]
pub(super) struct FailedProbe {
    /// The instant at which the probe was sent.
    pub(super) sent: BootInstant,
    /// The jitter sample of early probes; `None` if early probes do not apply.
    pub(super) jitter_sample: Option<f64>,
    /// The time without requests that the server declared or a learned limit requires.
    pub(super) wait: Option<Duration>,
    /// Set if the server refused the request, which shows that the server is up.
    pub(super) is_refusal: bool,
}

impl FailedProbe {
    /// Returns the instant of the next probe, in an outage that has lasted for `elapsed`. The
    /// instant is never earlier than the server declared. The response time counts towards the
    /// scheduled wait, up to half of it.
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
    /// Returns when the current outage first opened the breaker; `None` if early probes do not
    /// apply.
    fn outage_began(&self) -> Option<BootInstant> {
        self.trip.as_ref()?;
        let began = self.past.as_deref()?.turned_at;
        (began > BootInstant::ZERO).then_some(began)
    }

    /// Returns the reset of the current open or, for a closed [`Breaker`], of the next one.
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
