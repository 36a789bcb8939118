//! The interface between the hub and a store.

use std::future::{Future, IntoFuture, Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use docstokg_policy::breaker::{OpenReason, State, Transition};
use docstokg_policy::classify::Outcome;
use docstokg_policy::host::Host;
use docstokg_policy::quota::{Heard, Statement};
use docstokg_policy::role::Role;
use docstokg_policy::site::{
    Ask, Condition, Cost, Entered, Permit, Report, Settled, Site, Standing,
};
use docstokg_policy::time::BootInstant;

use crate::error::StoreError;

/// The name of a site: a host, `site:NAME` for joined hosts, `resolver:NAME` for a resolver.
pub type SiteKey = Arc<str>;

/// The name of a budget within its site.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BudgetKey {
    /// Of one host and role.
    Role(Host, Role),
    /// Of one host and kind of request.
    Kind(Host, Arc<str>),
    /// Of one host, for the crawl delay that its robots.txt states.
    CrawlDelay(Host),
    /// Common to all hosts of the site.
    Common,
    /// Of one service on the site.
    Service(Arc<str>),
}

impl std::fmt::Display for BudgetKey {
    /// Writes the name under which stores that are shared keep the budget.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Role(host, role) => write!(f, "{host} {role}"),
            Self::Kind(host, kind) => write!(f, "{host} kind {kind}"),
            Self::CrawlDelay(host) => write!(f, "{host} crawl-delay"),
            Self::Common => f.write_str("common"),
            Self::Service(service) => write!(f, "service {service}"),
        }
    }
}

/// An answer on its way.
pub type Coming<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

/// The answer of a store: ready, or on its way. A store in memory neither allocates nor yields.
///
/// The operation has begun when the store returns this. Dropping it undoes nothing, with one
/// exception: the store takes back the permit or reservation of an `enter` or `confirm` whose
/// answer was dropped.
pub enum Answer<T> {
    /// There.
    Ready(Result<T, StoreError>),
    /// On its way.
    Later(Coming<T>),
}

impl<T> Answer<T> {
    /// An answer that is there.
    pub const fn now(value: T) -> Self {
        Self::Ready(Ok(value))
    }
}

impl<T: Send + Unpin> IntoFuture for Answer<T> {
    type Output = Result<T, StoreError>;
    type IntoFuture = Arriving<T>;

    fn into_future(self) -> Arriving<T> {
        match self {
            Self::Ready(value) => Arriving::Ready(ready(value)),
            Self::Later(future) => Arriving::Later(future),
        }
    }
}

/// The future of an [`Answer`].
pub enum Arriving<T> {
    /// There.
    Ready(Ready<Result<T, StoreError>>),
    /// On its way.
    Later(Coming<T>),
}

impl<T: Unpin> Future for Arriving<T> {
    type Output = Result<T, StoreError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Ready(value) => Pin::new(value).poll(context),
            Self::Later(future) => future.as_mut().poll(context),
        }
    }
}

/// Receives the result of each heartbeat of a store, and when it began.
pub type HeartbeatObserver = Arc<dyn Fn(BootInstant, Result<(), StoreError>) + Send + Sync>;

/// Whether a store answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Availability {
    /// It does not answer at present: this process continues with its share of the limits.
    pub unavailable: bool,
    /// How often it has become unavailable.
    pub outages: u64,
}

/// A store for the state of sites.
pub trait StateStore: Send + Sync {
    /// Opens the state of a site. Two handles of one key see the same state.
    fn site(&self, key: &SiteKey) -> Arc<dyn SiteHandle>;

    /// Lists the sites that have state.
    fn list(&self) -> Answer<Vec<SiteKey>>;

    /// Returns whether other processes see the same state. Their changes wake no request of this
    /// process: waiting requests ask again.
    fn is_shared(&self) -> bool;

    /// Returns whether answers take time. Then only the head of a wait queue asks: of many requests
    /// that ask at once, each would hold a reservation of its own.
    fn is_remote(&self) -> bool {
        false
    }

    /// Waits until every operation that has begun is complete.
    fn flush(&self) -> Answer<()>;

    /// Checks that the store answers and accepts writes.
    fn check(&self) -> Answer<()> {
        self.flush()
    }

    /// Begins to count the processes that share the state, where that takes heartbeats, and reports
    /// the result of each.
    fn watch_peers(&self, _observer: HeartbeatObserver) {}

    /// Returns how many processes share the state, this one included; `None` where that is not
    /// known yet.
    fn peers(&self) -> Option<u32> {
        Some(1)
    }

    /// Returns whether that count has been stable long enough that no process is missing from it.
    fn has_settled_peers(&self) -> bool {
        true
    }

    /// Returns the number of this process among those that share the state, from 0, as last
    /// counted.
    fn rank(&self) -> u32 {
        0
    }

    /// Returns whether the store answers, as last noticed.
    fn availability(&self) -> Availability {
        Availability::default()
    }
}

