//! Failures of the requests of resolvers.

use std::io;

use docstokg_hub::policy::classify::Fault;
use docstokg_hub::{Disposition, ErrorKind, FetchError, StatedBy};
use docstokg_lookup::driver::RequestSender;
use http::StatusCode;

use crate::reason::{AttemptStage, Reason, ReasonedFailure, WaitCause};

/// The advice for a robots.txt that cannot be read and never will be.
const ROBOTS_OVERRIDE: &str = "--ignore-robots requests it all the same";

/// A [`RequestSender`] for the requests of resolvers.
pub type LookupSender<'a> = dyn RequestSender<Failure = RequestFailure> + 'a;

/// A request without a usable response, and the action left to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestFailure {
    /// The [`Reason`] as the class of the failure.
    pub reason: Reason,
    /// The details, without our keys and addresses.
    pub detail: String,
    /// The HTTP status, if there was a response.
    pub http_status: Option<u16>,
    /// The action left to the caller.
    pub disposition: Disposition,
}

impl RequestFailure {
    /// Describes a failure that another try would not change.
    #[must_use]
    pub fn new(reason: Reason, detail: impl Into<String>, http_status: Option<u16>) -> Self {
        Self {
            reason,
            detail: detail.into(),
            http_status,
            disposition: Disposition::GiveUp,
        }
    }

    /// Describes a response whose status is a refusal or a failure.
    pub(crate) fn of_status(status: StatusCode, detail: String, disposition: Disposition) -> Self {
        let reason = match status {
            StatusCode::TOO_MANY_REQUESTS => Reason::RateLimited,
            _ => Reason::HttpStatus,
        };
        Self {
            disposition,
            ..Self::new(reason, detail, Some(status.as_u16()))
        }
    }

    /// Describes a request without a response, from its [`FetchError`].
    pub(crate) fn of_error(error: &FetchError, disposition: Disposition) -> Self {
        let detail = match (&error.kind, &disposition) {
            (ErrorKind::RobotsUnread { .. }, Disposition::GiveUp) => {
                format!("{}; {ROBOTS_OVERRIDE}", error.sentence())
            }
            (ErrorKind::File { path, source }, _) => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    format!("there is no room left for {path}")
                }
                _ => format!("{path} cannot be written: {source}"),
            },
            _ => error.sentence(),
        };
        let reason = match &disposition {
            Disposition::Offline(_) => Reason::Offline,
            _ => reason_of(&error.kind),
        };
        Self {
            disposition,
            ..Self::new(reason, detail, None)
        }
    }

    /// Converts the failure into a [`ReasonedFailure`] of a work.
    pub(crate) fn at(&self, stage: AttemptStage) -> ReasonedFailure {
        let cause = match &self.disposition {
            Disposition::Retry(later) => Some(WaitCause::new(later)),
            _ => None,
        };
        ReasonedFailure::new(stage, self.reason, &self.detail, self.http_status).held_back_by(cause)
    }

    /// Tells whether a request was sent. A refused or deferred request is not an attempt.
    pub(crate) fn was_requested(&self) -> bool {
        let is_held_back = match &self.disposition {
            Disposition::Retry(later) if later.stated_by == StatedBy::ThisMachine => true,
            _ => matches!(
                self.reason,
                Reason::BreakerOpen | Reason::RateLimited | Reason::Offline
            ),
        };
        self.http_status.is_some() || !is_held_back
    }
}

fn reason_of(kind: &ErrorKind) -> Reason {
    match kind {
        ErrorKind::BreakerOpen(_) => Reason::BreakerOpen,
        ErrorKind::RateLimited(_) => Reason::RateLimited,
        ErrorKind::Disallowed { .. } => Reason::RobotsDisallowed,
        ErrorKind::RobotsUnread { .. } => Reason::RobotsUnreachable,
        ErrorKind::TooLarge { .. } => Reason::PayloadTooLarge,
        ErrorKind::Internal { .. } => Reason::InternalAddress,
        ErrorKind::Fault {
            fault: Fault::Dns, ..
        } => Reason::NameNotFound,
        ErrorKind::Deadline { .. }
        | ErrorKind::Fault {
            fault: Fault::Timeout,
            ..
        } => Reason::Timeout,
        _ => Reason::RequestException,
    }
}
