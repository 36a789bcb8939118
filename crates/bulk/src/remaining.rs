//! The remaining time of a run. The sources are the limits of each site, the pace of each lane, the
//! requests that later steps add, and the deferred items. Pure.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use docstokg_hub::clock::{BootInstant, Timestamp};
use docstokg_hub::forecast::RoleDemand;
use docstokg_policy::role::Role;
use docstokg_stores::SiteKey;

use crate::lane::WorkLaneKey;

/// The time before now in which the pace of a lane is measured.
const PACE_MEASURE_INTERVAL: Duration = Duration::from_secs(60);
/// The number of ends of steps that are kept for a lane whatever their age.
const MIN_ENDS: usize = 16;
/// Maximum number of ends of steps that are kept for a lane.
const MAX_ENDS: usize = 1_024;
/// Minimum number of distances between ends of steps for a pace.
const MIN_DISTANCES: u32 = 3;
/// The time for which a run may have no finished step before its remaining time counts as unknown.
const MAX_SILENT_START: Duration = Duration::from_secs(10);
/// The multiple of the median distance from which a distance is an outlier.
const OUTLYING_FACTOR: u32 = 10;
/// Maximum number of lanes that are kept.
const MAX_LANES: usize = 8_192;
/// Maximum number of sites whose limits are looked up.
pub(crate) const MAX_SITES: usize = 6;

/// The ends of the steps of one lane.
#[derive(Debug)]
pub(crate) struct LanePace {
    ended: VecDeque<BootInstant>,
    /// The time since which the lane is known.
    since: BootInstant,
    /// The number of ended steps.
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

    /// Restarts the measurement of the pace.
    fn begin_again(&mut self, now: BootInstant) {
        self.ended.clear();
        self.since = now;
    }

    fn note_end(&mut self, now: BootInstant) {
        self.total += 1;
        self.ended.push_back(now);
        let is_old = |at: &BootInstant| now.since(*at) > PACE_MEASURE_INTERVAL;
        while self.ended.len() > MAX_ENDS
            || (self.ended.len() > MIN_ENDS && self.ended.front().is_some_and(is_old))
        {
            self.ended.pop_front();
        }
    }

    /// Returns the mean distance between two ends. A distance that is longer than a minute and much
    /// longer than the others is left out: it is a wait for a long window or a pause, which the
    /// limits already include.
    fn distance(&self) -> Duration {
        let pairs = self.ended.iter().zip(self.ended.iter().skip(1));
        let mut distances: Vec<Duration> =
            pairs.map(|(first, second)| second.since(*first)).collect();
        distances.sort_unstable();
        let median = distances.get(distances.len() / 2).copied();
        let longest = PACE_MEASURE_INTERVAL.max(median.unwrap_or_default() * OUTLYING_FACTOR);
        distances.retain(|distance| *distance <= longest);
        match u32::try_from(distances.len()) {
            Ok(count) if count >= MIN_DISTANCES => distances.iter().sum::<Duration>() / count,
            _ => Duration::ZERO,
        }
    }

    /// Returns the time before now in which ends are counted.
    fn span(&self, now: BootInstant) -> Duration {
        now.since(self.since).min(PACE_MEASURE_INTERVAL)
    }

    fn recent(&self, now: BootInstant) -> u64 {
        let span = self.span(now);
        let recent = |at: &&BootInstant| now.since(**at) <= span;
        self.ended.iter().filter(recent).count() as u64
    }
}

/// The pace of every lane of a run.
#[derive(Debug)]
pub(crate) struct LanePaces {
    lanes: BTreeMap<WorkLaneKey, LanePace>,
    /// The ends of the steps of all lanes: the pace of the run as a whole.
    overall: LanePace,
    /// The latest known number of permits per request, by site.
    permits_each: BTreeMap<SiteKey, f64>,
    /// The store of limits did not reply to the latest query.
    is_store_lost: bool,
}

/// The remaining work of a lane.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LaneQueue {
    pub(crate) key: WorkLaneKey,
    /// The site and role of the requests, if all of them share the same.
    pub(crate) site: Option<(SiteKey, Role)>,
    pub(crate) requests: u64,
    /// The number of items that these requests belong to.
    pub(crate) items: u64,
}

/// The remaining work of a run.
#[derive(Debug)]
pub(crate) struct Outlook {
    /// The requests to the sites that take longest.
    pub(crate) sites: BTreeMap<SiteKey, Vec<RoleDemand>>,
    /// The time of all requests at the pace of the whole run, if that pace is known.
    pub(crate) at_overall_pace: Option<Duration>,
    /// The time for which that pace has been measured.
    measured_for: Duration,
}

