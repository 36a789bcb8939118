//! The contract between the hub and a store.

use std::future::{Future, IntoFuture, Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::breaker::{OpenReason, State, Transition};
use docstokg_policy::classify::Outcome;
use docstokg_policy::host::Host;
use docstokg_policy::role::Role;
use docstokg_policy::site::{Ask, Entered, Pass, Report, Settled, Standing};
use docstokg_policy::time::BootInstant;

/// The name of a site: a host, several joined hosts, or a resolver.
pub type SiteKey = Arc<str>;

/// Which budget of a site.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BudgetKey {
    /// Of one host and role.
    Role(Host, Role),
    /// Of one host and kind of request.
    Kind(Host, Arc<str>),
    /// Common to all hosts of the site.
    Common,
    /// Of one service on the site.
    Service(Arc<str>),
}

/// The answer of a store: there already, or on its way. A store in memory neither allocates nor yields.
pub enum Answer<'a, T> {
    /// There.
    Ready(T),
    /// On its way.
    Later(Pin<Box<dyn Future<Output = T> + Send + 'a>>),
}

impl<'a, T: Send + 'a> IntoFuture for Answer<'a, T> {
    type Output = T;
    type IntoFuture = Arriving<'a, T>;

    fn into_future(self) -> Arriving<'a, T> {
        match self {
            Self::Ready(value) => Arriving::Ready(ready(value)),
            Self::Later(future) => Arriving::Later(future),
        }
    }
}

/// The future of an [`Answer`].
pub enum Arriving<'a, T> {
    /// There.
    Ready(Ready<T>),
    /// On its way.
    Later(Pin<Box<dyn Future<Output = T> + Send + 'a>>),
}

impl<T> Future for Arriving<'_, T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut std::task::Context<'_>) -> std::task::Poll<T> {
        match self.get_mut() {
            Self::Ready(value) => Pin::new(value).poll(context),
            Self::Later(future) => future.as_mut().poll(context),
        }
    }
}

/// A place for the state of sites.
pub trait StateStore: Send + Sync {
    /// Opens the state of a site. Two handles of one key see the same state.
    fn site(&self, key: &SiteKey) -> Arc<dyn SiteHandle>;
}

/// The state of one site. Every method is one atomic step at the instant it happens.
pub trait SiteHandle: Send + Sync {
    /// Names a budget: the index to charge it by.
    fn budget(&self, key: &BudgetKey) -> usize;

    /// Asks to send. See `Site::enter`.
    fn enter(&self, ask: &Ask<'_>) -> Answer<'_, Entered>;

    /// Asks again after a wait. See `Site::confirm`.
    fn confirm(&self, ask: &Ask<'_>, ticket: u64) -> Answer<'_, Entered>;

    /// Gives up a ticket, or a pass granted at `spent_at` that was not used. Never waits: may be called from `Drop`.
    /// Returns whether a probe's place came free.
    fn leave(&self, ask: &Ask<'_>, id: u64, spent_at: Option<BootInstant>) -> bool;

    /// Keeps the grants of a pass pending while its connection is dialled, for at most `longest`.
    fn hold(&self, ask: &Ask<'_>, pass: &Pass, longest: Duration);

    /// Notes that the connection of a held pass is up and its request leaves, unless the site was blocked meanwhile.
    fn sent(&self, ask: &Ask<'_>, pass: &Pass, longest: Duration) -> Standing;

    /// Spends what a pass still holds, now.
    fn stamp(&self, ask: &Ask<'_>, pass: &Pass);

    /// Takes in the headers of an answer: a probe's verdict.
    fn settle_headers(&self, ask: &Ask<'_>, pass: &Pass, outcome: Outcome) -> Settled;

    /// Takes in what an attempt came to, once.
    fn settle(&self, ask: &Ask<'_>, pass: &Pass, report: &Report) -> Settled;

    /// Blocks the site for `length` on an operator's word.
    fn block(&self, length: Duration, reason: &OpenReason) -> Option<Transition>;

    /// Closes the breaker on an operator's word.
    fn unblock(&self) -> Option<Transition>;

    /// Tells how the site stands.
    fn view(&self) -> SiteView;

    /// Tells whether the state may be forgotten: nothing in it matters `memory` after its last grant.
    fn is_idle(&self, memory: Duration) -> bool;
}

/// How a site stands, for people and events.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteView {
    /// The state of its breaker.
    pub state: State,
    /// Until when it is open, and why.
    pub open_until: Option<(BootInstant, OpenReason)>,
    /// Failures in a row.
    pub failures: u32,
    /// Probes out, by role.
    pub leases: [usize; 3],
    /// When this was read.
    pub now: BootInstant,
}
