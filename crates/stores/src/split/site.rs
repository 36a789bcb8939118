//! The handle of a site in two stores.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::breaker::{Breaker, BreakerPolicy};
use docstokg_policy::role::Role;
use docstokg_policy::site::{
    AdmissionDecision, AdmissionRequest, AdmissionResult, LanePolicy, Permit, RequestOperation,
    SettleEffect, SiteOperation, SiteResult,
};
use docstokg_policy::time::BootInstant;
use parking_lot::Mutex;

use super::both;
use crate::handle::{BudgetKey, SiteHandle, SiteView, StoreReply};

pub(super) struct SplitSite(Arc<SplitHandles>);

impl SplitSite {
    pub(super) fn new(
        breakers: Arc<dyn SiteHandle>,
        limits: Arc<dyn SiteHandle>,
        never: BreakerPolicy,
    ) -> Self {
        Self(Arc::new(SplitHandles {
            breakers,
            limits,
            permits: Mutex::default(),
            never: Arc::new(never),
        }))
    }
}

struct SplitHandles {
    breakers: Arc<dyn SiteHandle>,
    limits: Arc<dyn SiteHandle>,
    /// The breaker store's [`Permit`] for each permit in use, by its id in the limit store.
    permits: Mutex<HashMap<u64, Permit>>,
    never: Arc<BreakerPolicy>,
}

/// A permit of the breaker store, which is given back unless the limit store permits the request,
/// too.
struct TentativePermit {
    parts: Arc<SplitHandles>,
    ask: AdmissionRequest,
    permit: Option<Permit>,
}

impl TentativePermit {
    /// Joins the permit of the breaker store with the [`AdmissionDecision`] of the limit store. The
    /// permit is kept only if the limit store permits the request, too.
    fn join(&mut self, by_limits: AdmissionDecision) -> AdmissionDecision {
        let (limits, permit) = match (by_limits, self.permit.take()) {
            (AdmissionDecision::Go(limits), Some(permit)) => (limits, permit),
            (other, permit) => {
                self.permit = permit;
                return other;
            }
        };
        let joined = Permit {
            generation: permit.generation,
            probe: permit.probe,
            clean: permit.clean && limits.clean,
            shadowed: permit.shadowed.clone(),
            ..limits
        };
        self.parts.permits.lock().insert(joined.id, permit);
        AdmissionDecision::Go(joined)
    }
}

impl Drop for TentativePermit {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            let _ =
                self.parts
                    .breakers
                    .leave(&SplitHandles::for_breaker(&self.ask), permit.id, None);
        }
    }
}

impl SplitHandles {
    fn for_breaker(ask: &AdmissionRequest) -> AdmissionRequest {
        let policy = LanePolicy {
            adaptive: None,
            // Only the limit store learns limits.
            learn: None,
            ..LanePolicy::clone(&ask.policy)
        };
        AdmissionRequest {
            policy: Arc::new(policy),
            costs: Arc::default(),
            jitter_sample: 0.0,
            ..ask.clone()
        }
    }

    fn for_limits(&self, ask: &AdmissionRequest) -> AdmissionRequest {
        let policy = LanePolicy {
            breaker: Arc::clone(&self.never),
            isolated: false,
            ..LanePolicy::clone(&ask.policy)
        };
        AdmissionRequest {
            policy: Arc::new(policy),
            ..ask.clone()
        }
    }

    /// Requests admission from the limit store after the decision of the breaker store.
    fn then_limits(
        self: &Arc<Self>,
        ask: &AdmissionRequest,
        reservation: Option<u64>,
        by_breaker: AdmissionResult,
    ) -> StoreReply<SiteResult> {
        let AdmissionResult { entry, transition } = by_breaker;
        let asked = self.for_limits(ask);
        let permit = match entry {
            AdmissionDecision::Go(permit) => permit,
            entry => {
                if let Some(id) = reservation {
                    let _ = self.limits.leave(&asked, id, None);
                }
                return StoreReply::now(AdmissionResult { entry, transition }.into());
            }
        };
        let mut tentative = TentativePermit {
            parts: Arc::clone(self),
            ask: ask.clone(),
            permit: Some(permit),
        };
        let answer = match reservation {
            None => self.limits.enter(&asked),
            Some(id) => self.limits.confirm(&asked, id),
        };
        answer.then(move |entered| {
            let entry = tentative.join(entered?.entry);
            Ok(AdmissionResult { entry, transition }.into())
        })
    }

    fn enter_both(
        self: &Arc<Self>,
        ask: &AdmissionRequest,
        reservation: Option<u64>,
    ) -> StoreReply<SiteResult> {
        match self.breakers.enter(&Self::for_breaker(ask)) {
            StoreReply::Ready(Ok(entered)) => self.then_limits(ask, reservation, entered),
            StoreReply::Ready(Err(error)) => StoreReply::Ready(Err(error)),
            StoreReply::Later(coming) => {
                let (parts, ask) = (Arc::clone(self), ask.clone());
                StoreReply::Later(Box::pin(async move {
                    let entered = coming.await?;
                    parts.then_limits(&ask, reservation, entered).await
                }))
            }
        }
    }

    /// Gives back the permits and reservations of both stores.
    fn leave(
        &self,
        ask: &AdmissionRequest,
        id: u64,
        in_limits: &RequestOperation,
    ) -> StoreReply<SiteResult> {
        let limits = self.apply_in_limits(ask, in_limits.clone());
        match self.permits.lock().remove(&id) {
            Some(permit) => both(
                self.breakers
                    .leave(&Self::for_breaker(ask), permit.id, None),
                limits,
                |freed, _| freed.into(),
            ),
            None => limits,
        }
    }

