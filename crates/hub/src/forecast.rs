//! The forecast of a site: the minimum time that its limits require for many requests.
//!
//! The forecast uses the current state of the store, and sends no request to the site.

use std::num::NonZeroU32;
use std::time::Duration;

use docstokg_policy::breaker::{BreakerState, OpenReason};
use docstokg_policy::budget::{Budget, Demand};
use docstokg_policy::host::Host;
use docstokg_policy::host_model::learned::LearnedLimits;
use docstokg_policy::host_model::learner::{ConfirmedLimit, LimitShape};
use docstokg_policy::rate::{LimitBasis, Window};
use docstokg_policy::rate_headers::{Quota, Unit};
use docstokg_policy::role::Role;
use docstokg_policy::site::BudgetCost;
use docstokg_policy::time::BootInstant;
use docstokg_stores::{SiteView, StoreError};

use crate::admission::{AdmissionQueue, BudgetSetKey};
use crate::hub::Hub;

/// Minimum number of recent requests from which the number of tokens per request is estimated.
const MIN_RECENT: u64 = 5;

/// Minimum quotient of tokens and requests that counts as more than one token per request.
/// Redirects and requests of other processes spend tokens, too.
const MIN_SHARED: f64 = 1.2;

/// The remaining requests of one role at a site, with observations of earlier ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoleDemand {
    /// The role of the requests.
    pub role: Role,
    /// The number of remaining requests.
    pub requests: u64,
    /// The observed time between two requests; zero without an observation.
    pub distance: Duration,
    /// The number of requests that ended in the time `span` before now.
    pub recent: u64,
    /// The time over which `recent` was counted.
    pub span: Duration,
    /// The last estimate of the number of tokens that each request spends.
    pub permits_each: f64,
}

impl RoleDemand {
    /// Creates the [`RoleDemand`] of `requests` without observations.
    #[must_use]
    pub const fn of(role: Role, requests: u64) -> Self {
        Self {
            role,
            requests,
            distance: Duration::ZERO,
            recent: 0,
            span: Duration::ZERO,
            permits_each: 1.0,
        }
    }

    /// Estimates the number of tokens of a budget that each request spends. For a long window, the
    /// number of tokens that all processes spent recently is known; it is divided by the number of
    /// recent requests.
    #[expect(clippy::cast_precision_loss, reason = "counts of requests fit")]
    fn permits_each(&self, budget: &Budget, cost: &BudgetCost, view: &SiteView) -> f64 {
        let long = cost.windows.list().iter();
        let long = long.filter(|window| window.per >= self.span && !self.span.is_zero());
        let Some(window) = long.max_by_key(|window| window.per) else {
            return 1.0;
        };
        if self.recent < MIN_RECENT || window.per < Duration::from_secs(60) {
            return self.permits_each;
        }
        let used = budget.used_within(window, self.span, view.now);
        let each = used as f64 / self.recent as f64;
        // Requests in flight have spent tokens but have not ended, so they raise the quotient
        // slightly above one.
        if each < MIN_SHARED { 1.0 } else { each }
    }
}

/// The forecast for a number of requests to a site, that is, for the last of them.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteForecast {
    /// The time until the last request is sent.
    pub after: Duration,
    /// The [`ForecastLimit`] that causes most of that time, if a limit does.
    pub because: Option<ForecastLimit>,
    /// The number of tokens that each request spends, as estimated.
    pub permits_each: f64,
    /// The [`SitePause`] that says why the site is paused; `None` if it is not.
    pub pause: Option<SitePause>,
    /// `true` if the shared store is unavailable, so that this process uses only its share of the
    /// limits.
    pub is_store_lost: bool,
}

/// A limit that requests wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForecastLimit {
    /// The host that the limit applies to.
    pub host: Host,
    /// The role that the limit applies to.
    pub role: Role,
    /// The window that expresses the limit.
    pub window: Window,
    /// The [`LimitBasis`] of the limit: its source, such as the configuration or a header.
    pub basis: LimitBasis,
}

/// The reason why no requests are sent to a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SitePause {
    /// The host or an operator declared when the pause ends.
    Declared,
    /// The site failed. When the pause ends is unknown, because it depends on a probe.
    Failed,
}

