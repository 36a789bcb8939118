//! Two stores as one: breakers in one store, limits in the other.
//!
//! The breaker store decides first. If the limit store then refuses or waits, the lease of a probe
//! is released, so that no probe is lost to a request that does not go. Each store is atomic by
//! itself. Probes have no jitter here, because the leases of the breaker store admit only few of
//! them.

use std::num::NonZeroU32;
use std::sync::Arc;

use docstokg_policy::breaker::BreakerPolicy;

use crate::handle::{Availability, SiteHandle, SiteKey, StateStore, StoreReply};

mod site;

use site::SplitSite;

/// A store for breakers, and another store for limits.
pub struct SplitStore {
    breakers: Arc<dyn StateStore>,
    limits: Arc<dyn StateStore>,
}

impl SplitStore {
    /// Combines a [`StateStore`] for breakers with a store for limits.
    #[must_use]
    pub fn new(breakers: Arc<dyn StateStore>, limits: Arc<dyn StateStore>) -> Self {
        Self { breakers, limits }
    }
}

impl StateStore for SplitStore {
    fn site(&self, key: &SiteKey) -> Arc<dyn SiteHandle> {
        let (breakers, limits) = (self.breakers.site(key), self.limits.site(key));
        Arc::new(SplitSite::new(breakers, limits, never()))
    }

    fn list(&self) -> StoreReply<Vec<SiteKey>> {
        both(
            self.breakers.list(),
            self.limits.list(),
            |mut keys, others| {
                keys.extend(others);
                keys.sort();
                keys.dedup();
                keys
            },
        )
    }

    fn is_shared(&self) -> bool {
        self.breakers.is_shared() || self.limits.is_shared()
    }

    fn is_remote(&self) -> bool {
        self.breakers.is_remote() || self.limits.is_remote()
    }

    fn flush(&self) -> StoreReply<()> {
        both(self.breakers.flush(), self.limits.flush(), |(), ()| ())
    }

    fn check(&self) -> StoreReply<()> {
        both(self.breakers.check(), self.limits.check(), |(), ()| ())
    }

    fn peers(&self) -> Option<u32> {
        self.limits.peers()
    }

    fn has_settled_peers(&self) -> bool {
        self.limits.has_settled_peers()
    }

    fn rank(&self) -> u32 {
        self.limits.rank()
    }

    fn availability(&self) -> Availability {
        let (breakers, limits) = (self.breakers.availability(), self.limits.availability());
        Availability {
            unavailable: breakers.unavailable || limits.unavailable,
            outages: breakers.outages + limits.outages,
        }
    }
}

/// Returns the [`BreakerPolicy`] for the limit store, whose breaker never opens. A breaker that an
/// earlier run left open there refuses no request.
fn never() -> BreakerPolicy {
    BreakerPolicy {
        fail_max: NonZeroU32::MAX,
        window: None,
        throttle_block: None,
        shadow: true,
        ..BreakerPolicy::default()
    }
}

/// Joins two replies, of which any may be pending.
fn both<A: Send + Unpin + 'static, B: Send + Unpin + 'static, T: Send + Unpin + 'static>(
    first: StoreReply<A>,
    second: StoreReply<B>,
    join: impl FnOnce(A, B) -> T + Send + 'static,
) -> StoreReply<T> {
    match (first, second) {
        (StoreReply::Ready(first), StoreReply::Ready(second)) => {
            StoreReply::Ready(first.and_then(|first| Ok(join(first, second?))))
        }
        (first, second) => StoreReply::Later(Box::pin(async move {
            let (first, second) = (first.await, second.await);
            Ok(join(first?, second?))
        })),
    }
}