    /// Applies a [`RequestOperation`] of a request in the limit store.
    fn apply_in_limits(
        &self,
        ask: &AdmissionRequest,
        mut operation: RequestOperation,
    ) -> StoreReply<SiteResult> {
        if let Some(permit) = operation.permit_mut() {
            // The breaker of the limit store has one generation and no probes.
            (permit.generation, permit.probe, permit.shadowed) = (0, false, None);
        }
        let ask = self.for_limits(ask);
        (self.limits).apply(&SiteOperation::for_request(&ask, operation))
    }

    /// Applies a [`RequestOperation`] that follows a permit in the breaker store.
    fn apply_in_breakers(
        &self,
        ask: &AdmissionRequest,
        mut operation: RequestOperation,
    ) -> StoreReply<SiteResult> {
        let is_end = matches!(operation, RequestOperation::Settle { .. });
        if let Some(permit) = operation.permit_mut() {
            let mut permits = self.permits.lock();
            let own = if is_end {
                permits.remove(&permit.id)
            } else {
                permits.get(&permit.id).cloned()
            };
            if let Some(own) = own {
                *permit = own;
            }
        }
        let mut asked = Self::for_breaker(ask);
        if is_end {
            asked.jitter_sample = ask.jitter_sample;
        }
        (self.breakers).apply(&SiteOperation::for_request(&asked, operation))
    }

    fn apply_for_request(
        self: &Arc<Self>,
        ask: &AdmissionRequest,
        operation: &RequestOperation,
    ) -> StoreReply<SiteResult> {
        let mut in_limits = operation.clone();
        match operation {
            RequestOperation::Enter { reservation } => self.enter_both(ask, *reservation),
            RequestOperation::Leave { id, .. } => self.leave(ask, *id, operation),
            RequestOperation::Hold { .. }
            | RequestOperation::Stamp { .. }
            | RequestOperation::StateQuotas { .. } => self.apply_in_limits(ask, in_limits),
            RequestOperation::Sent { .. }
            | RequestOperation::SettleHeaders { .. }
            | RequestOperation::Settle { .. } => {
                if let RequestOperation::Settle { report, .. } = &mut in_limits {
                    report.retry_after = None;
                }
                both(
                    self.apply_in_breakers(ask, operation.clone()),
                    self.apply_in_limits(ask, in_limits),
                    with_what_was_learned,
                )
            }
        }
    }

    /// Renews leases in both stores.
    fn renew(&self, ids: &[u64], length: Duration) -> StoreReply<SiteResult> {
        let of_breaker = {
            let permits = self.permits.lock();
            let own = ids.iter().filter_map(|id| permits.get(id));
            own.map(|permit| permit.id).collect::<Vec<_>>()
        };
        both(
            self.breakers.renew(&of_breaker, length),
            self.limits.renew(ids, length),
            |condition, _| condition.into(),
        )
    }
}

impl SiteHandle for SplitSite {
    fn budget(&self, key: &BudgetKey) -> usize {
        self.0.limits.budget(key)
    }

    fn apply(&self, operation: &SiteOperation<'_>) -> StoreReply<SiteResult> {
        let (breakers, limits) = (&self.0.breakers, &self.0.limits);
        match operation {
            SiteOperation::Request(ask, operation) => self.0.apply_for_request(ask, operation),
            SiteOperation::Renew { ids, length } => self.0.renew(ids, *length),
            SiteOperation::Block { .. } => breakers.apply(operation),
            // The operation also ends the pause after refusals in the limit store.
            SiteOperation::Unblock => both(
                breakers.apply(operation),
                limits.apply(operation),
                |transition, _| transition,
            ),
            SiteOperation::ForgetLearned | SiteOperation::ForgetAdaptation => {
                limits.apply(operation)
            }
        }
    }

    fn view(&self) -> StoreReply<SiteView> {
        both(
            self.0.breakers.view(),
            self.0.limits.view(),
            |breakers, limits| {
                let (breaker, isolated) = breakers.site.breakers();
                let moved = |breaker: &Breaker| on_clock_of(breaker, breakers.now, limits.now);
                let isolated: Vec<(Role, Breaker)> = isolated
                    .iter()
                    .map(|(role, breaker)| (*role, moved(breaker)))
                    .collect();
                let mut site = limits.site;
                site.set_breakers(moved(breaker), isolated);
                SiteView {
                    site,
                    budgets: limits.budgets,
                    now: limits.now,
                }
            },
        )
    }
}

/// Joins the effects of a result on breaker and limits. For other operations, the result of the
/// breaker store is returned.
fn with_what_was_learned(breakers: SiteResult, limits: SiteResult) -> SiteResult {
    match (breakers, limits) {
        (SiteResult::Settled(breakers), SiteResult::Settled(limits)) => SettleEffect {
            adjusted: limits.adjusted,
            learned: limits.learned,
            calls_next: breakers.calls_next || limits.calls_next,
            ..breakers
        }
        .into(),
        (breakers, _) => breakers,
    }
}

/// Moves the instants of a [`Breaker`] to the clock of the other store, if the clocks differ.
fn on_clock_of(breaker: &Breaker, theirs: BootInstant, ours: BootInstant) -> Breaker {
    let (ahead, behind) = (theirs.since(ours), ours.since(theirs));
    let mut breaker = breaker.clone();
    if ahead.max(behind) > Duration::from_secs(1) {
        breaker.rebase(&|instant| {
            if instant >= theirs {
                ours + instant.since(theirs)
            } else {
                ours - theirs.since(instant)
            }
        });
    }
    breaker
}