impl Hub {
    /// Computes the minimum time until the last of `demands` is sent to a site, if the first may be
    /// sent after `from`.
    ///
    /// The forecast considers the windows and their use, the pacing, learned limits and declared
    /// quotas. Returns `None` if `site` is neither a configured site nor a host, or if `demands` is
    /// empty.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the store fails.
    pub async fn forecast(
        &self,
        site: &str,
        demands: &[RoleDemand],
        from: Duration,
    ) -> Result<Option<SiteForecast>, StoreError> {
        let joined = self.config().joined_site(site);
        let host = match joined {
            Some(joined) => joined.hosts.first().cloned(),
            None => Host::parse(site).ok(),
        };
        let Some(host) = host else {
            return Ok(None);
        };
        let crawl_delay = self.0.robots.crawl_delay_of(&host, self.0.runtime.boot());
        let lane = |demand: &RoleDemand| {
            self.lane(&BudgetSetKey {
                crawl_delay,
                ..BudgetSetKey::plain(&host, demand.role)
            })
        };
        let Some(first) = demands.first() else {
            return Ok(None);
        };
        let handle = lane(first).site.handle.clone();
        // The state of the site and the costs of requests must come from the same store.
        let view = match handle.own_share(&[]) {
            Some(own) => own.view,
            None => handle.view().await?,
        };
        let role = |demand: &RoleDemand| RoleLane::new(lane(demand), *demand, view.now);
        let lanes: Vec<RoleLane> = demands.iter().map(role).collect();
        // The requests may go to any host of a joined site, so only the budget that all hosts share
        // certainly applies.
        let skipped = usize::from(joined.is_some_and(|joined| joined.hosts.len() > 1));
        let mut latest = SiteForecast {
            after: Duration::ZERO,
            because: None,
            permits_each: 1.0,
            pause: reason_of_pause(&view),
            is_store_lost: lanes.iter().any(|role| role.is_store_lost),
        };
        // Tokens become available again during a pause, too, so the forecast begins at its end.
        let begin = view.now + from.max(pause(&view));
        for role in &lanes {
            let of_role = forecast_role(role, &lanes, &view, skipped, begin);
            let permits_each = latest.permits_each.max(of_role.permits_each);
            if of_role.after >= latest.after {
                let because = of_role.because;
                latest.because = because.map(|(window, basis)| ForecastLimit {
                    host: host.clone(),
                    role: role.demand.role,
                    window,
                    basis,
                });
                latest.after = of_role.after;
            }
            latest.permits_each = permits_each;
        }
        latest.after += begin.since(view.now);
        Ok(Some(latest))
    }
}

/// The remaining requests of one role, with the queue and the costs of each.
struct RoleLane {
    lane: AdmissionQueue,
    costs: Vec<BudgetCost>,
    demand: RoleDemand,
    is_store_lost: bool,
}

impl RoleLane {
    fn new(lane: AdmissionQueue, demand: RoleDemand, now: BootInstant) -> Self {
        let costs = lane.costs_now(now).to_vec();
        let own = lane.site.handle.own_share(&costs);
        Self {
            is_store_lost: own.is_some(),
            costs: own.map_or(costs, |own| own.costs),
            lane,
            demand,
        }
    }
}

struct RoleForecast {
    after: Duration,
    because: Option<(Window, LimitBasis)>,
    permits_each: f64,
}

