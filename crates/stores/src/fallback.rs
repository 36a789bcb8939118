//! A store that goes on by itself while the shared one is away.
//!
//! While the shared store answers, this process notes beside it what it was permitted and which hosts are blocked. When it
//! does not, the process goes on with its share: the count of every window divided by the processes when last counted, the
//! short ones taken as full at that moment, and blocks obeyed as last known. So the shares add up to at most the limit. It
//! says so once, looks again every second, and says so when the store is back.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use docstokg_policy::breaker::{OpenReason, Transition};
use docstokg_policy::classify::Outcome;
use docstokg_policy::site::{Ask, Charge, Condition, Entered, Entry, OwnedAsk, Pass, Refusal, RefusalReason, Report, Settled, Standing};
use docstokg_policy::time::{BootInstant, Clock};
use docstokg_policy::windows::Windows;
use parking_lot::Mutex;

use crate::error::StoreError;
use crate::handle::{Answer, Arriving, Availability, BudgetKey, SiteHandle, SiteKey, SiteView, StateStore};
use crate::memory::{MemorySite, MemoryStore};

/// How often a store that is away is asked whether it is back.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The same, for one that answers and cannot be used.
const LOOK_MUCH_LATER: Duration = Duration::from_secs(600);
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

/// Whether the shared store is away.
struct Watch {
    away: AtomicBool,
    /// Counts how often it went away.
    outages: AtomicU64,
    /// How many processes shared it when it went away.
    peers: AtomicU32,
    /// How many are assumed where this process never heard.
    assumed_peers: u32,
    looking: Mutex<Looking>,
    clock: Arc<dyn Clock>,
    notice: Notice,
}

#[derive(Default)]
struct Looking {
    next: BootInstant,
    question: Option<Arriving<()>>,
}

impl Fallback {
    /// Goes on by itself when `shared` is away, and tells `notice`. A process that never heard how many share the store takes
    /// one part in `assumed_peers`.
    #[must_use]
    pub fn new(shared: Arc<dyn StateStore>, clock: Arc<dyn Clock>, notice: Notice, assumed_peers: u32) -> Self {
        shared.watch_peers();
        let watch = Watch {
            away: AtomicBool::new(false),
            outages: AtomicU64::new(0),
            peers: AtomicU32::new(1),
            assumed_peers: assumed_peers.max(1),
            looking: Mutex::default(),
            clock: Arc::clone(&clock),
            notice,
        };
        Self { shared, own: MemoryStore::naming_from(clock, LOCAL), watch: Arc::new(watch) }
    }
}

impl Watch {
    /// Takes note that the store does not answer.
    fn lost(&self, error: &StoreError, store: &dyn StateStore) {
        let known = store.peers();
        let peers = known.unwrap_or(self.assumed_peers);
        // Before anything is decided alone: the share counts from the first decision on.
        if !self.away.load(Ordering::Acquire) {
            self.peers.store(peers, Ordering::Release);
        }
        if self.away.swap(true, Ordering::AcqRel) {
            return;
        }
        self.outages.fetch_add(1, Ordering::AcqRel);
        // What another version wrote is there as long as somebody does something about it.
        let wait = if matches!(error, StoreError::Unusable { .. }) { LOOK_MUCH_LATER } else { LOOK_AGAIN };
        self.looking.lock().next = self.clock.boot() + wait;
        let share = match (peers, known) {
            (1, Some(_)) => "the limits for this process alone".to_owned(),
            (_, Some(_)) => format!("1/{peers} of the limits, since {peers} processes shared it"),
            (_, None) => format!("1/{peers} of the limits, since it was never reached (limits.backend.assumed_peers)"),
        };
        (self.notice)(&format!("{error}; going on with {share} until it is back"));
    }

    /// Tells whether the store is away, after a look at whether it is back.
    fn is_away(&self, shared: &dyn StateStore) -> bool {
        self.away.load(Ordering::Acquire) && self.look(shared)
    }

