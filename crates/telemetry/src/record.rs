//! What sinks are given: flat records, each with its time. URLs are without secrets.

use std::sync::Arc;
use std::time::Duration;

use docstokg_hub::clock::Timestamp;
use docstokg_hub::policy::breaker::State;
use docstokg_hub::{Host, Role};

/// A record and its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Stamped {
    /// When, on the wall clock.
    pub at: Timestamp,
    /// What.
    pub record: Record,
}

/// One thing worth keeping.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A breaker was asked.
    Call(Box<CallRecord>),
    /// An attempt that was sent, or one that a breaker denied.
    Http(Box<HttpRecord>),
    /// What the limiter said.
    Rate(Box<RateRecord>),
    /// A breaker changed its state.
    Transition(Box<TransitionRecord>),
    /// A server asked to be left alone.
    Cooldown(CooldownRecord),
    /// An adaptive rate changed.
    Adjusted(AdjustRecord),
    /// A request came to its end.
    End(Box<EndRecord>),
    /// A budget was charged for the first time in this run.
    Budget(BudgetRecord),
}

/// Where a record belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The request, numbered from 1 in each run.
    pub request: u64,
    /// The host.
    pub host: Host,
    /// The role.
    pub role: Role,
    /// The resolver on whose behalf it was.
    pub resolver: Option<Arc<str>>,
    /// The kind of request.
    pub kind: Option<Arc<str>>,
}

/// A breaker was asked.
#[derive(Clone, Debug, PartialEq)]
pub struct CallRecord {
    /// Where.
    pub place: Place,
    /// How the host's breaker stood.
    pub host_state: State,
    /// How long its denial is to last.
    pub host_cooldown: Option<Duration>,
    /// How the resolver's breaker stood, where there is one.
    pub resolver_state: Option<State>,
}

/// One attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpRecord {
    /// Where.
    pub place: Place,
    /// The method.
    pub method: http::Method,
    /// The URL without secrets.
    pub url: Arc<str>,
    /// Whether it was sent; if not, a breaker denied it.
    pub sent: bool,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// The status, if there was an answer.
    pub status: Option<u16>,
    /// What the server asked for.
    pub retry_after: Option<Duration>,
    /// How long it waited for the rate.
    pub rate_delay: Duration,
    /// How long it waited for a slot.
    pub slot_wait: Duration,
    /// How long it waited for a breaker.
    pub breaker_wait: Duration,
    /// The state of the host's breaker when it went, or was denied.
    pub host_state: State,
    /// How long a denial is to last.
    pub cooldown: Option<Duration>,
    /// The state of the resolver's breaker when it went, or was denied.
    pub resolver_state: Option<State>,
    /// What the breaker was told: `success`, `failure` or `none`.
    pub breaker_recorded: &'static str,
    /// From sending to headers.
    pub header_time: Option<Duration>,
    /// From headers to the end of the body.
    pub body_time: Option<Duration>,
    /// From sending to the end.
    pub elapsed: Duration,
    /// What came over the wire.
    pub bytes: u64,
    /// Whether those bytes were of no use: an answer that was not final, or a body that broke off.
    pub wasted: bool,
    /// The class of the error, without an answer.
    pub error: Option<&'static str>,
}

/// What the limiter said.
#[derive(Clone, Debug, PartialEq)]
pub struct RateRecord {
    /// Where.
    pub place: Place,
    /// The outcome.
    pub action: RateAction,
    /// The weight charged.
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

/// How asking the limiter ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateAction {
    /// Tokens were spent.
    Acquire,
    /// Refused: the wait would have been too long.
    Block,
    /// A HEAD request spends none.
    HeadSkip,
    /// Tokens were given back: a block came before the request was sent.
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
    /// `host`, `site`, `resolver` or `network`.
    pub scope: &'static str,
    /// Whose breaker.
    pub key: Arc<str>,
    /// The host of the request that saw it.
    pub host: Host,
    /// Before.
    pub from: State,
    /// After.
    pub to: State,
    /// The failures in a row at that moment.
    pub fail_count: u32,
    /// How long an open lasts.
    pub reset: Option<Duration>,
    /// Why it opened.
    pub reason: Option<String>,
    /// Another process or an operator brought it about, and this run noticed.
    pub elsewhere: bool,
}

/// A server asked to be left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CooldownRecord {
    /// Where.
    pub place: Place,
    /// For how long.
    pub length: Duration,
}

/// An adaptive rate changed.
#[derive(Clone, Debug, PartialEq)]
pub struct AdjustRecord {
    /// Where.
    pub place: Place,
    /// Before.
    pub old: f64,
    /// After.
    pub new: f64,
    /// Why.
    pub reason: &'static str,
}

/// A request came to its end.
#[derive(Clone, Debug, PartialEq)]
pub struct EndRecord {
    /// Where it ended.
    pub place: Place,
    /// The URL without secrets.
    pub url: Arc<str>,
    /// How many attempts were sent, over all hops.
    pub attempts: u32,
    /// The last status.
    pub status: Option<u16>,
    /// Why there was no further attempt, when the last one was not good.
    pub stopped: Option<&'static str>,
    /// What kept it from an answer.
    pub error: Option<&'static str>,
    /// From the first hop to here.
    pub elapsed: Duration,
}

/// A budget, as the run was told to obey it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetRecord {
    /// The host that charges it.
    pub host: Host,
    /// In which role.
    pub role: Role,
    /// For which kind of request.
    pub kind: Option<Arc<str>>,
    /// Its name: `host:role`, `host#kind` or `site:name`.
    pub budget: String,
    /// Its windows as written.
    pub rates: String,
    /// How long the host's breaker stays open by itself.
    pub reset: Duration,
}
