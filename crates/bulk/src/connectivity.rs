//! Whether the machine has a network at all, and whether it was lost during the run.
//!
//! Offline means that names cannot be resolved or that there is no route. Then nothing is sent and
//! nothing is counted against any host. A name that does not exist is a dead link, and behind a
//! proxy the proxy decides. Every request of a run is reported here: its response by
//! [`Connectivity::note_response`], its failure by [`Connectivity::judge`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use docstokg_hub::{Disposition, FetchError, Journey, RetryLater, StatedBy};
use docstokg_policy::time::Timestamp;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::job::BoxFuture;
use crate::run_clock::RunClock;

/// How long the result of a check holds.
const CHECK_HOLDS: Duration = Duration::from_secs(10);
/// The longest wait of an item before it tries whether the network is back.
const OFFLINE_WAIT: Duration = Duration::from_secs(30);

/// Tells whether hosts can be reached at all: their names have addresses, and there is a route to
/// them.
pub trait Reachability: Send + Sync {
    /// Tells whether a host can be reached, without sending it anything. Ends within seconds.
    fn is_reachable<'a>(&'a self, host: &'a str) -> BoxFuture<'a, bool>;
}

/// What a run knows about the network.
pub struct Connectivity {
    clock: RunClock,
    check: Option<Arc<dyn Reachability>>,
    /// Hosts that exist for certain: if none of them can be reached, the machine is offline.
    certain: Vec<String>,
    offline: OnceCell<bool>,
    /// Since when nothing could be reached.
    lost: Mutex<Option<Timestamp>>,
    /// The latest check: when, and whether any host could be reached.
    checked: Mutex<Option<(Timestamp, bool)>>,
    restored: AtomicBool,
    /// A host has answered in this run: the network is there, or enough of it.
    has_answered: AtomicBool,
}

impl Connectivity {
    /// Starts without any knowledge. Without a `check` nothing is looked at; `certain` are hosts
    /// that exist for certain.
    #[must_use]
    pub fn new(
        clock: RunClock,
        check: Option<Arc<dyn Reachability>>,
        certain: Vec<String>,
    ) -> Self {
        Self {
            clock,
            check,
            certain,
            offline: OnceCell::new(),
            lost: Mutex::default(),
            checked: Mutex::default(),
            restored: AtomicBool::new(false),
            has_answered: AtomicBool::new(false),
        }
    }

    /// Tells whether a host is out of reach because the machine is offline. Checked once, and only
    /// while no host has answered: later on, a host that cannot be reached is one that fails.
    pub async fn is_offline_for(&self, host: &str) -> bool {
        let Some(check) = &self.check else {
            return false;
        };
        // Resolving the name of a host that does not answer takes seconds: the certain hosts are
        // asked about only where this one is out of reach.
        if self.has_answered.load(Ordering::Acquire) || check.is_reachable(host).await {
            return false;
        }
        let offline = self.offline.get_or_init(|| async {
            !self.certain.is_empty() && !self.is_any_reachable(&**check).await
        });
        *offline.await && !self.has_answered.load(Ordering::Acquire)
    }

    /// Returns what a caller can do about a failed request, as far as this run knows the network.
    ///
    /// A host that alone is out of reach is waited for like one that is down. While the network is
    /// lost, a host that is paused after failures is only out of reach.
    pub async fn judge(&self, error: &FetchError) -> Disposition {
        match error.disposition() {
            Disposition::Offline(later) if !self.lose_network().await => {
                Disposition::Retry(RetryLater {
                    stated_by: StatedBy::Breaker,
                    ..later
                })
            }
            Disposition::Retry(later)
                if later.stated_by.is_inferred() && self.lost_since().is_some() =>
            {
                Disposition::Offline(RetryLater {
                    wait: later.wait.min(OFFLINE_WAIT),
                    ..later
                })
            }
            other => other,
        }
    }

    /// Records that a host could not be reached from here, and returns whether the network is lost:
    /// where hosts that exist for certain can be reached, only that host is lost.
    async fn lose_network(&self) -> bool {
        let now = self.clock.now();
        if let Some(check) = &self.check {
            let checked = *self.checked.lock();
            let holds = checked.filter(|(at, _)| now.since(*at) < CHECK_HOLDS);
            let reachable = if let Some((_, reachable)) = holds {
                reachable
            } else {
                let reachable = self.is_any_reachable(&**check).await;
                *self.checked.lock() = Some((now, reachable));
                reachable
            };
            if reachable {
                return false;
            }
        }
        self.lost.lock().get_or_insert(now);
        true
    }

    /// Records a response. The network is there, unless the cache answered.
    pub fn note_response(&self, journey: &Journey) {
        if !journey.is_from_network() {
            return;
        }
        self.has_answered.store(true, Ordering::Release);
        if self.lost.lock().take().is_some() {
            self.restored.store(true, Ordering::Release);
        }
    }

    /// Returns since when nothing could be reached.
    #[must_use]
    pub fn lost_since(&self) -> Option<Timestamp> {
        *self.lost.lock()
    }

    /// Tells, once, that the network is back.
    pub(crate) fn take_restored(&self) -> bool {
        self.restored.swap(false, Ordering::AcqRel)
    }

    /// Tells whether one of the hosts that exist for certain can be reached.
    async fn is_any_reachable(&self, check: &dyn Reachability) -> bool {
        let mut checks: Vec<BoxFuture<'_, bool>> = self
            .certain
            .iter()
            .map(|host| check.is_reachable(host))
            .collect();
        std::future::poll_fn(|context| {
            let mut is_reachable = false;
            checks.retain_mut(|check| match check.as_mut().poll(context) {
                Poll::Ready(reachable) => {
                    is_reachable |= reachable;
                    false
                }
                Poll::Pending => true,
            });
            if is_reachable || checks.is_empty() {
                Poll::Ready(is_reachable)
            } else {
                Poll::Pending
            }
        })
        .await
    }
}
