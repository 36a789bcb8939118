//! When a run will have ended: from what the limits of each site still ask for, the pace of each
//! lane so far, what comes later out of other lanes, and what is deferred. Pure.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use docstokg_hub::clock::{BootInstant, Timestamp};
use docstokg_hub::forecast::RoleDemand;
use docstokg_policy::role::Role;
use docstokg_stores::SiteKey;

use crate::lane::LaneKey;

/// The time before now in which the pace of a lane is measured.
const SPAN: Duration = Duration::from_secs(60);
/// The number of ends that are remembered whatever their age.
const MIN_ENDS: usize = 16;
/// The greatest number of ends that are remembered of a lane.
const MAX_ENDS: usize = 1_024;
/// The least number of distances that make a pace.
const MIN_DISTANCES: u32 = 3;
/// The greatest number of lanes that are remembered.
const MAX_LANES: usize = 8_192;
/// The greatest number of sites whose limits are looked up.
pub(crate) const MAX_SITES: usize = 6;

/// The ends of the steps of one lane.
#[derive(Debug)]
pub(crate) struct LanePace {
    ended: VecDeque<BootInstant>,
    /// Since when the lane is known.
    since: BootInstant,
    /// How many of its steps have ended.
    total: u64,
}

impl LanePace {
    fn new(now: BootInstant) -> Self {
        Self {
            ended: VecDeque::new(),
            since: now,
            total: 0,
        }
    }

    fn note_end(&mut self, now: BootInstant) {
        self.total += 1;
        self.ended.push_back(now);
        let is_old = |at: &BootInstant| now.since(*at) > SPAN;
        while self.ended.len() > MAX_ENDS
            || (self.ended.len() > MIN_ENDS && self.ended.front().is_some_and(is_old))
        {
            self.ended.pop_front();
        }
    }

    /// Returns the mean distance between two ends. A longer one than a minute is a wait for a long
    /// window or a pause, which are known, and not a pace.
    fn distance(&self) -> Duration {
        let pairs = self.ended.iter().zip(self.ended.iter().skip(1));
        let distances = pairs.map(|(first, second)| second.since(*first));
        let (sum, count) = distances
            .filter(|distance| *distance <= SPAN)
            .fold((Duration::ZERO, 0), |(sum, count), distance| {
                (sum + distance, count + 1)
            });
        if count < MIN_DISTANCES {
            Duration::ZERO
        } else {
            sum / count
        }
    }

    /// Returns the time before now in which ends are counted.
    fn span(&self, now: BootInstant) -> Duration {
        now.since(self.since).min(SPAN)
    }

    fn recent(&self, now: BootInstant) -> u64 {
        let span = self.span(now);
        let recent = |at: &&BootInstant| now.since(**at) <= span;
        self.ended.iter().filter(recent).count() as u64
    }
}

/// The pace of every lane of a run.
#[derive(Debug, Default)]
pub(crate) struct Paces {
    lanes: BTreeMap<LaneKey, LanePace>,
    /// How many permits the requests of a site use, as last known.
    permits_each: BTreeMap<SiteKey, f64>,
    /// Whether the store of limits did not answer when it was last asked.
    is_store_lost: bool,
}

/// What still waits in a lane.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LaneQueue {
    pub(crate) key: LaneKey,
    /// The site and role of its requests, where one is known for all of them.
    pub(crate) site: Option<(SiteKey, Role)>,
    pub(crate) requests: u64,
    /// The items that these requests are about.
    pub(crate) items: u64,
}

impl Paces {
    /// Notes that a step of a lane has ended.
    pub(crate) fn note_end(&mut self, lane: &LaneKey, now: BootInstant) {
        if let Some(pace) = self.lanes.get_mut(lane) {
            pace.note_end(now);
        } else if self.lanes.len() < MAX_LANES {
            let mut pace = LanePace::new(now);
            pace.note_end(now);
            self.lanes.insert(lane.clone(), pace);
        }
    }

