//! What an answer, or the lack of one, says about the origin. Only this module decides it.

use std::time::Duration;

use http::StatusCode;
use serde::{Deserialize, Serialize};

/// What a finished attempt means for the breaker, the retry plan and the adaptive rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AttemptMeaning {
    /// The origin is well.
    Success,
    /// The origin, or the way to it, is not well.
    Failure,
    /// An answer that says nothing about the origin's health: not found, not allowed, and the like.
    Neutral,
    /// The origin says that it gets too many requests. Counts as a failure too.
    Throttled,
}

impl AttemptMeaning {
    /// Returns the word used in events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Neutral => "neutral",
            Self::Throttled => "throttled",
        }
    }
}

/// Why an attempt ended without a complete answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The name has no address, or the resolver did not answer.
    Dns,
    /// This machine has no route to the address.
    NoRoute,
    /// This process cannot open another file, which a connection needs.
    OpenFiles,
    /// The connection was refused, or not up in time.
    Connect,
    /// The TLS handshake failed: certificate, name or protocol.
    Tls,
    /// The request could not be written.
    Write,
    /// The origin ended a connection that had served before, or would not take another request on
    /// it (RFC 9112 section 9.3.1, RFC 9113 section 8.7).
    ConnectionClosed,
    /// The answer broke off or was malformed.
    Read,
    /// No headers, or no bytes, or too few bytes in time.
    Timeout,
}

impl Fault {
    /// Returns the word used in events and messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::NoRoute => "no-route",
            Self::OpenFiles => "open-files",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Write => "write",
            Self::ConnectionClosed => "connection-closed",
            Self::Read => "read",
            Self::Timeout => "timeout",
        }
    }

    /// Returns whether the fault is on our side of the network and says nothing about the origin to
    /// others.
    #[must_use]
    pub const fn is_ours(self) -> bool {
        matches!(self, Self::Dns | Self::NoRoute | Self::OpenFiles)
    }
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptEnding {
    /// With an answer.
    Status(StatusCode),
    /// Without one.
    Fault(Fault),
}

/// The classification of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptClass {
    /// What it means.
    pub outcome: AttemptMeaning,
    /// Whether the same request may do better in a while.
    pub transient: bool,
}

/// Which statuses count as what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classifier {
    /// Statuses that count as failures. Where unset: 429 and every 5xx.
    pub failure: Option<Vec<u16>>,
    /// Statuses that count as neutral, whatever else is said of them.
    pub neutral: Vec<u16>,
    /// Whether 408 counts as a failure.
    pub count_408: bool,
    /// Statuses that mean throttling, as 429 does, whatever else is said of them.
    pub throttled: Vec<u16>,
    /// The longest that the headers of a good answer may take: a slower one counts as a failure of
    /// the origin, though the answer is used.
    pub slow_call: Option<Duration>,
}

impl Default for Classifier {
    fn default() -> Self {
        Self {
            failure: None,
            neutral: vec![401, 403, 404, 410, 451],
            count_408: false,
            throttled: Vec::new(),
            slow_call: None,
        }
    }
}

impl Classifier {
    /// Returns whether a good answer took so long that it counts as a failure of the origin.
    #[must_use]
    pub fn is_slow(&self, outcome: AttemptMeaning, took: Duration) -> bool {
        outcome == AttemptMeaning::Success && self.slow_call.is_some_and(|most| took > most)
    }

    /// Classifies an ending.
    ///
    /// ```
    /// use docstokg_policy::classify::{AttemptEnding, AttemptMeaning, Classifier, Fault};
    /// use http::StatusCode;
    ///
    /// let classify = |ending| Classifier::default().classify(ending);
    /// let missing = classify(AttemptEnding::Status(StatusCode::NOT_FOUND));
    /// assert_eq!((missing.outcome, missing.transient), (AttemptMeaning::Neutral, false));
    /// let refused = classify(AttemptEnding::Fault(Fault::Connect));
    /// assert_eq!((refused.outcome, refused.transient), (AttemptMeaning::Failure, true));
    /// ```
    #[must_use]
    pub fn classify(&self, ending: AttemptEnding) -> AttemptClass {
        match ending {
            // Front ends close their connections after some number of requests, and requests that
            // were in flight are repeated. The origin has not answered: breakers do not count it.
            AttemptEnding::Fault(Fault::ConnectionClosed) => AttemptClass {
                outcome: AttemptMeaning::Neutral,
                transient: true,
            },
            // A certificate does not get better by asking again at once.
            AttemptEnding::Fault(fault) => AttemptClass {
                outcome: AttemptMeaning::Failure,
                transient: fault != Fault::Tls,
            },
            AttemptEnding::Status(status) => {
                let outcome = self.outcome(status.as_u16());
                let counts = matches!(outcome, AttemptMeaning::Failure | AttemptMeaning::Throttled);
                // 501 and 505 say "never"; the others say "not now".
                let transient = counts && !matches!(status.as_u16(), 501 | 505);
                AttemptClass { outcome, transient }
            }
        }
    }

    fn outcome(&self, status: u16) -> AttemptMeaning {
        let failure = match &self.failure {
            Some(listed) => listed.contains(&status),
            None => status == 429 || status >= 500,
        };
        match status {
            _ if self.throttled.contains(&status) => AttemptMeaning::Throttled,
            _ if self.neutral.contains(&status) => AttemptMeaning::Neutral,
            408 if self.count_408 => AttemptMeaning::Failure,
            429 if failure => AttemptMeaning::Throttled,
            _ if failure => AttemptMeaning::Failure,
            200..=399 => AttemptMeaning::Success,
            _ => AttemptMeaning::Neutral,
        }
    }
}
