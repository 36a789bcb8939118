//! The meaning of a response, or of its absence, for the health of the origin. Only this module
//! decides it.

use std::time::Duration;

use http::StatusCode;
use serde::{Deserialize, Serialize};

/// The meaning of a finished attempt for the breaker, the retry plan and the adaptive rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AttemptMeaning {
    /// The origin works.
    Success,
    /// The origin, or the connection to it, fails.
    Failure,
    /// The response says nothing about the health of the origin: not found, not allowed, and the
    /// like.
    Neutral,
    /// The origin refuses the request because of too many requests. Counts as a failure, too.
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

/// The reason why an attempt ended without a complete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The name has no address, or the name server did not respond.
    Dns,
    /// This machine has no route to the address.
    NoRoute,
    /// This process cannot open another file, which a connection needs.
    OpenFiles,
    /// The connection was refused, or not established in time.
    Connect,
    /// The TLS handshake failed: certificate, name or protocol.
    Tls,
    /// The request could not be written.
    Write,
    /// The origin closed a connection that had served requests, or refused another request on it
    /// (RFC 9112 section 9.3.1, RFC 9113 section 8.7).
    ConnectionClosed,
    /// The response broke off or was malformed.
    Read,
    /// The headers, the first bytes or enough bytes did not arrive in time.
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

    /// Returns whether the fault is on this machine's side of the network, and says nothing about
    /// the origin.
    #[must_use]
    pub const fn is_ours(self) -> bool {
        matches!(self, Self::Dns | Self::NoRoute | Self::OpenFiles)
    }
}

/// The ending of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptEnding {
    /// A response with this status.
    Status(StatusCode),
    /// A [`Fault`] instead of a response.
    Fault(Fault),
}

/// The classification of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttemptClass {
    /// The [`AttemptMeaning`] of the attempt.
    pub outcome: AttemptMeaning,
    /// Set if the same request may succeed later.
    pub transient: bool,
}

/// The rules that classify statuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classifier {
    /// The statuses that count as failures; `None` for 429 and every 5xx.
    pub failure: Option<Vec<u16>>,
    /// The statuses that count as neutral, even if they are listed as failures.
    pub neutral: Vec<u16>,
    /// Set if 408 counts as a failure.
    pub count_408: bool,
    /// The statuses that mean throttling, as 429 does, even if they are listed elsewhere.
    pub throttled: Vec<u16>,
    /// The longest time for the headers of a successful response. A slower response counts as a
    /// failure of the origin, although the response is used.
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
    /// Returns whether a successful response was so slow that it counts as a failure of the origin.
    #[must_use]
    pub fn is_slow(&self, outcome: AttemptMeaning, took: Duration) -> bool {
        outcome == AttemptMeaning::Success && self.slow_call.is_some_and(|most| took > most)
    }

    /// Returns the [`AttemptClass`] of an [`AttemptEnding`].
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
            // Front ends close a connection after some number of requests, and requests in flight
            // are repeated. The origin did not respond, so breakers do not count the fault as a
            // failure.
            AttemptEnding::Fault(Fault::ConnectionClosed) => AttemptClass {
                outcome: AttemptMeaning::Neutral,
                transient: true,
            },
            // An immediate retry does not fix a certificate.
            AttemptEnding::Fault(fault) => AttemptClass {
                outcome: AttemptMeaning::Failure,
                transient: fault != Fault::Tls,
            },
            AttemptEnding::Status(status) => {
                let outcome = self.outcome(status.as_u16());
                let counts = matches!(outcome, AttemptMeaning::Failure | AttemptMeaning::Throttled);
                // 501 and 505 mean that the request never succeeds; the other statuses mean "not
                // now".
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
