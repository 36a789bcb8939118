//! Two stores as one: breakers in the one, limits in the other.
//!
//! The breaker's store is asked first; if the limiter's then refuses or waits, a probe's place is
//! given back, so that none is lost to a request that does not go. Each store is atomic by itself.
//! Probes are not spread by jitter here: the leases of the breaker's store let few enough through.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::breaker::{Breaker, BreakerPolicy, OpenReason, Transition};
use docstokg_policy::classify::Outcome;
use docstokg_policy::role::Role;
use docstokg_policy::site::{
    Ask, Condition, Entered, Entry, OwnedAsk, Permit, Report, Settled, Site, Standing,
};
use docstokg_policy::time::BootInstant;
use parking_lot::Mutex;

use crate::handle::{Answer, Availability, BudgetKey, SiteHandle, SiteKey, SiteView, StateStore};

/// A store for breakers, and another one for limits.
pub struct SplitStore {
    breakers: Arc<dyn StateStore>,
    limits: Arc<dyn StateStore>,
}

impl SplitStore {
    /// Keeps breakers in the one store and limits in the other.
    #[must_use]
    pub fn new(breakers: Arc<dyn StateStore>, limits: Arc<dyn StateStore>) -> Self {
        Self { breakers, limits }
    }
}

impl StateStore for SplitStore {
    fn site(&self, key: &SiteKey) -> Arc<dyn SiteHandle> {
        let (breakers, limits) = (self.breakers.site(key), self.limits.site(key));
        Arc::new(SplitSite(Arc::new(Parts {
            breakers,
            limits,
            permits: Mutex::default(),
            never: never(),
        })))
    }

    fn list(&self) -> Answer<Vec<SiteKey>> {
        both(
            self.breakers.list(),
            self.limits.list(),
            |mut keys, others| {
                keys.extend(others);
                keys.sort();
                keys.dedup();
                keys
            },
        )
    }

    fn is_shared(&self) -> bool {
        self.breakers.is_shared() || self.limits.is_shared()
    }

    fn is_remote(&self) -> bool {
        self.breakers.is_remote() || self.limits.is_remote()
    }

    fn flush(&self) -> Answer<()> {
        both(self.breakers.flush(), self.limits.flush(), |(), ()| ())
    }

    fn check(&self) -> Answer<()> {
        both(self.breakers.check(), self.limits.check(), |(), ()| ())
    }

    fn peers(&self) -> Option<u32> {
        self.limits.peers()
    }

    fn has_settled_peers(&self) -> bool {
        self.limits.has_settled_peers()
    }

    fn rank(&self) -> u32 {
        self.limits.rank()
    }

    fn availability(&self) -> Availability {
        let (breakers, limits) = (self.breakers.availability(), self.limits.availability());
        Availability {
            unavailable: breakers.unavailable || limits.unavailable,
            outages: breakers.outages + limits.outages,
        }
    }
}

/// The policy of the limiter's side, whose breaker never opens; one that an earlier run left open
/// there refuses nobody.
fn never() -> BreakerPolicy {
    BreakerPolicy {
        fail_max: NonZeroU32::MAX,
        window: None,
        throttle_block: None,
        shadow: true,
        ..BreakerPolicy::default()
    }
}

/// Joins two answers that are both on their way.
fn both<A: Send + Unpin + 'static, B: Send + Unpin + 'static, T: Send + Unpin + 'static>(
    first: Answer<A>,
    second: Answer<B>,
    join: impl FnOnce(A, B) -> T + Send + 'static,
) -> Answer<T> {
    match (first, second) {
        (Answer::Ready(first), Answer::Ready(second)) => {
            Answer::Ready(first.and_then(|first| Ok(join(first, second?))))
        }
        (first, second) => Answer::Later(Box::pin(async move {
            let (first, second) = (first.await, second.await);
            Ok(join(first?, second?))
        })),
    }
}

struct SplitSite(Arc<Parts>);

struct Parts {
    breakers: Arc<dyn SiteHandle>,
    limits: Arc<dyn SiteHandle>,
    /// The breaker's pass of each pass that is out, by the limiter's name for it.
    permits: Mutex<HashMap<u64, Permit>>,
    never: BreakerPolicy,
}

/// How the limiter's side is asked.
#[derive(Clone, Copy)]
enum How {
    Enter,
    Confirm(u64),
}

/// A place among the breaker's probes, given back unless the limiter lets the request through.
struct Tentative {
    parts: Arc<Parts>,
    ask: OwnedAsk,
    permit: Option<Permit>,
}

impl Drop for Tentative {
    fn drop(&mut self) {
        if let Some(permit) = self.permit.take() {
            let _ =
                self.parts
                    .breakers
                    .leave(&Parts::for_breaker(&self.ask.as_ask()), permit.id, None);
        }
    }
}

