//! The interface between the hub and a store.

use std::future::{Future, IntoFuture, Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use docstokg_policy::breaker::{BreakerState, OpenReason, Transition};
use docstokg_policy::classify::AttemptMeaning;
use docstokg_policy::host::Host;
use docstokg_policy::host_model::quotas::{QuotaEffect, QuotaStatement};
use docstokg_policy::role::Role;
use docstokg_policy::site::{
    AdmissionRequest, AdmissionResult, AttemptResult, BreakerCondition, BudgetCost, Permit,
    PermitStanding, RequestOperation, SettleEffect, Site, SiteOperation, SiteResult,
};
use docstokg_policy::time::BootInstant;

use crate::error::StoreError;

/// The name of a site: a host, `site:NAME` for joined hosts, `resolver:NAME` for a resolver.
pub type SiteKey = Arc<str>;

/// The name of a budget within its site.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BudgetKey {
    /// The budget of one [`Host`] and role.
    Role(Host, Role),
    /// The budget of one [`Host`] and kind of request.
    Kind(Host, Arc<str>),
    /// The budget of one [`Host`] for the crawl delay in its robots.txt.
    CrawlDelay(Host),
    /// The budget of all hosts of the site.
    Common,
    /// The budget of one service on the site.
    Service(Arc<str>),
}

impl std::fmt::Display for BudgetKey {
    /// Writes the name under which shared stores keep the budget.
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

/// A pending reply of a store.
pub type ReplyFuture<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

/// The reply of a store: ready or pending. A store in memory neither allocates nor yields.
///
/// The operation has begun when the store returns the reply. A dropped reply reverts nothing,
/// except the permit or reservation of an `enter` or `confirm`.
pub enum StoreReply<T> {
    /// A ready reply.
    Ready(Result<T, StoreError>),
    /// A pending reply.
    Later(ReplyFuture<T>),
}

impl<T> StoreReply<T> {
    /// Returns a ready reply.
    pub const fn now(value: T) -> Self {
        Self::Ready(Ok(value))
    }

    /// Returns the result if the reply is ready, otherwise a [`StoreError`].
    pub(crate) fn now_or(self, error: StoreError) -> Result<T, StoreError> {
        match self {
            Self::Ready(result) => result,
            Self::Later(_) => Err(error),
        }
    }

    /// Applies a function to the result, now or when the reply arrives.
    #[inline]
    pub(crate) fn then<U>(
        self,
        continuation: impl FnOnce(Result<T, StoreError>) -> Result<U, StoreError> + Send + 'static,
    ) -> StoreReply<U>
    where
        T: 'static,
    {
        match self {
            Self::Ready(result) => StoreReply::Ready(continuation(result)),
            Self::Later(coming) => {
                StoreReply::Later(Box::pin(async move { continuation(coming.await) }))
            }
        }
    }
}

impl<T: Send + Unpin> IntoFuture for StoreReply<T> {
    type Output = Result<T, StoreError>;
    type IntoFuture = PendingStoreReply<T>;

    fn into_future(self) -> PendingStoreReply<T> {
        match self {
            Self::Ready(value) => PendingStoreReply::Ready(ready(value)),
            Self::Later(future) => PendingStoreReply::Later(future),
        }
    }
}

/// The future of a [`StoreReply`].
pub enum PendingStoreReply<T> {
    /// A ready reply.
    Ready(Ready<Result<T, StoreError>>),
    /// A pending reply.
    Later(ReplyFuture<T>),
}

impl<T: Unpin> Future for PendingStoreReply<T> {
    type Output = Result<T, StoreError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Ready(value) => Pin::new(value).poll(context),
            Self::Later(future) => future.as_mut().poll(context),
        }
    }
}

/// A function that receives the start and the result of each heartbeat of a store.
pub type HeartbeatObserver = Arc<dyn Fn(BootInstant, Result<(), StoreError>) + Send + Sync>;

/// The availability of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Availability {
    /// Set if the store does not respond, so that this process continues with its share of the
    /// limits.
    pub unavailable: bool,
    /// The number of outages so far.
    pub outages: u64,
}

/// A store for the state of sites.
pub trait StateStore: Send + Sync {
    /// Opens the state of a site. Two handles of one [`SiteKey`] see the same state.
    fn site(&self, key: &SiteKey) -> Arc<dyn SiteHandle>;

