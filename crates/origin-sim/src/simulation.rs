//! Virtual time: a single-threaded executor with its own clock.
//!
//! Tasks run until all of them wait; then the clock jumps to the next timer. No thread sleeps, the
//! machine has no influence, and the same seed gives the same run.
//!
//! A hub in a simulation wakes late and its store is slow, as on a real machine, unless the test
//! uses [`Simulation::exact`] time. The network between the hub and the origins is exact.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use docstokg_hub::clock::{BootInstant, BoxFuture, Clock, Random, Runtime, Sleep, Timestamp};
use docstokg_hub::stores::StateStore;
use docstokg_hub::stores::memory::MemoryStore;
use docstokg_hub::{Hub, config};
use parking_lot::Mutex;

use crate::origin::{OriginScript, SimulatedWeb};
use crate::transport::SimTransport;

mod late;
mod process;

use late::{LateRuntime, LateStore, Lateness};
pub use process::Process;
use process::Processes;

/// A day in 2026 on which simulations start, in microseconds since 1970.
const WALL_AT_START: i64 = 1_790_000_000_000_000;
/// The boot clock at the start: not zero, as on a real machine.
const BOOT_AT_START: BootInstant = BootInstant::from_micros(1_000_000_000);

type TaskFuture = BoxFuture<'static, ()>;

/// A world with its own time. Clones share the world.
#[derive(Clone)]
pub struct Simulation(Arc<SimulatedWorld>);

struct SimulatedWorld {
    now: Mutex<BootInstant>,
    timers: Mutex<BinaryHeap<Reverse<Timer>>>,
    ready: Mutex<VecDeque<Arc<Task>>>,
    number: Mutex<u64>,
    lateness: Option<Lateness>,
    processes: Processes,
}

struct Timer {
    at: BootInstant,
    number: u64,
    state: Arc<Mutex<TimerState>>,
}

#[derive(Default)]
struct TimerState {
    fired: bool,
    waker: Option<Waker>,
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.number) == (other.at, other.number)
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

struct Task {
    work: Mutex<Option<TaskFuture>>,
    queued: AtomicBool,
    world: std::sync::Weak<SimulatedWorld>,
    /// The number of the task's process; 0 for no process, so that the task neither pauses nor
    /// dies.
    process: usize,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel)
            && let Some(world) = self.world.upgrade()
        {
            world.ready.lock().push_back(self);
        }
    }
}

impl Default for Simulation {
    fn default() -> Self {
        Self::new()
    }
}

impl Simulation {
    /// Creates a world at its start, in which hubs wake late.
    #[must_use]
    pub fn new() -> Self {
        Self::seeded(1)
    }

