//! Makes a simulation less exact, like a real machine: sleeps end late, and stores are slow.
//!
//! A simulation in which every sleep ends at its exact instant hides the effects of lateness on
//! waiting requests. So a hub in a simulation runs on [`LateRuntime`], unless a test needs exact
//! times.

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

/// Maximum lateness of most sleeps, in microseconds.
const USUAL_LATENESS: u64 = 20_000;
/// Maximum lateness of rare sleeps, in microseconds.
const RARE_LATENESS: u64 = 500_000;
/// Number of sleeps of which one may be very late, and of store replies of which one may be very
/// slow.
const RARE_ONE_IN: u32 = 200;
/// Maximum delay of most store replies, in microseconds.
const USUAL_DELAY: u64 = 2_000;
/// Maximum delay of rare store replies, in microseconds.
const RARE_DELAY: u64 = 60_000;

/// Samples the lateness of sleeps and the delay of store replies.
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

/// A [`Runtime`] whose sleeps end late.
pub(super) struct LateRuntime {
    pub(super) simulation: Simulation,
    pub(super) lateness: Lateness,
    /// The number of the simulated process that the runtime belongs to.
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

/// A [`MemoryStore`] whose replies take time, like those of a file or a server.
pub(super) struct LateStore {
    pub(super) inner: Arc<MemoryStore>,
    pub(super) simulation: Simulation,
    pub(super) lateness: Lateness,
    /// True if several hubs of the simulation share the store, like processes that share a file or
    /// server.
    pub(super) shared: bool,
    /// The time of a round trip to the store, if the store is on another machine.
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
    /// Returns a sleep that lasts as long as the store takes to reply.
    fn delivery(&self) -> Sleep {
        self.simulation
            .sleep(self.round_trip.unwrap_or_default() + self.lateness.of_store())
    }
}

/// A reply of the store that has not arrived yet. If this value is dropped, the permit or
/// reservation in the reply is released.
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

    /// Applies an operation now and delivers the reply later. Replies to an operator are delivered
    /// at once.
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
