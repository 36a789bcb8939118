//! Parts of the state of a learner.

use serde::{Deserialize, Serialize};

use super::SentRequest;
use super::units::{LearnerInstant, RequestRate, Seconds, stored_instant};
use super::wait::MAX_WAIT;

/// The rate before anything is known. It doubles every second.
const START_RATE: RequestRate<f32> = RequestRate(2.0);

/// The time since the last refusal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct RefusalEpoch {
    /// When the refusal was taken in. Requests sent before say nothing new.
    #[serde(with = "stored_instant")]
    pub(super) at: Option<LearnerInstant>,
    /// The first admission after it.
    pub(super) resumed: Option<LearnerInstant>,
    /// The number of requests that had been admitted by then.
    pub(super) total: u32,
    /// The number of refusals in a row.
    pub(super) in_row: u8,
}

impl RefusalEpoch {
    /// Returns whether the refusal was taken in after an instant.
    pub(super) fn is_after(&self, sent_at: LearnerInstant) -> bool {
        self.at.is_some_and(|at| sent_at < at)
    }

    /// Returns for how long the host has refused everything. Beyond the longest wait the client had
    /// nothing to send.
    pub(super) fn length(&self, until: LearnerInstant) -> Seconds {
        self.at.map_or(MAX_WAIT, |at| (until - at).min(MAX_WAIT))
    }

    pub(super) fn begin(&mut self, now: LearnerInstant, total: u32) {
        *self = Self {
            at: Some(now),
            resumed: None,
            total,
            in_row: self.in_row.saturating_add(1),
        };
    }
}

/// The time in which a host is down, or may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct HostOutage {
    pub(super) since: Option<LearnerInstant>,
    /// The first request since the host last served one that it may have refused.
    pub(super) doubtful: Option<SentRequest>,
}

/// The rate at which a learner starts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StartRate {
    pub(super) served: u32,
    #[serde(with = "stored_instant")]
    pub(super) last_served: Option<LearnerInstant>,
    pub(super) rate: RequestRate<f32>,
}

impl Default for StartRate {
    fn default() -> Self {
        Self {
            served: 0,
            last_served: None,
            rate: START_RATE,
        }
    }
}
