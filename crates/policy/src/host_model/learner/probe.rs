//! Probes: from time to time one request more than a confirmed limit allows.
//!
//! A refused probe confirms the limit and doubles the time to the next probe, up to two minutes. An
//! admitted probe raises the limit, and a larger probe follows soon.

use serde::{Deserialize, Serialize};

use super::confirmed::{ConfirmedLimit, LimitShape};
use super::units::{LearnerInstant, RequestRate, Seconds};
use super::{Learner, LearnerPhase, SentRequest};

/// The time from the confirmation of a limit to its first probe. Each refused probe doubles the
/// time, up to [`MAX_PROBE_INTERVAL`].
const FIRST_PROBE_INTERVAL: Seconds<f32> = Seconds(60.0);
/// The time between probes after an admitted probe.
const NEXT_PROBE_INTERVAL: Seconds<f32> = Seconds(40.0);
const MAX_PROBE_INTERVAL: Seconds<f32> = Seconds(120.0);
/// The largest multiple of the lowest confirmed rate up to which another limit is probed, too.
const PROBED_RATES: f64 = 1.3;
/// The tolerance for the length of a window when a request is recognised as a probe.
const WINDOW_TOLERANCE: Seconds = Seconds(0.001);

/// The instant and the size of the next probe.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ProbeSchedule {
    /// The time between two probes.
    interval: Seconds<f32>,
    step: f32,
    round: u8,
    /// The instant of the next probe; `None` until requests are admitted again after a refusal.
    pub(super) next_at: Option<LearnerInstant>,
    /// The time from the next admission after a refusal to the next probe.
    delay: Seconds<f32>,
    /// The number of probes that must still be admitted before the rate is raised.
    left: f32,
}

impl Default for ProbeSchedule {
    fn default() -> Self {
        Self {
            interval: FIRST_PROBE_INTERVAL,
            step: 1.0,
            round: 0,
            next_at: None,
            delay: FIRST_PROBE_INTERVAL,
            left: 0.0,
        }
    }
}

impl ProbeSchedule {
    pub(super) fn step(&self) -> f64 {
        f64::from(self.step)
    }

    /// Starts the time to the next probe, when requests are admitted again at `now`.
    pub(super) fn resume(&mut self, now: LearnerInstant) {
        self.next_at = Some(now + self.delay.wide());
    }

    /// Delays the next probe after a refusal. The delay grows with the time that the refusal cost.
    pub(super) fn refused(&mut self, window: Seconds, cost: Seconds) {
        self.next_at = None;
        self.step = 1.0;
        self.round = 0;
        self.left = 0.0;
        self.delay = (self.interval.wide().max(window).max(10.0 * cost)).narrow();
    }

    /// Doubles the time between probes, up to [`MAX_PROBE_INTERVAL`].
    pub(super) fn slow_down(&mut self) {
        self.interval = Seconds(2.0 * self.interval.0).min(MAX_PROBE_INTERVAL);
    }

    /// Starts again with the initial time between probes.
    pub(super) fn restart(&mut self, now: LearnerInstant) {
        *self = Self::default();
        self.resume(now);
    }

    /// Enlarges the next round of probes after a round was admitted.
    fn next_round(&mut self, limit: &ConfirmedLimit, now: LearnerInstant) {
        self.round = self.round.saturating_add(1);
        let most = limit.n() / if self.round >= 5 { 4.0 } else { 16.0 };
        let most = if limit.shape == LimitShape::Rate {
            8.0
        } else {
            most
        };
        self.step = (2.0 * self.step).min(most as f32).max(1.0);
        self.left = 0.0;
        self.next_at = Some(now + limit.window().clamp(Seconds(0.5), Seconds(2.0)));
        self.interval = NEXT_PROBE_INTERVAL;
    }
}

impl Learner {
    /// Returns whether requests may exceed the confirmed limits now.
    pub(super) fn is_probing(&self, now: LearnerInstant) -> bool {
        let is_due = self.probe.next_at.is_some_and(|at| at <= now);
        is_due && matches!(self.phase(), LearnerPhase::Confirmed)
    }

    /// Returns whether probes exceed a [`ConfirmedLimit`]: its rate is the lowest confirmed one or
    /// near it, so that the limit delays the client.
    pub(super) fn is_probed(&self, limit: &ConfirmedLimit) -> bool {
        let round_trip = self.round_trip.wide();
        let rates = self.confirmed().map(|limit| limit.rate(round_trip));
        let lowest = rates.reduce(RequestRate::<f64>::min);
        lowest.is_none_or(|lowest| limit.rate(round_trip) <= PROBED_RATES * lowest)
    }

    /// Returns whether a request that is sent now exceeds a confirmed limit.
    pub(super) fn is_probe(&self, now: LearnerInstant) -> bool {
        let is_exceeded = |limit: &ConfirmedLimit| match limit.shape {
            LimitShape::Window { .. } => {
                let window = limit.window() - WINDOW_TOLERANCE;
                self.log.count(window, now) + 0.5 >= limit.n()
            }
            LimitShape::Cap => f64::from(self.in_flight.count()) >= limit.n(),
            LimitShape::Rate => true,
        };
        let mut limits = self.confirmed();
        self.is_probing(now) && limits.any(|limit| self.is_probed(limit) && is_exceeded(limit))
    }

    /// Raises the limits that an admitted probe exceeded.
    pub(super) fn probe_admitted(
        &mut self,
        sent: SentRequest,
        sent_at: LearnerInstant,
        now: LearnerInstant,
    ) {
        let step = self.probe.step();
        let mut finished = None;
        let probed = self
            .confirmed
            .map(|limit| limit.is_some_and(|limit| self.is_probed(&limit)));
        for (limit, probed) in self.confirmed.iter_mut().zip(probed) {
            let Some(limit) = limit.as_mut().filter(|_| probed) else {
                continue;
            };
            match limit.shape {
                LimitShape::Window { .. } => {
                    let others = (self.log.count(limit.window(), sent_at) - 1.0).round();
                    if others + 0.5 < limit.n() + step - 1.0 {
                        continue;
                    }
                    limit.raise(limit.n() + step, now);
                }
                LimitShape::Cap if f64::from(sent.others.unwrap_or(0)) >= limit.n() => {
                    limit.raise(limit.n() + 1.0, now);
                }
                LimitShape::Cap => continue,
                LimitShape::Rate => {
                    if self.probe.left == 0.0 {
                        self.probe.left = (limit.amount / 2.0).max(5.0) + 1.0;
                    }
                    self.probe.left -= 1.0;
                    if self.probe.left > 1.0 {
                        continue;
                    }
                    limit.raise(limit.n() * (1.0 + 0.04 * step), now);
                }
            }
            finished = Some(*limit);
        }
        if let Some(limit) = finished {
            self.probe.next_round(&limit, now);
        }
    }
}
