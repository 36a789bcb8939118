//! The states of a breaker, the reasons for an open, and decisions about requests.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::BootInstant;

/// The reason why a breaker is open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OpenReason {
    /// A number of failures in a row:
    /// [`BreakerPolicy::fail_max`](crate::breaker::BreakerPolicy::fail_max).
    Consecutive,
    /// A number of failures within a [`RollingWindow`](crate::breaker::RollingWindow), with or
    /// without successes between them.
    RollingWindow,
    /// A Retry-After of the server.
    RetryAfter,
    /// An operator's request, with this text.
    Operator(Arc<str>),
    /// A failed probe of a half-open breaker.
    ProbeFailed,
    /// A throttling response without Retry-After, if configuration sets a block for that case.
    Throttled,
    /// A failed probe of an outage, within the same open. Only a [`Transition`] has this reason;
    /// the breaker keeps the reason of its open.
    EarlyProbeFailed,
}

impl OpenReason {
    /// Parses the text that [`fmt::Display`] writes.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "consecutive" => Self::Consecutive,
            "rolling-window" => Self::RollingWindow,
            "retry-after" => Self::RetryAfter,
            "probe-failed" => Self::ProbeFailed,
            "throttled" => Self::Throttled,
            "early-probe-failed" => Self::EarlyProbeFailed,
            _ => Self::Operator(word.strip_prefix("cli-open:")?.into()),
        })
    }
}

impl fmt::Display for OpenReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Consecutive => "consecutive",
            Self::RollingWindow => "rolling-window",
            Self::RetryAfter => "retry-after",
            Self::Operator(text) => return write!(f, "cli-open:{text}"),
            Self::ProbeFailed => "probe-failed",
            Self::Throttled => "throttled",
            Self::EarlyProbeFailed => "early-probe-failed",
        })
    }
}

/// The state of a breaker, as callers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BreakerState {
    /// Admits every request.
    Closed,
    /// Admits no request.
    Open,
    /// Admits a few probes.
    HalfOpen,
}

impl BreakerState {
    /// Parses the word used in events and tables.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Closed, Self::Open, Self::HalfOpen]
            .into_iter()
            .find(|state| state.as_str() == word)
    }

    /// Returns the word used in events and tables.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

/// A change of a [`BreakerState`], for telemetry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// The [`BreakerState`] before the change.
    pub from: BreakerState,
    /// The [`BreakerState`] after the change.
    pub to: BreakerState,
    /// The number of failures in a row at that instant.
    pub fail_count: u32,
    /// The length of the open; `None` unless the breaker has opened.
    pub reset: Option<Duration>,
    /// The [`OpenReason`] of the open; `None` unless the breaker has opened.
    pub reason: Option<OpenReason>,
}

/// The decision of a breaker about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BreakerAdmission {
    /// Permission to send, because the breaker is closed.
    Permit,
    /// Permission to send a probe under a lease, after a delay of up to `jitter`. The breaker is
    /// half-open.
    Probe {
        /// The longest delay of the probe, so that probes of many processes do not coincide.
        jitter: Duration,
    },
    /// A refusal: the breaker is open, or half-open with all probes in flight.
    Refused {
        /// The instant from which a request may be tried again.
        until: BootInstant,
        /// The [`OpenReason`] of the open, which remains while half-open.
        reason: OpenReason,
        /// Set while half-open: a probe is in flight, and its result is awaited.
        probing: bool,
    },
}
