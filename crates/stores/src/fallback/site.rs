//! One site of the shared store, with its counterpart in the own store.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use docstokg_policy::breaker::{OpenReason, Transition};
use docstokg_policy::classify::Outcome;
use docstokg_policy::quota::{Heard, Statement};
use docstokg_policy::site::{
    Ask, Condition, Cost, Entered, Entry, Permit, Refusal, RefusalReason, Report, Settled, Standing,
};
use docstokg_policy::time::BootInstant;
use parking_lot::Mutex;

use super::fill::Filled;
use super::watch::{Found, Watch};
use super::{Fallback, LOCAL_ID};
use crate::error::StoreError;
use crate::handle::{
    Answer, BudgetKey, EnterOrConfirm, OwnShare, SiteHandle, SiteKey, SiteView, StateStore,
};
use crate::memory::MemorySite;

pub(super) struct FallbackSite(Arc<Site>);

/// The site in both stores.
pub(super) struct Site {
    shared: Arc<dyn SiteHandle>,
    store: Arc<dyn StateStore>,
    pub(super) own: Arc<MemorySite>,
    pub(super) watch: Arc<Watch>,
    /// The index in the own store of each index in the shared one.
    indices: Mutex<HashMap<usize, usize>>,
    /// How the budgets of the own store were filled at the last switch of stores.
    pub(super) filled: Mutex<HashMap<usize, Filled>>,
    key: SiteKey,
    /// Whether the own breaker is blocked because the shared one was.
    knows_block: AtomicBool,
}

impl Site {
    /// Converts a question for the own store: its budgets, and this process's share of the windows.
    pub(super) fn own_ask(&self, ask: &Ask, peers: u32) -> Ask {
        Ask {
            costs: self.own_costs(&ask.costs, peers).into(),
            ..ask.clone()
        }
    }

    fn own_costs(&self, costs: &[Cost], peers: u32) -> Vec<Cost> {
        let indices = self.indices.lock();
        let cost = |cost: &Cost| {
            let windows = if peers > 1 {
                Arc::new(cost.windows.shared_by(peers))
            } else {
                Arc::clone(&cost.windows)
            };
            // A weight above the share takes all of it.
            let weight = cost.weight.min(windows.largest_weight());
            Cost {
                budget: indices.get(&cost.budget).copied().unwrap_or(0),
                weight,
                windows,
                slots: cost.slots,
            }
        };
        costs.iter().map(cost).collect()
    }

    /// Answers without the shared store.
    fn ask_own(&self, ask: &Ask, step: EnterOrConfirm) -> Answer<Entered> {
        if let Some(entered) = self.await_turn(ask, step) {
            return Answer::now(entered);
        }
        let mut own = self.own_ask(ask, self.watch.peers());
        let filled_until = self.fill(ask, &own);
        // The filling is a precaution: it refuses no request that could wait until it ends.
        own.latest = own.latest.max(filled_until.min(own.deadline));
        match step {
            EnterOrConfirm::Confirm(id) if id >= LOCAL_ID => self.own.confirm(&own, id),
            _ => self.own.enter(&own),
        }
    }

    /// Records what the shared store permitted or refused, for when it is unavailable.
    fn note(&self, ask: &Ask, entered: &Entered) {
        match &entered.entry {
            Entry::Go(_) => {
                for cost in self.own_costs(&ask.costs, 1) {
                    self.own.fill(cost.budget, &cost.windows, cost.weight);
                }
                if self.knows_block.swap(false, Ordering::AcqRel) {
                    let _ = self.own.unblock();
                    self.watch.forget_block(&self.key);
                }
            }
            Entry::Refused(Refusal {
                until,
                reason:
                    RefusalReason::Open {
                        reason,
                        probing: false,
                    },
            })
            | Entry::WaitForBreaker {
                until,
                reason,
                probing: false,
            } => self.note_block(*until, reason),
            _ => {}
        }
    }

    /// Records a Retry-After that the shared store has not received.
    fn note_missed_block(&self, report: &Report, settled: &Answer<Settled>) {
        if report.retry_after.is_some()
            && let Answer::Ready(Ok(Settled {
                open_until: Some(until),
                ..
            })) = settled
        {
            self.watch
                .note_block(&self.key, &self.shared, *until, &OpenReason::RetryAfter);
        }
    }

    /// Records the block that a settled result began, for when the shared store is unavailable.
    fn note_open(&self, settled: &Settled) {
        let Some(until) = settled.open_until else {
            return;
        };
        let transition = settled.transition.as_ref();
        let reason = transition.and_then(|transition| transition.reason.as_ref());
        self.note_block(until, reason.unwrap_or(&OpenReason::RetryAfter));
    }

