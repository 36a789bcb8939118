//! Flights among processes: a lease in the store of the cache.
//!
//! The process whose lease it is asks the origin and renews the lease meanwhile; the others look
//! the key up again when it changes. The lease of a process that died expires.

use std::sync::Arc;
use std::time::Duration;

use docstokg_stores::cache::{CacheKey, CacheStore, Claim, Holder};

use super::StoredResponses;
use crate::clock::{BootInstant, Runtime};

/// How long a lease lasts.
const FLIGHT_LEASE_DURATION: Duration = Duration::from_secs(20);
/// How often it is renewed.
const LEASE_RENEWAL_INTERVAL: Duration = Duration::from_secs(5);
/// How often a waiting process looks whether the key has changed.
const LEASE_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The lease of a flight, released when this is dropped.
pub(super) struct FlightLease(Arc<HeldLease>);

struct HeldLease {
    store: CacheStore,
    key: CacheKey,
    holder: Holder,
}

impl Drop for FlightLease {
    fn drop(&mut self) {
        // Queued by the call: there is nothing to wait for.
        drop(self.0.store.release(&self.0.key, self.0.holder));
    }
}

/// The part of this process in a flight.
pub(super) enum LeaseClaim {
    /// It asks the origin.
    Lead(FlightLease),
    /// Another process does, until then at the latest.
    Wait(BootInstant),
    /// Answers are not reusable: every request goes by itself.
    Alone,
}

impl StoredResponses {
    /// Claims the flight of a key among processes.
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

    /// Returns whether a key or its flight has changed since it was looked up.
    fn has_changed(&self, watched: &WatchedKeys<'_>) -> bool {
        self.store.changes(watched.key) != watched.key_changes
            || self.store.changes(watched.flight) != watched.flight_changes
    }

    /// Waits until a key or its flight has changed, or until an instant.
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

/// A key and its flight, with their counts of changes before the look-up.
pub(super) struct WatchedKeys<'a> {
    pub(super) key: &'a CacheKey,
    pub(super) flight: &'a CacheKey,
    pub(super) key_changes: u64,
    pub(super) flight_changes: u64,
}

/// Renews a lease for as long as it is held.
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
