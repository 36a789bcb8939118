//! The meaning of a failed fetch for its caller: try again at an instant, give up, or wait for the
//! network.

use std::time::Duration;

use docstokg_policy::breaker::OpenReason;
use docstokg_policy::classify::Fault;
use docstokg_policy::host::Host;
use docstokg_policy::site::RefusalReason;
use docstokg_stores::StoreError;
use serde::{Deserialize, Serialize};

use super::{ErrorKind, FetchError, RefusedBy, RefusedRequest};

/// The wait for the result of a probe that is in flight. It does not depend on the lease of the
/// probe.
const PROBE_RESULT_WAIT: Duration = Duration::from_secs(1);
/// The wait after a temporary fault of this machine, such as a lack of open files.
const LOCAL_FAULT_WAIT: Duration = Duration::from_secs(5);
/// The wait after which this machine may have a network again.
const OFFLINE_WAIT: Duration = Duration::from_secs(30);

/// The action that is left to the caller of a failed fetch.
///
/// ```
/// use docstokg_hub::{Host, Request};
/// use std::time::Duration;
/// # use docstokg_origin_sim::{OriginScript, ScriptedReply, Simulation};
/// # let simulation = Simulation::exact();
/// # let (hub, _web) = simulation.hub([OriginScript::new("a.example")]);
/// # simulation.block_on(async move {
/// hub.block(&Host::parse("a.example")?, Duration::from_secs(60), "maintenance").await?;
/// let error = hub.fetch(Request::get("http://a.example/".parse()?)).await.unwrap_err();
/// let disposition = error.disposition();
/// let later = disposition.retry().expect("a wait helps");
/// assert_eq!(later.host, Host::parse("a.example")?);
/// assert_eq!(later.wait, Duration::from_secs(60));
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// The same request may succeed later.
    Retry(RetryLater),
    /// A further attempt does not help.
    GiveUp,
    /// This machine has no route to the host, or no network at all.
    Offline(RetryLater),
    /// A lasting fault of this machine, such as a full disk.
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

/// A wait after which the same request may succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryLater {
    /// The host that delays the request, which is the host of the last hop.
    pub host: Host,
    /// The time until the request may be sent again.
    pub wait: Duration,
    /// The source of `wait`, as a [`StatedBy`] value.
    pub stated_by: StatedBy,
    /// The owner of the breaker or limit that delays the request. If that is a resolver, its host is
    /// not paused.
    pub by: RefusedBy,
}

impl RetryLater {
    /// Returns the reason of the wait in a few words. Neither a paused resolver nor a network that
    /// cannot reach the host is blamed on the host.
    #[must_use]
    pub fn sentence(&self) -> String {
        use StatedBy::{Breaker, Operator, Probe, ThisMachine};
        match (&self.by, self.stated_by) {
            (RefusedBy::Resolver(name), Operator) => {
                format!("source {name} is paused by an operator")
            }
            (RefusedBy::Resolver(name), Breaker) => {
                format!("source {name} is paused after failures")
            }
            (RefusedBy::Resolver(name), Probe) => {
                format!("source {name} is probed after failures")
            }
            (RefusedBy::Network, Breaker | Probe) => ThisMachine.sentence().to_owned(),
            (_, cause) => cause.sentence().to_owned(),
        }
    }
}

/// The source of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StatedBy {
    /// The server, through `Retry-After`.
    Server,
    /// An operator, who blocked the host.
    Operator,
    /// The breaker, after failures.
    Breaker,
    /// A probe is in flight, and its result is not known yet.
    Probe,
    /// A limit of the host.
    Quota,
    /// The robots.txt of the host, which cannot be read.
    Robots,
    /// This machine, which cannot send requests for now, because its store of limits is unavailable
    /// or it cannot open more files.
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

    /// Returns whether the wait was inferred from failures of the host, so that its end is only an
    /// estimate.
    #[must_use]
    pub const fn is_inferred(self) -> bool {
        matches!(self, Self::Breaker | Self::Probe)
    }

    /// Returns the reason of the wait in a few words.
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
            by: RefusedBy::Host,
        };
        let local = |host, wait| later(host, wait, StatedBy::ThisMachine);
        match &self.kind {
            ErrorKind::BreakerOpen(refused) | ErrorKind::RateLimited(refused) => {
                let stated_by = StatedBy::of_refusal(refused);
                let wait = match stated_by {
                    StatedBy::Probe => PROBE_RESULT_WAIT,
                    _ => refused.cooldown_remaining,
                };
                Disposition::Retry(RetryLater {
                    by: refused.by.clone(),
                    ..later(&refused.host, wait, stated_by)
                })
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

    use docstokg_policy::role::Role;
    use docstokg_policy::site::Refusal;

    use super::*;
    use crate::clock::{BootInstant, Timestamp};
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

    /// A source that is paused is not blamed on its host, and a host not on a source.
    #[test]
    fn a_wait_for_a_paused_resolver_names_the_resolver() {
        let wait = |by: RefusedBy, reason: OpenReason| {
            let refusal = Refusal {
                until: BootInstant::ZERO,
                reason: RefusalReason::Open {
                    reason,
                    probing: false,
                },
            };
            let host = Host::parse("api.example").unwrap();
            let now = (BootInstant::ZERO, Timestamp::EPOCH);
            let refused = RefusedRequest::new(&host, Role::Metadata, by, refusal, now);
            let Disposition::Retry(later) = disposition(ErrorKind::BreakerOpen(refused)) else {
                panic!("a pause ends");
            };
            later.sentence()
        };
        let resolver = || RefusedBy::Resolver("crossref".into());
        assert_eq!(
            wait(resolver(), OpenReason::Consecutive),
            "source crossref is paused after failures"
        );
        assert_eq!(
            wait(resolver(), OpenReason::Operator("maintenance".into())),
            "source crossref is paused by an operator"
        );
        assert_eq!(
            wait(RefusedBy::Network, OpenReason::Consecutive),
            "this machine cannot send requests to it for now"
        );
        assert_eq!(
            wait(RefusedBy::Host, OpenReason::Consecutive),
            "the host is paused after failures"
        );
    }

    #[test]
    fn only_the_class_of_a_fault_counts_and_not_its_text() {
        let is_offline = |kind| matches!(disposition(kind), Disposition::Offline(_));
        assert!(is_offline(fault(Fault::NoRoute)));
        assert_eq!(disposition(fault(Fault::Tls)), Disposition::GiveUp);
    }
}
