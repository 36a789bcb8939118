//! The records that sinks receive. Each is flat and has the time of its fact. URLs are redacted.

use std::sync::Arc;
use std::time::Duration;

use docstokg_hub::clock::Timestamp;
use docstokg_hub::policy::breaker::BreakerState;
use docstokg_hub::policy::retry::StopReason;
use docstokg_hub::{Host, Role};

/// A [`Record`] with the time of its fact.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedRecord {
    /// The wall time of the record.
    pub at: Timestamp,
    /// The fact that was recorded.
    pub record: Record,
}

/// A recorded fact of a run, as a [`Sink`](crate::sink::Sink) receives it.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// The breakers were checked before an attempt.
    Call(Box<CallRecord>),
    /// An attempt that was sent, or that a breaker denied.
    Http(Box<HttpRecord>),
    /// The limiter permitted, delayed or refused a request, see [`RateAction`].
    Rate(Box<RateRecord>),
    /// A breaker changed its state.
    Transition(Box<TransitionRecord>),
    /// A server requested a pause, by `Retry-After` or in another way.
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
    /// The kind of the request, if the request has one.
    pub kind: Option<Arc<str>>,
    /// The service that the request was for; `None` if the service has no budget.
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
    /// The pause that the server requested in its response.
    pub retry_after: Option<Duration>,
    /// The time spent waiting for a rate limit before sending.
    pub rate_delay: Duration,
    /// The time spent waiting for a slot, because too many requests were in flight.
    pub slot_wait: Duration,
    /// The time spent waiting for a breaker that was open or half-open.
    pub breaker_wait: Duration,
    /// The state of the host's breaker when the attempt was sent or denied.
    pub host_state: BreakerState,
    /// The time for which the host's breaker denies requests from now on; `None` if it permits
    /// them.
    pub cooldown: Option<Duration>,
    /// The state of the resolver's breaker when the attempt was sent or denied.
    pub resolver_state: Option<BreakerState>,
    /// The result that the breaker recorded: `success`, `failure` or `none`.
    pub breaker_recorded: &'static str,
    /// The time from sending until the headers of the response arrived.
    pub header_time: Option<Duration>,
    /// The time from the headers until the end of the body.
    pub body_time: Option<Duration>,
    /// The time from sending until the end of the attempt.
    pub elapsed: Duration,
    /// Number of bytes received over the wire.
    pub bytes: u64,
    /// True if those bytes were wasted: the response was not final, or its body incomplete.
    pub wasted: bool,
    /// The class of the error, such as `timeout`, also if the body of a response broke off; `None`
    /// without an error.
    pub error: Option<&'static str>,
}

/// The use of the cache for one URL of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheRecord {
    /// The request that the cache was used for.
    pub context: RequestContext,
    /// The redacted URL of the hop.
    pub url: Arc<str>,
    /// The action of the cache: `hit`, `revalidated`, `stale` or `stored`.
    pub action: &'static str,
    /// The status of the response; `None` if the response is not from the cache.
    pub status: Option<u16>,
    /// The age of the response, if that is known.
    pub age: Option<Duration>,
    /// The reason why a stale response was used.
    pub reason: Option<&'static str>,
}

/// A decision of the limiter about a request.
#[derive(Clone, Debug, PartialEq)]
pub struct RateRecord {
    /// The request that the limiter decided about.
    pub context: RequestContext,
    /// The budget that delayed the request or, without a wait, the budget that it used.
    pub budget: ChargedBudget,
    /// The [`RateAction`] of the limiter.
    pub action: RateAction,
    /// The cost of the request in tokens.
    pub weight: u32,
    /// `block` if the request may wait for a rate limit, `fail` if not.
    pub mode: &'static str,
    /// The time that the request waited, even if it was refused in the end.
    pub delay: Duration,
    /// The further wait that a refused request would have needed.
    pub estimate: Option<Duration>,
    /// The maximum wait that the request accepts; `None` if it has no known limit.
    pub max_delay: Option<Duration>,
}

/// The budget of windows that a request used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChargedBudget {
    /// The key: `service:host` or `host:role`.
    pub key: Arc<str>,
    /// The windows of the budget, as configured.
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
    /// Tokens were returned, because the host or an operator paused requests before this one was
    /// sent.
    GivenBack,
}

impl RateAction {
    /// Returns the word for the action in the tables of the database.
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
    /// The scope of the breaker: `host`, `site`, `role`, `resolver` or `network`.
    pub scope: &'static str,
    /// The name of the breaker within its scope.
    pub key: Arc<str>,
    /// The host of the request that observed the change.
    pub host: Host,
    /// The [`BreakerState`] before the change.
    pub from: BreakerState,
    /// The [`BreakerState`] after the change.
    pub to: BreakerState,
    /// The number of consecutive failures at the time of the change.
    pub fail_count: u32,
    /// The time for which the breaker stays open; `None` if it is not open.
    pub reset: Option<Duration>,
    /// The reason why the breaker opened.
    pub reason: Option<String>,
    /// True if another process or an operator caused the change, and this run observed it.
    pub elsewhere: bool,
}

/// The reason of a change back to open after a failed early probe. Such a change continues an open,
/// so it is not counted as a new one.
pub(crate) const EARLY_PROBE_FAILED: &str = "early-probe-failed";

impl TransitionRecord {
    /// Returns true if the change begins a new open. A failed early probe only continues an open,
    /// see [`EARLY_PROBE_FAILED`].
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
    /// The multiplier of the configured rate before the change.
    pub old: f64,
    /// The multiplier of the configured rate after the change.
    pub new: f64,
    /// The reason of the change.
    pub reason: &'static str,
}

/// The end of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct EndRecord {
    /// The request, with the host and role of its last URL.
    pub context: RequestContext,
    /// The redacted URL of the last hop.
    pub url: Arc<str>,
    /// Number of attempts that were sent, over all hops.
    pub attempts: u32,
    /// The status of the last response; `None` if the request ended with an error.
    pub status: Option<u16>,
    /// The [`StopReason`] why a failed attempt was not repeated; `None` if the request did not
    /// fail.
    pub stopped: Option<StopReason>,
    /// The class of the error with which the request ended, such as `timeout`; `None` if it ended
    /// with a response.
    pub error: Option<&'static str>,
    /// The time from the first event to the end of the request.
    pub elapsed: Duration,
}

/// The result of reading a host's robots.txt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RobotsRecord {
    /// The host of the robots.txt.
    pub host: Host,
    /// The result for the request that read the file.
    pub state: RobotsState,
    /// The time that the file demands between two requests.
    pub crawl_delay: Option<Duration>,
}

/// The result of checking a request against a robots.txt.
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
    /// Returns the word for the state in the tables of the database.
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
    /// Returns true if the summary counts the request as failed
    /// ([`FAILED_REQUEST`](crate::summary::FAILED_REQUEST)). A request that was refused or deferred
    /// until later has not failed.
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
    /// The kind of request that the budget is for; `None` for all kinds.
    pub kind: Option<Arc<str>>,
    /// The name of the budget: `host:role`, `host#kind` or `site:name`.
    pub budget: String,
    /// The windows of the budget, as written in the configuration.
    pub rates: String,
    /// The default time for which the host's breaker stays open.
    pub reset: Duration,
}
