//! The records that sinks receive: flat, each with its time. URLs are redacted.

use std::sync::Arc;
use std::time::Duration;

use docstokg_hub::clock::Timestamp;
use docstokg_hub::policy::breaker::BreakerState;
use docstokg_hub::policy::retry::StopReason;
use docstokg_hub::{Host, Role};

/// A [`Record`] and its time.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedRecord {
    /// The wall time of the record.
    pub at: Timestamp,
    /// The recorded fact of that time.
    pub record: Record,
}

/// A recorded fact, for a [`Sink`](crate::sink::Sink).
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A breaker was checked.
    Call(Box<CallRecord>),
    /// An attempt that was sent, or that a breaker denied.
    Http(Box<HttpRecord>),
    /// A decision of the limiter about a request, as a [`RateRecord`].
    Rate(Box<RateRecord>),
    /// A breaker changed its state, as a [`TransitionRecord`].
    Transition(Box<TransitionRecord>),
    /// A server requested a pause.
    Cooldown(CooldownRecord),
    /// An adaptive rate changed.
    Adjusted(AdjustRecord),
    /// The cache returned or stored a response.
    Cache(Box<CacheRecord>),
    /// A request ended, with or without a response.
    End(Box<EndRecord>),
    /// A budget was used for the first time in this run.
    Budget(BudgetRecord),
    /// The robots.txt of a host has changed since its last record in this run.
    Robots(RobotsRecord),
}

/// The request that a [`Record`] belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestContext {
    /// The number of the request, from 1 in each run.
    pub request: u64,
    /// The host of the current hop.
    pub host: Host,
    /// The [`Role`] of the request.
    pub role: Role,
    /// The resolver that the request was for.
    pub resolver: Option<Arc<str>>,
    /// The kind of request.
    pub kind: Option<Arc<str>>,
    /// The service that the request was for, if the service has a budget.
    pub service: Option<Arc<str>>,
}

/// A check of the breakers, before an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct CallRecord {
    /// The request whose breakers were checked.
    pub context: RequestContext,
    /// The state of the host's breaker.
    pub host_state: BreakerState,
    /// The time for which the host's breaker denies requests from now on.
    pub host_cooldown: Option<Duration>,
    /// The state of the resolver's breaker, if there is one.
    pub resolver_state: Option<BreakerState>,
}

/// An attempt that was sent, or that a breaker denied.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpRecord {
    /// The request of the attempt.
    pub context: RequestContext,
    /// The method of the request.
    pub method: http::Method,
    /// The redacted URL of the attempt.
    pub url: Arc<str>,
    /// True if the attempt was sent; false if a breaker denied it.
    pub sent: bool,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The status, if there was a response.
    pub status: Option<u16>,
    /// The pause that the server requested.
    pub retry_after: Option<Duration>,
    /// The wait for the rate.
    pub rate_delay: Duration,
    /// The wait for a slot.
    pub slot_wait: Duration,
    /// The wait for a breaker.
    pub breaker_wait: Duration,
    /// The state of the host's breaker when the attempt was sent or denied.
    pub host_state: BreakerState,
    /// The time for which the breaker denies requests from now on.
    pub cooldown: Option<Duration>,
    /// The state of the resolver's breaker when the attempt was sent or denied.
    pub resolver_state: Option<BreakerState>,
    /// The result that the breaker recorded: `success`, `failure` or `none`.
    pub breaker_recorded: &'static str,
    /// The time from sending to headers.
    pub header_time: Option<Duration>,
    /// The time from headers to the end of the body.
    pub body_time: Option<Duration>,
    /// The time from sending to the end.
    pub elapsed: Duration,
    /// Number of bytes received over the wire.
    pub bytes: u64,
    /// True if those bytes were wasted: the response was not final, or its body incomplete.
    pub wasted: bool,
    /// The class of the error, if there was no response.
    pub error: Option<&'static str>,
}

/// The action of the cache for a hop of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheRecord {
    /// The request that the cache was used for.
    pub context: RequestContext,
    /// The redacted URL of the hop.
    pub url: Arc<str>,
    /// `hit`, `revalidated`, `stale` or `stored`.
    pub action: &'static str,
    /// The status of the response, if it is from the cache.
    pub status: Option<u16>,
    /// The age of the response, if that is known.
    pub age: Option<Duration>,
    /// The reason for a stale response.
    pub reason: Option<&'static str>,
}

