//! How a real machine differs from an exact one: sleeps end late, and stores are slow.
//!
//! A simulation that ends every sleep at its exact instant hides what lateness does to waiting
//! requests: so a hub in a simulation runs on this, unless a test asks for exact time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use docstokg_hub::clock::{BootInstant, BoxFuture, Clock, Runtime, Sleep, Timestamp};
use docstokg_hub::stores::memory::MemoryStore;
use docstokg_hub::stores::{
    BudgetKey, SiteHandle, SiteKey, SiteView, StateStore, StoreError, StoreReply,
};
use docstokg_policy::site::{SiteOperation, SiteResult};
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

    fn spawn(&self, work: BoxFuture<'static, ()>) {
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

    fn list(&self) -> StoreReply<Vec<SiteKey>> {
        self.inner.list()
    }

    fn is_shared(&self) -> bool {
        self.shared
    }

    fn is_remote(&self) -> bool {
        self.round_trip.is_some()
    }

    fn flush(&self) -> StoreReply<()> {
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
}

/// The answer to an operation on its way. A permit or reservation is given back if it is dropped.
struct LateAnswer {
    sleep: Sleep,
    result: Option<Result<SiteResult, StoreError>>,
    operation: SiteOperation<'static>,
    site: Arc<dyn SiteHandle>,
}

impl Future for LateAnswer {
    type Output = Result<SiteResult, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match (self.sleep.as_mut().poll(context), self.result.take()) {
            (Poll::Ready(()), Some(result)) => Poll::Ready(result),
            (_, result) => {
                self.result = result;
                Poll::Pending
            }
        }
    }
}

impl Drop for LateAnswer {
    fn drop(&mut self) {
        if let Some(Ok(result)) = self.result.take()
            && let Some(undo) = self.operation.undo(&result)
        {
            let _ = self.site.apply(&undo);
        }
    }
}

impl SiteHandle for LateSite {
    fn budget(&self, key: &BudgetKey) -> usize {
        self.inner.budget(key)
    }

    /// Applies an operation now, and delivers its answer later; that to an operator at once.
    fn apply(&self, operation: &SiteOperation<'_>) -> StoreReply<SiteResult> {
        let is_late = matches!(
            operation,
            SiteOperation::Request(..) | SiteOperation::Renew { .. }
        );
        match self.inner.apply(operation) {
            StoreReply::Ready(result) if is_late => StoreReply::Later(Box::pin(LateAnswer {
                sleep: self.delivery(),
                result: Some(result),
                operation: operation.to_static(),
                site: Arc::clone(&self.inner),
            })),
            answer => answer,
        }
    }

    fn view(&self) -> StoreReply<SiteView> {
        self.inner.view()
    }
}