impl Outlook {
    /// Tells whether the remaining time is unknown. `busy` is the time that the limits alone
    /// require. The time is unknown if no pace exists, and `busy` is zero or shorter than the
    /// measurement so far.
    pub(crate) fn is_unexplained(&self, busy: Duration) -> bool {
        let is_silent = self.measured_for > busy.max(MAX_SILENT_START);
        self.at_overall_pace.is_none() && (is_silent || busy.is_zero())
    }
}

impl LanePaces {
    /// Begins the measurement.
    pub(crate) fn new(now: BootInstant) -> Self {
        Self {
            lanes: BTreeMap::new(),
            overall: LanePace::new(now),
            permits_each: BTreeMap::new(),
            is_store_lost: false,
        }
    }

    /// Counts the end of a step of a lane in its [`LanePace`].
    pub(crate) fn note_end(&mut self, lane: &WorkLaneKey, now: BootInstant) {
        if matches!(lane, WorkLaneKey::Start | WorkLaneKey::MissingInput) {
            return;
        }
        self.overall.note_end(now);
        if let Some(pace) = self.lanes.get_mut(lane) {
            pace.note_end(now);
        } else if self.lanes.len() < MAX_LANES {
            let mut pace = LanePace::new(now);
            pace.note_end(now);
            self.lanes.insert(lane.clone(), pace);
        }
    }

    /// Records whether the store of limits replies. A change also changes the run's share of the
    /// limits, so every pace is measured again.
    pub(crate) fn note_store(&mut self, is_lost: bool, now: BootInstant) {
        if self.is_store_lost != is_lost {
            self.is_store_lost = is_lost;
            for pace in self.lanes.values_mut() {
                pace.begin_again(now);
            }
            self.overall.begin_again(now);
        }
    }

    /// Records that a site is back after a pause. Earlier measurements do not describe the pace
    /// from now on.
    pub(crate) fn note_back(&mut self, site: &SiteKey, now: BootInstant) {
        self.overall.begin_again(now);
        for role in Role::ALL {
            let site = SiteKey::clone(site);
            if let Some(pace) = self.lanes.get_mut(&WorkLaneKey::Site { site, role }) {
                pace.begin_again(now);
            }
        }
    }

    /// Records the number of permits that the requests of a site use.
    pub(crate) fn learn_permits(&mut self, site: SiteKey, permits_each: f64) {
        if self.permits_each.len() < MAX_LANES || self.permits_each.contains_key(&site) {
            self.permits_each.insert(site, permits_each);
        }
    }

    /// Describes requests to a site whose role is not known before they are planned. They are
    /// expected to have the most frequent role of requests to the site.
    pub(crate) fn demand_of_deferred(
        &self,
        site: &SiteKey,
        requests: u64,
        now: BootInstant,
    ) -> RoleDemand {
        let lane = |role: &Role| WorkLaneKey::Site {
            site: SiteKey::clone(site),
            role: *role,
        };
        let total = |role: &Role| self.lanes.get(&lane(role)).map(|pace| pace.total);
        let role = Role::ALL.into_iter().max_by_key(total);
        let role = role.filter(|role| total(role).is_some());
        let role = role.unwrap_or(Role::Artifact);
        self.demand(&lane(&role), site, role, requests, now)
    }

    /// Describes the remaining requests in a lane, with the pace so far.
    fn demand(
        &self,
        lane: &WorkLaneKey,
        site: &SiteKey,
        role: Role,
        requests: u64,
        now: BootInstant,
    ) -> RoleDemand {
        let pace = self.lanes.get(lane);
        RoleDemand {
            distance: pace.map_or(Duration::ZERO, LanePace::distance),
            recent: pace.map_or(0, |pace| pace.recent(now)),
            span: pace.map_or(Duration::ZERO, |pace| pace.span(now)),
            permits_each: self.permits_each.get(site).copied().unwrap_or(1.0),
            ..RoleDemand::of(role, requests)
        }
    }

