//! Why a host waits: its budgets and what stands in the way of the next request, as the store sees
//! it now.

use std::time::Duration;

use docstokg_policy::breaker::BreakerState;
use docstokg_policy::budget::EndedWait;
use docstokg_policy::host::Host;
use docstokg_policy::host_model::learner::ConfirmedLimit;
use docstokg_policy::host_model::quotas::{QuotaNeed, Quotas};
use docstokg_policy::rate::{LimitBasis, Window, limit_in_words, window_in_words};
use docstokg_policy::rate_headers::RateHeaderReading;
use docstokg_policy::role::Role;
use docstokg_policy::site::{
    AdmissionDecision, AdmissionRequest, BudgetCost, LanePolicy, RefusalReason,
};
use docstokg_stores::process::may_run;
use docstokg_stores::{BudgetKey, SiteView, StoreError};

use crate::admission::{AdmissionQueue, BudgetSetKey};
use crate::clock::BootInstant;
use crate::config::read_network_key;
use crate::hub::Hub;

/// How the next request of one host and role would fare.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// The role.
    pub role: Role,
    /// The budgets that it costs.
    pub budgets: Vec<BudgetReport>,
    /// The state of the breaker that it obeys.
    pub state: BreakerState,
    /// How long until a request that asks now would be let through.
    pub eligible_in: Duration,
    /// What it would wait for; `None` if for nothing.
    pub because: Option<Obstacle>,
    /// The processes that cannot reach the host themselves, and wait for that.
    pub unreachable: Vec<Unreachable>,
    /// What was learned of the host's limits, in all roles together.
    pub learned: Option<LearnedReport>,
    /// What the host states about its quotas in rate headers, less what was permitted since, by the
    /// name of the budget.
    pub stated: Vec<(String, RateHeaderReading)>,
}

/// What was learned of a host's limits.
#[derive(Clone, Debug)]
pub struct LearnedReport {
    /// The limits that refusals have confirmed.
    pub limits: Vec<ConfirmedLimit>,
    /// Whether a search is under way.
    pub searching: bool,
    /// How long nothing is sent, on account of refusals.
    pub pause: Duration,
}

/// A process whose local connectivity does not include a host: others may send, this one waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreachable {
    /// The process.
    pub who: String,
    /// Why its breaker opened.
    pub reason: String,
    /// How long until it tries again.
    pub retry_in: Duration,
}

/// What a request would wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// A limit, and what it is based on.
    Limit(Window, LimitBasis),
    /// So many requests with a reservation come first: the window has capacity left, but for them.
    Queue(usize, Window),
    /// The breaker, for a reason.
    Breaker(String),
    /// Every shared slot is taken.
    Slots,
}

impl Obstacle {
    /// Returns the limit that holds the request back, where a limit does.
    #[must_use]
    pub fn limit(&self) -> Option<&Window> {
        match self {
            Self::Limit(_, LimitBasis::Spacing(limit))
            | Self::Limit(limit, _)
            | Self::Queue(_, limit) => Some(limit),
            Self::Breaker(_) | Self::Slots => None,
        }
    }

    /// Returns whether the configuration can change it.
    #[must_use]
    pub fn is_configured(&self) -> bool {
        match self {
            Self::Limit(_, basis) => basis.is_configured(),
            Self::Queue(..) => true,
            Self::Breaker(_) | Self::Slots => false,
        }
    }
}

impl std::fmt::Display for Obstacle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Limit(window, basis) => {
                let words = limit_in_words(window, *basis);
                match basis {
                    LimitBasis::Configured => write!(f, "the limit of {words} is reached"),
                    _ => f.write_str(&words),
                }
            }
            Self::Queue(waiting, limit) => {
                let words = window_in_words(limit);
                match waiting {
                    1 => write!(f, "1 waiting request comes first ({words})"),
                    _ => write!(f, "{waiting} waiting requests come first ({words})"),
                }
            }
            Self::Breaker(reason) => write!(f, "breaker: {reason}"),
            Self::Slots => f.write_str("every shared slot is taken"),
        }
    }
}

/// How a budget stands.
#[derive(Clone, Debug)]
pub struct BudgetReport {
    /// Its name in the store.
    pub name: String,
    /// Where its windows come from.
    pub source: LimitSource,
    /// Each window, and how much of it is used; empty where this process does not know the windows.
    pub windows: Vec<(Window, u64)>,
    /// How many requests wait with a position of their own, over all processes.
    pub waiting: usize,
    /// Shared slots held, and how many there are, where slots are shared.
    pub slots: Option<(usize, u32)>,
    /// The share of the rate that adaptive pacing leaves.
    pub multiplier: f64,
    /// The latest waits: how long ago each ended, and how long it was.
    pub waits: Vec<(Duration, Duration)>,
}

