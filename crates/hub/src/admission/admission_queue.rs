//! Admission queues. A queue has the budgets of a site that a request uses, and the requests that
//! wait for these budgets.
//!
//! Requests of one host, role, kind and service use the same budgets. They share one
//! [`AdmissionQueue`], so that they are admitted in order of arrival. The queue also keeps the
//! limits that the host declares in its response headers, and applies them to every later request.

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

/// Time for which declared limits apply. An hour after the last declaration, they are dropped.
const STATED_MEMORY: Duration = Duration::from_secs(3_600);

/// The queue through which requests with the same budgets enter a site. Cheap to clone.
#[derive(Clone)]
pub(crate) struct AdmissionQueue {
    pub(crate) site: Arc<SiteAdmission>,
    state: Arc<LaneState>,
}

/// The state that all requests of an [`AdmissionQueue`] share. [`SiteAdmission`] owns it.
pub(crate) struct LaneState {
    pub(crate) key: BudgetSetKey,
    pub(crate) costs: Arc<[BudgetCost]>,
    /// The number of `costs`, from the first, that are multiplied by the weight of a request. The
    /// cost of a crawl delay comes last, and is one for each request.
    pub(super) weighted: usize,
    pub(crate) rules: Arc<AdmissionRules>,
    pub(super) slots: Box<[Arc<Semaphore>]>,
    pub(super) queue: WaitQueue,
    /// `true` if the origin closes its connections after each response. Every request then dials a
    /// connection, so that a request that dials is not slower than others.
    pub(crate) closes: AtomicBool,
    /// The number of responses so far. If the origin did not process a request but this number has
    /// grown, the origin serves other requests. The request is then sent again.
    pub(crate) answers: AtomicU32,
    /// `true` if the breaker of this role is open while the breaker of the site is not, because
    /// only requests of this role failed.
    is_open_alone: AtomicBool,
    /// The name under which the site stores quotas that the host declares to this queue.
    quota_lane: Arc<str>,
    /// Infers the length of the window of a declared quota whose headers do not name it.
    implied_window: Mutex<ImpliedWindow>,
    /// The limits that the host declared last; `None` if they are the configured ones.
    stated: Mutex<Option<StatedLimits>>,
    has_stated: AtomicBool,
}

/// Limits that a host declared in the headers of a response.
#[derive(Clone)]
struct StatedLimits {
    /// The [`Windows`] of the host and role after the declared ones have been applied.
    windows: Arc<Windows>,
    /// The declared maximum number of requests at once, over all processes.
    concurrency: Option<NonZeroU32>,
    /// The instant at which the host last declared `concurrency`.
    concurrency_at: BootInstant,
    at: BootInstant,
}

/// The properties that distinguish the admission queues of a site: requests with equal keys share
/// one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BudgetSetKey {
    pub(crate) host: Host,
    pub(crate) role: Role,
    pub(crate) kind: Option<Arc<str>>,
    pub(crate) service: Option<Arc<str>>,
    /// `true` for a HEAD request of a host whose HEAD requests are free. The request is checked by
    /// the breaker and occupies slots, but spends no tokens of the windows.
    pub(crate) free: bool,
    /// The minimum time between two requests that the host's robots.txt demands.
    pub(crate) crawl_delay: Option<Duration>,
}

impl BudgetSetKey {
    /// Returns the [`BudgetSetKey`] of the queue for ordinary requests of a host and role: without
    /// kind, service and crawl delay.
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

    /// Returns the name of the budget to which the host's declared quotas belong, if a response to
    /// a request of this queue declares them.
    fn quota_lane(&self) -> Arc<str> {
        let budget = match (&self.kind, &self.service) {
            (Some(kind), _) => BudgetKey::Kind(self.host.clone(), Arc::clone(kind)),
            (None, Some(service)) => BudgetKey::Service(Arc::clone(service)),
            (None, None) => BudgetKey::Role(self.host.clone(), self.role),
        };
        budget.to_string().into()
    }

    /// Returns the [`BudgetSetKey`] of a queue without budgets, for requests that only a breaker
    /// checks.
    pub(super) fn free(host: &Host, role: Role) -> Self {
        Self {
            free: true,
            ..Self::plain(host, role)
        }
    }
}

