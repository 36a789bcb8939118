//! Leases: the shared slots and probes' places that requests of this process hold in the store.
//!
//! They run out by themselves, so that a killed process leaves nothing behind; while a request is out its gate says so
//! every few seconds, for all of them in one write.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::Gate;

/// How long a lease lasts without a sign of life.
pub(super) const LEASE: Duration = Duration::from_secs(20);
/// How often a sign of life is given.
const RENEWAL: Duration = Duration::from_secs(5);

/// The passes out that hold a lease.
#[derive(Default)]
pub(super) struct Leases {
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    ids: Vec<u64>,
    renewing: bool,
}

impl Gate {
    /// Keeps the leases of a pass alive until [`Gate::end_lease`].
    pub(super) fn begin_lease(self: &Arc<Self>, id: u64) {
        let mut held = self.leases.held.lock();
        held.ids.push(id);
        if std::mem::replace(&mut held.renewing, true) {
            return;
        }
        drop(held);
        let gate = Arc::downgrade(self);
        let runtime = Arc::clone(&self.runtime);
        self.runtime.spawn(Box::pin(async move {
            loop {
                runtime.sleep_until(runtime.boot() + RENEWAL).await;
                let Some(gate) = gate.upgrade() else { return };
                let ids = {
                    let mut held = gate.leases.held.lock();
                    held.renewing = !held.ids.is_empty();
                    if !held.renewing {
                        return;
                    }
                    held.ids.clone()
                };
                // A store that is away now is asked again in a moment; the lease outlasts several such moments.
                let _ = gate.site.renew(&ids, LEASE).await;
            }
        }));
    }

    /// The pass has ended, and its leases with it.
    pub(super) fn end_lease(&self, id: u64) {
        self.leases.held.lock().ids.retain(|held| *held != id);
    }
}
