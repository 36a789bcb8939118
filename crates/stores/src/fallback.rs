//! A store that goes on by itself while the shared one is away.
//!
//! While the shared store answers, this process notes beside it what it was permitted and which
//! hosts are blocked. When it does not, the process goes on with its share: the count of every
//! window divided by the processes when last counted, and blocks obeyed as last known. So the
//! shares add up to at most the limit. It says so once, looks again every second, and says so when
//! the store is back. At the loss and at the return the short windows count as full, for two
//! seconds longer than they last: by then all the others have noticed as well.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use docstokg_policy::breaker::{OpenReason, Transition};
use docstokg_policy::classify::Outcome;
use docstokg_policy::site::{
    Ask, Condition, Cost, Entered, Entry, OwnedAsk, Permit, QueuePosition, Refusal, RefusalReason,
    Report, Reserved, Settled, Standing,
};
use docstokg_policy::time::{BootInstant, Clock};
use docstokg_policy::windows::Windows;
use parking_lot::Mutex;

use crate::error::StoreError;
use crate::handle::{Answer, Availability, BudgetKey, SiteHandle, SiteKey, SiteView, StateStore};
use crate::memory::{MemorySite, MemoryStore};

mod watch;

use watch::{BELIEVED, Change, Found, Watch};

/// Up to this length a window is short: it counts as full when this process changes its mind.
const SHORT: Duration = Duration::from_secs(600);
/// Names of what was granted here have this bit; those of shared stores stay below it.
const LOCAL: u64 = 1 << 60;

/// Tells a person what has become of the store.
pub type Notice = Arc<dyn Fn(&str) + Send + Sync>;

/// A shared store, and this process's own for when it is away.
pub struct Fallback {
    shared: Arc<dyn StateStore>,
    own: MemoryStore,
    watch: Arc<Watch>,
}

impl Fallback {
    /// Goes on by itself when `shared` is away, and tells `notice`. A process that never heard how
    /// many share the store takes one part in `assumed_peers`.
    #[must_use]
    pub fn new(
        shared: Arc<dyn StateStore>,
        clock: Arc<dyn Clock>,
        notice: Notice,
        assumed_peers: u32,
    ) -> Self {
        let watch = Arc::new(Watch::new(Arc::clone(&clock), notice, assumed_peers));
        let heard = Arc::downgrade(&watch);
        shared.watch_peers(Arc::new(move |began, said| {
            if let Some(watch) = heard.upgrade() {
                watch.heartbeat(began, &said);
            }
        }));
        Self {
            shared,
            own: MemoryStore::naming_from(clock, LOCAL),
            watch,
        }
    }
}

impl StateStore for Fallback {
    fn site(&self, key: &SiteKey) -> Arc<dyn SiteHandle> {
        let site = Site {
            shared: self.shared.site(key),
            store: Arc::clone(&self.shared),
            own: self.own.memory_site(key),
            watch: Arc::clone(&self.watch),
            places: Mutex::default(),
            filled: Mutex::default(),
            key: Arc::clone(key),
            knows_block: AtomicBool::new(false),
        };
        Arc::new(FallbackSite(Arc::new(site)))
    }

    fn list(&self) -> Answer<Vec<SiteKey>> {
        self.shared.list()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn is_remote(&self) -> bool {
        self.shared.is_remote()
    }

    fn flush(&self) -> Answer<()> {
        self.shared.flush()
    }

    fn peers(&self) -> Option<u32> {
        self.shared.peers()
    }

    fn has_settled_peers(&self) -> bool {
        self.shared.has_settled_peers()
    }

    fn rank(&self) -> u32 {
        self.shared.rank()
    }

    fn availability(&self) -> Availability {
        Availability {
            unavailable: self.watch.was_lost(),
            outages: self.watch.outages(),
        }
    }
}

struct FallbackSite(Arc<Site>);

struct Site {
    shared: Arc<dyn SiteHandle>,
    store: Arc<dyn StateStore>,
    own: Arc<MemorySite>,
    watch: Arc<Watch>,
    /// The index in the own store of each index in the shared one.
    places: Mutex<HashMap<usize, usize>>,
    /// How the budgets of the own store were filled at the last change of mind.
    filled: Mutex<HashMap<usize, Filled>>,
    /// What a server asked for while the shared store was away: it is told when it is back.
    key: SiteKey,
    /// The own breaker is blocked because the shared one was.
    knows_block: AtomicBool,
}

/// What the own store counts in a budget's short windows without anybody having used it.
#[derive(Default)]
struct Filled {
    /// The change of mind for which that was done.
    change: u64,
    weight: u32,
    at: BootInstant,
    until: BootInstant,
}

impl Site {
    /// Puts a question to the own store: its budgets, and this process's share of the windows.
    fn own_ask(&self, ask: &Ask<'_>, peers: u32) -> OwnedAsk {
        let places = self.places.lock();
        let cost = |cost: &Cost| {
            let windows = if peers > 1 {
                Arc::new(cost.windows.shared_by(peers))
            } else {
                Arc::clone(&cost.windows)
            };
            // What is heavier than a share takes all of it.
            let weight = cost.weight.min(windows.largest_weight());
            Cost {
                budget: places.get(&cost.budget).copied().unwrap_or(0),
                weight,
                windows,
                slots: cost.slots,
            }
        };
        let costs = ask.costs.iter().map(cost).collect();
        ask.to_owned().with_costs(costs)
    }

