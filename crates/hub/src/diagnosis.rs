//! The diagnosis of a host: the state of its budgets, and the reason why its next request would
//! have to wait.
//!
//! The report shows the state of the store at the moment of the query, without sending a request to
//! the host.

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

/// The budgets of one host and role, and the wait that its next request would have.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// The role of the request.
    pub role: Role,
    /// The [`BudgetReport`] of each budget that the request uses.
    pub budgets: Vec<BudgetReport>,
    /// The [`BreakerState`] of the breaker that applies to the request.
    pub state: BreakerState,
    /// The time until a request that is made now would be admitted.
    pub eligible_in: Duration,
    /// The [`Obstacle`] because of which that request would have to wait; `None` if it would not.
    pub because: Option<Obstacle>,
    /// The processes that cannot reach the host from their network, and wait until they can.
    pub unreachable: Vec<Unreachable>,
    /// The learned limits of the host, for all roles together.
    pub learned: Option<LearnedReport>,
    /// The quotas that the host declared in rate headers, by the name of the budget. Tokens that
    /// were spent since then are subtracted.
    pub stated: Vec<(String, RateHeaderReading)>,
}

/// The learned limits of a host.
#[derive(Clone, Debug)]
pub struct LearnedReport {
    /// The limits that refusals have confirmed.
    pub limits: Vec<ConfirmedLimit>,
    /// `true` while the hub searches for a limit by raising the rate.
    pub searching: bool,
    /// The time for which no request is sent, because the host refused requests.
    pub pause: Duration,
}

/// A process that cannot reach a host from its network. This does not stop other processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreachable {
    /// The name of the process.
    pub who: String,
    /// The reason why the breaker of the process opened.
    pub reason: String,
    /// The time until the process tries again.
    pub retry_in: Duration,
}

/// The reason why a request has to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// A window is used up. The [`LimitBasis`] says where it comes from.
    Limit(Window, LimitBasis),
    /// Earlier requests, of which this is the number, have reserved the next permits. The window
    /// itself is not used up.
    Queue(usize, Window),
    /// The breaker is open or half-open, for the reason that the text names.
    Breaker(String),
    /// All shared slots are in use.
    Slots,
}

impl Obstacle {
    /// Returns the window that delays the request; `None` if the obstacle is not a limit.
    #[must_use]
    pub fn limit(&self) -> Option<&Window> {
        match self {
            Self::Limit(_, LimitBasis::Spacing(limit))
            | Self::Limit(limit, _)
            | Self::Queue(_, limit) => Some(limit),
            Self::Breaker(_) | Self::Slots => None,
        }
    }

    /// Returns whether a change of the configuration can remove the obstacle.
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

/// The state of a budget.
#[derive(Clone, Debug)]
pub struct BudgetReport {
    /// The name of the budget in the store.
    pub name: String,
    /// The source of the budget's windows.
    pub source: LimitSource,
    /// Each window with its number of spent tokens. Empty if this process does not know the
    /// windows.
    pub windows: Vec<(Window, u64)>,
    /// The number of requests of all processes that wait with a reservation.
    pub waiting: usize,
    /// The number of slots in use and the number of all slots, if processes share them.
    pub slots: Option<(usize, u32)>,
    /// The multiplier of the configured rates, as the adaptive rate has set it.
    pub multiplier: f64,
    /// The latest waits for this budget: the time since the end of each, and its length.
    pub waits: Vec<(Duration, Duration)>,
}

/// The origin of a budget's windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitSource {
    /// The configuration of this process.
    Configuration,
    /// A crawl delay in the host's robots.txt, known only to processes that obey the file.
    RobotsTxt,
}

/// Returns whether more tokens of a window were spent than it allows.
#[must_use]
pub fn is_exceeded(window: &Window, used: u64) -> bool {
    used > u64::from(window.limit.get())
}

impl BudgetReport {
    /// Returns the windows of which more tokens were spent than this configuration allows. Other
    /// processes then have higher limits, and rarely leave tokens for requests under this
    /// configuration.
    pub fn exceeded(&self) -> impl Iterator<Item = &(Window, u64)> {
        self.windows
            .iter()
            .filter(|(window, used)| is_exceeded(window, *used))
    }
}

impl Hub {
    /// Returns a [`Diagnosis`] for each role of a host: the state of its budgets, and the wait of
    /// its next request.
    ///
    /// # Errors
    /// Returns a [`StoreError`] if the store fails.
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
                // The request waits as long as necessary, like one of a bulk run. With an earlier
                // instant, it would be refused because of even pacing, although it could be sent
                // later.
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

    /// Returns the [`Unreachable`] processes, which cannot reach a host from their network.
    async fn unreachable(&self, host: &Host) -> Result<Vec<Unreachable>, StoreError> {
        let mut found = Vec::new();
        for key in self.store().list().await? {
            let Some((_, who)) = read_network_key(&key).filter(|(other, _)| other == host) else {
                continue;
            };
            let view = self.store().site(&key).view().await?;
            // The entry of a process that was killed stays in the store for a while, and is left
            // out.
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

/// Returns the [`LearnedReport`] of a site, or `None` if nothing was learned.
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

/// Returns the [`BudgetReport`] of a budget whose windows are configured.
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

/// Returns the quotas that a host declares for a role. Quotas of kinds and services have no role,
/// so they are listed with the first role.
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

/// Returns the [`BudgetReport`] of the host's crawl delay; `None` if no process obeys one.
fn crawl_delay_budget(view: &SiteView, host: &Host) -> Option<BudgetReport> {
    let name = BudgetKey::CrawlDelay(host.clone()).to_string();
    let budget = view.budgets.iter().position(|other| *other == name)?;
    budget_report(view, budget, LimitSource::RobotsTxt)
}

/// Returns the [`BudgetReport`] of a budget, with an empty list of windows.
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

/// If the basis of a limit is [`LimitBasis::StatedOrLearned`], replaces it by the actual one: a
/// declared quota, or a learned limit.
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

/// Returns the number of requests that are assumed to follow the next one. If a request waits, a
/// bulk run is assumed, and the number is unlimited.
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

/// Returns the [`Obstacle`] for the window that delays a request: the window itself, or the
/// requests that have reserved it.
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
