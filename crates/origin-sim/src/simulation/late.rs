//! How a real machine differs from an exact one: sleeps end late, and stores are slow.
//!
//! A simulation that ends every sleep at its exact instant hides what lateness does to waiting
//! requests: so a hub in a simulation runs on this, unless a test asks for exact time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use docstokg_hub::clock::{BootInstant, Clock, Runtime, Sleep, Timestamp};
use docstokg_hub::stores::memory::MemoryStore;
use docstokg_hub::stores::{
    Answer, BudgetKey, SiteHandle, SiteKey, SiteView, StateStore, StoreError,
};
use docstokg_policy::breaker::{OpenReason, Transition};
use docstokg_policy::classify::Outcome;
use docstokg_policy::quota::{Heard, Statement};
use docstokg_policy::site::{Ask, Condition, Entered, Entry, Permit, Report, Settled, Standing};
use parking_lot::Mutex;

use super::Simulation;

/// How late a sleep usually ends at most, in microseconds.
const USUAL_LATENESS: u64 = 20_000;
/// How late it rarely ends, in microseconds.
const RARE_LATENESS: u64 = 500_000;
/// One sleep in this many ends very late, and one answer of a store in this many is very slow.
const RARE_ONE_IN: u32 = 200;
/// How long a store usually takes at most, in microseconds.
const USUAL_DELAY: u64 = 2_000;
/// How long it rarely takes, in microseconds.
const RARE_DELAY: u64 = 60_000;

/// Samples how late sleeps and answers are.
#[derive(Clone)]
pub(super) struct Lateness(Arc<Mutex<fastrand::Rng>>);

impl Lateness {
    pub(super) fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))))
    }

    fn sample(&self, usual: u64, rare: u64) -> Duration {
        let mut random = self.0.lock();
        let longest = if random.u32(..RARE_ONE_IN) == 0 {
            rare
        } else {
            usual
        };
        Duration::from_micros(random.u64(..=longest))
    }

    fn of_sleep(&self) -> Duration {
        self.sample(USUAL_LATENESS, RARE_LATENESS)
    }

    fn of_store(&self) -> Duration {
        self.sample(USUAL_DELAY, RARE_DELAY)
    }
}

/// A runtime whose sleeps end late.
pub(super) struct LateRuntime {
    pub(super) simulation: Simulation,
    pub(super) lateness: Lateness,
    /// The process that it runs in.
    pub(super) process: usize,
}

impl Clock for LateRuntime {
    fn boot(&self) -> BootInstant {
        self.simulation.boot()
    }

    fn wall(&self) -> Timestamp {
        self.simulation.wall()
    }
}

impl Runtime for LateRuntime {
    fn sleep_until(&self, at: BootInstant) -> Sleep {
        if at <= self.boot() || at == BootInstant::FAR {
            return self.simulation.sleep_until(at);
        }
        self.simulation.sleep_until(at + self.lateness.of_sleep())
    }

    fn spawn(&self, work: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.simulation.spawn_in(self.process, work);
    }
}

/// A store in memory whose answers take time, as those of a file or a server do.
pub(super) struct LateStore {
    pub(super) inner: Arc<MemoryStore>,
    pub(super) simulation: Simulation,
    pub(super) lateness: Lateness,
    /// Whether several hubs of the simulation use it, as processes do.
    pub(super) shared: bool,
    /// The round trip to it, if it is on another machine.
    pub(super) round_trip: Option<Duration>,
}

impl StateStore for LateStore {
    fn site(&self, key: &SiteKey) -> Arc<dyn SiteHandle> {
        let (simulation, lateness, round_trip) = (
            self.simulation.clone(),
            self.lateness.clone(),
            self.round_trip,
        );
        Arc::new(LateSite {
            inner: self.inner.site(key),
            simulation,
            lateness,
            round_trip,
        })
    }

    fn list(&self) -> Answer<Vec<SiteKey>> {
        self.inner.list()
    }

    fn is_shared(&self) -> bool {
        self.shared
    }

    fn is_remote(&self) -> bool {
        self.round_trip.is_some()
    }

    fn flush(&self) -> Answer<()> {
        self.inner.flush()
    }
}

struct LateSite {
    inner: Arc<dyn SiteHandle>,
    simulation: Simulation,
    lateness: Lateness,
    round_trip: Option<Duration>,
}