    /// Lists the sites that have state.
    fn list(&self) -> StoreReply<Vec<SiteKey>>;

    /// Returns whether other processes see the same state. Their changes do not wake requests of
    /// this process, so waiting requests try again.
    fn is_shared(&self) -> bool;

    /// Returns whether replies take time. If so, only the head of a wait queue requests admission,
    /// because concurrent requests would each make a reservation.
    fn is_remote(&self) -> bool {
        false
    }

    /// Waits until every operation that has begun is complete.
    fn flush(&self) -> StoreReply<()>;

    /// Checks that the store responds and accepts writes.
    fn check(&self) -> StoreReply<()> {
        self.flush()
    }

    /// Begins to count the processes that share the state, if that needs heartbeats, and reports
    /// the result of each.
    fn watch_peers(&self, _observer: HeartbeatObserver) {}

    /// Returns the number of processes that share the state, this one included; `None` if not known
    /// yet.
    fn peers(&self) -> Option<u32> {
        Some(1)
    }

    /// Returns whether [`StateStore::peers`] has been stable for long enough that no process is
    /// missing.
    fn has_settled_peers(&self) -> bool {
        true
    }

    /// Returns the number of this process among those that share the state, from 0, as last
    /// counted.
    fn rank(&self) -> u32 {
        0
    }

    /// Returns the last known [`Availability`] of the store.
    fn availability(&self) -> Availability {
        Availability::default()
    }
}

/// The state of one site.
pub trait SiteHandle: Send + Sync {
    /// Returns the index of a budget, for costs through this handle.
    fn budget(&self, key: &BudgetKey) -> usize;

    /// Applies an operation in one atomic step, at the instant of its execution. See
    /// [`Site::apply`].
    fn apply(&self, operation: &SiteOperation<'_>) -> StoreReply<SiteResult>;

    /// Returns a copy of the state of the site.
    fn view(&self) -> StoreReply<SiteView>;

    /// Returns the [`OwnShare`] for a request with these costs while a shared store is unavailable;
    /// otherwise `None`.
    fn own_share(&self, _costs: &[BudgetCost]) -> Option<OwnShare> {
        None
    }
}

/// The state and the costs that decide about a request while a shared store is unavailable.
#[derive(Clone, Debug)]
pub struct OwnShare {
    /// The state of the site in the own store.
    pub view: SiteView,
    /// The costs of the request in the own store, with this process's share of the windows.
    pub costs: Vec<BudgetCost>,
}

/// The operations of [`SiteOperation`], each with its own result.
impl dyn SiteHandle + '_ {
    /// Requests admission.
    #[inline]
    pub fn enter(&self, ask: &AdmissionRequest) -> StoreReply<AdmissionResult> {
        self.apply_for(ask, RequestOperation::Enter { reservation: None })
    }

    /// Requests admission again after a wait, with the reservation of this id.
    pub fn confirm(&self, ask: &AdmissionRequest, id: u64) -> StoreReply<AdmissionResult> {
        let reservation = Some(id);
        self.apply_for(ask, RequestOperation::Enter { reservation })
    }

    /// Gives back a reservation, or a permit that was not used and whose cost was spent at
    /// `spent_at`. Returns whether the lease of a probe was released.
    pub fn leave(
        &self,
        ask: &AdmissionRequest,
        id: u64,
        spent_at: Option<BootInstant>,
    ) -> StoreReply<bool> {
        self.apply_for(ask, RequestOperation::Leave { id, spent_at })
    }

    /// Keeps a [`Permit`] pending while its connection is established, for at most `longest`.
    pub fn hold(
        &self,
        ask: &AdmissionRequest,
        permit: &Permit,
        longest: Duration,
    ) -> StoreReply<()> {
        let permit = permit.clone();
        self.apply_for(ask, RequestOperation::Hold { permit, longest })
    }

    /// Records that the connection of a pending permit is ready and its [`AdmissionRequest`] is
    /// about to be sent. Returns whether the site was blocked in the meantime.
    pub fn sent(
        &self,
        ask: &AdmissionRequest,
        permit: &Permit,
        longest: Duration,
    ) -> StoreReply<PermitStanding> {
        let permit = permit.clone();
        self.apply_for(ask, RequestOperation::Sent { permit, longest })
    }

