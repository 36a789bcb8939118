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
const LEASE: Duration = Duration::from_secs(20);
/// How often it is renewed.
const RENEWAL: Duration = Duration::from_secs(5);
/// How often a waiting process looks whether the key has changed.
const POLL: Duration = Duration::from_millis(10);

/// The lease of a flight, released when this is dropped.
pub(super) struct Lease(Arc<Held>);

struct Held {
    store: CacheStore,
    key: CacheKey,
    holder: Holder,
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Queued by the call: there is nothing to wait for.
        drop(self.0.store.release(&self.0.key, self.0.holder));
    }
}

/// The part of this process in a flight.
pub(super) enum Claimed {
    /// It asks the origin.
    Lead(Lease),
    /// Another process does, until then at the latest.
    Wait(BootInstant),
    /// Answers are not reusable: every request goes by itself.
    Alone,
}

impl StoredResponses {
    /// Claims the flight of a key among processes.
    pub(super) async fn claim(&self, key: CacheKey, runtime: &Arc<dyn Runtime>) -> Claimed {
        let until = runtime.boot() + LEASE;
        match self.store.claim(&key, self.holder, until).await {
            Claim::Held { until } => Claimed::Wait(until),
            Claim::Uncacheable { .. } => Claimed::Alone,
            Claim::Leader => {
                let held = Arc::new(Held {
                    store: self.store.clone(),
                    key,
                    holder: self.holder,
                });
                renew(&held, runtime);
                Claimed::Lead(Lease(held))
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
            let next = (runtime.boot() + POLL).min(until);
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
fn renew(held: &Arc<Held>, runtime: &Arc<dyn Runtime>) {
    let (held, clock) = (Arc::downgrade(held), Arc::clone(runtime));
    runtime.spawn(Box::pin(async move {
        loop {
            clock.sleep_until(clock.boot() + RENEWAL).await;
            let Some(held) = held.upgrade() else {
                return;
            };
            let until = clock.boot() + LEASE;
            if !held.store.renew(&held.key, held.holder, until).await {
                return;
            }
        }
    }));
}
