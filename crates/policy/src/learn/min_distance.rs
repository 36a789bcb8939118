//! The hypothesis that a host refuses what comes too soon after the request before: nginx
//! `limit_req` without a burst, GCRA without tolerance.
//!
//! It holds as long as every refused request came sooner after the one before it than every admitted
//! one. A full window looks the same at first: an ever faster start meets it when the distance of two
//! requests is the shortest so far. So requests go faster and faster again up to the distance that
//! was admitted: a window is full before, and a host that counts distances admits it for good.

use serde::{Deserialize, Serialize};

use super::hypothesis::Refusal;
use super::log::Log;

/// How many requests have to be admitted before the first refusal.
const LEAST_BEFORE: u32 = 6;
/// Below this distance of two requests the variance of the network hides it, in seconds.
const SHORTEST: f64 = 0.015;
/// The longest Retry-After of a host that counts in this way, in seconds: the next request is
/// admitted after one distance, which servers round up to a second.
const LONGEST_ADVICE: f64 = 1.05;
/// How long a rate takes to double on the way back, in seconds.
const RAMP: f64 = 2.0;
/// How long requests have to be admitted after the refusal, in seconds,
const HELD: f64 = 1.5;
/// how many of them,
const HELD_REQUESTS: f64 = 8.0;
/// and which share of what the distance allows in that time.
const HELD_SHARE: f64 = 0.85;

/// The shortest distance of two requests that was admitted, and the longest that was refused, in
/// seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct MinDistance {
    admitted: f32,
    refused: f32,
}

impl MinDistance {
    /// Returns the hypothesis, if a first refusal agrees with it.
    pub(super) fn new(log: &Log, refusal: &Refusal) -> Option<Self> {
        if (refusal.advice).is_some_and(|advice| advice > LONGEST_ADVICE) {
            return None;
        }
        let (mut admitted, mut last, mut before) = (f64::MAX, None, 0);
        for at in log.recent().filter(|at| *at < refusal.at) {
            admitted = last.map_or(f64::MAX, |last| at - last).min(admitted);
            last = Some(at);
            before += 1;
        }
        let refused = refusal.at - last?;
        // Requests that overtake each other have no distance.
        let is_measured = before >= LEAST_BEFORE && refused >= SHORTEST.max(refusal.round_trip);
        (is_measured && refused < admitted).then_some(Self {
            admitted: admitted as f32,
            refused: refused as f32,
        })
    }

    /// Returns what a further refusal leaves of it.
    pub(super) fn refused(self, log: &Log, refusal: &Refusal) -> Option<Self> {
        let mut own = Self::new(log, refusal)?;
        own.refused = own.refused.max(self.refused);
        (own.refused < own.admitted).then_some(own)
    }

    /// Returns the rate on the way back, so many seconds after requests are admitted again at a rate.
    pub(super) fn ramp(self, from: f64, passed: f64) -> f64 {
        (from * (passed / RAMP).exp2()).min(self.admitted_rate())
    }

    /// Returns the rate that was admitted, requests per second.
    pub(super) fn admitted_rate(self) -> f64 {
        1.0 / f64::from(self.admitted)
    }

    /// Returns the rate between the one that was admitted and the one that was not.
    pub(super) fn rate(self) -> f64 {
        1.0 / f64::from(self.admitted * self.refused).sqrt()
    }

    /// Returns whether requests have been admitted long enough, so many seconds after the first. A
    /// client that had little to send has shown nothing.
    pub(super) fn is_held(self, log: &Log, at: f64, passed: f64) -> bool {
        let length = HELD.max(HELD_REQUESTS * f64::from(self.admitted));
        passed >= length && log.count(length, at) >= HELD_SHARE * length * self.admitted_rate()
    }
}
