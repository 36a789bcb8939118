//! The heartbeat of a site: one store operation every few seconds while a request of this process
//! holds a lease or sleeps for long.
//!
//! Shared slots and the leases of probes expire by themselves, so that a killed process leaves
//! nothing behind; the heartbeat renews all of them in one write. Its answer has the state of the
//! breaker: what other processes and operators did to the site reaches the sleeping requests that
//! way, without polling.

use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::site::{BreakerCondition, LanePolicy};
use parking_lot::Mutex;

use super::SiteAdmission;
use crate::clock::BootInstant;

/// The interval of the heartbeat: what an operator does takes effect within five seconds.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(4);

/// What keeps the heartbeat going. A word for the very many sites that never have one.
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
    /// The permits that hold a lease.
    leased: Vec<u64>,
    /// How many requests and watchers sleep for long.
    listeners: usize,
    running: bool,
    last: Option<BreakerCondition>,
}

/// Keeps the heartbeat going while it lives.
pub(crate) struct HeartbeatGuard(Arc<SiteAdmission>);

impl Drop for HeartbeatGuard {
    fn drop(&mut self) {
        self.0.heartbeat.with(|state| state.listeners -= 1);
    }
}

impl SiteAdmission {
    /// Keeps the leases of a permit alive until [`SiteAdmission::end_lease`].
    pub(super) fn begin_lease(self: &Arc<Self>, id: u64) {
        self.heartbeat.with(|state| state.leased.push(id));
        self.beat();
    }

    /// The permit has ended, and its leases with it.
    pub(super) fn end_lease(&self, id: u64) {
        self.heartbeat
            .with(|state| state.leased.retain(|leased| *leased != id));
    }

    /// Listens for changes of the site by other processes while a request sleeps until `until`, if
    /// that is long.
    pub(super) fn listen(self: &Arc<Self>, until: BootInstant) -> Option<HeartbeatGuard> {
        if !self.shared || until <= self.runtime.boot() + HEARTBEAT_INTERVAL {
            return None;
        }
        Some(self.watch())
    }

    /// Listens for changes of the site by other processes.
    pub(crate) fn watch(self: &Arc<Self>) -> HeartbeatGuard {
        self.heartbeat.with(|state| state.listeners += 1);
        // Where no other process shares the state, this process knows every change without asking.
        if self.shared {
            self.beat();
        }
        HeartbeatGuard(Arc::clone(self))
    }

    /// Starts the heartbeat, unless it is running.
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
                // A store that is unavailable now is asked again soon; a lease outlasts several
                // heartbeats.
                if let Ok(condition) = site.handle.renew(&leased, LanePolicy::LEASE).await {
                    site.apply_condition(&condition);
                }
            }
        }));
    }

    /// Takes in how the breaker stands, and wakes the sleeping requests if that has changed.
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