    /// Notes whether the store of limits answers. When that changes, so does the share of the limits
    /// that the run has, and every pace is measured anew.
    pub(crate) fn note_store(&mut self, is_lost: bool) {
        if self.is_store_lost != is_lost {
            self.is_store_lost = is_lost;
            for pace in self.lanes.values_mut() {
                pace.ended.clear();
            }
        }
    }

    /// Remembers how many permits the requests of a site use.
    pub(crate) fn learn_permits(&mut self, site: SiteKey, permits_each: f64) {
        if self.permits_each.len() < MAX_LANES || self.permits_each.contains_key(&site) {
            self.permits_each.insert(site, permits_each);
        }
    }

    /// Returns the distance between two requests of a lane that was observed; zero if none was.
    pub(crate) fn distance(&self, lane: &LaneKey) -> Duration {
        let pace = self.lanes.get(lane);
        pace.map_or(Duration::ZERO, LanePace::distance)
    }

    /// Returns what is still to come at the sites that take longest, by the pace so far.
    /// `settled` items have left the lanes of sources already: as many requests as they made at a
    /// site will be made there for each item that has not.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "counts of requests fit"
    )]
    pub(crate) fn demands(
        &self,
        queues: &[LaneQueue],
        settled: u64,
        now: BootInstant,
    ) -> Vec<(SiteKey, Vec<RoleDemand>)> {
        let is_site = |key: &LaneKey| matches!(key, LaneKey::Site { .. });
        let unsettled = queues.iter().filter(|queue| !is_site(&queue.key));
        let unsettled: u64 = unsettled.map(|queue| queue.items).sum();
        let mut pending: BTreeMap<&LaneKey, (SiteKey, Role, u64)> = BTreeMap::new();
        for queue in queues {
            if let Some((site, role)) = &queue.site {
                let entry = (SiteKey::clone(site), *role, queue.requests);
                pending.insert(&queue.key, entry);
            }
        }
        if unsettled > 0 && settled >= MIN_ENDS as u64 {
            for (key, pace) in &self.lanes {
                let Some((site, role)) = key.site() else {
                    continue;
                };
                let (_, _, requests) = pending.entry(key).or_insert((site, role, 0));
                let visits = (pace.total + *requests) as f64 / settled as f64;
                *requests += (visits * unsettled as f64) as u64;
            }
        }
        let mut sites: BTreeMap<SiteKey, (Duration, u64, Vec<RoleDemand>)> = BTreeMap::new();
        for (key, (site, role, requests)) in pending {
            if requests == 0 {
                continue;
            }
            let pace = self.lanes.get(key);
            let demand = RoleDemand {
                distance: pace.map_or(Duration::ZERO, LanePace::distance),
                recent: pace.map_or(0, |pace| pace.recent(now)),
                span: pace.map_or(Duration::ZERO, |pace| pace.span(now)),
                permits_each: self.permits_each.get(&site).copied().unwrap_or(1.0),
                ..RoleDemand::of(role, requests)
            };
            let times = u32::try_from(requests).unwrap_or(u32::MAX);
            let (length, all, demands) = sites.entry(site).or_default();
            *length = (*length).max(demand.distance.saturating_mul(times));
            *all += requests;
            demands.push(demand);
        }
        let mut sites: Vec<_> = sites.into_iter().collect();
        sites.sort_by_key(|(_, (length, requests, _))| std::cmp::Reverse((*length, *requests)));
        // The longest by their pace, and those with most requests, whose limits may say more.
        let mut kept: Vec<_> = sites.drain(..sites.len().min(MAX_SITES / 2)).collect();
        sites.sort_by_key(|(_, (_, requests, _))| std::cmp::Reverse(*requests));
        kept.extend(sites.into_iter().take(MAX_SITES / 2));
        let demand = |(site, (_, _, demands))| (site, demands);
        kept.into_iter().map(demand).collect()
    }
}

