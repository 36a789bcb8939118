//! Whether the machine has a network at all, and whether it was lost on the way.
//!
//! Offline means that names cannot be resolved or that there is no route. Then nothing is sent and
//! nothing is counted against any host. A name that does not exist is a dead link, and behind a
//! proxy the proxy decides.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::web::BoxFuture;

/// How long a look is believed, in seconds.
const BELIEVED: f64 = 10.0;

/// Tells whether hosts can be reached at all: their names have addresses, and there is a route to
/// them.
pub trait Reachability: Send + Sync {
    /// Tells whether a host can be reached, without sending it anything. Ends within seconds.
    fn is_reachable<'a>(&'a self, host: &'a str) -> BoxFuture<'a, bool>;
}

/// What a run knows about the network.
pub(crate) struct Network {
    check: Option<Arc<dyn Reachability>>,
    /// Hosts that exist for certain: if none of them can be reached, the machine is offline.
    certain: Vec<String>,
    offline: OnceCell<bool>,
    /// Since when nothing could be reached, in seconds since 1970.
    lost: Mutex<Option<f64>>,
    /// When it was last looked whether anything can be reached, and whether so.
    looked: Mutex<Option<(f64, bool)>>,
    back: AtomicBool,
    /// A host has answered in this run: the network is there, or enough of it.
    has_answered: AtomicBool,
}

impl Network {
    pub(crate) fn new(check: Option<Arc<dyn Reachability>>, certain: Vec<String>) -> Self {
        Self {
            check,
            certain,
            offline: OnceCell::new(),
            lost: Mutex::default(),
            looked: Mutex::default(),
            back: AtomicBool::new(false),
            has_answered: AtomicBool::new(false),
        }
    }

    /// Tells whether a host is out of reach because the machine is offline. Looked at once, and
    /// only while no host has answered: later on, a host that cannot be reached is one that fails.
    pub(crate) async fn is_offline_for(&self, host: &str) -> bool {
        let Some(check) = self
            .check
            .as_ref()
            .filter(|_| !self.has_answered.load(Ordering::Acquire))
        else {
            return false;
        };
        // Looking up a host that does not answer takes seconds: those that are not needed are not
        // looked at.
        if check.is_reachable(host).await {
            return false;
        }
        let offline = self.offline.get_or_init(|| async {
            if self.certain.is_empty() {
                return false;
            }
            let looks = self
                .certain
                .iter()
                .map(|host| -> BoxFuture<'_, bool> { check.is_reachable(host) });
            !crate::resolver::join_all(looks).await.contains(&true)
        });
        *offline.await && !self.has_answered.load(Ordering::Acquire)
    }

    /// Takes in that a host could not be reached from here, and tells whether the network was lost:
    /// where hosts that exist for certain can be reached, only that host was.
    pub(crate) async fn is_lost(&self, now: f64) -> bool {
        if let Some(check) = &self.check {
            let looked = *self.looked.lock();
            let reachable =
                if let Some((_, reachable)) = looked.filter(|(at, _)| now - at < BELIEVED) {
                    reachable
                } else {
                    let looks = self
                        .certain
                        .iter()
                        .map(|host| -> BoxFuture<'_, bool> { check.is_reachable(host) });
                    let reachable = crate::resolver::join_all(looks).await.contains(&true);
                    *self.looked.lock() = Some((now, reachable));
                    reachable
                };
            if reachable {
                return false;
            }
        }
        self.lost.lock().get_or_insert(now);
        true
    }

    /// Notes that a host answered.
    pub(crate) fn answered(&self) {
        self.has_answered.store(true, Ordering::Release);
        if self.lost.lock().take().is_some() {
            self.back.store(true, Ordering::Release);
        }
    }

    /// Returns since when nothing could be reached.
    pub(crate) fn lost_since(&self) -> Option<f64> {
        *self.lost.lock()
    }

    /// Tells, once, that the network is back.
    pub(crate) fn take_back(&self) -> bool {
        self.back.swap(false, Ordering::AcqRel)
    }
}