    #[cold]
    fn look(&self, shared: &dyn StateStore) -> bool {
        let mut looking = self.looking.lock();
        let now = self.clock.boot();
        if looking.question.is_none() && looking.next <= now {
            looking.next = now + LOOK_AGAIN;
            looking.question = Some(shared.flush().into_future());
        }
        let Some(question) = &mut looking.question else { return true };
        match Pin::new(question).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => true,
            Poll::Ready(said) => {
                looking.question = None;
                if said.is_ok() {
                    self.away.store(false, Ordering::Release);
                    (self.notice)("the shared state is back; its limits hold again");
                }
                said.is_err()
            }
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
            owed_block: Mutex::default(),
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

    fn availability(&self) -> Availability {
        Availability { unavailable: self.watch.away.load(Ordering::Acquire), outages: self.watch.outages.load(Ordering::Acquire) }
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
    filled: Mutex<Filled>,
    /// What a server asked for while the shared store was away: it is told when it is back.
    owed_block: Mutex<Option<BootInstant>>,
    /// The own breaker is blocked because the shared one was.
    knows_block: AtomicBool,
}

/// The budgets whose short windows were filled when the shared store went away.
#[derive(Default)]
struct Filled {
    /// By budget, the outage for which that was done.
    outages: HashMap<usize, u64>,
    /// Until when that keeps everybody waiting.
    until: BootInstant,
}

impl Site {
    /// Puts a question to the own store: its budgets, and this process's share of the windows.
    fn own_ask(&self, ask: &Ask<'_>, peers: u32) -> OwnedAsk {
        let places = self.places.lock();
        let charge = |charge: &Charge| {
            let windows = if peers > 1 { Arc::new(charge.windows.shared_by(peers)) } else { Arc::clone(&charge.windows) };
            // What is heavier than a share takes all of it.
            let weight = charge.weight.min(windows.largest_weight());
            Charge { budget: places.get(&charge.budget).copied().unwrap_or(0), weight, windows, slots: charge.slots }
        };
        let charges = ask.charges.iter().map(charge).collect();
        ask.to_owned().charging(charges)
    }

    /// Answers without the shared store.
    fn alone(&self, ask: &OwnedAsk, step: impl FnOnce(&MemorySite, &Ask<'_>) -> Answer<Entered>) -> Answer<Entered> {
        let own = self.own_ask(&ask.as_ask(), self.watch.peers.load(Ordering::Acquire));
        let mut ask = own.as_ask();
        let (outages, peers) = (self.watch.outages.load(Ordering::Acquire), self.watch.peers.load(Ordering::Acquire));
        let filled_until = {
            let mut filled = self.filled.lock();
            for charge in ask.charges {
                // What others were granted just now is not known here: the short windows count as full.
                if filled.outages.insert(charge.budget, outages) != Some(outages) {
                    let (limit, width) = pacing(&charge.windows, peers);
                    self.own.fill(charge.budget, &charge.windows, limit);
                    filled.until = filled.until.max(self.watch.clock.boot() + width);
                }
            }
            filled.until
        };
        // That fullness is our own caution: nobody is refused for it who would wait as long as that.
        ask.latest = ask.latest.max(filled_until.min(ask.deadline));
        step(&self.own, &ask)
    }

    /// Notes what the shared store granted or refused, for when it is away.
    fn note(&self, ask: &OwnedAsk, entered: &Entered) {
        match &entered.entry {
            Entry::Go(_) => {
                let own = self.own_ask(&ask.as_ask(), 1);
                let ask = own.as_ask();
                for charge in ask.charges {
                    self.own.fill(charge.budget, &charge.windows, charge.weight);
                }
                if self.knows_block.swap(false, Ordering::AcqRel) {
                    let _ = self.own.unblock();
                }
            }
            Entry::Refused(Refusal { until, reason: RefusalReason::Open { reason, probing: false } })
            | Entry::WaitForBreaker { until, reason, probing: false } => self.note_block(*until, reason),
            _ => {}
        }
    }

    /// Tells the shared store what a server asked for while it was away. What it answers changes nothing here: if it is
    /// away again, the own store still knows.
    fn tell_block(&self) -> Option<Answer<Option<Transition>>> {
        let until = self.owed_block.lock().take()?;
        let left = until.since(self.watch.clock.boot());
        (!left.is_zero()).then(|| self.shared.block(left, &OpenReason::RetryAfter))
    }

    /// Takes note of what a server asked for that the shared store has not heard of.
    fn owe(&self, report: &Report, settled: &Answer<Settled>) {
        if report.retry_after.is_some()
            && let Answer::Ready(Ok(Settled { open_until: Some(until), .. })) = settled
        {
            let mut owed = self.owed_block.lock();
            *owed = Some(owed.map_or(*until, |earlier| earlier.max(*until)));
        }
    }

    fn note_block(&self, until: BootInstant, reason: &OpenReason) {
        self.knows_block.store(true, Ordering::Release);
        let _ = self.own.block(until.since(self.watch.clock.boot()), reason);
    }

    /// Takes the shared store's answer, or the own store's if there is none.
    fn judged(
        &self,
        ask: &OwnedAsk,
        said: Result<Entered, StoreError>,
        alone: impl FnOnce(&MemorySite, &Ask<'_>) -> Answer<Entered>,
    ) -> Result<Entered, StoreError> {
        match said {
            Ok(entered) => {
                self.note(ask, &entered);
                Ok(entered)
            }
            Err(error) => {
                self.watch.lost(&error, &*self.store);
                match self.alone(ask, alone) {
                    Answer::Ready(entered) => entered,
                    Answer::Later(_) => Err(error),
                }
            }
        }
    }
}

/// Returns how many grants fill every short window, and for how long.
fn pacing(windows: &Windows, peers: u32) -> (u32, Duration) {
    let short = windows.list().iter().filter(|window| window.per <= Duration::from_secs(600) * peers.max(1));
    let filled = short.map(|window| (window.limit.get(), window.per + windows.guard()));
    filled.fold((0, Duration::ZERO), |(limit, width), (other, wider)| (limit.max(other), width.max(wider)))
}

impl FallbackSite {
    fn asked(
        &self,
        ask: &Ask<'_>,
        shared: impl FnOnce(&dyn SiteHandle) -> Answer<Entered>,
        alone: impl FnOnce(&MemorySite, &Ask<'_>) -> Answer<Entered> + Send + 'static,
    ) -> Answer<Entered> {
        let own = ask.to_owned();
        if self.0.watch.is_away(&*self.0.store) {
            return self.0.alone(&own, alone);
        }
        let told = self.0.tell_block();
        match (told, shared(&*self.0.shared)) {
            (None | Some(Answer::Ready(_)), Answer::Ready(said)) => Answer::Ready(self.0.judged(&own, said, alone)),
            (told, said) => {
                let site = Arc::clone(&self.0);
                Answer::Later(Box::pin(async move {
                    if let Some(told) = told {
                        let _ = told.await;
                    }
                    site.judged(&own, said.await, alone)
                }))
            }
        }
    }

    /// Sends a step to whichever store gave the pass. One that is away is not told.
    fn told<T: Send + 'static>(
        &self,
        id: u64,
        ask: &Ask<'_>,
        shared: impl FnOnce(&dyn SiteHandle) -> Answer<T>,
        own: impl FnOnce(&MemorySite, &Ask<'_>) -> Answer<T>,
    ) -> Answer<T> {
        if id >= LOCAL {
            own(&self.0.own, &self.0.own_ask(ask, self.0.watch.peers.load(Ordering::Acquire)).as_ask())
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
        self.asked(ask, |shared| shared.enter(ask), SiteHandle::enter)
    }

    fn confirm(&self, ask: &Ask<'_>, id: u64) -> Answer<Entered> {
        if id < LOCAL {
            return self.asked(ask, |shared| shared.confirm(ask, id), SiteHandle::enter);
        }
        if self.0.watch.is_away(&*self.0.store) {
            return self.0.alone(&ask.to_owned(), |own, ask| own.confirm(ask, id));
        }
        // The shared store is back: its word counts, and the place that was held here is given up.
        let own = self.0.own_ask(ask, self.0.watch.peers.load(Ordering::Acquire));
        let _ = self.0.own.leave(&own.as_ask(), id, None);
        self.enter(ask)
    }

    fn leave(&self, ask: &Ask<'_>, id: u64, spent_at: Option<BootInstant>) -> Answer<bool> {
        self.told(id, ask, |shared| shared.leave(ask, id, spent_at), |own, ask| own.leave(ask, id, spent_at))
    }

    fn hold(&self, ask: &Ask<'_>, pass: &Pass, longest: Duration) -> Answer<()> {
        self.told(pass.id, ask, |shared| shared.hold(ask, pass, longest), |own, ask| own.hold(ask, pass, longest))
    }

    fn sent(&self, ask: &Ask<'_>, pass: &Pass, longest: Duration) -> Answer<Standing> {
        self.told(pass.id, ask, |shared| shared.sent(ask, pass, longest), |own, ask| own.sent(ask, pass, longest))
    }

    fn stamp(&self, ask: &Ask<'_>, pass: &Pass) -> Answer<()> {
        self.told(pass.id, ask, |shared| shared.stamp(ask, pass), |own, ask| own.stamp(ask, pass))
    }

    fn settle_headers(&self, ask: &Ask<'_>, pass: &Pass, outcome: Outcome) -> Answer<Settled> {
        self.told(pass.id, ask, |shared| shared.settle_headers(ask, pass, outcome), |own, ask| own.settle_headers(ask, pass, outcome))
    }

    fn settle(&self, ask: &Ask<'_>, pass: &Pass, report: &Report) -> Answer<Settled> {
        if pass.id >= LOCAL {
            let settled = self.0.own.settle(&self.0.own_ask(ask, self.0.watch.peers.load(Ordering::Acquire)).as_ask(), pass, report);
            self.0.owe(report, &settled);
            return settled;
        }
        let site = Arc::clone(&self.0);
        // A failure that the shared store did not hear of still counts for this process.
        let (question, mine, report) = (self.0.own_ask(ask, 1), pass.clone(), *report);
        let heard = move |said: Result<Settled, StoreError>| match said {
            Ok(settled) => {
                if let Some(until) = settled.open_until {
                    site.note_block(until, settled.transition.as_ref().and_then(|change| change.reason.as_ref()).unwrap_or(&OpenReason::RetryAfter));
                }
                Ok(settled)
            }
            Err(error) => {
                site.watch.lost(&error, &*site.store);
                let settled = site.own.settle(&question.as_ask(), &Pass { era: site.own.era(), probe: false, ..mine }, &report);
                site.owe(&report, &settled);
                match settled {
                    Answer::Ready(settled) => settled,
                    Answer::Later(_) => Err(error),
                }
            }
        };
        match self.0.shared.settle(ask, pass, &report) {
            Answer::Ready(said) => Answer::Ready(heard(said)),
            Answer::Later(coming) => Answer::Later(Box::pin(async move { heard(coming.await) })),
        }
    }

    fn renew(&self, ids: &[u64], length: Duration) -> Answer<Condition> {
        let (own, shared): (Vec<u64>, Vec<u64>) = ids.iter().partition(|id| **id >= LOCAL);
        let condition = self.0.own.renew(&own, length);
        if self.0.watch.is_away(&*self.0.store) { condition } else { self.0.shared.renew(&shared, length) }
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