    /// Settles in the own store a result that the shared store did not receive.
    fn settle_without_shared(
        &self,
        question: &Ask,
        permit: Permit,
        report: &Report,
        error: StoreError,
    ) -> Result<Settled, StoreError> {
        self.watch.lose(&error, &*self.store);
        let permit = Permit {
            generation: self.own.generation(),
            probe: false,
            ..permit
        };
        let settled = self.own.settle(question, &permit, report);
        self.note_missed_block(report, &settled);
        match settled {
            Answer::Ready(settled) => settled,
            Answer::Later(_) => Err(error),
        }
    }

    fn note_block(&self, until: BootInstant, reason: &OpenReason) {
        self.knows_block.store(true, Ordering::Release);
        self.watch
            .note_block(&self.key, &self.shared, until, reason);
        let _ = self.own.block(until.since(self.watch.clock.boot()), reason);
    }

    /// Returns the shared store's answer, or the own store's if there is none.
    fn resolve(
        &self,
        ask: &Ask,
        result: Result<Entered, StoreError>,
        step: EnterOrConfirm,
    ) -> Result<Entered, StoreError> {
        match result {
            Ok(entered) => {
                self.note(ask, &entered);
                Ok(entered)
            }
            Err(error) => {
                self.watch.lose(&error, &*self.store);
                match self.ask_own(ask, step) {
                    Answer::Ready(entered) => entered,
                    Answer::Later(_) => Err(error),
                }
            }
        }
    }

    /// Asks the shared store.
    fn ask_shared(self: &Arc<Self>, ask: Ask, step: EnterOrConfirm) -> Answer<Entered> {
        let result = match step {
            EnterOrConfirm::Confirm(id) if id < LOCAL_ID => self.shared.confirm(&ask, id),
            EnterOrConfirm::Confirm(id) => {
                // The shared store decides again: the own store's reservation is given up.
                let own = self.own_ask(&ask, self.watch.peers());
                let _ = self.own.leave(&own, id, None);
                self.shared.enter(&ask)
            }
            EnterOrConfirm::Enter => self.shared.enter(&ask),
        };
        match result {
            Answer::Ready(result) => Answer::Ready(self.resolve(&ask, result, step)),
            Answer::Later(coming) => {
                let site = Arc::clone(self);
                Answer::Later(Box::pin(
                    async move { site.resolve(&ask, coming.await, step) },
                ))
            }
        }
    }

    /// Asks the store that decides now.
    fn ask(self: &Arc<Self>, ask: Ask, step: EnterOrConfirm) -> Answer<Entered> {
        match self.watch.find(&*self.store) {
            Found::Present if !self.is_too_early(&ask) => self.ask_shared(ask, step),
            Found::Present | Found::Lost => self.ask_own(&ask, step),
            Found::Unknown => match self.store.check() {
                Answer::Ready(result) => {
                    self.watch.note_check(&result);
                    self.ask_after_check(ask, step)
                }
                Answer::Later(coming) => {
                    let site = Arc::clone(self);
                    Answer::Later(Box::pin(async move {
                        site.watch.note_check(&coming.await);
                        site.ask_after_check(ask, step).await
                    }))
                }
            },
        }
    }

    /// Asks the store that decides after a check.
    fn ask_after_check(self: &Arc<Self>, ask: Ask, step: EnterOrConfirm) -> Answer<Entered> {
        if self.watch.was_lost() || self.is_too_early(&ask) {
            self.ask_own(&ask, step)
        } else {
            self.ask_shared(ask, step)
        }
    }
}

