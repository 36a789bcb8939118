//! What an answer, or the lack of one, means for the next step.

use std::time::Duration;

use docstokg_hub::policy::classify::Fault;
use docstokg_hub::{Disposition, ErrorKind, FetchError, Journey};
use http::StatusCode;
use url::Url;

use super::ontologies::Ontologies;
use crate::source::{Absence, AbsenceReason};

/// How long to stay away from a host that fails without saying for how long.
const STAY_AWAY: Duration = Duration::from_secs(20);
/// How soon to try again while this machine has no network.
const OFFLINE_RETRY: Duration = Duration::from_secs(30);

/// What a request that gave no file means.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It is of no use to ask again.
    Never(Absence, Option<u16>),
    /// Come back after this time.
    Later(Duration, Absence, Option<u16>),
    /// The host is paused, throttles or may be down: come back after this time.
    Paused(Duration, Absence, Option<u16>),
    /// The run was cancelled before it was sent.
    Cancelled,
    /// The run cannot go on: the disk is full or cannot be written.
    Halt(String),
}

fn unreachable(detail: String) -> Absence {
    Absence {
        reason: AbsenceReason::Unreachable,
        detail,
    }
}

/// Judges a request that ended without an answer.
pub(super) fn of_error(error: &FetchError) -> Verdict {
    let detail = error.sentence();
    match error.disposition() {
        Disposition::Retry { wait, .. } => {
            return Verdict::Paused(wait, unreachable(detail), None);
        }
        Disposition::Offline => {
            return Verdict::Paused(OFFLINE_RETRY, unreachable(detail), None);
        }
        _ => {}
    }
    match &error.kind {
        ErrorKind::Cancelled { .. } => Verdict::Cancelled,
        ErrorKind::File { path, source } => {
            Verdict::Halt(format!("{path} cannot be written: {source}"))
        }
        ErrorKind::Store { .. } => Verdict::Halt(detail),
        // A name without an address is a dead link; the hub has asked for it several times.
        ErrorKind::Fault {
            fault: Fault::Dns, ..
        } => Verdict::Never(unreachable(detail), None),
        ErrorKind::Fault { .. } | ErrorKind::Deadline { .. } => {
            Verdict::Later(STAY_AWAY, unreachable(detail), None)
        }
        ErrorKind::Internal { .. } | ErrorKind::Redirect { .. } => Verdict::Never(
            Absence {
                reason: AbsenceReason::Gate,
                detail,
            },
            None,
        ),
        _ => Verdict::Never(unreachable(detail), None),
    }
}

impl Ontologies {
    /// Says of a request that failed whether its address was plain http and was tried as https.
    pub(super) fn explain(&self, verdict: Verdict, error: &FetchError) -> Verdict {
        let url = Url::parse(&error.url).ok();
        let Some(host) = url
            .as_ref()
            .filter(|url| url.scheme() == "https")
            .and_then(Url::host_str)
            .filter(|host| self.upgraded.lock().contains(*host))
        else {
            return verdict;
        };
        let explained = |mut absence: Absence| {
            absence.detail += &format!(
                "; the address is http: and was tried as https:; add {host} to \
                 ontology.plain_http_hosts to fetch it without encryption"
            );
            absence
        };
        match verdict {
            Verdict::Paused(wait, absence, status) if self.is_without_https(error) => {
                Verdict::Later(wait.max(STAY_AWAY), explained(absence), status)
            }
            Verdict::Paused(wait, absence, status) => {
                Verdict::Paused(wait, explained(absence), status)
            }
            Verdict::Never(absence, status) => Verdict::Never(explained(absence), status),
            Verdict::Later(wait, absence, status) => {
                Verdict::Later(wait, explained(absence), status)
            }
            other => other,
        }
    }
}

impl Ontologies {
    /// Tells whether a failed connection may be the address's fault: nobody may serve https there. A
    /// host that has served is down instead.
    fn is_without_https(&self, error: &FetchError) -> bool {
        match &error.kind {
            ErrorKind::Fault { host, .. } => self.hub.last_served(host).is_none(),
            _ => false,
        }
    }
}

/// Judges a status that brought no file. The source may have its own meaning for it.
pub(super) fn of_status(
    status: StatusCode,
    journey: &Journey,
    host: &str,
    explained: Option<Absence>,
) -> Verdict {
    let code = Some(status.as_u16());
    if let Some(absence) = explained {
        return Verdict::Never(absence, code);
    }
    let absence = Absence {
        reason: AbsenceReason::HttpStatus,
        detail: format!("{host} answered with status {}", status.as_u16()),
    };
    match &journey.host_failure {
        Some(failure) => Verdict::Paused(failure.wait, absence, code),
        None if status.is_server_error() => Verdict::Later(STAY_AWAY, absence, code),
        None => Verdict::Never(absence, code),
    }
}
