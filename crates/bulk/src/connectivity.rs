//! Detects whether this machine has a network, and whether the network is lost during a run.
//!
//! The machine is offline if names cannot be resolved, or if there is no route. While the machine
//! is offline, nothing is sent, and no failure counts against a host. A name that does not exist is
//! a dead link and not a sign of an offline machine. Behind a proxy, the proxy resolves the names.
//! Every request of a run is reported here: its response by [`Connectivity::note_response`], its
//! failure by [`Connectivity::judge`].

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

/// The time for which the result of a check is used before the check is repeated.
const CHECK_HOLDS: Duration = Duration::from_secs(10);
/// Maximum wait of an item before it tries whether the network is back.
const OFFLINE_WAIT: Duration = Duration::from_secs(30);

/// Tests whether a host can be reached: its name has an address, and there is a route to it.
pub trait Reachability: Send + Sync {
    /// Returns whether a host can be reached, without sending a request. The result must be ready
    /// within seconds.
    fn is_reachable<'a>(&'a self, host: &'a str) -> BoxFuture<'a, bool>;
}

/// The facts that a run has learned about the network of this machine.
pub struct Connectivity {
    clock: RunClock,
    check: Option<Arc<dyn Reachability>>,
    /// Hosts that certainly exist: if all of them are unreachable, the machine is offline.
    certain: Vec<String>,
    offline: OnceCell<bool>,
    /// The time since which no host could be reached.
    lost: Mutex<Option<Timestamp>>,
    /// The latest check: its time, and whether any host could be reached.
    checked: Mutex<Option<(Timestamp, bool)>>,
    restored: AtomicBool,
    /// True if any host has responded in this run, so that the network works at least in part.
    has_answered: AtomicBool,
}

impl Connectivity {
    /// Creates the state of a run that has not sent a request yet. If `check` is `None`,
    /// connectivity is never tested. `certain` are hosts that certainly exist.
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

    /// Returns whether `host` is unreachable because the machine is offline. The certain hosts are
    /// checked at most once, and only before the first response of any host. After a response, an
    /// unreachable host counts as failing.
    pub async fn is_offline_for(&self, host: &str) -> bool {
        let Some(check) = &self.check else {
            return false;
        };
        // Resolving the name of an unresponsive host takes seconds, so check the certain hosts only
        // if `host` is unreachable.
        if self.has_answered.load(Ordering::Acquire) || check.is_reachable(host).await {
            return false;
        }
        let offline = self.offline.get_or_init(|| async {
            !self.certain.is_empty() && !self.is_any_reachable(&**check).await
        });
        *offline.await && !self.has_answered.load(Ordering::Acquire)
    }

    /// Returns the [`Disposition`] of a failed request, corrected by the state of the network.
    ///
    /// - A host counts as down, and not as offline, if a check reaches a host that certainly
    ///   exists.
    /// - While the network is lost, a host that is paused because requests failed counts as
    ///   offline, so its
    ///   items are retried soon.
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

    /// Records that a host could not be reached, and returns whether the network is lost. The
    /// network is not lost if a host that certainly exists can be reached.
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

    /// Records a response. Unless the cache served the response, it proves that the network works.
    pub fn note_response(&self, journey: &Journey) {
        if !journey.is_from_network() {
            return;
        }
        self.has_answered.store(true, Ordering::Release);
        if self.lost.lock().take().is_some() {
            self.restored.store(true, Ordering::Release);
        }
    }

    /// Returns the time at which the network was lost; `None` while the network works.
    #[must_use]
    pub fn lost_since(&self) -> Option<Timestamp> {
        *self.lost.lock()
    }

    /// Returns true if the network has come back since the last call that returned true.
    pub(crate) fn take_restored(&self) -> bool {
        self.restored.swap(false, Ordering::AcqRel)
    }

    /// Returns whether any of the hosts that certainly exist can be reached.
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
