//! Decides from a failed request or an error status how the pull continues.

use std::time::Duration;

use docstokg_hub::policy::classify::Fault;
use docstokg_hub::{Disposition, ErrorKind, FetchError, Request, Response};
use http::StatusCode;
use url::Url;

use super::ontologies::OntologiesJob;
pub(super) use crate::source::Verdict;
use crate::source::{Absence, AbsenceReason};

/// Minimum wait before the next request to a failing host.
const STAY_AWAY: Duration = Duration::from_secs(20);

fn unreachable(detail: String) -> Absence {
    Absence {
        reason: AbsenceReason::Unreachable,
        detail,
    }
}

impl OntologiesJob {
    /// Sends a request. If it fails, the error says how the pull continues.
    pub(super) async fn fetch_response(&self, request: Request) -> Result<Response, Verdict> {
        match self.context.hub.fetch(request).await {
            Ok(response) => {
                self.context.connectivity.note_response(&response.journey);
                Ok(response)
            }
            Err(error) => Err(self.judge(&error).await),
        }
    }

    /// Decides how the pull continues after a request for a file that brought no response.
    pub(super) async fn judge_file(&self, error: &FetchError) -> Verdict {
        let verdict = self.judge(error).await;
        self.explain(verdict, error)
    }

    /// Decides how the pull continues after a request that brought no response.
    async fn judge(&self, error: &FetchError) -> Verdict {
        of_error(error, self.context.connectivity.judge(error).await)
    }

    /// Adds a hint to the message of a failure if an http URL was requested over https.
    fn explain(&self, verdict: Verdict, error: &FetchError) -> Verdict {
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
            Verdict::Paused(later, absence, status) if self.is_without_https(error) => {
                Verdict::Later(later.wait.max(STAY_AWAY), explained(absence), status)
            }
            Verdict::Paused(later, absence, status) => {
                Verdict::Paused(later, explained(absence), status)
            }
            Verdict::Never(absence, status) => Verdict::Never(explained(absence), status),
            Verdict::Later(wait, absence, status) => {
                Verdict::Later(wait, explained(absence), status)
            }
            other => other,
        }
    }

    /// Returns true if the request may have failed because the server has no https. Returns false
    /// for a host that has responded to this process before, because it has https.
    fn is_without_https(&self, error: &FetchError) -> bool {
        match &error.kind {
            ErrorKind::Fault { host, fault, .. } if !fault.is_ours() => {
                self.context.hub.last_served(host).is_none()
            }
            _ => false,
        }
    }
}

/// Decides how the pull continues after a request that brought no response. `disposition` takes
/// into account what the run knows about the network.
pub(super) fn of_error(error: &FetchError, disposition: Disposition) -> Verdict {
    let detail = error.sentence();
    match (disposition, &error.kind) {
        (Disposition::Retry(later) | Disposition::Offline(later), _) => {
            Verdict::Paused(later, unreachable(detail), None)
        }
        (Disposition::Cancelled, _) => Verdict::Cancelled,
        (Disposition::LocalFault, ErrorKind::File { path, source }) => {
            Verdict::Halt(format!("{path} cannot be written: {source}"))
        }
        (Disposition::LocalFault, _) => Verdict::Halt(detail),
        // A host name without an address is a dead link, because the hub has tried to resolve the
        // name several times.
        (
            Disposition::GiveUp,
            ErrorKind::Fault {
                fault: Fault::Dns, ..
            },
        ) => Verdict::Never(unreachable(detail), None),
        (Disposition::GiveUp, ErrorKind::Fault { .. } | ErrorKind::Deadline { .. }) => {
            Verdict::Later(STAY_AWAY, unreachable(detail), None)
        }
        (Disposition::GiveUp, ErrorKind::Internal { .. } | ErrorKind::Redirect { .. }) => {
            let reason = AbsenceReason::Gate;
            Verdict::Never(Absence { reason, detail }, None)
        }
        (Disposition::GiveUp, _) => Verdict::Never(unreachable(detail), None),
    }
}

/// Decides how the pull continues after an error status. The source may give a status its own
/// meaning.
pub(super) fn of_status(
    status: StatusCode,
    disposition: Disposition,
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
    match disposition {
        Disposition::Retry(later) => Verdict::Paused(later, absence, code),
        _ if status.is_server_error() => Verdict::Later(STAY_AWAY, absence, code),
        _ => Verdict::Never(absence, code),
    }
}
