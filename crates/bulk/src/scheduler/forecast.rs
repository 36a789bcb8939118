//! Forecasts the end of a run. The hub is queried about the sites that take longest.

use std::collections::BTreeMap;
use std::time::Duration;

use docstokg_hub::Host;
use docstokg_hub::clock::{BootInstant, Timestamp};
use docstokg_hub::forecast::{RoleDemand, SitePause};
use docstokg_stores::SiteKey;
use parking_lot::Mutex;

use super::Scheduler;
use crate::job::Job;
use crate::lane::WorkLaneKey;
use crate::remaining::{
    DeferredWork, HostBacklog, LanePaces, LaneQueue, MAX_SITES, end_of_run, times,
};

/// Deferred items of a host form a group if they become due within this time of each other.
const DUE_TOGETHER: Duration = Duration::from_secs(10);
/// Maximum number of groups of a host whose end is computed from its limits. The end of later
/// groups follows from the pace so far.
const MAX_GROUPS: usize = 4;

/// The time until the last of a number of requests to a site is sent.
struct SiteEnd {
    after: Duration,
    pause: Option<SitePause>,
}

/// The current time of a forecast, on both clocks.
#[derive(Clone, Copy)]
struct ForecastTime {
    boot: BootInstant,
    wall: Timestamp,
}

impl<J: Job> Scheduler<J> {
    /// Computes the expected end of the run, and records it in the
    /// [`RunProgress`](crate::progress::RunProgress).
    pub(super) async fn forecast(
        &self,
        queues: &[LaneQueue],
        mut waits: Vec<HostBacklog>,
        paces: &Mutex<LanePaces>,
        boot: BootInstant,
    ) {
        let wall = self.context.clock.now();
        let now = ForecastTime { boot, wall };
        let counters = self.context.progress.counters();
        let is_lookup = |queue: &&LaneQueue| !matches!(queue.key, WorkLaneKey::Site { .. });
        let unsettled: u64 = queues
            .iter()
            .filter(is_lookup)
            .map(|queue| queue.items)
            .sum();
        let begun = counters.items.saturating_sub(counters.already);
        let settled = begun.saturating_sub(unsettled);
        let outlook = paces.lock().outlook(queues, settled, boot);
        let demands = &outlook.sites;
        let max_wait = self.limits.max_wait;
        let mut busy = outlook.at_overall_pace.unwrap_or_default();
        let mut deferred = Vec::new();
        for (site, demands) in demands {
            let Some(found) = self
                .site_end(site, demands, Duration::ZERO, paces, now)
                .await
            else {
                // Nothing is known yet, so keep the earlier forecast.
                return;
            };
            if found.pause == Some(SitePause::Failed) {
                let mut waits = waits.iter();
                let silent_for = waits.find(|wait| self.site_of(&wait.host) == *site);
                let silent_for = silent_for.map_or(Duration::ZERO, |wait| wait.silent_for);
                deferred.push(DeferredWork {
                    due: wall,
                    end: wall + found.after,
                    given_up_at: Some(wall + max_wait.saturating_sub(silent_for)),
                });
            } else {
                busy = busy.max(found.after);
            }
        }
        if outlook.is_unexplained(busy) {
            self.context.progress.set_end(None);
            return;
        }
        // Only the hosts with most items are computed from their limits.
        waits.sort_by_key(|wait| std::cmp::Reverse(wait.items()));
        for (rank, wait) in waits.iter().enumerate() {
            let groups = if rank < MAX_SITES { MAX_GROUPS } else { 0 };
            deferred.extend(self.deferred(wait, groups, demands, paces, now).await);
        }
        let end = end_of_run(wall + busy, deferred, max_wait, wall);
        self.context.progress.set_end(end);
    }

    /// Returns the time until all requests in `demands` to a site are sent, if the first may be
    /// sent after `from`. Returns `None` if neither limits nor a pace are known.
    async fn site_end(
        &self,
        site: &SiteKey,
        demands: &[RoleDemand],
        from: Duration,
        paces: &Mutex<LanePaces>,
        now: ForecastTime,
    ) -> Option<SiteEnd> {
        let found = self.context.hub.forecast(site, demands, from).await;
        let is_store_lost = match &found {
            Ok(Some(found)) => found.is_store_lost,
            Ok(None) => false,
            Err(_) => true,
        };
        paces.lock().note_store(is_store_lost, now.boot);
        if let Ok(Some(found)) = found {
            let site = SiteKey::clone(site);
            paces.lock().learn_permits(site, found.permits_each);
            return Some(SiteEnd {
                after: found.after,
                pause: found.pause,
            });
        }
        let by_pace = demands.iter().map(length_by_pace).max()?;
        (!by_pace.is_zero()).then_some(SiteEnd {
            after: from + by_pace,
            pause: None,
        })
    }

    /// Returns the [`SiteKey`] of a host.
    fn site_of(&self, host: &str) -> SiteKey {
        let site = Host::parse(host).map(|host| self.context.hub.config().site_key(&host));
        site.unwrap_or_else(|_| host.into())
    }

    /// Returns the expected end of each group of items that wait for a host, if the requests in
    /// `queued` are sent as well. The first `exact` groups are computed from the limits of the
    /// host.
    async fn deferred(
        &self,
        wait: &HostBacklog,
        exact: usize,
        queued: &BTreeMap<SiteKey, Vec<RoleDemand>>,
        paces: &Mutex<LanePaces>,
        now: ForecastTime,
    ) -> Vec<DeferredWork> {
        let site = self.site_of(&wait.host);
        let queued = queued.get(&site).map_or(&[][..], Vec::as_slice);
        let groups = wait.groups(DUE_TOGETHER);
        let first = groups.first().filter(|_| queued.is_empty());
        let first = first.map_or(Duration::ZERO, |(due, _)| due.since(now.wall));
        let mut pause = None;
        let mut together = 0;
        let mut works = Vec::new();
        for (index, (due, items)) in groups.into_iter().enumerate() {
            let from = due.since(now.wall);
            together += items;
            let demand = |items| paces.lock().demand_of_deferred(&site, items, now.boot);
            let (alone, all) = (demand(items), demand(together));
            let mut after = from + length_by_pace(&alone);
            if index < exact {
                // The requests of a group begin when they are due, and after all earlier requests.
                let with_earlier = joined(queued, all);
                let ends = [
                    self.site_end(&site, &[alone], from, paces, now).await,
                    self.site_end(&site, &with_earlier, first, paces, now).await,
                ];
                for end in ends.into_iter().flatten() {
                    after = after.max(end.after);
                    pause = end.pause;
                }
            }
            works.push(DeferredWork {
                due,
                end: now.wall + after,
                given_up_at: None,
            });
        }
        let is_down = match pause {
            Some(SitePause::Failed) => true,
            Some(SitePause::Declared) => false,
            None => !wait.has_served,
        };
        if is_down {
            let left = self.limits.max_wait.saturating_sub(wait.silent_for);
            for work in &mut works {
                work.given_up_at = Some(now.wall + left);
            }
        }
        works
    }
}

/// Returns the demands with `more` added to the demand of the same role, if there is one.
fn joined(queued: &[RoleDemand], more: RoleDemand) -> Vec<RoleDemand> {
    let mut demands = queued.to_vec();
    match demands.iter_mut().find(|demand| demand.role == more.role) {
        Some(demand) => demand.requests += more.requests,
        None => demands.push(more),
    }
    demands
}

/// Returns the time that requests take at their current pace, without regard to limits.
fn length_by_pace(demand: &RoleDemand) -> Duration {
    times(demand.distance, demand.requests)
}