impl FallbackSite {
    pub(super) fn new(store: &Fallback, key: &SiteKey) -> Self {
        Self(Arc::new(Site {
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

    /// Sends an operation to the store that gave the permit.
    fn route<T: Send + 'static>(
        &self,
        id: u64,
        ask: &Ask,
        shared: impl FnOnce(&dyn SiteHandle) -> Answer<T>,
        own: impl FnOnce(&MemorySite, &Ask) -> Answer<T>,
    ) -> Answer<T> {
        if id >= LOCAL_ID {
            own(&self.0.own, &self.0.own_ask(ask, self.0.watch.peers()))
        } else {
            shared(&*self.0.shared)
        }
    }
}

impl SiteHandle for FallbackSite {
    fn budget(&self, key: &BudgetKey) -> usize {
        let (shared, own) = (self.0.shared.budget(key), self.0.own.budget(key));
        self.0.indices.lock().insert(shared, own);
        shared
    }

    fn enter(&self, ask: &Ask) -> Answer<Entered> {
        self.0.ask(ask.clone(), EnterOrConfirm::Enter)
    }

    fn confirm(&self, ask: &Ask, id: u64) -> Answer<Entered> {
        self.0.ask(ask.clone(), EnterOrConfirm::Confirm(id))
    }

    fn leave(&self, ask: &Ask, id: u64, spent_at: Option<BootInstant>) -> Answer<bool> {
        self.route(
            id,
            ask,
            |shared| shared.leave(ask, id, spent_at),
            |own, ask| own.leave(ask, id, spent_at),
        )
    }

    fn hold(&self, ask: &Ask, permit: &Permit, longest: Duration) -> Answer<()> {
        self.route(
            permit.id,
            ask,
            |shared| shared.hold(ask, permit, longest),
            |own, ask| own.hold(ask, permit, longest),
        )
    }

    fn sent(&self, ask: &Ask, permit: &Permit, longest: Duration) -> Answer<Standing> {
        self.route(
            permit.id,
            ask,
            |shared| shared.sent(ask, permit, longest),
            |own, ask| own.sent(ask, permit, longest),
        )
    }

    fn stamp(&self, ask: &Ask, permit: &Permit) -> Answer<()> {
        self.route(
            permit.id,
            ask,
            |shared| shared.stamp(ask, permit),
            |own, ask| own.stamp(ask, permit),
        )
    }

    fn settle_headers(&self, ask: &Ask, permit: &Permit, outcome: Outcome) -> Answer<Settled> {
        self.route(
            permit.id,
            ask,
            |shared| shared.settle_headers(ask, permit, outcome),
            |own, ask| own.settle_headers(ask, permit, outcome),
        )
    }

    fn state_quotas(&self, ask: &Ask, permit: &Permit, stated: &Statement) -> Answer<Heard> {
        self.route(
            permit.id,
            ask,
            |shared| shared.state_quotas(ask, permit, stated),
            |own, ask| own.state_quotas(ask, permit, stated),
        )
    }

    fn settle(&self, ask: &Ask, permit: &Permit, report: &Report) -> Answer<Settled> {
        if permit.id >= LOCAL_ID {
            let settled =
                self.0
                    .own
                    .settle(&self.0.own_ask(ask, self.0.watch.peers()), permit, report);
            self.0.note_missed_block(report, &settled);
            return settled;
        }
        let site = Arc::clone(&self.0);
        // A failure that the shared store did not receive still counts for this process.
        let (question, own_permit, report) = (self.0.own_ask(ask, 1), permit.clone(), *report);
        let on_answer = move |result: Result<Settled, StoreError>| match result {
            Ok(settled) => {
                site.note_open(&settled);
                Ok(settled)
            }
            Err(error) => site.settle_without_shared(&question, own_permit, &report, error),
        };
        match self.0.shared.settle(ask, permit, &report) {
            Answer::Ready(result) => Answer::Ready(on_answer(result)),
            Answer::Later(coming) => {
                Answer::Later(Box::pin(async move { on_answer(coming.await) }))
            }
        }
    }

    fn renew(&self, ids: &[u64], length: Duration) -> Answer<Condition> {
        let (own, shared): (Vec<u64>, Vec<u64>) = ids.iter().partition(|id| **id >= LOCAL_ID);
        let condition = self.0.own.renew(&own, length);
        if self.0.watch.find(&*self.0.store) == Found::Present {
            self.0.shared.renew(&shared, length)
        } else {
            condition
        }
    }

    fn block(&self, length: Duration, reason: &OpenReason) -> Answer<Option<Transition>> {
        self.0.shared.block(length, reason)
    }

    fn unblock(&self) -> Answer<Option<Transition>> {
        self.0.shared.unblock()
    }

    fn forget_learned(&self) -> Answer<bool> {
        // What this process learned while the store was unavailable is forgotten as well.
        let _ = self.0.own.forget_learned();
        self.0.shared.forget_learned()
    }

    fn forget_adaptation(&self) -> Answer<bool> {
        let _ = self.0.own.forget_adaptation();
        self.0.shared.forget_adaptation()
    }

    fn view(&self) -> Answer<SiteView> {
        self.0.shared.view()
    }

    fn own_share(&self, costs: &[Cost]) -> Option<OwnShare> {
        if !self.0.watch.was_lost() {
            return None;
        }
        let Answer::Ready(Ok(view)) = self.0.own.view() else {
            return None;
        };
        let costs = self.0.own_costs(costs, self.0.watch.peers());
        Some(OwnShare { view, costs })
    }
}