/// The rules that apply to an [`AdmissionQueue`]; many queues share them.
#[derive(Clone)]
pub(crate) struct AdmissionRules {
    /// The [`LanePolicy`] that the site applies to the requests of the queue.
    pub(crate) policy: Arc<LanePolicy>,
    pub(crate) classifier: Arc<Classifier>,
    /// The [`Trust`] in rate headers and the hints for reading them, or `None` if headers are
    /// ignored.
    pub(crate) headers: Option<(Trust, RateHeaderHints)>,
    pub(crate) max_delay: Duration,
    /// The cost of a request in credits, for the kinds without a cost in `kind_credits`.
    pub(crate) credits: u32,
    pub(crate) kind_credits: Box<[(Arc<str>, u32)]>,
}

impl AdmissionRules {
    /// Returns the cost in credits of a request of `kind`: the cost of the kind, otherwise that of
    /// the role.
    fn credits_of(&self, kind: Option<&str>) -> u32 {
        let own = kind.and_then(|kind| self.kind_credits.iter().find(|(name, _)| **name == *kind));
        own.map_or(self.credits, |(_, credits)| *credits)
    }
}

/// The conditions of one attempt: its deadlines, its weight and its [`Patience`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdmissionTerms {
    /// The instant at which the attempt first requested admission.
    pub(crate) asked: BootInstant,
    pub(crate) patience: Patience,
    pub(crate) latest: BootInstant,
    pub(crate) deadline: BootInstant,
    pub(crate) jitter_sample: f64,
    pub(crate) weight: u32,
    /// The number of requests that the run will still send through this queue; zero if unknown.
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

    /// Returns whether `state` is the [`LaneState`] of this queue.
    pub(super) fn is(&self, state: &Arc<LaneState>) -> bool {
        Arc::ptr_eq(&self.state, state)
    }

    /// Returns what the limit of a [`Window`] that delays a request is based on: configuration,
    /// headers, learning or a crawl delay. While a shared store is unavailable, each process uses
    /// windows for its share of the limits; these count as configured.
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

    /// Returns the name of the breaker to which a transition belongs.
    ///
    /// - `SITE:ROLE` if the role is isolated and its breaker alone is open.
    /// - `SITE` otherwise, and always if a server or an operator blocks requests.
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

    /// Returns the distance between requests if they are spread evenly over the windows of up to a
    /// minute.
    pub(crate) fn distance(&self) -> Duration {
        let windows = self.costs.iter().flat_map(|cost| cost.windows.list());
        let short = windows.filter(|window| window.per <= Duration::from_secs(60));
        let distances = short.map(|window| window.per / window.limit.get());
        distances.max().unwrap_or_default()
    }

    /// Returns the name under which the site stores declared quotas, or `None` if headers are
    /// ignored.
    pub(crate) fn quota_lane(&self) -> Option<Arc<str>> {
        (self.rules.headers.as_ref()).map(|_| Arc::clone(&self.quota_lane))
    }

    /// Records that a request was sent at `sent`. The quota that remains after it shows the length
    /// of the window that the headers imply.
    pub(crate) fn note_departure(&self, sent: BootInstant) {
        if self.rules.headers.is_some() {
            self.implied_window.lock().note_departure(sent);
        }
    }

    /// Completes limits that headers declare without a window, by the window that earlier responses
    /// imply, see [`ImpliedWindow::complete`]. The request was sent at `sent`.
    pub(crate) fn complete_statement(
        &self,
        reading: &mut RateHeaderReading,
        is_refusal: bool,
        (sent, now): (BootInstant, BootInstant),
    ) {
        let mut implied = self.implied_window.lock();
        implied.complete(reading, is_refusal, sent, now);
    }

    /// Applies the limits of a [`RateHeaderReading`] to this queue:
    ///
    /// - stricter windows, and looser ones too if the host is trusted;
    /// - the maximum number of requests at once.
    ///
    /// A queue for a kind of requests keeps its windows here, because the site alone applies the
    /// declared windows of a kind.
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
        // A response that does not declare a limit on concurrency neither withdraws nor renews an
        // earlier one.
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

    /// Returns the declared limits, unless they are older than [`STATED_MEMORY`].
    #[inline]
    fn stated(&self, now: BootInstant) -> Option<StatedLimits> {
        let has_stated = self.has_stated.load(Ordering::Acquire);
        let stated = has_stated.then(|| self.stated.lock().clone())??;
        (now < stated.at + STATED_MEMORY).then_some(stated)
    }

    /// Returns the [`BudgetCost`]s of a request of weight one, with the declared limits applied.
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

    /// Returns the [`BudgetCost`]s of an attempt, with its weight and the declared limits applied.
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

    /// Returns the [`AdmissionRequest`] of an attempt at `queue_position`, with the declared limits
    /// applied.
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
