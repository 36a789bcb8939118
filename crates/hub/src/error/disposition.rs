//! The meaning of a failed fetch for its caller: retry at an instant, give up, or wait for the
//! network.

use std::time::Duration;

use docstokg_policy::breaker::OpenReason;
use docstokg_policy::classify::Fault;
use docstokg_policy::host::Host;
use docstokg_policy::site::RefusalReason;
use docstokg_stores::StoreError;

use super::{ErrorKind, FetchError, RefusedRequest};

/// The wait for the result of a running probe, regardless of its lease.
const PROBE_RESULT_WAIT: Duration = Duration::from_secs(1);
/// The wait after a temporary fault of this machine, such as a lack of open files.
const LOCAL_FAULT_WAIT: Duration = Duration::from_secs(5);
/// The wait after which this machine may have a network again.
const OFFLINE_WAIT: Duration = Duration::from_secs(30);

/// The action that a failed fetch leaves to its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// The same request may succeed later.
    Retry(RetryLater),
    /// A further attempt does not help.
    GiveUp,
    /// This machine has no route to the host, or no network at all.
    Offline(RetryLater),
    /// A permanent fault of this machine, such as a full disk.
    LocalFault,
    /// The caller cancelled the request.
    Cancelled,
}

impl Disposition {
    /// Returns the [`RetryLater`] of a failure for which waiting may help.
    #[must_use]
    pub const fn retry(&self) -> Option<&RetryLater> {
        match self {
            Self::Retry(later) | Self::Offline(later) => Some(later),
            Self::GiveUp | Self::LocalFault | Self::Cancelled => None,
        }
    }
}

/// A wait after which a request may be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryLater {
    /// The host that delays the request: the host of the last hop.
    pub host: Host,
    /// The time until a request may be sent.
    pub wait: Duration,
    /// The source of the wait, as a [`StatedBy`] value.
    pub stated_by: StatedBy,
}

/// The source of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StatedBy {
    /// The server, through `Retry-After`.
    Server,
    /// An operator, who blocked the host.
    Operator,
    /// The breaker, after failures.
    Breaker,
    /// A probe whose result is still unknown.
    Probe,
    /// A limit of the host.
    Quota,
    /// The robots.txt of the host, which cannot be read.
    Robots,
    /// This machine, which cannot send requests for now. Its store of limits is unavailable, or it
    /// cannot open more files.
    ThisMachine,
}

impl StatedBy {
    fn of_refusal(refused: &RefusedRequest) -> Self {
        match &refused.refusal.reason {
            RefusalReason::Open { probing: true, .. } => Self::Probe,
            RefusalReason::Open { reason, .. } => match reason {
                OpenReason::RetryAfter => Self::Server,
                OpenReason::Operator(_) => Self::Operator,
                OpenReason::Throttled => Self::Quota,
                _ => Self::Breaker,
            },
            RefusalReason::Rate { .. } | RefusalReason::Slots => Self::Quota,
        }
    }

    /// Returns whether failures of the host cause the wait, so that its end is only an estimate.
    #[must_use]
    pub const fn is_inferred(self) -> bool {
        matches!(self, Self::Breaker | Self::Probe)
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
            Self::ThisMachine => "this machine cannot send requests to it for now",
        }
    }
}

impl FetchError {
    /// Returns the [`Disposition`] of the failure: the action that remains for the caller.
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        let later = |host: &Host, wait, stated_by| RetryLater {
            host: host.clone(),
            wait,
            stated_by,
        };
        let local = |host, wait| later(host, wait, StatedBy::ThisMachine);
        match &self.kind {
            ErrorKind::BreakerOpen(refused) | ErrorKind::RateLimited(refused) => {
                let stated_by = StatedBy::of_refusal(refused);
                let wait = match stated_by {
                    StatedBy::Probe => PROBE_RESULT_WAIT,
                    _ => refused.cooldown_remaining,
                };
                Disposition::Retry(later(&refused.host, wait, stated_by))
            }
            ErrorKind::RobotsUnread {
                host,
                retry_in: Some(wait),
                ..
            } => Disposition::Retry(later(host, *wait, StatedBy::Robots)),
            ErrorKind::File { .. }
            | ErrorKind::Store {
                error: StoreError::Unusable { .. },
                ..
            } => Disposition::LocalFault,
            ErrorKind::Store { host, .. }
            | ErrorKind::Fault {
                host,
                fault: Fault::OpenFiles,
                ..
            } => Disposition::Retry(local(host, LOCAL_FAULT_WAIT)),
            ErrorKind::Fault {
                host,
                fault: Fault::NoRoute,
                ..
            } => Disposition::Offline(local(host, OFFLINE_WAIT)),
            ErrorKind::Cancelled { .. } => Disposition::Cancelled,
            _ => self.journey.disposition(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::error::Cause;
    use crate::journey::Journey;

    fn disposition(kind: ErrorKind) -> Disposition {
        let error = FetchError {
            kind,
            url: "https://a.example/".to_owned(),
            journey: Journey::default(),
        };
        error.disposition()
    }

    fn fault(fault: Fault) -> ErrorKind {
        ErrorKind::Fault {
            host: Host::parse("a.example").unwrap(),
            fault,
            cause: Cause::from("Too many open files (os error 24)".to_owned()),
        }
    }

    #[test]
    fn what_this_machine_lacks_for_now_is_waited_for_and_a_full_disk_is_not() {
        let store = ErrorKind::Store {
            host: Host::parse("a.example").unwrap(),
            error: StoreError::Unavailable {
                store: "redis".to_owned(),
                why: "closed".to_owned(),
            },
        };
        for kind in [store, fault(Fault::OpenFiles)] {
            let Disposition::Retry(later) = disposition(kind) else {
                panic!("it passes by itself");
            };
            assert_eq!(later.host.as_str(), "a.example");
            assert_eq!(later.stated_by, StatedBy::ThisMachine);
            assert!(!later.stated_by.is_inferred(), "the host has not failed");
        }
        let full = ErrorKind::File {
            path: "/out/a".to_owned(),
            source: io::Error::from(io::ErrorKind::StorageFull),
        };
        assert_eq!(disposition(full), Disposition::LocalFault);
    }

    #[test]
    fn only_the_class_of_a_fault_counts_and_not_its_text() {
        let is_offline = |kind| matches!(disposition(kind), Disposition::Offline(_));
        assert!(is_offline(fault(Fault::NoRoute)));
        assert_eq!(disposition(fault(Fault::Tls)), Disposition::GiveUp);
    }
}
