//! The question of a request to a site, and the answers.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{AdaptivePolicy, BreakerPolicy, OpenReason, Role, Transition, Window, Windows};
use crate::host_model::learned::LearnPolicy;
use crate::pacing::FitMode;
use crate::time::BootInstant;

/// What a request costs in one budget.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BudgetCost {
    /// Which budget of the site.
    pub budget: usize,
    /// How much of it; a cost of zero is not counted.
    pub weight: u32,
    /// The windows as this process applies them.
    pub windows: Arc<Windows>,
    /// How many requests may run at once over all processes, where that is shared through the
    /// store.
    pub slots: Option<NonZeroU32>,
}

/// What to do while the breaker is open or a probe is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Patience {
    /// Be refused at once, at no cost.
    Refuse,
    /// Wait within the deadline: retries, and items of a bulk run.
    Wait,
}

/// Where a request stands in the queue of its own process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueuePosition {
    /// First: it may go, or make a reservation.
    Head,
    /// Behind this many weights that have no reservation yet: it learns the earliest instant of its
    /// turn.
    Behind(u32),
    /// Behind a head whose answer is still on its way from a remote store: it may go at once, and
    /// reserves nothing.
    Overlapping,
}

impl QueuePosition {
    /// Returns the weights before it that hold no reservation, where it may not go at all.
    pub(crate) fn ahead(self) -> Option<u32> {
        match self {
            Self::Behind(ahead) => Some(ahead),
            Self::Head | Self::Overlapping => None,
        }
    }
}

/// The configuration that the requests of a lane share.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LanePolicy {
    /// The policy of the breaker that is obeyed.
    pub breaker: Arc<BreakerPolicy>,
    /// Whether the role has a breaker of its own.
    pub isolated: bool,
    /// How the rate adapts to throttling, where it does.
    pub adaptive: Option<AdaptivePolicy>,
    /// How limits are learned from refusals, where they are.
    pub learn: Option<LearnPolicy>,
    /// How long a probe's lease, or a shared slot, lasts without a heartbeat.
    pub lease: Duration,
}

impl LanePolicy {
    /// How long a lease lasts without a heartbeat, unless it is set.
    pub const LEASE: Duration = Duration::from_secs(20);

    /// Makes the policy of a lane that obeys a breaker, and neither adapts its rate nor learns.
    #[must_use]
    pub fn new(breaker: impl Into<Arc<BreakerPolicy>>) -> Self {
        Self {
            breaker: breaker.into(),
            isolated: false,
            adaptive: None,
            learn: None,
            lease: Self::LEASE,
        }
    }
}

/// A question to a site. Cheap to clone.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AdmissionRequest {
    /// The configuration of its lane.
    pub policy: Arc<LanePolicy>,
    /// The costs, spent all or none.
    pub costs: Arc<[BudgetCost]>,
    /// The role, for the trial budgets.
    pub role: Role,
    /// The latest instant that the caller waits for on account of the rate.
    pub latest: BootInstant,
    /// The latest instant that the caller waits for at all.
    pub deadline: BootInstant,
    /// What to do while the breaker is open.
    pub patience: Patience,
    /// Its position in the queue of its own process.
    pub queue_position: QueuePosition,
    /// A random share in 0..1, for the jitter of probes.
    pub jitter_sample: f64,
    /// Since when the caller has been asking, to measure how long it waited.
    pub asked: BootInstant,
    /// Under which name the site keeps the quotas that its host states for such requests; `None`
    /// where rate headers are ignored.
    pub quota_lane: Option<Arc<str>>,
    /// What a request that weighs one costs of the quotas of its host; one where the host says that.
    pub credits: u32,
    /// How many requests of the caller are still to come in these budgets, this one included; zero
    /// if it does not know. Long windows are spread if they have less left than that.
    pub backlog: u32,
}

