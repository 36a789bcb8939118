//! What the hub asks of a store.

use std::future::{Future, IntoFuture, Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use docstokg_policy::breaker::{OpenReason, State, Transition};
use docstokg_policy::classify::Outcome;
use docstokg_policy::host::Host;
use docstokg_policy::role::Role;
use docstokg_policy::site::{Ask, Condition, Entered, Permit, Report, Settled, Site, Standing};
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

/// The answer of a store: there already, or on its way. A store in memory neither allocates nor
/// yields.
///
/// The operation has begun when the store hands this out. Dropping it takes nothing back, with one
/// exception: what an `enter` or `confirm` was granted that nobody waits for any more is given back
/// by the store.
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

/// Is told what each heartbeat of a store came to, and when it began.
pub type Heard = Arc<dyn Fn(BootInstant, Result<(), StoreError>) + Send + Sync>;

/// Whether a store answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Availability {
    /// It does not answer at present: this process goes on with its share of the limits.
    pub unavailable: bool,
    /// How often it has become unavailable.
    pub outages: u64,
}

/// A place for the state of sites.
pub trait StateStore: Send + Sync {
    /// Opens the state of a site. Two handles of one key see the same state.
    fn site(&self, key: &SiteKey) -> Arc<dyn SiteHandle>;

    /// Lists the sites that have state.
    fn list(&self) -> Answer<Vec<SiteKey>>;

    /// Tells whether other processes see the same state. Their changes call nobody here: whoever
    /// waits asks again.
    fn is_shared(&self) -> bool;

    /// Tells whether answers take their time. Then only the head of a line asks: of many who ask at
    /// once, each would hold a place of its own.
    fn is_remote(&self) -> bool {
        false
    }

    /// Waits until everything that was begun is done.
    fn flush(&self) -> Answer<()>;

    /// Tells whether the store answers and takes what is written.
    fn check(&self) -> Answer<()> {
        self.flush()
    }

    /// Returns how many processes share the state, this one included; `None` where that is not
    /// known yet.
    fn peers(&self) -> Option<u32> {
        Some(1)
    }

    /// Tells whether that count has stood long enough that no process is missing in it.
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

    /// Begins to count the processes that share the state, where that takes watching, and tells
    /// what came of each look.
    fn watch_peers(&self, _heard: Heard) {}
}

/// The state of one site. Every method is one atomic step at the instant it happens.
pub trait SiteHandle: Send + Sync {
    /// Names a budget: the index to charge it by, through this handle.
    fn budget(&self, key: &BudgetKey) -> usize;

    /// Asks to send. See `Site::enter`.
    fn enter(&self, ask: &Ask<'_>) -> Answer<Entered>;

    /// Asks again after a wait. See `Site::confirm`.
    fn confirm(&self, ask: &Ask<'_>, id: u64) -> Answer<Entered>;

    /// Gives up a reservation, or a pass granted at `spent_at` that was not used. Says whether a
    /// probe's place came free.
    fn leave(&self, ask: &Ask<'_>, id: u64, spent_at: Option<BootInstant>) -> Answer<bool>;

    /// Keeps the grants of a pass pending while its connection is dialled, for at most `longest`.
    fn hold(&self, ask: &Ask<'_>, permit: &Permit, longest: Duration) -> Answer<()>;

    /// Notes that the connection of a held pass is up and its request leaves, unless the site was
    /// blocked meanwhile.
    fn sent(&self, ask: &Ask<'_>, permit: &Permit, longest: Duration) -> Answer<Standing>;

    /// Spends what a pass still holds, now.
    fn stamp(&self, ask: &Ask<'_>, permit: &Permit) -> Answer<()>;

    /// Takes in the headers of an answer: a probe's verdict.
    fn settle_headers(&self, ask: &Ask<'_>, permit: &Permit, outcome: Outcome) -> Answer<Settled>;

    /// Takes in what an attempt came to, once.
    fn settle(&self, ask: &Ask<'_>, permit: &Permit, report: &Report) -> Answer<Settled>;

    /// Prolongs the shared slots and probes' places of passes that are still out, and says how the
    /// breaker stands: a process's heartbeat, which brings back what other processes and operators
    /// did.
    fn renew(&self, ids: &[u64], length: Duration) -> Answer<Condition>;

    /// Blocks the site for `length` on an operator's word.
    fn block(&self, length: Duration, reason: &OpenReason) -> Answer<Option<Transition>>;

    /// Closes the breaker on an operator's word.
    fn unblock(&self) -> Answer<Option<Transition>>;

    /// Tells how the site stands.
    fn view(&self) -> Answer<SiteView>;
}

/// Tells whether a good answer to a request that found a healthy breaker leaves everything as it
/// is: then a store that lies elsewhere need not be told.
pub(crate) fn changes_nothing(ask: &Ask<'_>, permit: &Permit, report: &Report) -> bool {
    let good = matches!(report.outcome, Outcome::Success | Outcome::Neutral);
    good && permit.clean
        && ask.adaptive.is_none()
        && ask.costs.iter().all(|cost| cost.slots.is_none())
}

/// How a site stands: a copy of its state.
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

    /// Returns the probes out, by role.
    #[must_use]
    pub fn leases(&self) -> [usize; 3] {
        Role::ALL.map(|role| self.site.breaker().leases(role, self.now))
    }
}
