//! The hypothesis that a host refuses requests at too short a distance: nginx `limit_req` without a
//! burst, GCRA without tolerance.
//!
//! The hypothesis applies as long as every refused request followed its predecessor sooner than
//! every admitted request did. At first, a full window looks the same: while the rate of a start
//! rises, the window fills at the shortest distance so far. Therefore the rate rises again, up to
//! the distance that was admitted. A window would be full before that. A host that limits the
//! distance continues to admit requests.

use serde::{Deserialize, Serialize};

use super::hypothesis::RefusalEvidence;
use super::request_log::RequestLog;
use super::units::{LearnerInstant, RequestRate, Seconds};

/// The number of requests that must be admitted before the first refusal.
const MIN_ADMITTED_BEFORE: u32 = 6;
/// The shortest distance between requests that is measurable; the variation of the network hides
/// shorter ones.
const MIN_MEASURED_DISTANCE: Seconds = Seconds(0.015);
/// The longest Retry-After of a host that limits the distance: one distance, rounded up to a
/// second.
const MAX_ADVICE: Seconds = Seconds(1.05);
/// The time in which the rate doubles after a refusal.
const DOUBLING_TIME: Seconds = Seconds(2.0);
/// The shortest time for which requests must be admitted after the refusal, to confirm the
/// hypothesis.
const MIN_HELD_TIME: Seconds = Seconds(1.5);
/// The number of distances for which requests must be admitted, if these take longer than that
/// time.
const MIN_HELD_REQUESTS: f64 = 8.0;
/// The smallest share of the allowed requests that the client must have sent during the required
/// time.
const MIN_HELD_SHARE: f64 = 0.85;

/// The shortest distance between requests that was admitted, and the longest that was refused.
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
        // Requests may overtake each other within a round trip, so a shorter distance is not
        // measurable.
        let is_measured = before >= MIN_ADMITTED_BEFORE
            && refused >= MIN_MEASURED_DISTANCE.max(refusal.round_trip);
        (is_measured && refused < admitted).then_some(Self {
            admitted: admitted.narrow(),
            refused: refused.narrow(),
        })
    }

    /// Returns the hypothesis after a further refusal, if it still applies.
    pub(super) fn refused(self, log: &RequestLog, refusal: &RefusalEvidence) -> Option<Self> {
        let mut own = Self::new(log, refusal)?;
        own.refused = own.refused.max(self.refused);
        (own.refused < own.admitted).then_some(own)
    }

    /// Returns the [`RequestRate`] to use when requests have been admitted again for the time
    /// `passed`; `from` is the initial rate.
    pub(super) fn ramp(self, from: RequestRate, passed: Seconds) -> RequestRate {
        ((passed / DOUBLING_TIME).exp2() * from).min(self.admitted_rate())
    }

    /// Returns the highest [`RequestRate`] that was admitted.
    pub(super) fn admitted_rate(self) -> RequestRate {
        1.0 / self.admitted.wide()
    }

    /// Returns the [`RequestRate`] between the highest admitted and the lowest refused rate.
    pub(super) fn rate(self) -> RequestRate {
        RequestRate(1.0 / f64::from(self.admitted.0 * self.refused.0).sqrt())
    }

    /// Returns whether requests were admitted at the distance for long enough to confirm the
    /// hypothesis. A client that sent only few requests has proven nothing.
    pub(super) fn is_held(self, log: &RequestLog, at: LearnerInstant, passed: Seconds) -> bool {
        let length = MIN_HELD_TIME.max(MIN_HELD_REQUESTS * self.admitted.wide());
        let allowed = (MIN_HELD_SHARE * length).0 * self.admitted_rate().0;
        passed >= length && log.count(length, at) >= allowed
    }
}