    /// Spends the pending cost of a [`Permit`] now.
    pub fn stamp(&self, ask: &AdmissionRequest, permit: &Permit) -> StoreReply<()> {
        let permit = permit.clone();
        self.apply_for(ask, RequestOperation::Stamp { permit })
    }

    /// Settles a probe with the headers of its response.
    pub fn settle_headers(
        &self,
        ask: &AdmissionRequest,
        permit: &Permit,
        outcome: AttemptMeaning,
    ) -> StoreReply<SettleEffect> {
        let permit = permit.clone();
        self.apply_for(ask, RequestOperation::SettleHeaders { permit, outcome })
    }

    /// Records the quotas that the headers of a response declare.
    pub fn state_quotas(
        &self,
        ask: &AdmissionRequest,
        permit: &Permit,
        statement: &Arc<QuotaStatement>,
    ) -> StoreReply<QuotaEffect> {
        let (permit, statement) = (permit.clone(), Arc::clone(statement));
        self.apply_for(ask, RequestOperation::StateQuotas { permit, statement })
    }

    /// Records the [`AttemptResult`] of an attempt, once.
    pub fn settle(
        &self,
        ask: &AdmissionRequest,
        permit: &Permit,
        report: &AttemptResult,
    ) -> StoreReply<SettleEffect> {
        let (permit, report) = (permit.clone(), *report);
        self.apply_for(ask, RequestOperation::Settle { permit, report })
    }

    /// Renews the shared slots and probe leases of permits in use, and returns the
    /// [`BreakerCondition`].
    pub fn renew(&self, ids: &[u64], length: Duration) -> StoreReply<BreakerCondition> {
        let ids = ids.to_vec();
        self.apply_as(&SiteOperation::Renew { ids, length })
    }

    /// Blocks the site for `length` on an operator's request.
    pub fn block(&self, length: Duration, reason: &OpenReason) -> StoreReply<Option<Transition>> {
        let reason = reason.clone();
        self.apply_as(&SiteOperation::Block { length, reason })
    }

    /// Closes the breaker on an operator's request.
    pub fn unblock(&self) -> StoreReply<Option<Transition>> {
        self.apply_as(&SiteOperation::Unblock)
    }

    /// Drops the learned limits of the host. Returns whether any were known.
    pub fn forget_learned(&self) -> StoreReply<bool> {
        self.apply_as(&SiteOperation::ForgetLearned)
    }

    /// Drops the adaptive rates of the site. Returns whether any were set.
    pub fn forget_adaptation(&self) -> StoreReply<bool> {
        self.apply_as(&SiteOperation::ForgetAdaptation)
    }

    #[inline]
    fn apply_for<T>(&self, ask: &AdmissionRequest, operation: RequestOperation) -> StoreReply<T>
    where
        T: TryFrom<SiteResult> + Send + 'static,
    {
        self.apply_as(&SiteOperation::for_request(ask, operation))
    }

    /// Applies a [`SiteOperation`] and returns its own result.
    #[inline]
    fn apply_as<T>(&self, operation: &SiteOperation<'_>) -> StoreReply<T>
    where
        T: TryFrom<SiteResult> + Send + 'static,
    {
        self.apply(operation).then(|result| {
            T::try_from(result?).map_err(|_| StoreError::Unavailable {
                store: "the store".to_owned(),
                why: "it gave the result of another operation".to_owned(),
            })
        })
    }
}

/// A copy of the state of a site.
#[derive(Clone, Debug)]
pub struct SiteView {
    /// The state.
    pub site: Site,
    /// The names of its budgets, in their order.
    pub budgets: Vec<String>,
    /// The instant of the copy, on the clock of the store.
    pub now: BootInstant,
}

impl SiteView {
    /// Returns the [`BreakerState`].
    #[must_use]
    pub fn state(&self) -> BreakerState {
        self.site.breaker().state(self.now)
    }

    /// Returns the end and the [`OpenReason`] of the current open, if any.
    #[must_use]
    pub fn open_until(&self) -> Option<(BootInstant, &OpenReason)> {
        self.site.breaker().open_until(self.now)
    }

    /// Returns the number of failures in a row.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.site.breaker().failures()
    }

    /// Returns the number of probes in flight of each [`Role`].
    #[must_use]
    pub fn leases(&self) -> [usize; 3] {
        Role::ALL.map(|role| self.site.breaker().leases(role, self.now))
    }
}