impl LateSite {
    /// Returns a sleep as long as an answer takes.
    fn delivery(&self) -> Sleep {
        self.simulation
            .sleep(self.round_trip.unwrap_or_default() + self.lateness.of_store())
    }

    /// Runs an operation now, and delivers its answer later.
    fn late<T: Send + Unpin + 'static>(&self, answer: Answer<T>) -> Answer<T> {
        let sleep = self.delivery();
        Answer::Later(Box::pin(async move {
            sleep.await;
            answer.await
        }))
    }

    /// The same for an answer whose permit has to be given back if it is dropped.
    fn late_entry(&self, ask: &Ask, answer: Answer<Entered>) -> Answer<Entered> {
        let Answer::Ready(said) = answer else {
            return answer;
        };
        let sleep = self.delivery();
        Answer::Later(Box::pin(LateEntry {
            sleep,
            said: Some(said),
            ask: ask.clone(),
            site: Arc::clone(&self.inner),
        }))
    }
}

/// The answer to an `enter` or a `confirm` on its way.
struct LateEntry {
    sleep: Sleep,
    said: Option<Result<Entered, StoreError>>,
    ask: Ask,
    site: Arc<dyn SiteHandle>,
}

impl Future for LateEntry {
    type Output = Result<Entered, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match (self.sleep.as_mut().poll(context), self.said.take()) {
            (Poll::Ready(()), Some(said)) => Poll::Ready(said),
            (_, said) => {
                self.said = said;
                Poll::Pending
            }
        }
    }
}

impl Drop for LateEntry {
    fn drop(&mut self) {
        let (id, spent) = match self.said.take() {
            Some(Ok(Entered {
                entry: Entry::Go(permit),
                ..
            })) => (permit.id, Some(permit.stamp)),
            Some(Ok(Entered {
                entry: Entry::Wait(reserved),
                ..
            })) => (reserved.id, None),
            Some(Ok(Entered {
                entry: Entry::WaitForSlot { id, .. },
                ..
            })) => (id, None),
            _ => return,
        };
        let _ = self.site.leave(&self.ask, id, spent);
    }
}

impl SiteHandle for LateSite {
    fn budget(&self, key: &BudgetKey) -> usize {
        self.inner.budget(key)
    }

    fn enter(&self, ask: &Ask) -> Answer<Entered> {
        self.late_entry(ask, self.inner.enter(ask))
    }

    fn confirm(&self, ask: &Ask, id: u64) -> Answer<Entered> {
        self.late_entry(ask, self.inner.confirm(ask, id))
    }

    fn leave(&self, ask: &Ask, id: u64, spent_at: Option<BootInstant>) -> Answer<bool> {
        self.late(self.inner.leave(ask, id, spent_at))
    }

    fn hold(&self, ask: &Ask, permit: &Permit, longest: Duration) -> Answer<()> {
        self.late(self.inner.hold(ask, permit, longest))
    }

    fn sent(&self, ask: &Ask, permit: &Permit, longest: Duration) -> Answer<Standing> {
        self.late(self.inner.sent(ask, permit, longest))
    }

    fn stamp(&self, ask: &Ask, permit: &Permit) -> Answer<()> {
        self.late(self.inner.stamp(ask, permit))
    }

    fn settle_headers(&self, ask: &Ask, permit: &Permit, outcome: Outcome) -> Answer<Settled> {
        self.late(self.inner.settle_headers(ask, permit, outcome))
    }

    fn state_quotas(&self, ask: &Ask, permit: &Permit, stated: &Statement) -> Answer<Heard> {
        self.late(self.inner.state_quotas(ask, permit, stated))
    }

    fn settle(&self, ask: &Ask, permit: &Permit, report: &Report) -> Answer<Settled> {
        self.late(self.inner.settle(ask, permit, report))
    }

    fn renew(&self, ids: &[u64], length: Duration) -> Answer<Condition> {
        self.late(self.inner.renew(ids, length))
    }

    fn block(&self, length: Duration, reason: &OpenReason) -> Answer<Option<Transition>> {
        self.inner.block(length, reason)
    }

    fn unblock(&self) -> Answer<Option<Transition>> {
        self.inner.unblock()
    }

    fn forget_learned(&self) -> Answer<bool> {
        self.inner.forget_learned()
    }

    fn forget_adaptation(&self) -> Answer<bool> {
        self.inner.forget_adaptation()
    }

    fn view(&self) -> Answer<SiteView> {
        self.inner.view()
    }
}
