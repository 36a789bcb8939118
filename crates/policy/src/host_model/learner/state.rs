//! Parts of the state of a [`Learner`](super::Learner).

use serde::{Deserialize, Serialize};

use super::SentRequest;
use super::units::{LearnerInstant, RequestRate, Seconds, stored_instant};
use super::wait::MAX_WAIT;

/// The initial [`RequestRate`], which doubles every second.
const START_RATE: RequestRate<f32> = RequestRate(2.0);

/// The time since the last refusal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct RefusalEpoch {
    /// The instant at which the client received the refusal. Refusals of requests that were sent
    /// before are not new evidence.
    #[serde(with = "stored_instant")]
    pub(super) at: Option<LearnerInstant>,
    /// The instant of the first admission after the refusal.
    pub(super) resumed: Option<LearnerInstant>,
    /// The number of requests that were admitted before the refusal.
    pub(super) total: u32,
    /// The number of refusals in a row.
    pub(super) in_row: u8,
}

impl RefusalEpoch {
    /// Returns whether the refusal was received after an instant.
    pub(super) fn is_after(&self, sent_at: LearnerInstant) -> bool {
        self.at.is_some_and(|at| sent_at < at)
    }

    /// Returns for how long the host has refused every request, up to [`MAX_WAIT`]. If more time
    /// passed, the client had no request to send.
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

/// The time in which a host is down, or may be down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct HostOutage {
    pub(super) since: Option<LearnerInstant>,
    /// The first possibly refused [`SentRequest`] since the host last served a request.
    pub(super) doubtful: Option<SentRequest>,
}

/// The rate at which a [`Learner`](super::Learner) starts.
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
