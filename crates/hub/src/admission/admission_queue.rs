//! Lanes: one set of budgets of a site, and the queue of the requests that it costs.

use std::num::NonZeroU32;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use docstokg_policy::breaker::{BreakerState, OpenReason, Transition};
use docstokg_policy::classify::Classifier;
use docstokg_policy::host::Host;
use docstokg_policy::rate::{LimitBasis, Window};
use docstokg_policy::rate_headers::{
    ImpliedWindow, RateHeaderHints, RateHeaderReading, Trust, tighten, tighten_concurrency,
};
use docstokg_policy::role::Role;
use docstokg_policy::site::{AdmissionRequest, BudgetCost, LanePolicy, Patience, QueuePosition};
use docstokg_policy::windows::Windows;
use docstokg_stores::{BudgetKey, SiteKey};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::SiteAdmission;
use super::queue::WaitQueue;
use crate::clock::BootInstant;

/// How long limits are obeyed that a host states no longer.
const STATED_MEMORY: Duration = Duration::from_secs(3_600);

/// A way into a site, for requests that cost the same budgets. Cheap to clone.
#[derive(Clone)]
pub(crate) struct AdmissionQueue {
    pub(crate) site: Arc<SiteAdmission>,
    state: Arc<LaneState>,
}

/// What the requests of a lane share; the site keeps it.
pub(crate) struct LaneState {
    pub(crate) key: BudgetSetKey,
    pub(crate) costs: Arc<[BudgetCost]>,
    /// How many of the costs, from the first on, grow with the weight of a request. A crawl delay
    /// counts requests.
    pub(super) weighted: usize,
    pub(crate) rules: Arc<AdmissionRules>,
    pub(super) slots: Box<[Arc<Semaphore>]>,
    pub(super) queue: WaitQueue,
    /// The origin closes its connections: every request is dialled, and none is later than the
    /// others.
    pub(crate) closes: AtomicBool,
    /// Counts the answers: while other requests are served, one that the origin did not process is
    /// sent again.
    pub(crate) answers: AtomicU32,
    /// The breaker of the role alone is open, for failures of its own.
    is_open_alone: AtomicBool,
    /// Under which name the site keeps what the host states about quotas.
    quota_lane: Arc<str>,
    /// The window of the quota whose headers state none.
    implied_window: Mutex<ImpliedWindow>,
    /// What the host states, where it states anything.
    stated: Mutex<Option<StatedLimits>>,
    has_stated: AtomicBool,
}

/// The limits that the headers of an answer state.
#[derive(Clone)]
struct StatedLimits {
    /// The windows of the host and role with those that are stated.
    windows: Arc<Windows>,
    /// How many requests may run at once, over all processes.
    concurrency: Option<NonZeroU32>,
    /// When that was stated last.
    concurrency_at: BootInstant,
    at: BootInstant,
}

/// What distinguishes the lanes of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BudgetSetKey {
    pub(crate) host: Host,
    pub(crate) role: Role,
    pub(crate) kind: Option<Arc<str>>,
    pub(crate) service: Option<Arc<str>>,
    /// HEAD where it is free: it passes the breaker and takes slots, but costs no tokens.
    pub(crate) free: bool,
    /// The time that the robots.txt of the host asks for between two requests.
    pub(crate) crawl_delay: Option<Duration>,
}

impl BudgetSetKey {
    /// Names the lane of a host and role that most requests take.
    pub(crate) fn plain(host: &Host, role: Role) -> Self {
        Self {
            host: host.clone(),
            role,
            kind: None,
            service: None,
            free: false,
            crawl_delay: None,
        }
    }

    /// Names the budget whose quotas the host states in answers to such requests.
    fn quota_lane(&self) -> Arc<str> {
        let budget = match (&self.kind, &self.service) {
            (Some(kind), _) => BudgetKey::Kind(self.host.clone(), Arc::clone(kind)),
            (None, Some(service)) => BudgetKey::Service(Arc::clone(service)),
            (None, None) => BudgetKey::Role(self.host.clone(), self.role),
        };
        budget.to_string().into()
    }

    /// Names a lane that costs nothing: it passes a breaker only.
    pub(super) fn free(host: &Host, role: Role) -> Self {
        Self {
            free: true,
            ..Self::plain(host, role)
        }
    }
}

/// What holds for a lane and is shared by many of them.
#[derive(Clone)]
pub(crate) struct AdmissionRules {
    /// How its site decides on requests.
    pub(crate) policy: Arc<LanePolicy>,
    pub(crate) classifier: Arc<Classifier>,
    /// What rate headers may do and how they are read, unless they are ignored.
    pub(crate) headers: Option<(Trust, RateHeaderHints)>,
    pub(crate) max_delay: Duration,
    /// What requests cost in credits: of the role, and of kinds that have their own.
    pub(crate) credits: u32,
    pub(crate) kind_credits: Box<[(Arc<str>, u32)]>,
}