impl Parts {
    fn for_breaker<'a>(ask: &Ask<'a>) -> Ask<'a> {
        Ask {
            costs: &[],
            adaptive: None,
            jitter_sample: 0.0,
            ..ask.clone()
        }
    }

    fn for_limits<'a>(&'a self, ask: &Ask<'a>) -> Ask<'a> {
        Ask {
            breaker: &self.never,
            isolated: false,
            ..ask.clone()
        }
    }

    /// The pass as the limiter's side knows it: its breaker has one era and no probes.
    fn limits_pass(permit: &Permit) -> Permit {
        Permit {
            generation: 0,
            probe: false,
            shadowed: None,
            ..permit.clone()
        }
    }

    /// Goes on with the limiter's side after the breaker's answer.
    fn then_limits(
        self: &Arc<Self>,
        ask: &OwnedAsk,
        how: How,
        by_breaker: Entered,
    ) -> Answer<Entered> {
        let Entered { entry, transition } = by_breaker;
        let permit = match entry {
            Entry::Go(permit) => permit,
            other => {
                if let How::Confirm(id) = how {
                    let _ = self.limits.leave(&self.for_limits(&ask.as_ask()), id, None);
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
        let asked = self.for_limits(&ask.as_ask());
        let answer = match how {
            How::Enter => self.limits.enter(&asked),
            How::Confirm(id) => self.limits.confirm(&asked, id),
        };
        let parts = Arc::clone(self);
        let mut join = move |entered: Entered| {
            let entry = match entered.entry {
                Entry::Go(limits) => {
                    let Some(permit) = tentative.permit.take() else {
                        return Entered {
                            entry: Entry::Go(limits),
                            transition: None,
                        };
                    };
                    let joined = Permit {
                        generation: permit.generation,
                        probe: permit.probe,
                        clean: permit.clean && limits.clean,
                        shadowed: permit.shadowed.clone(),
                        ..limits
                    };
                    parts.permits.lock().insert(joined.id, permit);
                    Entry::Go(joined)
                }
                other => other,
            };
            Entered {
                entry,
                transition: transition.clone(),
            }
        };
        match answer {
            Answer::Ready(said) => Answer::Ready(said.map(&mut join)),
            Answer::Later(coming) => Answer::Later(Box::pin(async move { coming.await.map(join) })),
        }
    }

    fn ask_both(self: &Arc<Self>, ask: &Ask<'_>, how: How) -> Answer<Entered> {
        let owned = ask.to_owned();
        match self.breakers.enter(&Self::for_breaker(ask)) {
            Answer::Ready(Ok(entered)) => self.then_limits(&owned, how, entered),
            Answer::Ready(Err(error)) => Answer::Ready(Err(error)),
            Answer::Later(coming) => {
                let parts = Arc::clone(self);
                Answer::Later(Box::pin(async move {
                    let entered = coming.await?;
                    parts.then_limits(&owned, how, entered).await
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

    fn enter(&self, ask: &Ask<'_>) -> Answer<Entered> {
        self.0.ask_both(ask, How::Enter)
    }

    fn confirm(&self, ask: &Ask<'_>, id: u64) -> Answer<Entered> {
        self.0.ask_both(ask, How::Confirm(id))
    }

    fn leave(&self, ask: &Ask<'_>, id: u64, spent_at: Option<BootInstant>) -> Answer<bool> {
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

    fn hold(&self, ask: &Ask<'_>, permit: &Permit, longest: Duration) -> Answer<()> {
        self.0.limits.hold(
            &self.0.for_limits(ask),
            &Parts::limits_pass(permit),
            longest,
        )
    }

    fn sent(&self, ask: &Ask<'_>, permit: &Permit, longest: Duration) -> Answer<Standing> {
        let standing = self.0.breakers.sent(
            &Parts::for_breaker(ask),
            &self.0.breaker_permit(permit),
            longest,
        );
        let noted = self.0.limits.sent(
            &self.0.for_limits(ask),
            &Parts::limits_pass(permit),
            longest,
        );
        both(standing, noted, |standing, _| standing)
    }

    fn stamp(&self, ask: &Ask<'_>, permit: &Permit) -> Answer<()> {
        self.0
            .limits
            .stamp(&self.0.for_limits(ask), &Parts::limits_pass(permit))
    }

    fn settle_headers(&self, ask: &Ask<'_>, permit: &Permit, outcome: Outcome) -> Answer<Settled> {
        self.0.breakers.settle_headers(
            &Parts::for_breaker(ask),
            &self.0.breaker_permit(permit),
            outcome,
        )
    }

    fn settle(&self, ask: &Ask<'_>, permit: &Permit, report: &Report) -> Answer<Settled> {
        let of_breaker = self
            .0
            .permits
            .lock()
            .remove(&permit.id)
            .unwrap_or_else(|| permit.clone());
        let settled = self
            .0
            .breakers
            .settle(&Parts::for_breaker(ask), &of_breaker, report);
        let report = Report {
            retry_after: None,
            ..*report
        };
        let limits = self.0.limits.settle(
            &self.0.for_limits(ask),
            &Parts::limits_pass(permit),
            &report,
        );
        both(settled, limits, |settled, limits| Settled {
            adjusted: limits.adjusted,
            ..settled
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
        self.0.breakers.unblock()
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
                let site =
                    Site::from_parts(moved(breaker), isolated, limits.site.budgets().to_vec());
                SiteView {
                    site,
                    budgets: limits.budgets,
                    now: limits.now,
                }
            },
        )
    }
}

/// Moves the instants of a breaker to the clock of the other store, where they do not go by the
/// same.
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
