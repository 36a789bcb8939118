//! The handle of a site in the shared store, with its counterpart in the own store.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use docstokg_policy::breaker::OpenReason;
use docstokg_policy::site::{
    AdmissionDecision, AdmissionRequest, AdmissionResult, AttemptResult, BudgetCost, Permit,
    Refusal, RefusalReason, RequestOperation, SettleEffect, SiteOperation, SiteResult,
};
use docstokg_policy::time::BootInstant;
use parking_lot::Mutex;

use super::fill::FillCounts;
use super::watch::{StoreCheck, StoreWatch};
use super::{Fallback, LOCAL_ID};
use crate::error::StoreError;
use crate::handle::{BudgetKey, OwnShare, SiteHandle, SiteKey, SiteView, StateStore, StoreReply};
use crate::memory::MemorySite;

pub(super) struct FallbackSiteHandle(Arc<BothSites>);

/// The site in both stores.
pub(super) struct BothSites {
    shared: Arc<dyn SiteHandle>,
    store: Arc<dyn StateStore>,
    pub(super) own: Arc<MemorySite>,
    pub(super) watch: Arc<StoreWatch>,
    /// The index in the own store of each index in the shared one.
    indices: Mutex<HashMap<usize, usize>>,
    /// The [`FillCounts`] of each budget of the own store at the last switch.
    pub(super) filled: Mutex<HashMap<usize, FillCounts>>,
    key: SiteKey,
    /// Set if the own breaker is blocked because the shared one was.
    knows_block: AtomicBool,
}

impl BothSites {
    /// Converts an [`AdmissionRequest`] for the own store: its budgets, and this process's share of
    /// the windows.
    pub(super) fn own_ask(&self, ask: &AdmissionRequest, peers: u32) -> AdmissionRequest {
        AdmissionRequest {
            costs: self.own_costs(&ask.costs, peers).into(),
            ..ask.clone()
        }
    }

    fn own_costs(&self, costs: &[BudgetCost], peers: u32) -> Vec<BudgetCost> {
        let indices = self.indices.lock();
        let cost = |cost: &BudgetCost| {
            let windows = if peers > 1 {
                Arc::new(cost.windows.shared_by(peers))
            } else {
                Arc::clone(&cost.windows)
            };
            // A weight above the share takes the whole share.
            let weight = cost.weight.min(windows.largest_weight());
            BudgetCost {
                budget: indices.get(&cost.budget).copied().unwrap_or(0),
                weight,
                windows,
                slots: cost.slots,
            }
        };
        costs.iter().map(cost).collect()
    }

    /// Decides on an [`AdmissionRequest`] without the shared store.
    fn enter_own(
        &self,
        ask: &AdmissionRequest,
        reservation: Option<u64>,
    ) -> StoreReply<SiteResult> {
        if let Some(entered) = self.await_turn(ask, reservation) {
            return StoreReply::now(entered.into());
        }
        let mut own = self.own_ask(ask, self.watch.peers());
        let filled_until = self.fill(ask, &own);
        // Full windows are a precaution: they refuse no request that could wait until they end.
        own.latest = own.latest.max(filled_until.min(own.deadline));
        let reservation = reservation.filter(|id| *id >= LOCAL_ID);
        self.apply_own(&own, RequestOperation::Enter { reservation })
    }

    /// Applies a [`RequestOperation`] of a request to the own store.
    fn apply_own(
        &self,
        own: &AdmissionRequest,
        operation: RequestOperation,
    ) -> StoreReply<SiteResult> {
        self.own.apply(&SiteOperation::for_request(own, operation))
    }

    /// Records a permit or a block of the shared store, for the time when it is unavailable.
    fn note(&self, ask: &AdmissionRequest, entered: &AdmissionResult) {
        match &entered.entry {
            AdmissionDecision::Go(_) => {
                for cost in self.own_costs(&ask.costs, 1) {
                    self.own.fill(cost.budget, &cost.windows, cost.weight);
                }
                if self.knows_block.swap(false, Ordering::AcqRel) {
                    let _ = self.own.apply(&SiteOperation::Unblock);
                    self.watch.forget_block(&self.key);
                }
            }
            AdmissionDecision::Refused(Refusal {
                until,
                reason:
                    RefusalReason::Open {
                        reason,
                        probing: false,
                    },
            })
            | AdmissionDecision::WaitForBreaker {
                until,
                reason,
                probing: false,
            } => self.note_block(*until, reason),
            _ => {}
        }
    }

