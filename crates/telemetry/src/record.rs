//! What sinks receive: flat records, each with its time. URLs are redacted.

use std::sync::Arc;
use std::time::Duration;

use docstokg_hub::clock::Timestamp;
use docstokg_hub::policy::breaker::BreakerState;
use docstokg_hub::policy::retry::StopReason;
use docstokg_hub::{Host, Role};

/// A record and its time.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedRecord {
    /// When, on the wall clock.
    pub at: Timestamp,
    /// What.
    pub record: Record,
}

/// One recorded fact.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A breaker was checked.
    Call(Box<CallRecord>),
    /// An attempt that was sent, or one that a breaker denied.
    Http(Box<HttpRecord>),
    /// A decision of the limiter.
    Rate(Box<RateRecord>),
    /// A breaker changed its state.
    Transition(Box<TransitionRecord>),
    /// A server asked for a pause.
    Cooldown(CooldownRecord),
    /// An adaptive rate changed.
    Adjusted(AdjustRecord),
    /// The cache answered, or stored an answer.
    Cache(Box<CacheRecord>),
    /// A request ended.
    End(Box<EndRecord>),
    /// A budget was used for the first time in this run.
    Budget(BudgetRecord),
    /// The robots.txt of a host says something else than it last did in this run.
    Robots(RobotsRecord),
}

/// The request that a record belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestContext {
    /// The request, numbered from 1 in each run.
    pub request: u64,
    /// The host.
    pub host: Host,
    /// The role.
    pub role: Role,
    /// The resolver that the request was for.
    pub resolver: Option<Arc<str>>,
    /// The kind of request.
    pub kind: Option<Arc<str>>,
    /// The service that the request was for, where that has a budget.
    pub service: Option<Arc<str>>,
}

/// A breaker was checked.
#[derive(Clone, Debug, PartialEq)]
pub struct CallRecord {
    /// The request.
    pub context: RequestContext,
    /// The state of the host's breaker.
    pub host_state: BreakerState,
    /// How long it denies requests from now on.
    pub host_cooldown: Option<Duration>,
    /// The state of the resolver's breaker, where there is one.
    pub resolver_state: Option<BreakerState>,
}

/// One attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpRecord {
    /// The request.
    pub context: RequestContext,
    /// The method.
    pub method: http::Method,
    /// The redacted URL.
    pub url: Arc<str>,
    /// Whether it was sent; if not, a breaker denied it.
    pub sent: bool,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// The status, if there was an answer.
    pub status: Option<u16>,
    /// The pause that the server asked for.
    pub retry_after: Option<Duration>,
    /// How long it waited for the rate.
    pub rate_delay: Duration,
    /// How long it waited for a slot.
    pub slot_wait: Duration,
    /// How long it waited for a breaker.
    pub breaker_wait: Duration,
    /// The state of the host's breaker when the attempt was sent or denied.
    pub host_state: BreakerState,
    /// How long the breaker denies requests from now on.
    pub cooldown: Option<Duration>,
    /// The state of the resolver's breaker when the attempt was sent or denied.
    pub resolver_state: Option<BreakerState>,
    /// The result that the breaker recorded: `success`, `failure` or `none`.
    pub breaker_recorded: &'static str,
    /// From sending to headers.
    pub header_time: Option<Duration>,
    /// From headers to the end of the body.
    pub body_time: Option<Duration>,
    /// From sending to the end.
    pub elapsed: Duration,
    /// Bytes received over the wire.
    pub bytes: u64,
    /// Whether those bytes were wasted: an answer that was not final, or an incomplete body.
    pub wasted: bool,
    /// The class of the error, where there was no answer.
    pub error: Option<&'static str>,
}

/// What the cache did for a hop of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheRecord {
    /// The request.
    pub context: RequestContext,
    /// The redacted URL.
    pub url: Arc<str>,
    /// `hit`, `revalidated`, `stale` or `stored`.
    pub action: &'static str,
    /// The status of the answer, where the cache gave it.
    pub status: Option<u16>,
    /// The age of the answer, where that is known.
    pub age: Option<Duration>,
    /// Why a stale answer was given.
    pub reason: Option<&'static str>,
}

/// A decision of the limiter.
#[derive(Clone, Debug, PartialEq)]
pub struct RateRecord {
    /// The request.
    pub context: RequestContext,
    /// The budget that held it back, or that it was charged to.
    pub budget: ChargedBudget,
    /// The outcome.
    pub action: RateAction,
    /// The cost in tokens.
    pub weight: u32,
    /// `block` when it may wait, `fail` when not.
    pub mode: &'static str,
    /// How long it waited, also when it was refused in the end.
    pub delay: Duration,
    /// How much longer a refused request would have had to wait.
    pub estimate: Option<Duration>,
    /// The longest it may wait, where that is known.
    pub max_delay: Option<Duration>,
}

/// A budget that a request was charged to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChargedBudget {
    /// Its key: `service:host` or `host:role`.
    pub key: Arc<str>,
    /// Its windows.
    pub rates: Arc<[String]>,
}