impl AdmissionRules {
    /// Returns what a request of a kind costs in credits; one leaves that to the host.
    fn credits_of(&self, kind: Option<&str>) -> u32 {
        let own = kind.and_then(|kind| self.kind_credits.iter().find(|(name, _)| **name == *kind));
        own.map_or(self.credits, |(_, credits)| *credits)
    }
}

/// The terms on which one attempt asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdmissionTerms {
    /// Since when the attempt has been asking.
    pub(crate) asked: BootInstant,
    pub(crate) patience: Patience,
    pub(crate) latest: BootInstant,
    pub(crate) deadline: BootInstant,
    pub(crate) jitter_sample: f64,
    pub(crate) weight: u32,
    /// How many requests of the run are still to come here; zero if that is not known.
    pub(crate) backlog: u32,
}

impl Deref for AdmissionQueue {
    type Target = LaneState;

    fn deref(&self) -> &LaneState {
        &self.state
    }
}

impl AdmissionQueue {
    pub(super) fn new(site: Arc<SiteAdmission>, state: Arc<LaneState>) -> Self {
        Self { site, state }
    }

    /// Returns whether this is the lane of that state.
    pub(super) fn is(&self, state: &Arc<LaneState>) -> bool {
        Arc::ptr_eq(&self.state, state)
    }

    /// Returns what a window that asks for a wait is based on. While a shared store is lost, a share
    /// of the configured windows applies.
    pub(crate) fn basis_of(&self, window: &Window) -> LimitBasis {
        if self.key.crawl_delay == Some(window.per) && window.limit == NonZeroU32::MIN {
            return LimitBasis::CrawlDelay;
        }
        let own = self.site.handle.own_share(&self.costs);
        let costs = own.as_ref().map_or(&self.costs[..], |own| &own.costs);
        let mut windows = costs.iter().map(|cost| cost.windows.list());
        if windows.any(|list| list.contains(window)) {
            return LimitBasis::Configured;
        }
        let mut costs = costs.iter();
        costs
            .find_map(|cost| cost.windows.limit_spaced_by(window))
            .map_or(LimitBasis::StatedOrLearned, LimitBasis::Spacing)
    }
}

impl LaneState {
    pub(super) fn new(
        key: BudgetSetKey,
        costs: Arc<[BudgetCost]>,
        rules: Arc<AdmissionRules>,
        slots: Box<[Arc<Semaphore>]>,
    ) -> Self {
        let weighted = costs.len() - usize::from(key.crawl_delay.is_some());
        Self {
            quota_lane: key.quota_lane(),
            implied_window: Mutex::default(),
            stated: Mutex::new(None),
            has_stated: AtomicBool::new(false),
            key,
            costs,
            weighted,
            rules,
            slots,
            queue: WaitQueue::default(),
            closes: AtomicBool::new(false),
            answers: AtomicU32::new(0),
            is_open_alone: AtomicBool::new(false),
        }
    }

    /// Names the breaker that has changed: the site's, or `SITE:ROLE` where a role that counts for
    /// itself is open alone. What a server or an operator stated holds for the site.
    pub(super) fn breaker_key(&self, site: &SiteKey, transition: &Transition) -> SiteKey {
        let is_alone = self.rules.policy.isolated
            && match (transition.to, &transition.reason) {
                (
                    BreakerState::Open,
                    Some(OpenReason::RetryAfter | OpenReason::Throttled | OpenReason::Operator(_)),
                ) => false,
                (BreakerState::Open, _) => true,
                (BreakerState::HalfOpen | BreakerState::Closed, _) => {
                    self.is_open_alone.load(Ordering::Relaxed)
                }
            };
        let stays_open = is_alone && transition.to != BreakerState::Closed;
        self.is_open_alone.store(stays_open, Ordering::Relaxed);
        if is_alone {
            format!("{site}:{}", self.key.role).into()
        } else {
            Arc::clone(site)
        }
    }

    /// Returns the even distance between requests in the limits of up to a minute.
    pub(crate) fn distance(&self) -> Duration {
        let windows = self.costs.iter().flat_map(|cost| cost.windows.list());
        let short = windows.filter(|window| window.per <= Duration::from_secs(60));
        let distances = short.map(|window| window.per / window.limit.get());
        distances.max().unwrap_or_default()
    }

    /// Returns the name under which the site keeps stated quotas, unless headers are ignored.
    pub(crate) fn quota_lane(&self) -> Option<Arc<str>> {
        (self.rules.headers.as_ref()).map(|_| Arc::clone(&self.quota_lane))
    }