    /// Answers without the shared store.
    fn alone(&self, ask: &OwnedAsk, step: Step) -> Answer<Entered> {
        if let Some(entered) = self.await_turn(&ask.as_ask(), step) {
            return Answer::now(entered);
        }
        let own = self.own_ask(&ask.as_ask(), self.watch.peers());
        let filled_until = self.fill(&ask.as_ask(), &own.as_ask());
        let mut ask = own.as_ask();
        // That fullness is our own caution: nobody is refused for it who would wait as long as
        // that.
        ask.latest = ask.latest.max(filled_until.min(ask.deadline));
        match step {
            Step::Confirm(id) if id >= LOCAL => self.own.confirm(&ask, id),
            _ => self.own.enter(&ask),
        }
    }

    /// Where a window allows fewer requests than there are processes, each has its turns: returns
    /// the wait for the next one.
    fn await_turn(&self, ask: &Ask<'_>, step: Step) -> Option<Entered> {
        let (rank, peers, wall) = (
            self.watch.rank(),
            self.watch.peers(),
            self.watch.clock.wall(),
        );
        let turns = ask
            .costs
            .iter()
            .filter_map(|cost| Some((cost.windows.next_turn(rank, peers, wall)?, cost)));
        let (wait, cost) = turns
            .max_by_key(|(wait, _)| *wait)
            .filter(|(wait, _)| !wait.is_zero())?;
        let (at, because) = (
            self.watch.clock.boot() + wait,
            cost.windows.list().first().copied(),
        );
        let entry = if at > ask.latest || at > ask.deadline {
            Entry::Refused(Refusal {
                until: at,
                reason: RefusalReason::Rate { window: because },
            })
        } else if ask.queue_position == QueuePosition::Head {
            // A reservation that it has stays; otherwise nothing is reserved: the turn is no
            // other's.
            let id = if let Step::Confirm(id @ LOCAL..) = step {
                id
            } else {
                LOCAL | fastrand::u64(..LOCAL)
            };
            Entry::Wait(Reserved {
                id,
                at,
                because,
                probe: false,
            })
        } else {
            Entry::Queue { at }
        };
        Some(Entered {
            entry,
            transition: None,
        })
    }

    /// Counts the short windows of what a question charges as full, once for each change of mind:
    /// what others were granted just before it is not known here. Returns until when that lasts.
    fn fill(&self, ask: &Ask<'_>, own: &Ask<'_>) -> BootInstant {
        let Some(change) = self.watch.last_change() else {
            return BootInstant::default();
        };
        let mut filled = self.filled.lock();
        let costs = ask.costs.iter().zip(own.costs);
        let until = costs.map(|(all, share)| {
            self.fill_budget(
                &all.windows,
                share,
                filled.entry(share.budget).or_default(),
                change,
            )
        });
        until.max().unwrap_or_default()
    }

    fn fill_budget(
        &self,
        windows: &Windows,
        cost: &Cost,
        filled: &mut Filled,
        last: Change,
    ) -> BootInstant {
        let now = self.watch.clock.boot();
        if filled.weight > 0 && (filled.change != last.number || filled.until <= now) {
            // Nobody used it: it must not count in the long windows.
            self.own.empty_at(cost.budget, filled.weight, filled.at);
            filled.weight = 0;
        }
        if filled.change != last.number {
            let (weight, width) = pacing(windows, &cost.windows);
            // Others notice a little later.
            let at = last.at + BELIEVED;
            let until = if width.is_zero() {
                BootInstant::default()
            } else {
                at + width
            };
            *filled = Filled {
                change: last.number,
                weight: if until > now { weight } else { 0 },
                at,
                until,
            };
            self.own
                .fill_at(cost.budget, &cost.windows, filled.weight, at);
        }
        filled.until
    }