    /// Records a Retry-After that the shared store has not received.
    fn note_missed_block(&self, report: &AttemptResult, settled: &StoreReply<SiteResult>) {
        if report.retry_after.is_some()
            && let StoreReply::Ready(Ok(SiteResult::Settled(SettleEffect {
                open_until: Some(until),
                ..
            }))) = settled
        {
            self.watch
                .note_block(&self.key, &self.shared, *until, &OpenReason::RetryAfter);
        }
    }

    /// Records the block that a settled result began, for the time when the shared store is
    /// unavailable.
    fn note_open(&self, settled: &SettleEffect) {
        let Some(until) = settled.open_until else {
            return;
        };
        let transition = settled.transition.as_ref();
        let reason = transition.and_then(|transition| transition.reason.as_ref());
        self.note_block(until, reason.unwrap_or(&OpenReason::RetryAfter));
    }

    /// Settles in the own store.
    fn settle_own(
        &self,
        own: &AdmissionRequest,
        permit: Permit,
        report: AttemptResult,
    ) -> StoreReply<SiteResult> {
        let settled = self.apply_own(own, RequestOperation::Settle { permit, report });
        self.note_missed_block(&report, &settled);
        settled
    }

    /// Settles in the shared store. If the store does not receive a failure, the failure still
    /// counts in this process.
    fn settle_shared(
        self: &Arc<Self>,
        ask: &AdmissionRequest,
        permit: &Permit,
        report: &AttemptResult,
    ) -> StoreReply<SiteResult> {
        let (own, site) = (self.own_ask(ask, 1), Arc::clone(self));
        let (unheard, report) = (permit.clone(), *report);
        let on_answer = move |result: Result<SiteResult, StoreError>| match result {
            Ok(result) => {
                if let SiteResult::Settled(settled) = &result {
                    site.note_open(settled);
                }
                Ok(result)
            }
            Err(error) => {
                site.watch.lose(&error, &*site.store);
                let permit = Permit {
                    generation: site.own.generation(),
                    probe: false,
                    ..unheard
                };
                site.settle_own(&own, permit, report).now_or(error)
            }
        };
        let permit = permit.clone();
        let settle = RequestOperation::Settle { permit, report };
        (self.shared.apply(&SiteOperation::for_request(ask, settle))).then(on_answer)
    }

    fn note_block(&self, until: BootInstant, reason: &OpenReason) {
        self.knows_block.store(true, Ordering::Release);
        self.watch
            .note_block(&self.key, &self.shared, until, reason);
        let _ = self.own.apply(&SiteOperation::Block {
            length: until.since(self.watch.clock.boot()),
            reason: reason.clone(),
        });
    }

    /// Returns the result of the shared store, or that of the own store if the shared one failed.
    fn resolve(
        &self,
        ask: &AdmissionRequest,
        result: Result<SiteResult, StoreError>,
        reservation: Option<u64>,
    ) -> Result<SiteResult, StoreError> {
        match result {
            Ok(result) => {
                if let SiteResult::Entered(entered) = &result {
                    self.note(ask, entered);
                }
                Ok(result)
            }
            Err(error) => {
                self.watch.lose(&error, &*self.store);
                self.enter_own(ask, reservation).now_or(error)
            }
        }
    }

    /// Requests admission from the shared store.
    fn enter_shared(
        self: &Arc<Self>,
        ask: AdmissionRequest,
        reservation: Option<u64>,
    ) -> StoreReply<SiteResult> {
        if let Some(id) = reservation.filter(|id| *id >= LOCAL_ID) {
            // The shared store decides again, so the reservation in the own store is given back.
            let own = self.own_ask(&ask, self.watch.peers());
            let _ = self.apply_own(&own, RequestOperation::Leave { id, spent_at: None });
        }
        let enter = RequestOperation::Enter {
            reservation: reservation.filter(|id| *id < LOCAL_ID),
        };
        let answer = self.shared.apply(&SiteOperation::for_request(&ask, enter));
        let site = Arc::clone(self);
        answer.then(move |result| site.resolve(&ask, result, reservation))
    }

