//! One site of two stores.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::breaker::{Breaker, BreakerPolicy, OpenReason, Transition};
use docstokg_policy::classify::Outcome;
use docstokg_policy::quota::{Heard, Statement};
use docstokg_policy::role::Role;
use docstokg_policy::site::{
    Ask, Condition, Entered, Entry, LanePolicy, Permit, Report, Settled, Standing,
};
use docstokg_policy::time::BootInstant;
use parking_lot::Mutex;

use super::both;
use crate::handle::{Answer, BudgetKey, EnterOrConfirm, SiteHandle, SiteView};

pub(super) struct SplitSite(Arc<Parts>);

impl SplitSite {
    pub(super) fn new(
        breakers: Arc<dyn SiteHandle>,
        limits: Arc<dyn SiteHandle>,
        never: BreakerPolicy,
    ) -> Self {
        Self(Arc::new(Parts {
            breakers,
            limits,
            permits: Mutex::default(),
            never: Arc::new(never),
        }))
    }
}

struct Parts {
    breakers: Arc<dyn SiteHandle>,
    limits: Arc<dyn SiteHandle>,
    /// The breaker store's permit for each permit in use, by the id of the limiter's store.
    permits: Mutex<HashMap<u64, Permit>>,
    never: Arc<BreakerPolicy>,
}

/// A permit of the breaker's store, given back unless the limiter's store permits the request too.
struct Tentative {
    parts: Arc<Parts>,
    ask: Ask,
    permit: Option<Permit>,
}

impl Tentative {
    /// Joins the breaker's permit with the answer of the limiter's side. Only a go keeps it.
    fn join(&mut self, by_limits: Entry) -> Entry {
        let (limits, permit) = match (by_limits, self.permit.take()) {
            (Entry::Go(limits), Some(permit)) => (limits, permit),
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
        Entry::Go(joined)
    }
}

impl Drop for Tentative {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            let _ = self
                .parts
                .breakers
                .leave(&Parts::for_breaker(&self.ask), permit.id, None);
        }
    }
}

impl Parts {
    fn for_breaker(ask: &Ask) -> Ask {
        let policy = LanePolicy {
            adaptive: None,
            // Limits are learned where they are kept.
            learn: None,
            ..LanePolicy::clone(&ask.policy)
        };
        Ask {
            policy: Arc::new(policy),
            costs: Arc::default(),
            jitter_sample: 0.0,
            ..ask.clone()
        }
    }

    fn for_limits(&self, ask: &Ask) -> Ask {
        let policy = LanePolicy {
            breaker: Arc::clone(&self.never),
            isolated: false,
            ..LanePolicy::clone(&ask.policy)
        };
        Ask {
            policy: Arc::new(policy),
            ..ask.clone()
        }
    }

    /// The permit as the limiter's side knows it: its breaker has one generation and no probes.
    fn limits_permit(permit: &Permit) -> Permit {
        Permit {
            generation: 0,
            probe: false,
            shadowed: None,
            ..permit.clone()
        }
    }

    /// Asks the limiter's side after the breaker's answer.
    fn then_limits(
        self: &Arc<Self>,
        ask: &Ask,
        step: EnterOrConfirm,
        by_breaker: Entered,
    ) -> Answer<Entered> {
        let Entered { entry, transition } = by_breaker;
        let permit = match entry {
            Entry::Go(permit) => permit,
            other => {
                if let EnterOrConfirm::Confirm(id) = step {
                    let _ = self.limits.leave(&self.for_limits(&ask), id, None);
                }
                return Answer::now(Entered {
                    entry: other,
                    transition,
                });
            }
        };
        let mut tentative = Tentative {
            parts: Arc::clone(self),
            ask: ask.clone(),
            permit: Some(permit),
        };
        let asked = self.for_limits(&ask);
        let answer = match step {
            EnterOrConfirm::Enter => self.limits.enter(&asked),
            EnterOrConfirm::Confirm(id) => self.limits.confirm(&asked, id),
        };
        let mut join = move |entered: Entered| Entered {
            entry: tentative.join(entered.entry),
            transition: transition.clone(),
        };
        match answer {
            Answer::Ready(result) => Answer::Ready(result.map(&mut join)),
            Answer::Later(coming) => Answer::Later(Box::pin(async move { coming.await.map(join) })),
        }
    }

    fn ask_both(self: &Arc<Self>, ask: &Ask, step: EnterOrConfirm) -> Answer<Entered> {
        let owned = ask.clone();
        match self.breakers.enter(&Self::for_breaker(ask)) {
            Answer::Ready(Ok(entered)) => self.then_limits(&owned, step, entered),
            Answer::Ready(Err(error)) => Answer::Ready(Err(error)),
            Answer::Later(coming) => {
                let parts = Arc::clone(self);
                Answer::Later(Box::pin(async move {
                    let entered = coming.await?;
                    parts.then_limits(&owned, step, entered).await
                }))
            }
        }
    }

    fn breaker_permit(&self, permit: &Permit) -> Permit {
        self.permits
            .lock()
            .get(&permit.id)
            .cloned()
            .unwrap_or_else(|| permit.clone())
    }
}