/// Items that are deferred until a time, and how long they take from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeferredWork {
    pub(crate) due: Timestamp,
    pub(crate) length: Duration,
}

/// Returns when a run ends whose other work ends at `busy_until`: once nothing else is left, it
/// waits for what is due within `max_wait`, and ends before anything later.
pub(crate) fn end_of_run(
    busy_until: Timestamp,
    mut deferred: Vec<DeferredWork>,
    max_wait: Duration,
) -> Timestamp {
    deferred.sort_by_key(|work| work.due);
    let mut end = busy_until;
    for work in deferred {
        if work.due.since(end) > max_wait {
            break;
        }
        end = end.max(work.due + work.length);
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> BootInstant {
        BootInstant::from_micros(seconds * 1_000_000)
    }

    fn lane(site: &str) -> LaneKey {
        LaneKey::Site {
            site: site.into(),
            role: Role::Artifact,
        }
    }

    fn queue(key: LaneKey, items: u64) -> LaneQueue {
        let site = key.site();
        LaneQueue {
            key,
            site,
            requests: items,
            items,
        }
    }

    #[test]
    fn a_wait_for_a_long_window_is_not_a_pace() {
        let mut paces = Paces::default();
        for second in (0..40).step_by(2).chain((3_600..3_640).step_by(2)) {
            paces.note_end(&lane("a.example"), at(second));
        }
        assert_eq!(paces.distance(&lane("a.example")), Duration::from_secs(2));
        assert_eq!(paces.distance(&lane("b.example")), Duration::ZERO);
        let demands = paces.demands(&[queue(lane("a.example"), 9)], 0, at(3_640));
        let (site, demands) = &demands[0];
        assert_eq!((&**site, demands[0].requests), ("a.example", 9));
        assert_eq!(demands[0].recent, 20);
        assert_eq!(demands[0].span, SPAN);
    }

    #[test]
    fn a_lost_store_changes_the_pace() {
        let mut paces = Paces::default();
        for second in 0..30 {
            paces.note_end(&lane("a.example"), at(second));
        }
        paces.note_store(true);
        assert_eq!(paces.distance(&lane("a.example")), Duration::ZERO);
        for second in (30..50).step_by(4) {
            paces.note_end(&lane("a.example"), at(second));
            paces.note_store(true);
        }
        assert_eq!(paces.distance(&lane("a.example")), Duration::from_secs(4));
    }

    #[test]
    fn items_that_are_still_looked_up_are_expected_where_others_went() {
        let mut paces = Paces::default();
        for second in 0..30 {
            paces.note_end(&lane("a.example"), at(second));
        }
        let source = queue(LaneKey::Source("crossref".into()), 100);
        // 40 items are looked up; 30 of them went to a host, and 10 wait for it.
        let queues = [source, queue(lane("a.example"), 10)];
        let demands = paces.demands(&queues, 40, at(30));
        assert_eq!(demands[0].1[0].requests, 10 + 100);
    }

    #[test]
    fn a_run_does_not_wait_for_what_is_due_after_its_bound() {
        let time = |seconds: f64| Timestamp::from_secs_f64(seconds);
        let work = |due: f64, length: u64| DeferredWork {
            due: time(due),
            length: Duration::from_secs(length),
        };
        let end = |deferred: Vec<DeferredWork>, max_wait: u64| {
            end_of_run(time(100.0), deferred, Duration::from_secs(max_wait)).as_secs_f64()
        };
        assert!((end(vec![], 20) - 100.0).abs() < 1e-6);
        assert!((end(vec![work(7_200.0, 5)], 20) - 100.0).abs() < 1e-6);
        assert!((end(vec![work(7_200.0, 5)], 9_000) - 7_205.0).abs() < 1e-6);
        let chain = vec![work(150.0, 1), work(115.0, 30)];
        assert!((end(chain, 20) - 151.0).abs() < 1e-6);
        assert!((end(vec![work(50.0, 10)], 20) - 100.0).abs() < 1e-6);
    }
}
