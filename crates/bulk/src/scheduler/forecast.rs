//! When the run will have ended: asks the hub about the sites that take longest.

use std::time::Duration;

use docstokg_hub::Host;
use docstokg_hub::clock::{BootInstant, Timestamp};
use docstokg_hub::forecast::RoleDemand;
use docstokg_policy::role::Role;
use parking_lot::Mutex;

use super::Scheduler;
use crate::job::Job;
use crate::lane::LaneKey;
use crate::remaining::{DeferredWork, LaneQueue, Paces, end_of_run};

impl<J: Job> Scheduler<J> {
    /// Computes when the run will have ended, and records it.
    pub(super) async fn forecast(
        &self,
        queues: &[LaneQueue],
        paces: &Mutex<Paces>,
        now: BootInstant,
    ) {
        let counters = self.progress.counters();
        let is_lookup = |queue: &&LaneQueue| !matches!(queue.key, LaneKey::Site { .. });
        let unsettled: u64 = queues
            .iter()
            .filter(is_lookup)
            .map(|queue| queue.items)
            .sum();
        let begun = counters.items.saturating_sub(counters.already);
        let settled = begun.saturating_sub(unsettled);
        let demands = paces.lock().demands(queues, settled, now);
        let mut busy = Duration::ZERO;
        for (site, demands) in demands {
            let found = self.hub.forecast(&site, &demands).await;
            paces.lock().note_store(found.is_err());
            let after = if let Ok(Some(found)) = found {
                paces.lock().learn_permits(site, found.permits_each);
                found.after
            } else {
                let by_pace = demands.iter().map(length_by_pace).max();
                let Some(by_pace) = by_pace.filter(|length| !length.is_zero()) else {
                    // Nothing is known yet: what was known before is better.
                    return;
                };
                by_pace
            };
            busy = busy.max(after);
        }
        let busy_until = self.clock.now() + busy;
        let end = end_of_run(busy_until, self.deferred(paces), self.limits.max_wait);
        self.progress.set_end(end);
    }

    /// Lists what is deferred, and how long it takes by the pace of its host so far.
    fn deferred(&self, paces: &Mutex<Paces>) -> Vec<DeferredWork> {
        let paces = paces.lock();
        let work = |(host, due, items): (String, Timestamp, u64)| {
            let site = Host::parse(&host).map(|host| self.hub.config().site_key(&host));
            let site = site.unwrap_or_else(|_| host.into());
            let distance = Role::ALL.into_iter().map(|role| {
                let site = site.clone();
                paces.distance(&LaneKey::Site { site, role })
            });
            let distance = distance.max().unwrap_or_default();
            let times = u32::try_from(items).unwrap_or(u32::MAX);
            DeferredWork {
                due,
                length: distance.saturating_mul(times),
            }
        };
        self.progress.dues().into_iter().map(work).collect()
    }
}

/// Returns how long requests take by their pace alone.
fn length_by_pace(demand: &RoleDemand) -> Duration {
    let times = u32::try_from(demand.requests).unwrap_or(u32::MAX);
    demand.distance.saturating_mul(times)
}
