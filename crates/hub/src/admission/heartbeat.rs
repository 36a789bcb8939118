//! The heartbeat of a site: one store operation every few seconds, while a request of this process
//! has a lease or waits for long.
//!
//! Shared slots and the leases of probes expire by themselves, so that a killed process leaves
//! nothing behind. The heartbeat renews all of them in one write. The store replies with the state
//! of the breaker. So waiting requests learn of changes by other processes and by operators,
//! without polling.

use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::site::{BreakerCondition, LanePolicy};
use parking_lot::Mutex;

use super::SiteAdmission;
use crate::clock::BootInstant;

/// The interval of the heartbeat, so that an operator's change takes effect within five seconds.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(4);

/// The state of a site's heartbeat. It is boxed, because most sites never have a heartbeat.
#[derive(Default)]
pub(super) struct Heartbeat {
    state: Mutex<Option<Box<BeatingSite>>>,
}

impl Heartbeat {
    fn with<T>(&self, step: impl FnOnce(&mut BeatingSite) -> T) -> T {
        step(self.state.lock().get_or_insert_default())
    }
}

#[derive(Default)]
struct BeatingSite {
    /// The ids of the permits whose leases are renewed.
    leased: Vec<u64>,
    /// The number of requests and watchers that wait for changes of the site.
    listeners: usize,
    running: bool,
    last: Option<BreakerCondition>,
}

/// Keeps the heartbeat running until it is dropped.
pub(crate) struct HeartbeatGuard(Arc<SiteAdmission>);

impl Drop for HeartbeatGuard {
    fn drop(&mut self) {
        self.0.heartbeat.with(|state| state.listeners -= 1);
    }
}

impl SiteAdmission {
    /// Renews the leases of a permit at each heartbeat, until [`SiteAdmission::end_lease`].
    pub(super) fn begin_lease(self: &Arc<Self>, id: u64) {
        self.heartbeat.with(|state| state.leased.push(id));
        self.beat();
    }

    /// Stops renewing the leases of a permit, because they have ended.
    pub(super) fn end_lease(&self, id: u64) {
        self.heartbeat
            .with(|state| state.leased.retain(|leased| *leased != id));
    }

    /// Learns of changes of the site by other processes while a request sleeps until `until`.
    /// Returns `None` if no other process uses the site, or if the sleep is shorter than a
    /// [`HEARTBEAT_INTERVAL`].
    pub(super) fn listen(self: &Arc<Self>, until: BootInstant) -> Option<HeartbeatGuard> {
        if !self.shared || until <= self.runtime.boot() + HEARTBEAT_INTERVAL {
            return None;
        }
        Some(self.watch())
    }

    /// Learns of changes of the site by other processes until the [`HeartbeatGuard`] is dropped.
    pub(crate) fn watch(self: &Arc<Self>) -> HeartbeatGuard {
        self.heartbeat.with(|state| state.listeners += 1);
        // If the store is not shared, this process makes every change itself and needs no
        // heartbeat.
        if self.shared {
            self.beat();
        }
        HeartbeatGuard(Arc::clone(self))
    }

    /// Starts the heartbeat, unless it is already running.
    fn beat(self: &Arc<Self>) {
        let running = self.heartbeat.with(|state| {
            state.last = state.last.take().filter(|_| state.running);
            std::mem::replace(&mut state.running, true)
        });
        if running {
            return;
        }
        let (site, runtime) = (Arc::downgrade(self), Arc::clone(&self.runtime));
        self.runtime.spawn(Box::pin(async move {
            loop {
                runtime
                    .sleep_until(runtime.boot() + HEARTBEAT_INTERVAL)
                    .await;
                let Some(site) = site.upgrade() else { return };
                let leased = site.heartbeat.with(|state| {
                    state.running = !state.leased.is_empty() || state.listeners > 0;
                    state.running.then(|| state.leased.clone())
                });
                let Some(leased) = leased else { return };
                // If the store is unavailable, the next beat tries again: a lease outlasts several
                // beats.
                if let Ok(condition) = site.handle.renew(&leased, LanePolicy::LEASE).await {
                    site.apply_condition(&condition);
                }
            }
        }));
    }

    /// Applies the [`BreakerCondition`] in the reply to a heartbeat. If the breaker has changed,
    /// wakes the sleeping requests.
    fn apply_condition(&self, condition: &BreakerCondition) {
        let last = self
            .heartbeat
            .with(|state| state.last.replace(condition.clone()));
        let changed = last.is_some_and(|last| condition.has_changed_since(&last));
        let transition = self
            .health
            .seen_by_heartbeat(condition, self.runtime.boot());
        if changed || transition.is_some() {
            self.report_change(transition);
        }
    }
}
