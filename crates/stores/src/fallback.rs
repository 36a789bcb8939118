//! A store that continues in this process while the shared store is unavailable.
//!
//! While the shared store responds, this process records its permits and the blocked hosts in
//! memory. When the store fails, the process continues with its share: the limit of every window
//! divided by the last known number of processes, and the last known blocks. The shares never
//! exceed the limit.
//!
//! The loss is reported once. The store is checked twice a second, and its return is reported. At
//! both switches the short windows count as full for two seconds more than their length, until all
//! other processes have noticed the switch.

use std::sync::Arc;

use docstokg_policy::time::Clock;

use crate::handle::{Availability, SiteHandle, SiteKey, StateStore, StoreReply};
use crate::memory::MemoryStore;

mod fill;
mod site;
mod watch;

use site::FallbackSiteHandle;
use watch::StoreWatch;

/// The bit in ids of permits and reservations of the own store; the ids of shared stores are
/// smaller.
const LOCAL_ID: u64 = 1 << 60;

/// A function that reports a change of the store's availability to the user.
pub type AvailabilityNotice = Arc<dyn Fn(&str) + Send + Sync>;

/// A shared store, and the process's own store for the time when the shared one is unavailable.
pub struct Fallback {
    shared: Arc<dyn StateStore>,
    own: MemoryStore,
    watch: Arc<StoreWatch>,
}

impl Fallback {
    /// Creates a fallback for the [`StateStore`] `shared`, and reports its outages to `notice`. If
    /// the number of processes was never known, this process uses one part of the limits in
    /// `assumed_peers`.
    #[must_use]
    pub fn new(
        shared: Arc<dyn StateStore>,
        clock: Arc<dyn Clock>,
        notice: AvailabilityNotice,
        assumed_peers: u32,
    ) -> Self {
        let watch = Arc::new(StoreWatch::new(Arc::clone(&clock), notice, assumed_peers));
        let weak = Arc::downgrade(&watch);
        shared.watch_peers(Arc::new(move |began, result| {
            if let Some(watch) = weak.upgrade() {
                watch.heartbeat(began, &result);
            }
        }));
        Self {
            shared,
            own: MemoryStore::numbering_from(clock, LOCAL_ID),
            watch,
        }
    }
}

impl StateStore for Fallback {
    fn site(&self, key: &SiteKey) -> Arc<dyn SiteHandle> {
        Arc::new(FallbackSiteHandle::new(self, key))
    }

    fn list(&self) -> StoreReply<Vec<SiteKey>> {
        self.shared.list()
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn is_remote(&self) -> bool {
        self.shared.is_remote()
    }

    fn flush(&self) -> StoreReply<()> {
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