/// Computes the time from `begin` until the last request of a role is sent. The requests of other
/// roles that use the same budgets are considered, too.
fn forecast_role(
    role: &RoleLane,
    lanes: &[RoleLane],
    view: &SiteView,
    skipped: usize,
    begin: BootInstant,
) -> RoleForecast {
    let learned = learned_distance(view);
    let demand = &role.demand;
    let distance = demand.distance.max(learned);
    let is_learned = !learned.is_zero() && learned >= demand.distance;
    let times = u32::try_from(demand.requests.saturating_sub(1)).unwrap_or(u32::MAX);
    let mut latest = RoleForecast {
        after: distance.saturating_mul(times),
        because: is_learned.then(|| {
            let window = Window::new(NonZeroU32::MIN, learned);
            (window, LimitBasis::Learned)
        }),
        permits_each: demand.permits_each,
    };
    let empty = Budget::default();
    for cost in role.costs.iter().skip(skipped) {
        let budget = view.site.budgets().get(cost.budget).unwrap_or(&empty);
        let charges = |other: &&RoleLane| {
            let mut costs = other.costs.iter();
            costs.any(|other| other.budget == cost.budget)
        };
        let sharing = lanes.iter().filter(charges);
        let requests: u64 = sharing.map(|other| other.demand.requests).sum();
        let permits_each = demand.permits_each(budget, cost, view);
        let found = budget.forecast(
            &cost.windows,
            Demand {
                requests,
                distance: if requests == demand.requests {
                    distance
                } else {
                    Duration::ZERO
                },
                permits_each,
            },
            begin,
        );
        if found.after > latest.after || (found.after == latest.after && found.because.is_some()) {
            latest = RoleForecast {
                after: found.after,
                because: found
                    .because
                    .map(|window| (window, role.lane.basis_of(&window))),
                permits_each,
            };
        }
    }
    if let Some((after, window)) = stated_wait(&role.lane, demand.requests, view, begin)
        && after > latest.after
    {
        latest.after = after;
        latest.because = window.map(|window| (window, LimitBasis::Stated));
    }
    latest
}

/// Returns the time until a request may be sent, after a block by the breaker or after refusals.
fn pause(view: &SiteView) -> Duration {
    let open = view.open_until().map(|(until, _)| until.since(view.now));
    let learned = view.site.learned();
    let refused = learned.map(|learned| learned.not_before(view.now).since(view.now));
    open.into_iter().chain(refused).max().unwrap_or_default()
}

/// Returns the [`SitePause`] that the breaker causes; `None` if the breaker is closed.
fn reason_of_pause(view: &SiteView) -> Option<SitePause> {
    match (view.state(), view.open_until()) {
        (BreakerState::Closed, _) => None,
        (_, Some((_, OpenReason::RetryAfter | OpenReason::Operator(_)))) => {
            Some(SitePause::Declared)
        }
        _ => Some(SitePause::Failed),
    }
}

/// Returns the time between two requests that the learned limits require.
fn learned_distance(view: &SiteView) -> Duration {
    let of_limit = |limit: &ConfirmedLimit| {
        let amount = f64::from(limit.amount).max(0.001);
        let seconds = match limit.shape {
            LimitShape::Window { seconds } => f64::from(seconds) / amount,
            LimitShape::Rate => 1.0 / amount,
            LimitShape::Cap => 0.0,
        };
        Duration::from_secs_f64(seconds)
    };
    let limits = view
        .site
        .learned()
        .into_iter()
        .flat_map(LearnedLimits::limits);
    limits.map(of_limit).max().unwrap_or_default()
}

/// Returns the time after `begin` until declared quotas permit the last of `requests`, with the
/// window of the quota. Returns `None` if the quotas suffice.
fn stated_wait(
    lane: &AdmissionQueue,
    requests: u64,
    view: &SiteView,
    begin: BootInstant,
) -> Option<(Duration, Option<Window>)> {
    let stated = view.site.quotas()?.of(&lane.quota_lane()?)?.as_of(begin);
    let of_quota = |quota: &Quota| {
        let (left, reset) = (u64::from(quota.remaining?), quota.resets_in?);
        if quota.unit != Unit::Requests || requests <= left {
            return None;
        }
        let window = quota.limit.and_then(NonZeroU32::new).zip(quota.window);
        let window = window.map(|(limit, per)| Window::new(limit, per));
        let more = window.map_or(Duration::ZERO, |window| {
            let turns = (requests - left - 1) / u64::from(window.limit.get());
            let turns = u32::try_from(turns).unwrap_or(u32::MAX);
            window.per.saturating_mul(turns)
        });
        Some((reset + more, window))
    };
    stated
        .quotas
        .iter()
        .filter_map(of_quota)
        .max_by_key(|(wait, _)| *wait)
}
