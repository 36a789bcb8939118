//! The admission request of a site, and the possible decisions.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{AdaptivePolicy, BreakerPolicy, OpenReason, Role, Transition, Window, Windows};
use crate::host_model::learned::LearnPolicy;
use crate::pacing::FitMode;
use crate::time::BootInstant;

/// The cost of a request in one budget.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BudgetCost {
    /// The index of the budget in the site.
    pub budget: usize,
    /// The weight of the request in the budget; a weight of zero costs nothing.
    pub weight: u32,
    /// The [`Windows`] as this process applies them.
    pub windows: Arc<Windows>,
    /// The limit of concurrent requests over all processes, if the store shares it.
    pub slots: Option<NonZeroU32>,
}

/// The reaction to an open breaker or a probe in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Patience {
    /// Do not wait: the request is refused at once, and no budget is spent.
    Refuse,
    /// Wait within the deadline: for retries, and for items of a bulk run.
    Wait,
}

/// The position of a request in the admission queue of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueuePosition {
    /// The first position: the request may be sent, or make a reservation.
    Head,
    /// A position behind requests without reservations, whose total weight is given. The request
    /// receives the earliest instant at which it could be sent.
    Behind(u32),
    /// A position behind a head that still waits for a remote store. The request may be sent at
    /// once, but makes no reservation.
    Overlapping,
}

impl QueuePosition {
    /// Returns the weight of the earlier requests without a reservation; `None` if this request may
    /// go.
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
    /// The [`BreakerPolicy`] of the breaker for these requests.
    pub breaker: Arc<BreakerPolicy>,
    /// Set if the role has its own breaker.
    pub isolated: bool,
    /// The [`AdaptivePolicy`] by which the rate adapts to throttling, if any.
    pub adaptive: Option<AdaptivePolicy>,
    /// The [`LearnPolicy`] by which limits are learned from refusals, if any.
    pub learn: Option<LearnPolicy>,
    /// The time without a heartbeat after which the lease of a probe, or a shared slot, expires.
    pub lease: Duration,
}

impl LanePolicy {
    /// The default length of a lease without a heartbeat.
    pub const LEASE: Duration = Duration::from_secs(20);

    /// Creates a lane with a breaker, without an adaptive rate and without learned limits.
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

/// A request for admission to a site. Cheap to clone.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AdmissionRequest {
    /// The configuration of its lane.
    pub policy: Arc<LanePolicy>,
    /// The [`BudgetCost`] in each budget; either all of them are spent, or none.
    pub costs: Arc<[BudgetCost]>,
    /// The [`Role`], for the trial budgets.
    pub role: Role,
    /// The latest instant to which the caller waits for the rate.
    pub latest: BootInstant,
    /// The latest instant to which the caller waits for any reason.
    pub deadline: BootInstant,
    /// The reaction to an open breaker.
    pub patience: Patience,
    /// The [`QueuePosition`] in the admission queue of its process.
    pub queue_position: QueuePosition,
    /// A random number in `0..1` for the jitter of probes.
    pub jitter_sample: f64,
    /// The instant from which the wait of the caller is measured.
    pub asked: BootInstant,
    /// The name under which the site keeps the declared quotas for requests of this kind; `None` if
    /// rate headers are ignored.
    pub quota_lane: Option<Arc<str>>,
    /// The number of credits that a request of weight one costs in declared quotas; one if the host
    /// declares the cost.
    pub credits: u32,
    /// The number of requests that the caller still has in these budgets, this one included; zero
    /// if unknown. Requests are spread over a long window only if its rest is smaller.
    pub backlog: u32,
}

impl AdmissionRequest {
    /// Creates a request for metadata that goes now or is refused.
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

    /// Returns the first [`FitMode`] to try, with spacing.
    #[inline]
    pub(crate) fn pace(&self) -> FitMode {
        FitMode::Even {
            backlog: self.backlog,
        }
    }
}

/// The decision about an [`AdmissionRequest`].
#[derive(Clone, Debug, PartialEq)]
pub enum AdmissionDecision {
    /// Send now.
    Go(Permit),
    /// Sleep until the instant of the reservation, then confirm.
    Wait(ReservedSlot),
    /// Wait for the head of the queue. This request is sent no earlier than `at`.
    Queue {
        /// The earliest instant.
        at: BootInstant,
    },
    /// Wait for the breaker, which is open or probing. Try again at `until`, or when the state of
    /// the site changes.
    WaitForBreaker {
        /// The latest instant for the next try.
        until: BootInstant,
        /// The [`OpenReason`] why the breaker opened.
        reason: OpenReason,
        /// Set if a probe is in flight.
        probing: bool,
    },
    /// Wait for a slot that is shared with other processes; the windows permit the request. Its
    /// position is reserved. With more earlier requests, the next confirmation may be later.
    WaitForSlot {
        /// The id of the reservation.
        id: u64,
        /// The number of requests with an earlier position that are about to take a slot.
        earlier: u32,
    },
    /// Do not send: the request is refused, and no budget is spent.
    Refused(Refusal),
}

/// A decision, and the change of the breaker that the passage of time caused before it.
#[derive(Clone, Debug, PartialEq)]
pub struct AdmissionResult {
    /// The [`AdmissionDecision`].
    pub entry: AdmissionDecision,
    /// The change of the breaker from open to half-open, if any.
    pub transition: Option<Box<Transition>>,
}

/// The permission to send one request. A permit must be settled or given back.
///
/// The serialised form for other processes omits the fields that only this process needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Permit {
    /// The id among the reservations and leases of the site.
    pub id: u64,
    /// The generation of the breaker that admitted the request.
    pub generation: u32,
    /// The instant at which the permit counts as used.
    #[serde(skip)]
    pub at: BootInstant,
    /// The same instant on the clock of the store, which identifies the use.
    pub stamp: BootInstant,
    /// Set for a probe of a half-open breaker.
    pub probe: bool,
    /// Set if the breaker was closed without failures, so that a successful response changes
    /// nothing.
    pub clean: bool,
    /// The [`Refusal`] that a breaker in shadow mode would have decided.
    #[serde(skip)]
    pub shadowed: Option<Box<Refusal>>,
}

/// A reservation for a later instant, which must be confirmed or given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservedSlot {
    /// The id of the reservation.
    pub id: u64,
    /// The instant of the reservation.
    pub at: BootInstant,
    /// The [`Window`] that requires the wait; `None` for the jitter of a probe.
    pub because: Option<Window>,
    /// Set if the reservation has the lease of a probe.
    pub probe: bool,
}

/// A refusal, and the instant until which it applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The instant at which the same request would be permitted, if no other request is earlier.
    pub until: BootInstant,
    /// The [`RefusalReason`] of the refusal.
    pub reason: RefusalReason,
}

/// The reason why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// A refusal by the breaker.
    Open {
        /// The [`OpenReason`] why the breaker opened.
        reason: OpenReason,
        /// Set if the breaker is half-open, and its probes are in flight.
        probing: bool,
    },
    /// A refusal by the limiter.
    Rate {
        /// The [`Window`] that requires the longest wait.
        window: Option<Window>,
    },
    /// A refusal because no slot was free before the deadline.
    Slots,
}

/// The validity of a permit before its request is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermitStanding {
    /// The request may be sent.
    Good,
    /// The request must not be sent, because a block began after the permit.
    Blocked(Refusal),
}