/// What a budget gets its windows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitSource {
    /// The configuration of this process.
    Configuration,
    /// A crawl delay in the host's robots.txt, which only the processes that obey it have read.
    RobotsTxt,
}

/// Returns whether more of a window was used than it permits.
#[must_use]
pub fn is_exceeded(window: &Window, used: u64) -> bool {
    used > u64::from(window.limit.get())
}

impl BudgetReport {
    /// Returns the windows in which more was used than this configuration permits: other processes
    /// ask under larger limits. While they do, requests under this configuration rarely fit in.
    pub fn exceeded(&self) -> impl Iterator<Item = &(Window, u64)> {
        self.windows
            .iter()
            .filter(|(window, used)| is_exceeded(window, *used))
    }
}

impl Hub {
    /// Reports for each role of a host how full its budgets are, and what its next request would
    /// wait for.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn diagnose(&self, host: &Host) -> Result<Vec<Diagnosis>, StoreError> {
        let mut found = Vec::new();
        let unreachable = self.unreachable(host).await?;
        for role in Role::ALL {
            let lane = self.lane(&BudgetSetKey::plain(host, role));
            let view = lane.site.handle.view().await?;
            let now = view.now;
            let mut budgets: Vec<BudgetReport> = lane
                .costs
                .iter()
                .filter_map(|cost| configured_budget(&view, cost))
                .collect();
            let policy = LanePolicy {
                adaptive: None,
                ..LanePolicy::clone(&lane.rules.policy)
            };
            let ask = AdmissionRequest {
                role,
                quota_lane: lane.quota_lane(),
                // It waits as a request of a bulk run does: even pacing refuses nobody.
                latest: BootInstant::FAR,
                backlog: backlog(&budgets),
                ..AdmissionRequest::at_once(&lane.costs, policy)
            };
            let (until, because) = match view.site.clone().enter(&ask, now).entry {
                AdmissionDecision::Refused(refusal) => {
                    let because = obstacle(&refusal.reason, &lane, &budgets);
                    (refusal.until, because.map(|it| stated_or(it, &ask, &view)))
                }
                AdmissionDecision::WaitForSlot { .. } => (now, Some(Obstacle::Slots)),
                AdmissionDecision::Wait(reserved) => {
                    let because = reserved.because;
                    let because = because.map(|it| rate_obstacle(it, &lane, &budgets));
                    (reserved.at, because.map(|it| stated_or(it, &ask, &view)))
                }
                AdmissionDecision::Go(_)
                | AdmissionDecision::Queue { .. }
                | AdmissionDecision::WaitForBreaker { .. } => (BootInstant::ZERO, None),
            };
            let own = view
                .site
                .breakers()
                .1
                .iter()
                .find(|(isolated, _)| lane.rules.policy.isolated && *isolated == role);
            let state = own.map_or_else(|| view.state(), |(_, breaker)| breaker.state(now));
            budgets.extend(crawl_delay_budget(&view, host));
            found.push(Diagnosis {
                role,
                budgets,
                state,
                eligible_in: until.since(now),
                because,
                unreachable: unreachable.clone(),
                learned: learned(&view),
                stated: stated(&view, host, role),
            });
        }
        Ok(found)
    }

    /// Finds the processes that cannot reach a host from where they run.
    async fn unreachable(&self, host: &Host) -> Result<Vec<Unreachable>, StoreError> {
        let mut found = Vec::new();
        for key in self.store().list().await? {
            let Some((_, who)) = read_network_key(&key).filter(|(other, _)| other == host) else {
                continue;
            };
            let view = self.store().site(&key).view().await?;
            // The row of a process that was killed stays for a while.
            if let Some((until, reason)) = view.open_until()
                && may_run(who)
            {
                found.push(Unreachable {
                    who: who.to_owned(),
                    reason: reason.to_string(),
                    retry_in: until.since(view.now),
                });
            }
        }
        Ok(found)
    }
}

/// Reports what was learned, where that is anything.
fn learned(view: &SiteView) -> Option<LearnedReport> {
    let learned = view.site.learned()?;
    let report = LearnedReport {
        limits: learned.limits().copied().collect(),
        searching: learned.is_searching(),
        pause: learned.not_before(view.now).since(view.now),
    };
    let says_something = !report.limits.is_empty() || report.searching || !report.pause.is_zero();
    says_something.then_some(report)
}

/// Reports a budget whose windows the configuration states.
fn configured_budget(view: &SiteView, cost: &BudgetCost) -> Option<BudgetReport> {
    let budget = view.site.budgets().get(cost.budget)?;
    let used = |window: &Window| (*window, budget.used(&cost.windows, window, view.now));
    Some(BudgetReport {
        windows: cost.windows.list().iter().map(used).collect(),
        slots: cost
            .slots
            .map(|most| (budget.slots_held(view.now), most.get())),
        ..budget_report(view, cost.budget, LimitSource::Configuration)?
    })
}