impl SiteHandle for SplitSite {
    fn budget(&self, key: &BudgetKey) -> usize {
        self.0.limits.budget(key)
    }

    fn enter(&self, ask: &Ask) -> Answer<Entered> {
        self.0.ask_both(ask, EnterOrConfirm::Enter)
    }

    fn confirm(&self, ask: &Ask, id: u64) -> Answer<Entered> {
        self.0.ask_both(ask, EnterOrConfirm::Confirm(id))
    }

    fn leave(&self, ask: &Ask, id: u64, spent_at: Option<BootInstant>) -> Answer<bool> {
        let limits = self.0.limits.leave(&self.0.for_limits(ask), id, spent_at);
        match self.0.permits.lock().remove(&id) {
            Some(permit) => both(
                self.0
                    .breakers
                    .leave(&Parts::for_breaker(ask), permit.id, None),
                limits,
                |freed, _| freed,
            ),
            None => limits,
        }
    }

    fn hold(&self, ask: &Ask, permit: &Permit, longest: Duration) -> Answer<()> {
        self.0.limits.hold(
            &self.0.for_limits(ask),
            &Parts::limits_permit(permit),
            longest,
        )
    }

    fn sent(&self, ask: &Ask, permit: &Permit, longest: Duration) -> Answer<Standing> {
        let standing = self.0.breakers.sent(
            &Parts::for_breaker(ask),
            &self.0.breaker_permit(permit),
            longest,
        );
        let noted = self.0.limits.sent(
            &self.0.for_limits(ask),
            &Parts::limits_permit(permit),
            longest,
        );
        both(standing, noted, |standing, _| standing)
    }

    fn stamp(&self, ask: &Ask, permit: &Permit) -> Answer<()> {
        self.0
            .limits
            .stamp(&self.0.for_limits(ask), &Parts::limits_permit(permit))
    }

    fn settle_headers(&self, ask: &Ask, permit: &Permit, outcome: Outcome) -> Answer<Settled> {
        let settled = self.0.breakers.settle_headers(
            &Parts::for_breaker(ask),
            &self.0.breaker_permit(permit),
            outcome,
        );
        let (ask, permit) = (self.0.for_limits(ask), Parts::limits_permit(permit));
        let limits = self.0.limits.settle_headers(&ask, &permit, outcome);
        both(settled, limits, |settled, limits| {
            with_what_was_learned(settled, &limits)
        })
    }

    fn state_quotas(&self, ask: &Ask, permit: &Permit, stated: &Statement) -> Answer<Heard> {
        let permit = Parts::limits_permit(permit);
        self.0
            .limits
            .state_quotas(&self.0.for_limits(ask), &permit, stated)
    }

    fn settle(&self, ask: &Ask, permit: &Permit, report: &Report) -> Answer<Settled> {
        let of_breaker = self
            .0
            .permits
            .lock()
            .remove(&permit.id)
            .unwrap_or_else(|| permit.clone());
        let of_request = Ask {
            jitter_sample: ask.jitter_sample,
            ..Parts::for_breaker(ask)
        };
        let settled = self.0.breakers.settle(&of_request, &of_breaker, report);
        let report = Report {
            retry_after: None,
            ..*report
        };
        let limits = self.0.limits.settle(
            &self.0.for_limits(ask),
            &Parts::limits_permit(permit),
            &report,
        );
        both(settled, limits, |settled, limits| {
            with_what_was_learned(settled, &limits)
        })
    }

    fn renew(&self, ids: &[u64], length: Duration) -> Answer<Condition> {
        let of_breaker: Vec<u64> = {
            let permits = self.0.permits.lock();
            ids.iter()
                .filter_map(|id| permits.get(id).map(|permit| permit.id))
                .collect()
        };
        both(
            self.0.breakers.renew(&of_breaker, length),
            self.0.limits.renew(ids, length),
            |condition, _| condition,
        )
    }

    fn block(&self, length: Duration, reason: &OpenReason) -> Answer<Option<Transition>> {
        self.0.breakers.block(length, reason)
    }

    fn unblock(&self) -> Answer<Option<Transition>> {
        both(
            self.0.breakers.unblock(),
            // It ends the pause after refusals, where limits are learned.
            self.0.limits.unblock(),
            |transition, _| transition,
        )
    }

    fn forget_learned(&self) -> Answer<bool> {
        self.0.limits.forget_learned()
    }

    fn forget_adaptation(&self) -> Answer<bool> {
        self.0.limits.forget_adaptation()
    }

    fn view(&self) -> Answer<SiteView> {
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

/// Joins what an answer did to the breaker with what it did to the limits.
fn with_what_was_learned(breakers: Settled, limits: &Settled) -> Settled {
    Settled {
        adjusted: limits.adjusted,
        learned: limits.learned,
        calls_next: breakers.calls_next || limits.calls_next,
        ..breakers
    }
}

/// Moves the instants of a breaker to the clock of the other store, where the clocks differ.
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
