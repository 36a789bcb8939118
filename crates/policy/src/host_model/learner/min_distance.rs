//! The hypothesis that a host refuses what comes too soon after the request before: nginx
//! `limit_req` without a burst, GCRA without tolerance.
//!
//! The hypothesis applies as long as every refused request came sooner after the one before it than
//! every admitted one. A full window looks the same at first: an ever faster start meets it when
//! the distance of two requests is the shortest so far. So requests go faster and faster again up
//! to the distance that was admitted: a window is full before, and a host that counts distances
//! admits it for good.

use serde::{Deserialize, Serialize};

use super::hypothesis::RefusalEvidence;
use super::request_log::RequestLog;
use super::units::{LearnerInstant, RequestRate, Seconds};

/// The number of requests that have to be admitted before the first refusal.
const MIN_ADMITTED_BEFORE: u32 = 6;
/// Below this distance of two requests the variance of the network hides it.
const MIN_MEASURED_DISTANCE: Seconds = Seconds(0.015);
/// The longest Retry-After of a host that counts in this way: the next request is admitted after
/// one distance, which servers round up to a second.
const MAX_ADVICE: Seconds = Seconds(1.05);
/// The time in which a rate doubles on the way back.
const DOUBLING_TIME: Seconds = Seconds(2.0);
/// The least time in which requests have to be admitted after the refusal,
const MIN_HELD_TIME: Seconds = Seconds(1.5);
/// the number of requests that takes as long, if that is longer,
const MIN_HELD_REQUESTS: f64 = 8.0;
/// and the share of the requests that the distance allows in that time.
const MIN_HELD_SHARE: f64 = 0.85;

/// The shortest distance of two requests that was admitted, and the longest that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct MinDistance {
    admitted: Seconds<f32>,
    refused: Seconds<f32>,
}

impl MinDistance {
    /// Returns the hypothesis, if a first refusal agrees with it.
    pub(super) fn new(log: &RequestLog, refusal: &RefusalEvidence) -> Option<Self> {
        if (refusal.advice).is_some_and(|advice| advice > MAX_ADVICE) {
            return None;
        }
        let (mut admitted, mut last, mut before) = (Seconds(f64::MAX), None, 0);
        for at in log.recent().filter(|at| *at < refusal.at) {
            admitted = last.map_or(admitted, |last| admitted.min(at - last));
            last = Some(at);
            before += 1;
        }
        let refused = refusal.at - last?;
        // Requests that overtake each other have no distance.
        let is_measured = before >= MIN_ADMITTED_BEFORE
            && refused >= MIN_MEASURED_DISTANCE.max(refusal.round_trip);
        (is_measured && refused < admitted).then_some(Self {
            admitted: admitted.narrow(),
            refused: refused.narrow(),
        })
    }

    /// Returns what a further refusal leaves of it.
    pub(super) fn refused(self, log: &RequestLog, refusal: &RefusalEvidence) -> Option<Self> {
        let mut own = Self::new(log, refusal)?;
        own.refused = own.refused.max(self.refused);
        (own.refused < own.admitted).then_some(own)
    }

    /// Returns the rate on the way back, so long after requests are admitted again at a rate.
    pub(super) fn ramp(self, from: RequestRate, passed: Seconds) -> RequestRate {
        ((passed / DOUBLING_TIME).exp2() * from).min(self.admitted_rate())
    }

    /// Returns the rate that was admitted.
    pub(super) fn admitted_rate(self) -> RequestRate {
        1.0 / self.admitted.wide()
    }

    /// Returns the rate between the one that was admitted and the one that was not.
    pub(super) fn rate(self) -> RequestRate {
        RequestRate(1.0 / f64::from(self.admitted.0 * self.refused.0).sqrt())
    }

    /// Returns whether requests have been admitted long enough, so long after the first. A client
    /// that had little to send has shown nothing.
    pub(super) fn is_held(self, log: &RequestLog, at: LearnerInstant, passed: Seconds) -> bool {
        let length = MIN_HELD_TIME.max(MIN_HELD_REQUESTS * self.admitted.wide());
        let allowed = (MIN_HELD_SHARE * length).0 * self.admitted_rate().0;
        passed >= length && log.count(length, at) >= allowed
    }
}