    /// Takes note of a request that is sent: what is left after it tells how long it counts.
    pub(crate) fn note_departure(&self, sent: BootInstant) {
        if self.rules.headers.is_some() {
            self.implied_window.lock().note_departure(sent);
        }
    }

    /// Adds to what the host states what its earlier responses imply.
    /// The request was sent at `sent`.
    pub(crate) fn complete_statement(
        &self,
        reading: &mut RateHeaderReading,
        is_refusal: bool,
        (sent, now): (BootInstant, BootInstant),
    ) {
        let mut implied = self.implied_window.lock();
        implied.complete(reading, is_refusal, sent, now);
    }

    /// Takes the limits that the host states into those of the lane: stricter windows, and where it
    /// is trusted also looser ones; how many requests it wants at once. Kinds of requests have their
    /// windows in the site alone.
    pub(crate) fn take_limits(&self, reading: &RateHeaderReading, now: BootInstant) {
        let Some((trust, _)) = self.rules.headers else {
            return;
        };
        let Some(BudgetCost { windows, slots, .. }) = self.costs.first().filter(|_| !self.key.free)
        else {
            return;
        };
        let mut known = self.stated.lock();
        let before = known.take();
        // Answers that do not state it do not take it back, and do not renew it.
        let (concurrency, concurrency_at) = match (&before, reading.concurrency) {
            (Some(before), None) if now < before.concurrency_at + STATED_MEMORY => {
                (before.concurrency, before.concurrency_at)
            }
            _ => (tighten_concurrency(*slots, reading, trust), now),
        };
        let own = before.as_ref().map_or(windows, |before| &before.windows);
        let stated = if self.key.kind.is_none() {
            tighten(windows.list(), reading, trust)
        } else {
            windows.list().to_vec()
        };
        let stated = if stated == own.list() {
            Arc::clone(own)
        } else {
            Arc::new(windows.with_stated(stated))
        };
        let has_changed = !Arc::ptr_eq(&stated, windows) || concurrency != *slots;
        *known = has_changed.then_some(StatedLimits {
            windows: stated,
            concurrency,
            concurrency_at,
            at: now,
        });
        self.has_stated.store(has_changed, Ordering::Release);
    }

    /// Returns what the host states, unless that was long ago.
    #[inline]
    fn stated(&self, now: BootInstant) -> Option<StatedLimits> {
        let has_stated = self.has_stated.load(Ordering::Acquire);
        let stated = has_stated.then(|| self.stated.lock().clone())??;
        (now < stated.at + STATED_MEMORY).then_some(stated)
    }

    /// Returns what a request of weight one costs, with what the host states put in.
    pub(crate) fn costs_now(&self, now: BootInstant) -> Arc<[BudgetCost]> {
        let Some(stated) = self.stated(now).filter(|_| !self.key.free) else {
            return Arc::clone(&self.costs);
        };
        let mut costs = self.costs.to_vec();
        if let Some(first) = costs.first_mut() {
            (first.windows, first.slots) = (stated.windows, stated.concurrency);
        }
        costs.into()
    }

    /// Returns what an attempt costs, with its weight and what the host states put in.
    fn costs(&self, terms: &AdmissionTerms) -> Arc<[BudgetCost]> {
        let stated = self.stated(terms.asked);
        if self.key.free || (terms.weight == 1 && stated.is_none()) {
            return Arc::clone(&self.costs);
        }
        let weight = |index, cost: &BudgetCost| {
            if index < self.weighted {
                terms.weight
            } else {
                cost.weight
            }
        };
        self.costs
            .iter()
            .enumerate()
            .map(|(index, cost)| BudgetCost {
                weight: weight(index, cost),
                windows: (stated.as_ref()).filter(|_| index == 0).map_or_else(
                    || Arc::clone(&cost.windows),
                    |stated| Arc::clone(&stated.windows),
                ),
                slots: (stated.as_ref())
                    .filter(|_| index == 0)
                    .map_or(cost.slots, |stated| stated.concurrency),
                ..*cost
            })
            .collect()
    }

    /// Makes the question of an attempt from its position in the queue, with what the host states
    /// put in.
    pub(super) fn ask(
        &self,
        terms: &AdmissionTerms,
        queue_position: QueuePosition,
    ) -> AdmissionRequest {
        AdmissionRequest {
            policy: Arc::clone(&self.rules.policy),
            costs: self.costs(terms),
            role: self.key.role,
            latest: terms.latest,
            deadline: terms.deadline,
            patience: terms.patience,
            queue_position,
            jitter_sample: terms.jitter_sample,
            asked: terms.asked,
            quota_lane: self.quota_lane(),
            credits: self.rules.credits_of(self.key.kind.as_deref()),
            backlog: terms.backlog,
        }
    }
}