/// A decision of the limiter about a request.
#[derive(Clone, Debug, PartialEq)]
pub struct RateRecord {
    /// The request that the limiter decided about.
    pub context: RequestContext,
    /// The budget that delayed the request, or that it used.
    pub budget: ChargedBudget,
    /// The [`RateAction`] of the limiter.
    pub action: RateAction,
    /// The cost in tokens.
    pub weight: u32,
    /// `block` if the request may wait, `fail` if not.
    pub mode: &'static str,
    /// The wait so far, also for a request that was refused in the end.
    pub delay: Duration,
    /// The further wait that a refused request would have needed.
    pub estimate: Option<Duration>,
    /// The maximum wait, if there is a known limit.
    pub max_delay: Option<Duration>,
}

/// A budget that a request used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChargedBudget {
    /// The key: `service:host` or `host:role`.
    pub key: Arc<str>,
    /// The windows of the budget.
    pub rates: Arc<[String]>,
}

/// The decision of the limiter, in a [`RateRecord`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateAction {
    /// Tokens were spent for the request.
    Acquire,
    /// The request was refused because the wait would have been too long.
    Block,
    /// A HEAD request was sent, which spends no token.
    HeadSkip,
    /// Tokens were returned because a block started before the request was sent.
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

    /// Returns the word for the outcome in `ratelimit.acquire` events.
    #[must_use]
    pub const fn outcome(self) -> &'static str {
        match self {
            Self::Acquire | Self::HeadSkip | Self::GivenBack => "ok",
            Self::Block => "exceeded",
        }
    }
}

/// A change of a breaker's state.
#[derive(Clone, Debug, PartialEq)]
pub struct TransitionRecord {
    /// `host`, `site`, `role`, `resolver` or `network`.
    pub scope: &'static str,
    /// The key of the breaker.
    pub key: Arc<str>,
    /// The host of the request that observed the change.
    pub host: Host,
    /// The [`BreakerState`] before the change.
    pub from: BreakerState,
    /// The [`BreakerState`] after the change.
    pub to: BreakerState,
    /// The consecutive failures at that time.
    pub fail_count: u32,
    /// The time for which the breaker stays open.
    pub reset: Option<Duration>,
    /// The reason why the breaker opened.
    pub reason: Option<String>,
    /// True if another process or an operator caused the change, and this run observed it.
    pub elsewhere: bool,
}

/// The reason of a change back to open that is not counted as a new open.
pub(crate) const EARLY_PROBE_FAILED: &str = "early-probe-failed";

impl TransitionRecord {
    /// Returns true if an open begins. The failure of an early probe only continues an open, see
    /// [`EARLY_PROBE_FAILED`].
    pub(crate) fn begins_open(&self) -> bool {
        self.to == BreakerState::Open && self.reason.as_deref() != Some(EARLY_PROBE_FAILED)
    }
}

/// A pause that a server requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CooldownRecord {
    /// The request whose response declared the pause.
    pub context: RequestContext,
    /// The length of the pause.
    pub length: Duration,
}

/// A change of an adaptive rate.
#[derive(Clone, Debug, PartialEq)]
pub struct AdjustRecord {
    /// The request that caused the change.
    pub context: RequestContext,
    /// The multiplier before the change.
    pub old: f64,
    /// The multiplier after the change.
    pub new: f64,
    /// The reason of the change.
    pub reason: &'static str,
}

/// The end of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct EndRecord {
    /// The request, at its last hop.
    pub context: RequestContext,
    /// The redacted URL of the last hop.
    pub url: Arc<str>,
    /// Number of attempts that were sent, over all hops.
    pub attempts: u32,
    /// The status of the last response.
    pub status: Option<u16>,
    /// The [`StopReason`] why there was no further attempt after a failure.
    pub stopped: Option<StopReason>,
    /// The class of the error, if there was no response.
    pub error: Option<&'static str>,
    /// The time from the first hop to the end.
    pub elapsed: Duration,
}

/// The rules of a host's robots.txt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RobotsRecord {
    /// The host of the robots.txt.
    pub host: Host,
    /// The meaning for the current request.
    pub state: RobotsState,
    /// The time that the file requires between two requests.
    pub crawl_delay: Option<Duration>,
}

/// The meaning of a robots.txt for a request.
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
    /// Returns true if the request failed, as the summary counts failures
    /// ([`FAILED_REQUEST`](crate::summary::FAILED_REQUEST)). A refusal or deferral until later is
    /// not a failure.
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
    /// The host whose requests use the budget.
    pub host: Host,
    /// The role of the requests.
    pub role: Role,
    /// The kind of the requests, if the budget is for one kind.
    pub kind: Option<Arc<str>>,
    /// The name of the budget: `host:role`, `host#kind` or `site:name`.
    pub budget: String,
    /// The windows as written.
    pub rates: String,
    /// The default time for which the host's breaker stays open.
    pub reset: Duration,
}
