//! The one meaning of a failed fetch: what a caller can do about it.

use std::time::Duration;

use docstokg_policy::breaker::OpenReason;
use docstokg_policy::classify::Fault;
use docstokg_policy::host::Host;
use docstokg_policy::site::RefusalReason;

use super::{ErrorKind, FetchError, Refused};

/// How long to wait for the result of a probe that is under way, whatever its lease says.
const PROBE_RESULT_WAIT: Duration = Duration::from_secs(1);

/// The action that a failed fetch leaves to its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disposition {
    /// The same request may be served later.
    Retry {
        /// The host that holds the request back.
        host: Host,
        /// The time until a request may be sent.
        wait: Duration,
        /// The source of that time.
        stated_by: StatedBy,
    },
    /// Another try does not help.
    GiveUp,
    /// This machine has no network.
    Offline,
    /// A fault of this machine, such as a full disk.
    LocalFault,
    /// The caller cancelled the request.
    Cancelled,
}

/// The source of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StatedBy {
    /// The server, by `Retry-After`.
    Server,
    /// An operator.
    Operator,
    /// The breaker, after failures.
    Breaker,
    /// A probe whose result is awaited.
    Probe,
    /// A limit.
    Quota,
    /// The robots.txt of the host, which cannot be read.
    Robots,
}

impl StatedBy {
    fn of_refusal(refused: &Refused) -> Self {
        match &refused.refusal.reason {
            RefusalReason::Open { probing: true, .. } => Self::Probe,
            RefusalReason::Open { reason, .. } => match reason {
                OpenReason::RetryAfter => Self::Server,
                OpenReason::Operator(_) => Self::Operator,
                _ => Self::Breaker,
            },
            RefusalReason::Rate { .. } | RefusalReason::Slots => Self::Quota,
        }
    }

    /// Returns the reason of a wait in a few words.
    #[must_use]
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Server => "the host asked for no requests",
            Self::Operator => "paused by an operator",
            Self::Breaker => "the host is paused after failures",
            Self::Probe => "the host is being probed after failures",
            Self::Quota => "the limit of the host",
            Self::Robots => "the site's robots.txt could not be read",
        }
    }
}

impl FetchError {
    /// Returns what a caller can do about the failure.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match &self.kind {
            ErrorKind::BreakerOpen(refused) | ErrorKind::RateLimited(refused) => {
                let stated_by = StatedBy::of_refusal(refused);
                Disposition::Retry {
                    host: refused.host.clone(),
                    wait: match stated_by {
                        StatedBy::Probe => PROBE_RESULT_WAIT,
                        _ => refused.cooldown_remaining,
                    },
                    stated_by,
                }
            }
            ErrorKind::RobotsUnread {
                host,
                retry_in: Some(wait),
                ..
            } => Disposition::Retry {
                host: host.clone(),
                wait: *wait,
                stated_by: StatedBy::Robots,
            },
            ErrorKind::Cancelled { .. } => Disposition::Cancelled,
            ErrorKind::Store { .. } | ErrorKind::File { .. } => Disposition::LocalFault,
            kind if kind.is_lack_of_files() => Disposition::LocalFault,
            ErrorKind::Fault {
                fault: Fault::NoRoute,
                ..
            } => Disposition::Offline,
            _ => match &self.journey.host_failure {
                Some(failure) => Disposition::Retry {
                    host: failure.host.clone(),
                    wait: failure.wait,
                    stated_by: failure.stated_by,
                },
                None => Disposition::GiveUp,
            },
        }
    }
}

impl ErrorKind {
    /// Tells whether this process has no file descriptor left for a connection.
    pub(super) fn is_lack_of_files(&self) -> bool {
        // The system's error arrives as text through the connector.
        matches!(self, Self::Fault { fault: Fault::NoRoute, cause, .. }
            if cause.as_str().contains("open files"))
    }
}
