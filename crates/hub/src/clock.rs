//! The interfaces to time, random numbers and background work.
//!
//! No other module of the hub reads a clock, sleeps, takes random numbers or spawns tasks directly,
//! so that simulations and tests can replace all of these.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

pub use docstokg_policy::time::{BootInstant, Clock, Timestamp};
pub use docstokg_stores::clock::SystemClock;
use parking_lot::Mutex;

/// A boxed future that may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A future that completes at an instant.
pub type Sleep = BoxFuture<'static, ()>;

/// The platform of a hub: a [`Clock`] with sleep, and an executor for background work.
pub trait Runtime: Clock {
    /// Returns a [`Sleep`] until `at`, which completes at once if `at` has passed.
    fn sleep_until(&self, at: BootInstant) -> Sleep;

    /// Runs work in the background, without a way to wait for its end.
    fn spawn(&self, work: BoxFuture<'static, ()>);

    /// Returns whether the operating system may pause the process, so that time passes while no
    /// code runs. `false` for simulated time.
    fn can_pause(&self) -> bool {
        false
    }
}

/// The [`Runtime`] of real programs: the machine's clocks and tokio.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioRuntime(SystemClock);

impl Clock for TokioRuntime {
    fn boot(&self) -> BootInstant {
        self.0.boot()
    }

    fn wall(&self) -> Timestamp {
        self.0.wall()
    }
}

impl Runtime for TokioRuntime {
    fn can_pause(&self) -> bool {
        true
    }

    #[expect(clippy::disallowed_methods, reason = "this is the interface to it")]
    fn spawn(&self, work: BoxFuture<'static, ()>) {
        // Without a runtime, as at the end of a program, the work is dropped.
        if let Ok(home) = tokio::runtime::Handle::try_current() {
            home.spawn(work);
        }
    }

    #[expect(clippy::disallowed_methods, reason = "this is the interface to it")]
    fn sleep_until(&self, at: BootInstant) -> Sleep {
        let clock = self.0;
        Box::pin(async move {
            // tokio's timer rounds to a millisecond and does not count the time of a suspended
            // machine, so the boot clock decides whether `at` has passed.
            loop {
                let left = at.since(clock.boot());
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(left).await;
            }
        })
    }
}

/// Waits for `work`, at most until `until`. Returns `None` if the work has not ended by then. A
/// timer is created only if the work does not end at once.
pub async fn before<T>(
    runtime: &dyn Runtime,
    until: BootInstant,
    work: impl Future<Output = T>,
) -> Option<T> {
    let mut work = pin!(work);
    let mut sleep: Option<Sleep> = None;
    std::future::poll_fn(|context| {
        if let Poll::Ready(value) = work.as_mut().poll(context) {
            return Poll::Ready(Some(value));
        }
        if until == BootInstant::FAR {
            return Poll::Pending;
        }
        let sleep = sleep.get_or_insert_with(|| runtime.sleep_until(until));
        sleep.as_mut().poll(context).map(|()| None)
    })
    .await
}

/// A source of random numbers. The same seed yields the same numbers.
#[derive(Clone, Debug)]
pub struct Random(Arc<Mutex<fastrand::Rng>>);

impl Random {
    /// Creates a generator from a seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))))
    }

    /// Creates a generator from the system's entropy.
    #[must_use]
    pub fn from_entropy() -> Self {
        Self(Arc::new(Mutex::new(fastrand::Rng::new())))
    }

    /// Returns a random number from 0 up to, but not including, 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.0.lock().f64()
    }

    /// Returns a random 64-bit number.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.0.lock().u64(..)
    }
}