    /// Returns the [`Outlook`] at the pace so far. `settled` items have left the lanes of sources.
    /// Every other item is expected to make as many requests at each site as these made.
    pub(crate) fn outlook(&self, queues: &[LaneQueue], settled: u64, now: BootInstant) -> Outlook {
        let pending = self.pending(queues, settled);
        let is_begun = |queue: &&LaneQueue| {
            !matches!(queue.key, WorkLaneKey::Start | WorkLaneKey::MissingInput)
        };
        let has_unplanned = queues.iter().any(|queue| !is_begun(&queue));
        let elsewhere = queues.iter().filter(|queue| queue.site.is_none());
        let elsewhere: u64 = elsewhere.filter(is_begun).map(|queue| queue.requests).sum();
        let at_sites: u64 = pending.values().map(|(_, _, requests)| requests).sum();
        let mut sites: BTreeMap<SiteKey, SiteBacklog> = BTreeMap::new();
        for (key, (site, role, requests)) in pending {
            if requests > 0 {
                let demand = self.demand(key, &site, role, requests, now);
                sites.entry(site).or_default().add(demand);
            }
        }
        Outlook {
            sites: longest(sites),
            at_overall_pace: match (at_sites + elsewhere, self.overall.distance()) {
                (0, _) if !has_unplanned => Some(Duration::ZERO),
                (_, Duration::ZERO) => None,
                (requests, distance) => Some(times(distance, requests)),
            },
            measured_for: now.since(self.overall.since),
        }
    }

    /// Returns the site and role of every lane, with the number of remaining requests.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "counts of requests fit"
    )]
    fn pending<'a>(
        &'a self,
        queues: &'a [LaneQueue],
        settled: u64,
    ) -> BTreeMap<&'a WorkLaneKey, (SiteKey, Role, u64)> {
        let is_site = |key: &WorkLaneKey| matches!(key, WorkLaneKey::Site { .. });
        let unsettled = queues.iter().filter(|queue| !is_site(&queue.key));
        let unsettled: u64 = unsettled.map(|queue| queue.items).sum();
        let mut pending: BTreeMap<&WorkLaneKey, (SiteKey, Role, u64)> = BTreeMap::new();
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
        pending
    }
}

/// The remaining requests at one site.
#[derive(Debug, Default)]
struct SiteBacklog {
    /// The time of the requests of the slowest role, at their pace.
    length: Duration,
    requests: u64,
    demands: Vec<RoleDemand>,
}

impl SiteBacklog {
    fn add(&mut self, demand: RoleDemand) {
        self.length = self.length.max(times(demand.distance, demand.requests));
        self.requests += demand.requests;
        self.demands.push(demand);
    }
}

/// Selects the sites that take longest at their pace, and then those with most requests, whose
/// limits may result in a longer time.
fn longest(sites: BTreeMap<SiteKey, SiteBacklog>) -> BTreeMap<SiteKey, Vec<RoleDemand>> {
    let mut sites: Vec<(SiteKey, SiteBacklog)> = sites.into_iter().collect();
    sites.sort_by_key(|(_, site)| std::cmp::Reverse((site.length, site.requests)));
    let mut kept: Vec<_> = sites.drain(..sites.len().min(MAX_SITES / 2)).collect();
    sites.sort_by_key(|(_, site)| std::cmp::Reverse(site.requests));
    kept.extend(sites.into_iter().take(MAX_SITES / 2));
    let demands = |(key, site): (SiteKey, SiteBacklog)| (key, site.demands);
    kept.into_iter().map(demands).collect()
}

/// Returns a distance multiplied by a number of requests.
pub(crate) fn times(distance: Duration, requests: u64) -> Duration {
    distance.saturating_mul(u32::try_from(requests).unwrap_or(u32::MAX))
}

/// The items that wait for a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostBacklog {
    pub(crate) host: String,
    /// The due times, each with its number of items.
    pub(crate) dues: Vec<(Timestamp, u64)>,
    /// The time for which the host has been silent.
    pub(crate) silent_for: Duration,
    /// The host has responded since its first item was deferred.
    pub(crate) has_served: bool,
}

impl HostBacklog {
    pub(crate) fn items(&self) -> u64 {
        self.dues.iter().map(|(_, items)| items).sum()
    }

    /// Groups the items that are due within `span` of each other, at the first of these times.
    pub(crate) fn groups(&self, span: Duration) -> Vec<(Timestamp, u64)> {
        let mut groups: Vec<(Timestamp, u64)> = Vec::new();
        for (due, items) in &self.dues {
            match groups.last_mut() {
                Some((first, together)) if due.since(*first) <= span => *together += items,
                _ => groups.push((*due, *items)),
            }
        }
        groups
    }
}

