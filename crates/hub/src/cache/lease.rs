//! Flights among processes, by a lease in the store of the cache.
//!
//! The process that has the lease sends its request to the origin, and renews the lease meanwhile.
//! The other processes wait for a change of the key, and then look it up again. If the process
//! dies, its lease expires.

use std::sync::Arc;
use std::time::Duration;

use docstokg_stores::cache::{CacheKey, CacheStore, Claim, Holder};

use super::StoredResponses;
use crate::clock::{BootInstant, Runtime};

/// The time after which a lease expires unless renewed.
const FLIGHT_LEASE_DURATION: Duration = Duration::from_secs(20);
/// The time between two renewals of a lease.
const LEASE_RENEWAL_INTERVAL: Duration = Duration::from_secs(5);
/// The time between two checks of a waiting process whether the key has changed.
const LEASE_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The lease of a flight among processes. Dropping it releases the lease.
pub(super) struct FlightLease(Arc<HeldLease>);

struct HeldLease {
    store: CacheStore,
    key: CacheKey,
    holder: Holder,
}

impl Drop for FlightLease {
    fn drop(&mut self) {
        // The call only queues the release, so there is nothing to wait for.
        drop(self.0.store.release(&self.0.key, self.0.holder));
    }
}

/// The role of this process in a flight.
pub(super) enum LeaseClaim {
    /// This process has the lease, and sends the request to the origin.
    Lead(FlightLease),
    /// Another process sends the request. Its lease expires at this instant at the latest.
    Wait(BootInstant),
    /// Responses for the key are not reusable, so every request is sent alone.
    Alone,
}

impl StoredResponses {
    /// Claims the lease for the flight of a [`CacheKey`] among processes.
    pub(super) async fn claim(&self, key: CacheKey, runtime: &Arc<dyn Runtime>) -> LeaseClaim {
        let until = runtime.boot() + FLIGHT_LEASE_DURATION;
        match self.store.claim(&key, self.holder, until).await {
            Claim::Held { until } => LeaseClaim::Wait(until),
            Claim::Uncacheable { .. } => LeaseClaim::Alone,
            Claim::Leader => {
                let held = Arc::new(HeldLease {
                    store: self.store.clone(),
                    key,
                    holder: self.holder,
                });
                renew(&held, runtime);
                LeaseClaim::Lead(FlightLease(held))
            }
        }
    }

    /// Returns whether the keys of [`WatchedKeys`] have changed since their look-up.
    fn has_changed(&self, watched: &WatchedKeys<'_>) -> bool {
        self.store.changes(watched.key) != watched.key_changes
            || self.store.changes(watched.flight) != watched.flight_changes
    }

    /// Waits until the keys of [`WatchedKeys`] have changed, or until an instant.
    pub(super) async fn changed(
        &self,
        watched: &WatchedKeys<'_>,
        until: BootInstant,
        runtime: &dyn Runtime,
    ) {
        while !self.has_changed(watched) && runtime.boot() < until {
            let next = (runtime.boot() + LEASE_POLL_INTERVAL).min(until);
            runtime.sleep_until(next).await;
        }
    }
}

/// The keys of an entry and of its flight, with the change counts that they had before the look-up.
pub(super) struct WatchedKeys<'a> {
    pub(super) key: &'a CacheKey,
    pub(super) flight: &'a CacheKey,
    pub(super) key_changes: u64,
    pub(super) flight_changes: u64,
}

/// Renews a lease until it is dropped or lost.
fn renew(held: &Arc<HeldLease>, runtime: &Arc<dyn Runtime>) {
    let (held, clock) = (Arc::downgrade(held), Arc::clone(runtime));
    runtime.spawn(Box::pin(async move {
        loop {
            clock
                .sleep_until(clock.boot() + LEASE_RENEWAL_INTERVAL)
                .await;
            let Some(held) = held.upgrade() else {
                return;
            };
            let until = clock.boot() + FLIGHT_LEASE_DURATION;
            if !held.store.renew(&held.key, held.holder, until).await {
                return;
            }
        }
    }));
}
