//! What changes the known limits of a host, as a store records it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Counted, HostLimits};
use crate::classify::Outcome;
use crate::learn::Confirmed;
use crate::learned::LearnPolicy;
use crate::quota::{Heard, Statement};
use crate::site::{Ask, Permit};
use crate::time::BootInstant;

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answered {
    /// The id of its permit.
    pub id: u64,
    /// When it was permitted.
    pub permitted: BootInstant,
    /// What it means.
    pub outcome: Outcome,
    /// Whether a failure may be a refusal.
    pub maybe_refused: bool,
    /// How long the server wants no request, as far as that is obeyed.
    pub retry_after: Option<Duration>,
    /// A random share in 0..1, for the wait after a refusal.
    pub jitter_sample: f64,
}

/// One change, without the instant at which it happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum LimitEvent {
    /// A request was permitted.
    Permitted {
        /// The id of its permit.
        id: u64,
        /// How limits are learned from its answer.
        learn: Option<LearnPolicy>,
        /// Under which name its quotas are kept.
        lane: Option<Box<str>>,
        /// What it weighs.
        weight: u32,
    },
    /// Time has passed, which no other event shows.
    Advanced,
    /// The headers of an answer have come, and its body has not ended.
    Heard {
        /// The id of its permit.
        id: u64,
        /// What they mean.
        outcome: Outcome,
    },
    /// An attempt has ended.
    Answered(Answered),
    /// A request was given up.
    Left {
        /// The id of its permit.
        id: u64,
        /// When it was permitted, if it was not sent.
        spent_at: Option<BootInstant>,
        /// Under which name its quotas are kept.
        lane: Option<Box<str>>,
    },
    /// The headers of an answer state quotas.
    Stated {
        /// Under which name they are kept.
        lane: Box<str>,
        /// The id of the permit.
        id: u64,
        /// When the request was permitted.
        permitted: BootInstant,
        /// What they state.
        statement: Statement,
    },
    /// An operator has ended the pause after refusals.
    PauseEnded,
}

/// What an event did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Applied {
    /// Waiting requests may go earlier than they were promised.
    pub calls_next: bool,
    /// The limit of the host that an answer, or its headers, confirmed.
    pub confirmed: Option<Confirmed>,
    /// What a statement changes.
    pub heard: Heard,
}

impl LimitEvent {
    /// Describes a permit.
    #[must_use]
    pub fn permitted(ask: &Ask, id: u64) -> Self {
        let counted = Counted::new(ask, id);
        Self::Permitted {
            id,
            learn: counted.learn.copied(),
            lane: counted.lane.map(Box::from),
            weight: counted.weight,
        }
    }

    /// Describes that a permit or a reservation was given up.
    #[must_use]
    pub fn left(ask: &Ask, id: u64, spent_at: Option<BootInstant>) -> Self {
        Self::Left {
            id,
            spent_at,
            lane: ask.quota_lane.as_deref().map(Box::from),
        }
    }

    /// Describes what the answer to a request states; `None` where rate headers are ignored.
    #[must_use]
    pub fn stated(ask: &Ask, permit: &Permit, statement: &Statement) -> Option<Self> {
        Some(Self::Stated {
            lane: Box::from(ask.quota_lane.as_deref()?),
            id: permit.id,
            permitted: permit.stamp,
            statement: statement.clone(),
        })
    }
}

impl HostLimits {
    /// Applies an event of an instant. `history` lists the requests that were sent before a first
    /// refusal.
    pub fn apply(
        &mut self,
        event: &LimitEvent,
        history: impl Iterator<Item = BootInstant>,
        now: BootInstant,
    ) -> Applied {
        let mut applied = Applied::default();
        match event {
            LimitEvent::Permitted {
                id,
                learn,
                lane,
                weight,
            } => {
                // A site lets time pass before it permits a request.
                self.advance(now);
                // A store whose answer was lost may permit one twice: it is sent once.
                self.left(*id, None, None);
                let counted = Counted {
                    id: *id,
                    learn: learn.as_ref(),
                    lane: lane.as_deref(),
                    weight: *weight,
                };
                self.permitted(counted, now);
            }
            LimitEvent::Advanced => self.advance(now),
            LimitEvent::Heard { id, outcome } => {
                let taught = self.heard(*id, *outcome, now);
                applied.calls_next = taught.calls_next;
                applied.confirmed = taught.confirmed;
            }
            LimitEvent::Answered(answered) => {
                applied.confirmed = self.answered(answered, history, now);
                applied.calls_next = self.learned.is_some();
            }
            LimitEvent::Left { id, spent_at, lane } => self.left(*id, *spent_at, lane.as_deref()),
            LimitEvent::Stated {
                lane,
                id,
                permitted,
                statement,
            } => applied.heard = self.state(lane, (*id, *permitted), statement, now),
            LimitEvent::PauseEnded => self.end_pause(),
        }
        applied
    }
}
