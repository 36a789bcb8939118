//! A store that continues in this process while the shared one is unavailable.
//!
//! While the shared store answers, this process records in memory what it was permitted and which
//! hosts are blocked. When it does not, the process continues with its share: the limit of every
//! window divided by the processes when last counted, and blocks as last known. So the shares add
//! up to at most the limit. It reports this once, checks again twice a second, and reports when the
//! store is back. At the loss and at the return the short windows count as full, for two seconds
//! longer than their length: by then all other processes have noticed as well.

use std::sync::Arc;

use docstokg_policy::time::Clock;

use crate::handle::{Availability, SiteHandle, SiteKey, StateStore, StoreReply};
use crate::memory::MemoryStore;

mod fill;
mod site;
mod watch;

use site::FallbackSiteHandle;
use watch::StoreWatch;

/// Ids of the own store's permits and reservations have this bit; those of shared stores are below.
const LOCAL_ID: u64 = 1 << 60;

/// Reports a change of the store's availability to the user.
pub type AvailabilityNotice = Arc<dyn Fn(&str) + Send + Sync>;

/// A shared store, and this process's own for when that is unavailable.
pub struct Fallback {
    shared: Arc<dyn StateStore>,
    own: MemoryStore,
    watch: Arc<StoreWatch>,
}

impl Fallback {
    /// Continues with an own store when `shared` is unavailable, and reports it to `notice`. A
    /// process that never learned how many share the store takes one part in `assumed_peers`.
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
