//! The events that change the model of a host, as a store records them.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::learned::LearnPolicy;
use super::learner::ConfirmedLimit;
use super::quotas::{QuotaEffect, QuotaStatement};
use crate::classify::AttemptMeaning;
use crate::time::BootInstant;

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SettledRequest {
    /// The id of its permit.
    pub id: u64,
    /// When it was permitted.
    pub permitted: BootInstant,
    /// The meaning of the answer.
    pub outcome: AttemptMeaning,
    /// A failure may be a refusal.
    pub maybe_refused: bool,
    /// The time for which the server wants no request, as far as that is obeyed.
    pub retry_after: Option<Duration>,
    /// A random share in 0..1, for the wait after a refusal.
    pub jitter_sample: f64,
}

/// A change, without the instant at which it happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum LimitEvent {
    /// A request was permitted.
    Permitted {
        /// The id of its permit.
        id: u64,
        /// The way in which limits are learned from its answer.
        learn: Option<LearnPolicy>,
        /// Under which name its quotas are kept.
        lane: Option<Arc<str>>,
        /// Its weight.
        weight: u32,
    },
    /// Time has passed, which no other event shows.
    Advanced,
    /// The headers of an answer have come, and its body has not ended.
    Heard {
        /// The id of its permit.
        id: u64,
        /// The meaning of the headers.
        outcome: AttemptMeaning,
    },
    /// An attempt has ended.
    Answered(SettledRequest),
    /// A request was given up.
    Left {
        /// The id of its permit.
        id: u64,
        /// When it was permitted, if it was not sent.
        spent_at: Option<BootInstant>,
        /// Under which name its quotas are kept.
        lane: Option<Arc<str>>,
    },
    /// The headers of an answer declare quotas.
    Stated {
        /// Under which name they are kept.
        lane: Arc<str>,
        /// The id of the permit.
        id: u64,
        /// When the request was permitted.
        permitted: BootInstant,
        /// The quotas that they declare.
        statement: QuotaStatement,
    },
    /// An operator has ended the pause after refusals.
    PauseEnded,
}

/// The effect of an event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventEffect {
    /// Waiting requests may go earlier than they were promised.
    pub calls_next: bool,
    /// The limit of the host that an answer, or its headers, confirmed.
    pub confirmed: Option<ConfirmedLimit>,
    /// The effect of a statement.
    pub heard: QuotaEffect,
    /// The answer to a permitted request teaches something.
    pub teaches: bool,
}