/// How the limiter decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateAction {
    /// Tokens were spent.
    Acquire,
    /// Refused: the wait would have been too long.
    Block,
    /// A HEAD request, which spends none.
    HeadSkip,
    /// Tokens were returned: a block started before the request was sent.
    GivenBack,
}

impl RateAction {
    /// Returns the word used in tables.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Block => "block",
            Self::HeadSkip => "head_skip",
            Self::GivenBack => "given_back",
        }
    }

    /// Returns the word that `ratelimit.acquire` events have for it.
    #[must_use]
    pub const fn outcome(self) -> &'static str {
        match self {
            Self::Acquire | Self::HeadSkip | Self::GivenBack => "ok",
            Self::Block => "exceeded",
        }
    }
}

/// A breaker changed its state.
#[derive(Clone, Debug, PartialEq)]
pub struct TransitionRecord {
    /// `host`, `site`, `role`, `resolver` or `network`.
    pub scope: &'static str,
    /// Whose breaker.
    pub key: Arc<str>,
    /// The host of the request that saw it.
    pub host: Host,
    /// Before.
    pub from: BreakerState,
    /// After.
    pub to: BreakerState,
    /// The consecutive failures at that time.
    pub fail_count: u32,
    /// How long the breaker stays open.
    pub reset: Option<Duration>,
    /// Why it opened.
    pub reason: Option<String>,
    /// Another process or an operator caused it, and this run observed it.
    pub elsewhere: bool,
}

/// The reason of a change back to open that is not a new open.
pub(crate) const EARLY_PROBE_FAILED: &str = "early-probe-failed";

impl TransitionRecord {
    /// Returns whether an open begins. The failure of an early probe leaves the open that there is.
    pub(crate) fn begins_open(&self) -> bool {
        self.to == BreakerState::Open && self.reason.as_deref() != Some(EARLY_PROBE_FAILED)
    }
}

/// A server asked for a pause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CooldownRecord {
    /// The request.
    pub context: RequestContext,
    /// For how long.
    pub length: Duration,
}

/// An adaptive rate changed.
#[derive(Clone, Debug, PartialEq)]
pub struct AdjustRecord {
    /// The request.
    pub context: RequestContext,
    /// Before.
    pub old: f64,
    /// After.
    pub new: f64,
    /// Why.
    pub reason: &'static str,
}

/// A request ended.
#[derive(Clone, Debug, PartialEq)]
pub struct EndRecord {
    /// The request, at its last hop.
    pub context: RequestContext,
    /// The redacted URL.
    pub url: Arc<str>,
    /// How many attempts were sent, over all hops.
    pub attempts: u32,
    /// The last status.
    pub status: Option<u16>,
    /// Why there was no further attempt, when the last one failed.
    pub stopped: Option<StopReason>,
    /// The class of the error, where there was no answer.
    pub error: Option<&'static str>,
    /// From the first hop to the end.
    pub elapsed: Duration,
}

/// What the robots.txt of a host says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RobotsRecord {
    /// The host.
    pub host: Host,
    /// What it means for the request that asked.
    pub state: RobotsState,
    /// The time that it asks for between two requests.
    pub crawl_delay: Option<Duration>,
}

/// What a robots.txt means for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RobotsState {
    /// The request may be sent.
    Allows,
    /// The request is not sent.
    Forbids,
    /// The file cannot be read, so no request is sent.
    Unread,
}

impl RobotsState {
    /// Returns the word used in tables.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allows => "allows",
            Self::Forbids => "forbids",
            Self::Unread => "unread",
        }
    }
}

impl EndRecord {
    /// Returns whether the request failed, as the summary counts it
    /// ([`FAILED_REQUEST`](crate::summary::FAILED_REQUEST)); a refusal or deferral until later is
    /// not a failure either.
    pub(crate) fn is_failure(&self) -> bool {
        if self.stopped.and_then(StopReason::until).is_some() {
            return false;
        }
        let status = match (self.error, self.status) {
            (Some("cancelled" | "breaker_open" | "rate_limited" | "robots_unreachable"), _) => {
                return false;
            }
            (Some(_), _) | (None, None) => return true,
            (None, Some(status)) => status,
        };
        let is_missing_robots = status < 500 && status != 429 && self.url.ends_with("/robots.txt");
        let context = &self.context;
        let is_empty_lookup =
            status == 404 && context.role == Role::Metadata && context.resolver.is_some();
        status >= 400 && !is_missing_robots && !is_empty_lookup
    }
}

/// A budget that applies in this run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetRecord {
    /// The host whose requests spend it.
    pub host: Host,
    /// In which role.
    pub role: Role,
    /// For which kind of request.
    pub kind: Option<Arc<str>>,
    /// Its name: `host:role`, `host#kind` or `site:name`.
    pub budget: String,
    /// Its windows as written.
    pub rates: String,
    /// How long the host's breaker stays open by default.
    pub reset: Duration,
}
