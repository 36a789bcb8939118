//! The states of a breaker, the reasons for an open, and the answers to requests.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::BootInstant;

/// Why a breaker is open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OpenReason {
    /// `fail_max` failures in a row.
    Consecutive,
    /// As many failures within a window as its threshold, with or without successes between them.
    RollingWindow,
    /// The server stated a Retry-After.
    RetryAfter,
    /// An operator opened it, with this text.
    Operator(Arc<str>),
    /// A probe of a half-open breaker failed.
    ProbeFailed,
    /// A throttling answer without Retry-After, where config sets a block for those.
    Throttled,
    /// A probe of a running outage failed, and the next one is awaited: not a new open. A change of
    /// state has this reason, a breaker keeps the one of its open.
    EarlyProbeFailed,
}

impl OpenReason {
    /// Reads what [`fmt::Display`] writes.
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

/// The state of a breaker as callers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BreakerState {
    /// Every request is admitted.
    Closed,
    /// No request is admitted.
    Open,
    /// A few probes are admitted.
    HalfOpen,
}

impl BreakerState {
    /// Reads the word used in events and tables.
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

/// A change of state, for telemetry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// Before.
    pub from: BreakerState,
    /// After.
    pub to: BreakerState,
    /// The failures in a row at that instant.
    pub fail_count: u32,
    /// How long an open lasts, for a change to open.
    pub reset: Option<Duration>,
    /// Why, for a change to open.
    pub reason: Option<OpenReason>,
}

/// The answer of a breaker to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BreakerAdmission {
    /// Closed: send.
    Permit,
    /// Half-open with a free trial call: send as a probe after up to `jitter`, holding a lease.
    Probe {
        /// The longest delay of the probe, so that probes of many processes do not coincide.
        jitter: Duration,
    },
    /// Open, or half-open with every trial call leased.
    Refused {
        /// When to ask again.
        until: BootInstant,
        /// Why it is open, or was.
        reason: OpenReason,
        /// Half-open: a probe is in flight and its result is awaited.
        probing: bool,
    },
}
