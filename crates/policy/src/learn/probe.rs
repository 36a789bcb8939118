//! Probes: from time to time one request more than a confirmed limit allows.
//!
//! A refused probe confirms the limit and doubles the distance to the next one; an admitted probe
//! raises the limit, and the next, larger one follows soon.

use serde::{Deserialize, Serialize};

use super::confirmed::{Confirmed, Shape};
use super::{Learner, Sent};

/// The time to the first probe, in seconds: the answers that confirmed the limit are as good as one.
/// It doubles with every refused probe.
const FIRST_INTERVAL: f32 = 60.0;
/// The distance after an admitted probe.
const NEXT_INTERVAL: f32 = 40.0;
const LONGEST_INTERVAL: f32 = 120.0;

/// When and how far the next probe goes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Probe {
    /// The distance of two probes, in seconds.
    interval: f32,
    step: f32,
    round: u8,
    /// Nothing while the last refusal is not over.
    next_at: Option<f64>,
    /// No sooner than so long after the next admission.
    delay: f32,
    /// Requests of this round that a raised rate still has to pass.
    left: f32,
}

impl Default for Probe {
    fn default() -> Self {
        Self {
            interval: FIRST_INTERVAL,
            step: 1.0,
            round: 0,
            next_at: None,
            delay: FIRST_INTERVAL,
            left: 0.0,
        }
    }
}

impl Probe {
    pub(super) fn step(&self) -> f64 {
        f64::from(self.step)
    }

    /// Starts the time to the next probe: requests are admitted again.
    pub(super) fn resume(&mut self, now: f64) {
        self.next_at = Some(now + f64::from(self.delay));
    }

    /// Notes a refusal that cost so many seconds: a probe that costs much is rare.
    pub(super) fn refused(&mut self, window: f64, cost: f64) {
        self.next_at = None;
        self.step = 1.0;
        self.round = 0;
        self.left = 0.0;
        self.delay = f64::from(self.interval).max(window).max(10.0 * cost) as f32;
    }

    /// Doubles the distance between probes.
    pub(super) fn slow_down(&mut self) {
        self.interval = (2.0 * self.interval).min(LONGEST_INTERVAL);
    }

    /// Starts anew with short distances.
    pub(super) fn restart(&mut self, now: f64) {
        *self = Self::default();
        self.resume(now);
    }

    pub(super) fn rebase(&mut self, by: f64) {
        if let Some(at) = &mut self.next_at {
            *at -= by;
        }
    }

    /// A round was admitted: the next goes further.
    fn next_round(&mut self, limit: &Confirmed, now: f64) {
        self.round = self.round.saturating_add(1);
        let most = limit.n() / if self.round >= 5 { 4.0 } else { 16.0 };
        let most = if limit.shape == Shape::Rate {
            8.0
        } else {
            most
        };
        self.step = (2.0 * self.step).min(most as f32).max(1.0);
        self.left = 0.0;
        self.next_at = Some(now + limit.window().clamp(0.5, 2.0));
        self.interval = NEXT_INTERVAL;
    }
}

impl Learner {
    /// Returns whether requests may exceed the confirmed limits now.
    pub(super) fn is_probing(&self, now: f64) -> bool {
        self.search.is_none()
            && self.testing.is_none()
            && self.probe.next_at.is_some_and(|at| at <= now)
    }

    /// Returns whether a limit is among those that hold the client back.
    pub(super) fn is_probed(&self, limit: &Confirmed) -> bool {
        let round_trip = f64::from(self.round_trip);
        let lowest = (self.confirmed.iter().flatten())
            .map(|limit| limit.rate(round_trip))
            .fold(f64::MAX, f64::min);
        limit.rate(round_trip) <= 1.3 * lowest
    }

    /// Returns whether a request that goes now exceeds a confirmed limit.
    pub(super) fn is_probe(&self, now: f64) -> bool {
        self.is_probing(now)
            && (self.confirmed.iter().flatten())
                .filter(|limit| self.is_probed(limit))
                .any(|limit| match limit.shape {
                    Shape::Window { seconds } => {
                        let wide = f64::from(seconds) - 0.001;
                        self.log.count(wide, now) + 0.5 >= limit.n()
                    }
                    Shape::Cap => f64::from(self.in_flight.count()) >= limit.n(),
                    Shape::Rate => true,
                })
    }

    /// Raises the limits that an admitted probe exceeded.
    pub(super) fn probe_admitted(&mut self, sent: Sent, sent_at: f64, now: f64) {
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
                Shape::Window { seconds } => {
                    let others = (self.log.count(f64::from(seconds), sent_at) - 1.0).round();
                    if others + 0.5 < limit.n() + step - 1.0 {
                        continue;
                    }
                    limit.raise(limit.n() + step, now);
                }
                Shape::Cap if f64::from(sent.others.unwrap_or(0)) >= limit.n() => {
                    limit.raise(limit.n() + 1.0, now);
                }
                Shape::Cap => continue,
                Shape::Rate => {
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