impl AdmissionRequest {
    /// Asks for metadata without any patience: go now, or be refused.
    #[must_use]
    pub fn at_once(costs: &[BudgetCost], policy: impl Into<Arc<LanePolicy>>) -> Self {
        Self {
            policy: policy.into(),
            costs: costs.into(),
            role: Role::Metadata,
            latest: BootInstant::ZERO,
            deadline: BootInstant::FAR,
            patience: Patience::Refuse,
            queue_position: QueuePosition::Head,
            jitter_sample: 0.0,
            asked: BootInstant::FAR,
            quota_lane: None,
            credits: 1,
            backlog: 0,
        }
    }

    /// Returns whether limits are learned from the first request on.
    #[inline]
    #[must_use]
    pub fn searches_upwards(&self) -> bool {
        self.policy
            .learn
            .as_ref()
            .is_some_and(LearnPolicy::searches_upwards)
    }

    /// Returns how the request is fitted, unless its spacing would refuse it.
    #[inline]
    pub(crate) fn pace(&self) -> FitMode {
        FitMode::Even {
            backlog: self.backlog,
        }
    }
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub enum AdmissionDecision {
    /// Send now.
    Go(Permit),
    /// A reservation was made: sleep until its instant, then confirm.
    Wait(ReservedSlot),
    /// Not the head of its queue: wait for the turn, which comes no earlier than this.
    Queue {
        /// Not before this instant.
        at: BootInstant,
    },
    /// The breaker is open or probing: ask again at `until`, or when the site's state changes.
    WaitForBreaker {
        /// When to ask again at the latest.
        until: BootInstant,
        /// Why it is open, or was.
        reason: OpenReason,
        /// A probe is in flight.
        probing: bool,
    },
    /// The windows have room, but every slot that is shared with other processes is taken. The
    /// position is reserved: confirm it again soon, the later the more requests come first.
    WaitForSlot {
        /// The id of the reservation.
        id: u64,
        /// How many requests with an earlier position are about to take a slot.
        earlier: u32,
    },
    /// Refused; nothing was spent.
    Refused(Refusal),
}

/// An answer, and the change of state that time brought about before it.
#[derive(Clone, Debug, PartialEq)]
pub struct AdmissionResult {
    /// The answer.
    pub entry: AdmissionDecision,
    /// Open has become half-open.
    pub transition: Option<Box<Transition>>,
}

/// Permission to send one request. Must be settled or left.
///
/// Written for other processes without what only its own has a use for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Permit {
    /// Its id among the reservations and leases of the site.
    pub id: u64,
    /// The generation of the breaker that admitted it.
    pub generation: u32,
    /// The instant at which it counts as used.
    #[serde(skip)]
    pub at: BootInstant,
    /// The same instant on the clock of the store, by which its use is found again.
    pub stamp: BootInstant,
    /// Whether it is a probe of a half-open breaker.
    pub probe: bool,
    /// The breaker was closed and without failures: a good answer changes nothing.
    pub clean: bool,
    /// What a breaker in shadow mode would have answered.
    #[serde(skip)]
    pub shadowed: Option<Box<Refusal>>,
}

/// A reservation that was made. Must be confirmed or left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservedSlot {
    /// Its id.
    pub id: u64,
    /// When it is due.
    pub at: BootInstant,
    /// The window that asks for the wait; `None` when it is a probe's jitter.
    pub because: Option<Window>,
    /// Whether it holds the lease of a probe.
    pub probe: bool,
}

/// A refusal, and when it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The instant at which the same question without patience would be permitted, if no other
    /// request came first.
    pub until: BootInstant,
    /// Why.
    pub reason: RefusalReason,
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// By the breaker.
    Open {
        /// Why it is open, or was.
        reason: OpenReason,
        /// It is half-open and its probes are in flight.
        probing: bool,
    },
    /// By the limiter.
    Rate {
        /// The window that asks for the longest wait.
        window: Option<Window>,
    },
    /// No slot came free before the deadline.
    Slots,
}

/// Whether a request with a permit may still be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermitStanding {
    /// It may.
    Good,
    /// A block began after it was permitted.
    Blocked(Refusal),
}