    /// Tells whether the shared store came back so short a time ago that others may not have
    /// noticed.
    fn is_too_early(&self, ask: &OwnedAsk) -> bool {
        // Almost always there was no change, or none for a long time.
        let Some(change) = self.watch.last_change() else {
            return false;
        };
        if change.at + BELIEVED + 2 * SHORT < self.watch.clock.boot() {
            return false;
        }
        let own = self.own_ask(&ask.as_ask(), self.watch.peers());
        self.fill(&ask.as_ask(), &own.as_ask()) > self.watch.clock.boot()
    }

    /// Notes what the shared store granted or refused, for when it is away.
    fn note(&self, ask: &OwnedAsk, entered: &Entered) {
        match &entered.entry {
            Entry::Go(_) => {
                let own = self.own_ask(&ask.as_ask(), 1);
                let ask = own.as_ask();
                for cost in ask.costs {
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

    /// Takes note of what a server asked for that the shared store has not heard of.
    fn owe(&self, report: &Report, settled: &Answer<Settled>) {
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

    fn note_block(&self, until: BootInstant, reason: &OpenReason) {
        self.knows_block.store(true, Ordering::Release);
        self.watch
            .note_block(&self.key, &self.shared, until, reason);
        let _ = self.own.block(until.since(self.watch.clock.boot()), reason);
    }

    /// Takes the shared store's answer, or the own store's if there is none.
    fn judged(
        &self,
        ask: &OwnedAsk,
        said: Result<Entered, StoreError>,
        step: Step,
    ) -> Result<Entered, StoreError> {
        match said {
            Ok(entered) => {
                self.note(ask, &entered);
                Ok(entered)
            }
            Err(error) => {
                self.watch.lose(&error, &*self.store);
                match self.alone(ask, step) {
                    Answer::Ready(entered) => entered,
                    Answer::Later(_) => Err(error),
                }
            }
        }
    }

    /// Asks the shared store.
    fn ask_shared(self: &Arc<Self>, ask: OwnedAsk, step: Step) -> Answer<Entered> {
        let said = match step {
            Step::Confirm(id) if id < LOCAL => self.shared.confirm(&ask.as_ask(), id),
            Step::Confirm(id) => {
                // Its word counts again: the reservation that was held here is given up.
                let own = self.own_ask(&ask.as_ask(), self.watch.peers());
                let _ = self.own.leave(&own.as_ask(), id, None);
                self.shared.enter(&ask.as_ask())
            }
            Step::Enter => self.shared.enter(&ask.as_ask()),
        };
        match said {
            Answer::Ready(said) => Answer::Ready(self.judged(&ask, said, step)),
            Answer::Later(coming) => {
                let site = Arc::clone(self);
                Answer::Later(Box::pin(
                    async move { site.judged(&ask, coming.await, step) },
                ))
            }
        }
    }

    /// Asks whichever store decides now.
    fn ask(self: &Arc<Self>, ask: OwnedAsk, step: Step) -> Answer<Entered> {
        match self.watch.find(&*self.store) {
            Found::Present if !self.is_too_early(&ask) => self.ask_shared(ask, step),
            Found::Present | Found::Lost => self.alone(&ask, step),
            Found::Unknown => match self.store.check() {
                Answer::Ready(said) => {
                    self.watch.hear(&said);
                    self.ask_knowing(ask, step)
                }
                Answer::Later(coming) => {
                    let site = Arc::clone(self);
                    Answer::Later(Box::pin(async move {
                        site.watch.hear(&coming.await);
                        site.ask_knowing(ask, step).await
                    }))
                }
            },
        }
    }

    /// Asks whichever store decides as of a moment ago.
    fn ask_knowing(self: &Arc<Self>, ask: OwnedAsk, step: Step) -> Answer<Entered> {
        if self.watch.was_lost() || self.is_too_early(&ask) {
            self.alone(&ask, step)
        } else {
            self.ask_shared(ask, step)
        }
    }
}

/// What is asked of a store.
#[derive(Clone, Copy)]
enum Step {
    Enter,
    Confirm(u64),
}

/// Returns how many permits fill every short window of a share, and how long what others were
/// granted stays in them. Both which are short and how long is said by the windows before they were
/// shared: an hour among six is still an hour.
fn pacing(windows: &Windows, shared: &Windows) -> (u32, Duration) {
    let short = windows
        .list()
        .iter()
        .zip(shared.list())
        .filter(|(window, _)| window.per <= SHORT);
    let filled = short.map(|(window, share)| (share.limit.get(), window.per + windows.guard()));
    filled.fold((0, Duration::ZERO), |(limit, width), (other, wider)| {
        (limit.max(other), width.max(wider))
    })
}

impl FallbackSite {
    /// Sends a step to whichever store gave the pass. One that is away is not told.
    fn told<T: Send + 'static>(
        &self,
        id: u64,
        ask: &Ask<'_>,
        shared: impl FnOnce(&dyn SiteHandle) -> Answer<T>,
        own: impl FnOnce(&MemorySite, &Ask<'_>) -> Answer<T>,
    ) -> Answer<T> {
        if id >= LOCAL {
            own(
                &self.0.own,
                &self.0.own_ask(ask, self.0.watch.peers()).as_ask(),
            )
        } else {
            shared(&*self.0.shared)
        }
    }
}

impl SiteHandle for FallbackSite {
    fn budget(&self, key: &BudgetKey) -> usize {
        let (shared, own) = (self.0.shared.budget(key), self.0.own.budget(key));
        self.0.places.lock().insert(shared, own);
        shared
    }

    fn enter(&self, ask: &Ask<'_>) -> Answer<Entered> {
        self.0.ask(ask.to_owned(), Step::Enter)
    }

    fn confirm(&self, ask: &Ask<'_>, id: u64) -> Answer<Entered> {
        self.0.ask(ask.to_owned(), Step::Confirm(id))
    }

    fn leave(&self, ask: &Ask<'_>, id: u64, spent_at: Option<BootInstant>) -> Answer<bool> {
        self.told(
            id,
            ask,
            |shared| shared.leave(ask, id, spent_at),
            |own, ask| own.leave(ask, id, spent_at),
        )
    }

    fn hold(&self, ask: &Ask<'_>, permit: &Permit, longest: Duration) -> Answer<()> {
        self.told(
            permit.id,
            ask,
            |shared| shared.hold(ask, permit, longest),
            |own, ask| own.hold(ask, permit, longest),
        )
    }

    fn sent(&self, ask: &Ask<'_>, permit: &Permit, longest: Duration) -> Answer<Standing> {
        self.told(
            permit.id,
            ask,
            |shared| shared.sent(ask, permit, longest),
            |own, ask| own.sent(ask, permit, longest),
        )
    }

    fn stamp(&self, ask: &Ask<'_>, permit: &Permit) -> Answer<()> {
        self.told(
            permit.id,
            ask,
            |shared| shared.stamp(ask, permit),
            |own, ask| own.stamp(ask, permit),
        )
    }

    fn settle_headers(&self, ask: &Ask<'_>, permit: &Permit, outcome: Outcome) -> Answer<Settled> {
        self.told(
            permit.id,
            ask,
            |shared| shared.settle_headers(ask, permit, outcome),
            |own, ask| own.settle_headers(ask, permit, outcome),
        )
    }

    fn settle(&self, ask: &Ask<'_>, permit: &Permit, report: &Report) -> Answer<Settled> {
        if permit.id >= LOCAL {
            let settled = self.0.own.settle(
                &self.0.own_ask(ask, self.0.watch.peers()).as_ask(),
                permit,
                report,
            );
            self.0.owe(report, &settled);
            return settled;
        }
        let site = Arc::clone(&self.0);
        // A failure that the shared store did not hear of still counts for this process.
        let (question, mine, report) = (self.0.own_ask(ask, 1), permit.clone(), *report);
        let heard = move |said: Result<Settled, StoreError>| match said {
            Ok(settled) => {
                if let Some(until) = settled.open_until {
                    site.note_block(
                        until,
                        settled
                            .transition
                            .as_ref()
                            .and_then(|change| change.reason.as_ref())
                            .unwrap_or(&OpenReason::RetryAfter),
                    );
                }
                Ok(settled)
            }
            Err(error) => {
                site.watch.lose(&error, &*site.store);
                let settled = site.own.settle(
                    &question.as_ask(),
                    &Permit {
                        generation: site.own.generation(),
                        probe: false,
                        ..mine
                    },
                    &report,
                );
                site.owe(&report, &settled);
                match settled {
                    Answer::Ready(settled) => settled,
                    Answer::Later(_) => Err(error),
                }
            }
        };
        match self.0.shared.settle(ask, permit, &report) {
            Answer::Ready(said) => Answer::Ready(heard(said)),
            Answer::Later(coming) => Answer::Later(Box::pin(async move { heard(coming.await) })),
        }
    }

    fn renew(&self, ids: &[u64], length: Duration) -> Answer<Condition> {
        let (own, shared): (Vec<u64>, Vec<u64>) = ids.iter().partition(|id| **id >= LOCAL);
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

    fn view(&self) -> Answer<SiteView> {
        self.0.shared.view()
    }
}