    /// Creates a world whose lateness follows from a seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self::with(Some(Lateness::seeded(seed)))
    }

    /// Creates a world in which every sleep ends at its exact instant, for tests of instants.
    ///
    /// ```
    /// use std::time::Duration;
    /// use docstokg_origin_sim::Simulation;
    ///
    /// let simulation = Simulation::exact();
    /// let hour = simulation.sleep(Duration::from_secs(3_600));
    /// simulation.block_on(hour);
    /// assert_eq!(simulation.elapsed(), Duration::from_secs(3_600));
    /// ```
    #[must_use]
    pub fn exact() -> Self {
        Self::with(None)
    }

    fn with(lateness: Option<Lateness>) -> Self {
        let now = Mutex::new(BOOT_AT_START);
        Self(Arc::new(SimulatedWorld {
            now,
            timers: Mutex::default(),
            ready: Mutex::default(),
            number: Mutex::default(),
            lateness,
            processes: Processes::default(),
        }))
    }

    /// Returns the [`Runtime`] for a hub in this world.
    #[must_use]
    pub fn runtime(&self) -> Arc<dyn Runtime> {
        match &self.0.lateness {
            Some(lateness) => Arc::new(LateRuntime {
                simulation: self.clone(),
                lateness: lateness.clone(),
                process: 0,
            }),
            None => Arc::new(self.clone()),
        }
    }

    /// Builds a hub in this world with the shipped configuration, and the web of origins to which
    /// its requests go.
    ///
    /// # Panics
    /// The shipped configuration is invalid.
    #[must_use]
    #[expect(
        clippy::expect_used,
        reason = "a hub that cannot be built is a failed test"
    )]
    pub fn hub(&self, origins: impl IntoIterator<Item = OriginScript>) -> (Hub, SimulatedWeb) {
        let web = SimulatedWeb::new(origins, self.boot());
        let hub = Hub::builder(config::load::shipped().expect("the shipped configuration"))
            .runtime(self.runtime())
            .store(self.store())
            .random(Random::seeded(1))
            .transport(SimTransport::new(self, &web))
            .build();
        (hub.expect("a hub of simulated parts"), web)
    }

    /// Returns an empty [`StateStore`] for a hub in this world.
    #[must_use]
    pub fn store(&self) -> Arc<dyn StateStore> {
        self.store_for(false, None)
    }

    /// Returns an empty [`StateStore`] that several hubs of this world share, as processes do.
    #[must_use]
    pub fn shared_store(&self) -> Arc<dyn StateStore> {
        self.store_for(true, None)
    }

    /// Returns an empty [`StateStore`] on another machine, with this round trip.
    #[must_use]
    pub fn remote_store(&self, round_trip: Duration) -> Arc<dyn StateStore> {
        self.store_for(true, Some(round_trip))
    }

    fn store_for(&self, shared: bool, round_trip: Option<Duration>) -> Arc<dyn StateStore> {
        let inner = Arc::new(MemoryStore::new(Arc::new(self.clone())));
        match &self.0.lateness {
            Some(lateness) => Arc::new(LateStore {
                inner,
                simulation: self.clone(),
                lateness: lateness.clone(),
                shared,
                round_trip,
            }),
            None => inner,
        }
    }

    /// Returns the time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.boot().since(BOOT_AT_START)
    }

    /// Returns a [`Sleep`] of this length.
    #[must_use]
    pub fn sleep(&self, length: Duration) -> Sleep {
        self.sleep_until(self.boot() + length)
    }

    /// Starts a task in the simulation.
    pub fn start(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.spawn(Box::pin(work));
    }

    /// Runs until nothing is left to do; the clock jumps ahead whenever all tasks wait.
    pub fn run(&self) {
        self.run_until(BootInstant::FAR);
    }

    /// Runs until an instant, or until nothing is left to do before it.
    pub fn run_for(&self, length: Duration) {
        let end = self.boot() + length;
        self.run_until(end);
        *self.0.now.lock() = end;
    }

    /// Runs one future to its end and returns its output.
    ///
    /// # Panics
    /// If every task waits forever.
    #[expect(clippy::expect_used, reason = "a stuck simulation is a failed test")]
    pub fn block_on<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        let outcome = Arc::new(Mutex::new(None));
        let put = Arc::clone(&outcome);
        self.start(async move {
            let value = work.await;
            *put.lock() = Some(value);
        });
        while outcome.lock().is_none() {
            let progressed = self.run_ready() || self.next_timer(BootInstant::FAR);
            assert!(progressed, "every task waits forever");
        }
        let value = outcome.lock().take();
        value.expect("an outcome")
    }

    fn run_until(&self, end: BootInstant) {
        while self.run_ready() || self.next_timer(end) {}
    }

    /// Polls ready tasks until no task is ready. Returns true if there was a ready task.
    fn run_ready(&self) -> bool {
        let mut ran = false;
        loop {
            let Some(task) = self.0.ready.lock().pop_front() else {
                return ran;
            };
            ran = true;
            let Some(task) = self.0.processes.may_run(task) else {
                continue;
            };
            task.queued.store(false, Ordering::Release);
            let waker = Waker::from(Arc::clone(&task));
            let Some(mut work) = task.work.lock().take() else {
                continue;
            };
            if work
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
            {
                *task.work.lock() = Some(work);
            }
        }
    }

    /// Jumps to the next timer before `end`. Returns true if there was one.
    fn next_timer(&self, end: BootInstant) -> bool {
        loop {
            let mut timers = self.0.timers.lock();
            let Some(Reverse(next)) = timers.peek() else {
                return false;
            };
            if next.at > end {
                return false;
            }
            let Some(Reverse(timer)) = timers.pop() else {
                return false;
            };
            drop(timers);
            // A timer without a waiter must not move the clock.
            if Arc::strong_count(&timer.state) == 1 {
                continue;
            }
            let mut now = self.0.now.lock();
            *now = (*now).max(timer.at);
            drop(now);
            let mut state = timer.state.lock();
            state.fired = true;
            if let Some(waker) = state.waker.take() {
                waker.wake();
            }
            return true;
        }
    }
}

impl Clock for Simulation {
    fn boot(&self) -> BootInstant {
        *self.0.now.lock()
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_micros(WALL_AT_START) + self.elapsed()
    }
}

impl Runtime for Simulation {
    fn sleep_until(&self, at: BootInstant) -> Sleep {
        if at <= self.boot() {
            return Box::pin(std::future::ready(()));
        }
        let state = Arc::new(Mutex::new(TimerState::default()));
        let number = {
            let mut number = self.0.number.lock();
            *number += 1;
            *number
        };
        self.0.timers.lock().push(Reverse(Timer {
            at,
            number,
            state: Arc::clone(&state),
        }));
        Box::pin(std::future::poll_fn(move |context| {
            let mut state = state.lock();
            if state.fired {
                return Poll::Ready(());
            }
            state.waker = Some(context.waker().clone());
            Poll::Pending
        }))
    }

    fn spawn(&self, work: TaskFuture) {
        self.spawn_in(0, work);
    }
}

impl Simulation {
    /// Starts a [`Process`]: a group of tasks that can be paused and killed together.
    #[must_use]
    pub fn process(&self) -> Process {
        Process::start(self)
    }

    fn spawn_in(&self, process: usize, work: TaskFuture) {
        let world = Arc::downgrade(&self.0);
        let task = Arc::new(Task {
            work: Mutex::new(Some(work)),
            queued: AtomicBool::new(true),
            world,
            process,
        });
        self.0.ready.lock().push_back(task);
    }
}