/// The state of one site. Every method is one atomic step at the instant it happens.
pub trait SiteHandle: Send + Sync {
    /// Returns the index of a budget, for costs through this handle.
    fn budget(&self, key: &BudgetKey) -> usize;

    /// Asks to send. See `Site::enter`.
    fn enter(&self, ask: &Ask) -> Answer<Entered>;

    /// Asks again after a wait. See `Site::confirm`.
    fn confirm(&self, ask: &Ask, id: u64) -> Answer<Entered>;

    /// Gives up a reservation, or a permit of `spent_at` that was not used. Returns whether the
    /// lease of a probe was released.
    fn leave(&self, ask: &Ask, id: u64, spent_at: Option<BootInstant>) -> Answer<bool>;

    /// Keeps a permit pending while its connection is dialled, for at most `longest`.
    fn hold(&self, ask: &Ask, permit: &Permit, longest: Duration) -> Answer<()>;

    /// Notes that the connection of a held permit is up and its request is about to be sent, unless
    /// the site was blocked meanwhile.
    fn sent(&self, ask: &Ask, permit: &Permit, longest: Duration) -> Answer<Standing>;

    /// Spends now what a permit still holds.
    fn stamp(&self, ask: &Ask, permit: &Permit) -> Answer<()>;

    /// Records the headers of an answer: the result of a probe.
    fn settle_headers(&self, ask: &Ask, permit: &Permit, outcome: Outcome) -> Answer<Settled>;

    /// Records the quotas that the headers of an answer state.
    fn state_quotas(&self, ask: &Ask, permit: &Permit, stated: &Statement) -> Answer<Heard>;

    /// Records the result of an attempt, once.
    fn settle(&self, ask: &Ask, permit: &Permit, report: &Report) -> Answer<Settled>;

    /// Prolongs the shared slots and probe leases of permits in use, and returns the condition of
    /// the breakers: a process's heartbeat, which reports what other processes and operators did.
    fn renew(&self, ids: &[u64], length: Duration) -> Answer<Condition>;

    /// Blocks the site for `length` on an operator's request.
    fn block(&self, length: Duration, reason: &OpenReason) -> Answer<Option<Transition>>;

    /// Closes the breaker on an operator's request.
    fn unblock(&self) -> Answer<Option<Transition>>;

    /// Forgets what was learned of the host's limits. Returns whether there was anything.
    fn forget_learned(&self) -> Answer<bool>;

    /// Forgets the adaptive rates of the site: the run that found them has ended. Returns whether
    /// there were any.
    fn forget_adaptation(&self) -> Answer<bool>;

    /// Returns a copy of the state of the site.
    fn view(&self) -> Answer<SiteView>;

    /// Returns what counts for a question with these costs while a shared store is lost: the state of
    /// the site in the own store, and the costs there, this process's share of the windows. `None`
    /// unless it is lost.
    fn own_share(&self, _costs: &[Cost]) -> Option<OwnShare> {
        None
    }
}

/// What counts for a question while a shared store is lost.
#[derive(Clone, Debug)]
pub struct OwnShare {
    /// The state of the site in the own store.
    pub view: SiteView,
    /// The costs of the question there.
    pub costs: Vec<Cost>,
}

/// Returns whether a result changes nothing: a good answer to a request that found a healthy
/// breaker. Then a remote store need not be asked.
pub(crate) fn changes_nothing(ask: &Ask, permit: &Permit, report: &Report) -> bool {
    let good = matches!(report.outcome, Outcome::Success | Outcome::Neutral);
    good && permit.clean
        && ask.policy.adaptive.is_none()
        && ask.costs.iter().all(|cost| cost.slots.is_none())
}

/// Which of the two questions a request asks.
#[derive(Clone, Copy)]
pub(crate) enum EnterOrConfirm {
    /// To send, for the first time.
    Enter,
    /// To send after a wait, with the reservation of this id.
    Confirm(u64),
}

/// A copy of the state of a site.
#[derive(Clone, Debug)]
pub struct SiteView {
    /// The state.
    pub site: Site,
    /// The names of its budgets, in their order.
    pub budgets: Vec<String>,
    /// When this was read, on the clock of the store.
    pub now: BootInstant,
}

impl SiteView {
    /// Returns the state of the breaker.
    #[must_use]
    pub fn state(&self) -> State {
        self.site.breaker().state(self.now)
    }

    /// Returns until when the breaker is open, and why.
    #[must_use]
    pub fn open_until(&self) -> Option<(BootInstant, &OpenReason)> {
        self.site.breaker().open_until(self.now)
    }

    /// Returns the failures in a row.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.site.breaker().failures()
    }

    /// Returns the probes in flight, by role.
    #[must_use]
    pub fn leases(&self) -> [usize; 3] {
        Role::ALL.map(|role| self.site.breaker().leases(role, self.now))
    }
}