/// Items that are deferred until a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeferredWork {
    pub(crate) due: Timestamp,
    /// The expected end of the last item, if the host responds when the items are due.
    pub(crate) end: Timestamp,
    /// The time until which the run waits for the host, if the return of the host is unknown.
    pub(crate) given_up_at: Option<Timestamp>,
}

/// Returns the end of a run whose other work ends at `busy_until`. Then the run waits for items
/// that are due within `max_wait`, and ends before any later item. `None` if the end depends on the
/// return of a host that is down.
pub(crate) fn end_of_run(
    busy_until: Timestamp,
    mut deferred: Vec<DeferredWork>,
    max_wait: Duration,
    now: Timestamp,
) -> Option<Timestamp> {
    deferred.sort_by_key(|work| work.due);
    let mut end = busy_until;
    for work in deferred.iter().filter(|work| work.given_up_at.is_none()) {
        if work.due.since(end) > max_wait {
            break;
        }
        end = end.max(work.end);
    }
    let is_decisive = |work: &DeferredWork| {
        work.given_up_at.is_some_and(|given_up_at| {
            let length = work.end.since(work.due);
            given_up_at > now && given_up_at + length > end
        })
    };
    (!deferred.iter().any(is_decisive)).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> BootInstant {
        BootInstant::from_micros(seconds * 1_000_000)
    }

    fn lane(site: &str) -> WorkLaneKey {
        WorkLaneKey::Site {
            site: site.into(),
            role: Role::Artifact,
        }
    }

    fn distance(paces: &LanePaces, site: &str) -> Duration {
        let demand = paces.demand_of_deferred(&site.into(), 1, at(9_999));
        demand.distance
    }

    fn queue(key: WorkLaneKey, items: u64) -> LaneQueue {
        let site = key.site();
        LaneQueue {
            key,
            site,
            requests: items,
            items,
        }
    }

    #[test]
    fn wait_for_a_long_window_does_not_set_the_pace() {
        let mut paces = LanePaces::new(at(0));
        for second in (0..40).step_by(2).chain((3_600..3_640).step_by(2)) {
            paces.note_end(&lane("a.example"), at(second));
        }
        assert_eq!(distance(&paces, "a.example"), Duration::from_secs(2));
        assert_eq!(distance(&paces, "b.example"), Duration::ZERO);
        let outlook = paces.outlook(&[queue(lane("a.example"), 9)], 0, at(3_640));
        let demands = &outlook.sites["a.example"];
        assert_eq!((demands[0].requests, demands[0].recent), (9, 20));
        assert_eq!(demands[0].span, PACE_MEASURE_INTERVAL);
    }

    #[test]
    fn files_that_take_longer_than_a_minute_have_a_pace() {
        let mut paces = LanePaces::new(at(0));
        for end in (90..1_000).step_by(90) {
            paces.note_end(&lane("a.example"), at(end));
        }
        assert_eq!(distance(&paces, "a.example"), Duration::from_secs(90));
    }

    #[test]
    fn many_hosts_with_few_files_take_as_long_as_the_run_needs_for_all() {
        let mut paces = LanePaces::new(at(0));
        let hosts: Vec<WorkLaneKey> = (0..2_000)
            .map(|host| lane(&format!("h{host}.example")))
            .collect();
        // Two files end in a second, each time from another host.
        for (half, host) in hosts.iter().take(200).enumerate() {
            paces.note_end(host, BootInstant::from_micros(half as u64 * 500_000));
        }
        let left = |(index, host): (usize, &WorkLaneKey)| {
            queue(host.clone(), if index < 200 { 4 } else { 5 })
        };
        let queues: Vec<LaneQueue> = hosts.iter().enumerate().map(left).collect();
        let outlook = paces.outlook(&queues, 0, at(100));
        assert_eq!(
            outlook.at_overall_pace,
            Some(Duration::from_secs(9_800 / 2))
        );
    }

    #[test]
    fn pace_is_unexplained_while_less_ends_than_the_limits_allow() {
        let paces = LanePaces::new(at(0));
        let queues = [queue(lane("a.example"), 9)];
        let is_unexplained = |now: u64, busy: u64| {
            let outlook = paces.outlook(&queues, 0, at(now));
            outlook.is_unexplained(Duration::from_secs(busy))
        };
        assert!(is_unexplained(9, 0));
        assert!(!is_unexplained(9, 1));
        assert!(is_unexplained(20, 0));
        // A host that declares a pause of a minute.
        assert!(!is_unexplained(50, 60));
        assert!(is_unexplained(70, 60));
        assert!(!paces.outlook(&[], 0, at(70)).is_unexplained(Duration::ZERO));
    }

    #[test]
    fn pace_is_measured_again_after_the_store_is_lost() {
        let mut paces = LanePaces::new(at(0));
        for second in 0..30 {
            paces.note_end(&lane("a.example"), at(second));
        }
        paces.note_store(true, at(30));
        assert_eq!(distance(&paces, "a.example"), Duration::ZERO);
        for second in (30..50).step_by(4) {
            paces.note_end(&lane("a.example"), at(second));
            paces.note_store(true, at(second));
        }
        assert_eq!(distance(&paces, "a.example"), Duration::from_secs(4));
    }

    #[test]
    fn items_that_are_still_looked_up_are_expected_where_others_went() {
        let mut paces = LanePaces::new(at(0));
        for second in 0..30 {
            paces.note_end(&lane("a.example"), at(second));
        }
        let source = queue(WorkLaneKey::Source("crossref".into()), 100);
        // 40 items are looked up; 30 of them went to a host, and 10 wait for the host.
        let queues = [source, queue(lane("a.example"), 10)];
        let outlook = paces.outlook(&queues, 40, at(30));
        assert_eq!(outlook.sites["a.example"][0].requests, 10 + 100);
        // The look-ups themselves take time, too.
        let all = Duration::from_secs(10 + 100 + 100);
        assert_eq!(outlook.at_overall_pace, Some(all));
    }

    #[test]
    fn the_pace_before_a_pause_is_forgotten_after_it() {
        let mut paces = LanePaces::new(at(0));
        for second in (0..60).step_by(3) {
            paces.note_end(&lane("a.example"), at(second));
            paces.note_end(&lane("b.example"), at(second));
        }
        paces.note_back(&"a.example".into(), at(600));
        assert_eq!(distance(&paces, "a.example"), Duration::ZERO);
        assert_eq!(distance(&paces, "b.example"), Duration::from_secs(3));
        let demand = paces.demand_of_deferred(&"a.example".into(), 7, at(610));
        assert_eq!((demand.role, demand.requests), (Role::Artifact, 7));
        assert_eq!(demand.span, Duration::from_secs(10));
    }

    fn time(seconds: f64) -> Timestamp {
        Timestamp::from_secs_f64(seconds)
    }

    fn work(due: f64, length: u64) -> DeferredWork {
        DeferredWork {
            due: time(due),
            end: time(due) + Duration::from_secs(length),
            given_up_at: None,
        }
    }

    /// Returns the end of a run with [`DeferredWork`], in seconds. Its other work ends at 100, and
    /// the time of the computation is 40.
    fn end(deferred: Vec<DeferredWork>, max_wait: u64) -> Option<f64> {
        let max_wait = Duration::from_secs(max_wait);
        end_of_run(time(100.0), deferred, max_wait, time(40.0)).map(Timestamp::as_secs_f64)
    }

    #[test]
    fn a_run_does_not_wait_for_what_is_due_after_its_bound() {
        assert_eq!(end(vec![], 20), Some(100.0));
        assert_eq!(end(vec![work(7_200.0, 5)], 20), Some(100.0));
        assert_eq!(end(vec![work(7_200.0, 5)], 9_000), Some(7_205.0));
        let chain = vec![work(150.0, 1), work(115.0, 30)];
        assert_eq!(end(chain, 20), Some(151.0));
        assert_eq!(end(vec![work(50.0, 10)], 20), Some(100.0));
    }

    #[test]
    fn the_end_is_unknown_while_a_host_that_is_down_may_delay_it() {
        let down = |given_up_at: f64| DeferredWork {
            given_up_at: Some(time(given_up_at)),
            ..work(45.0, 30)
        };
        assert_eq!(end(vec![down(90.0)], 60), None);
        // Whenever the host is back, its items finish before the others.
        assert_eq!(end(vec![down(65.0)], 60), Some(100.0));
        // The run no longer waits for the host.
        assert_eq!(end(vec![down(39.0)], 9), Some(100.0));
    }

    #[test]
    fn items_that_are_due_at_about_the_same_time_come_back_together() {
        let backlog = HostBacklog {
            host: "a.example".into(),
            dues: vec![(time(1.0), 2), (time(9.0), 3), (time(20.0), 4)],
            silent_for: Duration::ZERO,
            has_served: true,
        };
        let groups = backlog.groups(Duration::from_secs(10));
        assert_eq!(groups, [(time(1.0), 5), (time(20.0), 4)]);
    }
}
