//! What is asked of a site, and what it answers.

use std::num::NonZeroU32;
use std::time::Duration;

use super::{AdaptivePolicy, BreakerPolicy, OpenReason, Role, Transition, Window, Windows};
use crate::time::BootInstant;

/// One budget that a request charges.
#[derive(Clone, Debug)]
pub struct Cost {
    /// Which budget of the site.
    pub budget: usize,
    /// How much of it; zero takes part in nothing.
    pub weight: u32,
    /// The windows as this process applies them.
    pub windows: std::sync::Arc<Windows>,
    /// How many requests may run at once over all processes, where that is shared through the
    /// store.
    pub slots: Option<NonZeroU32>,
}

/// What to do while the breaker is open or a probe is out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Be refused at once, at no cost.
    Refuse,
    /// Wait within the deadline: retries, and items of a bulk run.
    Wait,
}

/// Where a request stands in the queue of its own process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueuePosition {
    /// First: it may go, or reserve a place.
    Head,
    /// Behind so many weights that have no reservation yet: it is told when its turn comes at the
    /// earliest.
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

/// A question to a site.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    /// The role, for the trial budgets.
    pub role: Role,
    /// Whether the role has a breaker of its own.
    pub isolated: bool,
    /// What is charged, all or none.
    pub costs: &'a [Cost],
    /// The policy of the breaker that is obeyed.
    pub breaker: &'a BreakerPolicy,
    /// How the rate adapts to throttling, where it does.
    pub adaptive: Option<&'a AdaptivePolicy>,
    /// The latest instant that the caller waits for on account of the rate.
    pub latest: BootInstant,
    /// The latest instant that the caller waits for at all.
    pub deadline: BootInstant,
    /// What to do while the breaker is open.
    pub patience: Patience,
    /// Its place in the queue of its own process.
    pub queue_position: QueuePosition,
    /// A random share in 0..1, for the jitter of probes.
    pub jitter_sample: f64,
    /// How long a probe's place, or a shared slot, is held without a sign of life.
    pub lease: Duration,
    /// Since when the caller has been asking, for those who want to know how long it waited.
    pub asked: BootInstant,
}

impl<'a> Ask<'a> {
    /// Asks for metadata without any patience: go now, or be refused.
    #[must_use]
    pub fn at_once(costs: &'a [Cost], breaker: &'a BreakerPolicy) -> Self {
        Self {
            role: Role::Metadata,
            isolated: false,
            costs,
            breaker,
            adaptive: None,
            latest: BootInstant::ZERO,
            deadline: BootInstant::FAR,
            patience: Patience::Refuse,
            queue_position: QueuePosition::Head,
            jitter_sample: 0.0,
            lease: Duration::from_secs(20),
            asked: BootInstant::FAR,
        }
    }
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// Send now.
    Go(Permit),
    /// A place is reserved: sleep until its instant, then confirm.
    Wait(Reserved),
    /// Not the head of its queue: wait for one's turn, which comes no earlier than this.
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
        /// A probe is out.
        probing: bool,
    },
    /// The windows have room, but every slot that is shared with other processes is taken. The
    /// place is reserved: confirm it again in a moment, the later the more requests come first.
    WaitForSlot {
        /// The name of the reservation.
        id: u64,
        /// How many requests with an earlier position are about to take a slot.
        earlier: u32,
    },
    /// No; nothing was spent.
    Refused(Refusal),
}

/// An answer, and the change of state that time brought about before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Entered {
    /// The answer.
    pub entry: Entry,
    /// Open has become half-open.
    pub transition: Option<Box<Transition>>,
}

/// Leave to send one request. Must be settled or left.
#[derive(Clone, Debug, PartialEq)]
pub struct Permit {
    /// Its name among the reservations and leases of the site.
    pub id: u64,
    /// The era of the breaker that let it through.
    pub generation: u32,
    /// The instant it was granted, and counts as used.
    pub at: BootInstant,
    /// The same instant on the clock of the store, by which its grants are found again.
    pub stamp: BootInstant,
    /// Whether it is a probe of a half-open breaker.
    pub probe: bool,
    /// The breaker was closed and without failures: a good answer changes nothing.
    pub clean: bool,
    /// What a breaker in shadow mode would have said.
    pub shadowed: Option<Box<Refusal>>,
}

/// A reserved place. Must be confirmed or left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// Its name.
    pub id: u64,
    /// When it is due.
    pub at: BootInstant,
    /// The window that asks for the wait; `None` when it is a probe's jitter.
    pub because: Option<Window>,
    /// Whether it holds a probe's place.
    pub probe: bool,
}

/// A no that knows when it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The instant at which the same question with no patience at all would be granted, if nobody
    /// else acted.
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
        /// It is half-open and its probes are out.
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

/// Whether a granted request may still be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It may.
    Good,
    /// A block began after it was granted.
    Blocked(Refusal),
}
