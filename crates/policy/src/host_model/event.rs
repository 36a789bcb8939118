//! Events that change the [`HostModel`](super::HostModel), as a store records them.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::learned::LearnPolicy;
use super::learner::ConfirmedLimit;
use super::quotas::{QuotaEffect, QuotaStatement};
use crate::classify::AttemptMeaning;
use crate::time::BootInstant;

/// The result of a request, for [`LimitEvent::Answered`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SettledRequest {
    /// The id of the permit.
    pub id: u64,
    /// The instant of the permit.
    pub permitted: BootInstant,
    /// The [`AttemptMeaning`] of the response for limits.
    pub outcome: AttemptMeaning,
    /// Set if the failure may be a refusal of one request too many (503).
    pub maybe_refused: bool,
    /// The time for which the server wants no request, as far as the policy obeys the server.
    pub retry_after: Option<Duration>,
    /// A random number in `0..1` for the wait after a refusal.
    pub jitter_sample: f64,
}

/// A change of the [`HostModel`](super::HostModel), without its instant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum LimitEvent {
    /// A request was permitted.
    Permitted {
        /// The id of the permit.
        id: u64,
        /// The [`LearnPolicy`] by which limits are learned from the response.
        learn: Option<LearnPolicy>,
        /// The name under which the quotas of the request are kept.
        lane: Option<Arc<str>>,
        /// The weight of the request in quotas.
        weight: u32,
    },
    /// Time has passed without another event.
    Advanced,
    /// The headers of a response have arrived, and its body is not complete.
    Heard {
        /// The id of the permit.
        id: u64,
        /// The [`AttemptMeaning`] of the headers for limits.
        outcome: AttemptMeaning,
    },
    /// An attempt has ended.
    Answered(SettledRequest),
    /// A permit or a reservation was given back, or its request has no result.
    Left {
        /// The id of the permit.
        id: u64,
        /// The instant of the permit, if the request was not sent; otherwise `None`.
        spent_at: Option<BootInstant>,
        /// The name under which the quotas of the request are kept.
        lane: Option<Arc<str>>,
    },
    /// The headers of a response declare quotas.
    Stated {
        /// The name under which the quotas are kept.
        lane: Arc<str>,
        /// The id of the permit.
        id: u64,
        /// The instant of the permit.
        permitted: BootInstant,
        /// The declared quotas.
        statement: QuotaStatement,
    },
    /// An operator has ended the pause after refusals.
    PauseEnded,
}

/// The effect of a [`LimitEvent`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventEffect {
    /// Set if waiting requests may be sent earlier than expected.
    pub calls_next: bool,
    /// The [`ConfirmedLimit`] that a response, or its headers, confirmed.
    pub confirmed: Option<ConfirmedLimit>,
    /// The [`QuotaEffect`] of the declared quotas.
    pub heard: QuotaEffect,
    /// Set if the response to the permitted request teaches a limit.
    pub teaches: bool,
}