/// Reports what a host states about the quotas of a role; kinds of requests and services, which have
/// no role of their own, come with the first.
fn stated(view: &SiteView, host: &Host, role: Role) -> Vec<(String, RateHeaderReading)> {
    let own = BudgetKey::Role(host.clone(), role).to_string();
    let is_role = |lane: &str| {
        let mut roles = Role::ALL.into_iter();
        roles.any(|role| lane == BudgetKey::Role(host.clone(), role).to_string())
    };
    let belongs = |lane: &str| {
        let is_of_host = lane.starts_with(&format!("{host} ")) || lane.starts_with("service ");
        lane == own || (role == Role::ALL[0] && is_of_host && !is_role(lane))
    };
    let lanes = view.site.quotas().into_iter().flat_map(Quotas::lanes);
    lanes
        .filter(|lane| belongs(lane.name()))
        .map(|lane| (lane.name().to_owned(), lane.as_of(view.now)))
        .collect()
}

/// Reports the budget of the crawl delay, where a process obeys one for this host.
fn crawl_delay_budget(view: &SiteView, host: &Host) -> Option<BudgetReport> {
    let name = BudgetKey::CrawlDelay(host.clone()).to_string();
    let budget = view.budgets.iter().position(|other| *other == name)?;
    budget_report(view, budget, LimitSource::RobotsTxt)
}

/// Reports what is known of a budget without its limits.
fn budget_report(view: &SiteView, budget: usize, source: LimitSource) -> Option<BudgetReport> {
    let name = view.budgets.get(budget)?.clone();
    let budget = view.site.budgets().get(budget)?;
    let wait = |wait: &EndedWait| (view.now.since(wait.at), wait.length);
    Some(BudgetReport {
        name,
        source,
        windows: Vec::new(),
        waiting: budget.count_waiting(view.now),
        slots: None,
        multiplier: budget.multiplier().share(),
        waits: budget.waits().iter().map(wait).collect(),
    })
}

/// Tells a quota that the host states from a limit that was learned.
fn stated_or(obstacle: Obstacle, ask: &AdmissionRequest, view: &SiteView) -> Obstacle {
    let Obstacle::Limit(window, LimitBasis::StatedOrLearned) = obstacle else {
        return obstacle;
    };
    let need = QuotaNeed {
        weight: 1,
        ..QuotaNeed::default()
    };
    let quotas = view.site.quotas().zip(ask.quota_lane.as_deref());
    let turn = quotas.and_then(|(quotas, lane)| quotas.next(lane, need, view.now));
    if turn.and_then(|turn| turn.window) == Some(window) {
        Obstacle::Limit(window, LimitBasis::Stated)
    } else {
        Obstacle::Limit(window, LimitBasis::Learned)
    }
}

/// Returns how many requests are thought to be still to come: very many where some wait, since
/// then a run is under way.
fn backlog(budgets: &[BudgetReport]) -> u32 {
    if budgets.iter().any(|budget| budget.waiting > 0) {
        u32::MAX
    } else {
        0
    }
}

fn obstacle(
    reason: &RefusalReason,
    lane: &AdmissionQueue,
    budgets: &[BudgetReport],
) -> Option<Obstacle> {
    match reason {
        RefusalReason::Rate { window } => Some(rate_obstacle((*window)?, lane, budgets)),
        RefusalReason::Open { probing: true, .. } => Some(Obstacle::Breaker(
            "half-open, its probes are out".to_owned(),
        )),
        RefusalReason::Open { reason, .. } => Some(Obstacle::Breaker(format!("open ({reason})"))),
        RefusalReason::Slots => Some(Obstacle::Slots),
    }
}

/// Describes a window that asks for a wait: a limit, its even pacing, the queue, or what was learned.
fn rate_obstacle(window: Window, lane: &AdmissionQueue, budgets: &[BudgetReport]) -> Obstacle {
    let basis = lane.basis_of(&window);
    let is_full = |budget: &BudgetReport| {
        let mut windows = budget.windows.iter();
        windows.any(|(other, used)| *other == window && *used >= u64::from(window.limit.get()))
    };
    let waiting = budgets.iter().map(|budget| budget.waiting).max();
    let waiting = waiting.unwrap_or(0);
    let has_capacity = basis == LimitBasis::Configured && !budgets.iter().any(is_full);
    if waiting > 0 && has_capacity {
        Obstacle::Queue(waiting, window)
    } else {
        Obstacle::Limit(window, basis)
    }
}