    /// Requests admission from the store that decides now.
    fn enter(
        self: &Arc<Self>,
        ask: AdmissionRequest,
        reservation: Option<u64>,
    ) -> StoreReply<SiteResult> {
        match self.watch.find(&*self.store) {
            StoreCheck::Present if !self.is_too_early(&ask) => self.enter_shared(ask, reservation),
            StoreCheck::Present | StoreCheck::Lost => self.enter_own(&ask, reservation),
            StoreCheck::Unknown => match self.store.check() {
                StoreReply::Ready(result) => {
                    self.watch.note_check(&result);
                    self.enter_after_check(ask, reservation)
                }
                StoreReply::Later(coming) => {
                    let site = Arc::clone(self);
                    StoreReply::Later(Box::pin(async move {
                        site.watch.note_check(&coming.await);
                        site.enter_after_check(ask, reservation).await
                    }))
                }
            },
        }
    }

    /// Requests admission from the store that decides after a check.
    fn enter_after_check(
        self: &Arc<Self>,
        ask: AdmissionRequest,
        reservation: Option<u64>,
    ) -> StoreReply<SiteResult> {
        if self.watch.was_lost() || self.is_too_early(&ask) {
            self.enter_own(&ask, reservation)
        } else {
            self.enter_shared(ask, reservation)
        }
    }

    /// Renews leases in the store that gave them.
    fn renew(&self, ids: &[u64], length: Duration) -> StoreReply<SiteResult> {
        let (own, shared) = ids.iter().partition(|id| **id >= LOCAL_ID);
        let condition = self.own.apply(&SiteOperation::Renew { ids: own, length });
        if self.watch.find(&*self.store) == StoreCheck::Present {
            (self.shared).apply(&SiteOperation::Renew {
                ids: shared,
                length,
            })
        } else {
            condition
        }
    }
}

impl FallbackSiteHandle {
    pub(super) fn new(store: &Fallback, key: &SiteKey) -> Self {
        Self(Arc::new(BothSites {
            shared: store.shared.site(key),
            store: Arc::clone(&store.shared),
            own: store.own.memory_site(key),
            watch: Arc::clone(&store.watch),
            indices: Mutex::default(),
            filled: Mutex::default(),
            key: Arc::clone(key),
            knows_block: AtomicBool::new(false),
        }))
    }
}

impl SiteHandle for FallbackSiteHandle {
    fn budget(&self, key: &BudgetKey) -> usize {
        let (shared, own) = (self.0.shared.budget(key), self.0.own.budget(key));
        self.0.indices.lock().insert(shared, own);
        shared
    }

    /// Applies a [`SiteOperation`] in the shared store. If it follows a permit or reservation of
    /// the own store, applies it there.
    fn apply(&self, operation: &SiteOperation<'_>) -> StoreReply<SiteResult> {
        let site = &self.0;
        match operation {
            SiteOperation::Request(ask, RequestOperation::Enter { reservation }) => {
                site.enter(AdmissionRequest::clone(ask), *reservation)
            }
            SiteOperation::Request(ask, operation) if operation.id() >= Some(LOCAL_ID) => {
                let own = site.own_ask(ask, site.watch.peers());
                match operation {
                    RequestOperation::Settle { permit, report } => {
                        site.settle_own(&own, permit.clone(), *report)
                    }
                    _ => site.apply_own(&own, operation.clone()),
                }
            }
            SiteOperation::Request(ask, RequestOperation::Settle { permit, report }) => {
                site.settle_shared(ask, permit, report)
            }
            SiteOperation::Renew { ids, length } => site.renew(ids, *length),
            SiteOperation::ForgetLearned | SiteOperation::ForgetAdaptation => {
                // Limits that this process learned during the outage are dropped as well.
                let _ = site.own.apply(operation);
                site.shared.apply(operation)
            }
            SiteOperation::Request(..) | SiteOperation::Block { .. } | SiteOperation::Unblock => {
                site.shared.apply(operation)
            }
        }
    }

    fn view(&self) -> StoreReply<SiteView> {
        self.0.shared.view()
    }

    fn own_share(&self, costs: &[BudgetCost]) -> Option<OwnShare> {
        if !self.0.watch.was_lost() {
            return None;
        }
        let StoreReply::Ready(Ok(view)) = self.0.own.view() else {
            return None;
        };
        let costs = self.0.own_costs(costs, self.0.watch.peers());
        Some(OwnShare { view, costs })
    }
}
