//! Looks up an ontology at a source.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use docstokg_bulk::scheduler::RunError;
use docstokg_config::read_limited::read_bytes;
use docstokg_hub::{Host, RequestGroup, redact};
use docstokg_lookup::driver::{BoxFuture, RequestSender, look_up, unreadable};
use docstokg_lookup::hub_sender::HubSender;
use docstokg_lookup::message::{LookupRequest, LookupResponse};
use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode};
use url::Url;

use super::fetch_failure::{self, Verdict};
use super::ontologies::{ActiveOntology, OntologiesJob};
use super::state::{IsSent, PullStep, PutOff};
use crate::library::TriedLocation;
use crate::source::{
    Absence, AbsenceReason, FailedRequest, MAX_RESPONSE_BYTES, OntologySource, SourceOutcome,
};

/// End of the message that the snapshot of a registry is too large.
const SNAPSHOT_HINT: &str = "which no registry is; name the right file";

impl OntologiesJob {
    /// Looks up an ontology at one source, and records the result in the
    /// [`PullState`](crate::pull::state::PullState).
    pub(super) async fn look_up(
        &self,
        item: &mut ActiveOntology,
        number: usize,
        requests: &Arc<RequestGroup>,
    ) -> Result<(), RunError> {
        let Some(name) = item.state.sources.get(number).cloned() else {
            return Ok(());
        };
        let Some(source) = self.config.sources.source(&name) else {
            let detail = format!("there is no source {name} in the configuration");
            item.state.failed(failure(
                &name,
                None,
                Absence {
                    reason: AbsenceReason::Unclear,
                    detail,
                },
                None,
            ));
            return Ok(());
        };
        let step = PullStep::LookUp(number);
        let absence = match self.outcome_of(source, item, requests).await {
            SourceOutcome::Found(locations) => {
                item.state.found(locations);
                return Ok(());
            }
            SourceOutcome::Absent(absence) => absence,
            SourceOutcome::Failed(detail) => Absence {
                reason: AbsenceReason::Unreachable,
                detail,
            },
            SourceOutcome::Interrupted(FailedRequest { url, verdict }) => {
                return self.take_verdict(item, step, &name, url.as_deref(), verdict);
            }
        };
        item.state.failed(failure(&name, None, absence, None));
        Ok(())
    }

    /// Looks up an ontology at a source, and returns the [`SourceOutcome`].
    async fn outcome_of(
        &self,
        source: &dyn OntologySource,
        item: &mut ActiveOntology,
        requests: &Arc<RequestGroup>,
    ) -> SourceOutcome {
        let settings = &*self.config.sources;
        let sender = SourceSender {
            ontologies: self,
            hub: self.sender.in_group(Arc::clone(requests)),
            sent: AtomicU32::new(0),
        };
        let (wanted, is_repeated) = (&item.state.wanted, item.state.is_repeated());
        let begin = || {
            if is_repeated {
                source.begin_again(wanted, settings)
            } else {
                source.begin(wanted, settings)
            }
        };
        let outcome = look_up(begin, &sender).await;
        for _ in 0..sender.sent.into_inner() {
            item.state.count_attempt();
        }
        outcome.unwrap_or_else(|| SourceOutcome::Failed(unreadable(source.spec().title)))
    }

    /// Records a failed request in the [`PullState`](crate::pull::state::PullState): the step
    /// fails, is deferred, or is queued again.
    ///
    /// # Errors
    /// Returns a [`RunError`] if the run cannot continue.
    pub(super) fn take_verdict(
        &self,
        item: &mut ActiveOntology,
        step: PullStep,
        source: &str,
        url: Option<&Url>,
        verdict: Verdict,
    ) -> Result<(), RunError> {
        let now = self.context.clock.now();
        match verdict {
            Verdict::Never(absence, status) => {
                item.state.failed(failure(source, url, absence, status));
            }
            Verdict::Later(wait, absence, status) => {
                let host = url.and_then(|url| Host::of(url).ok());
                item.state.put_off(PutOff {
                    step,
                    until: now + wait,
                    host: host.map_or_else(|| source.to_owned(), |host| host.to_string()),
                    failure: failure(source, url, absence, status),
                    is_sent: IsSent::Yes,
                });
            }
            Verdict::Paused(later, absence, status) => item.state.put_off(PutOff {
                step,
                until: now + later.wait,
                host: later.host.to_string(),
                failure: failure(source, url, absence, status),
                is_sent: IsSent::No,
            }),
            Verdict::Cancelled => item.state.undo(step, now),
            Verdict::Halt(why) => return Err(RunError::Halted(why)),
        }
        Ok(())
    }
}

/// Sends the requests of one look-up.
struct SourceSender<'a> {
    ontologies: &'a OntologiesJob,
    hub: HubSender,
    /// Number of requests so far, including those that the hub or the gate refused.
    sent: AtomicU32,
}

impl RequestSender for SourceSender<'_> {
    type Failure = FailedRequest;

    fn send(&self, request: LookupRequest) -> BoxFuture<'_, Result<LookupResponse, FailedRequest>> {
        Box::pin(async move {
            if let Some(path) = &request.file {
                return snapshot(path, &request.url);
            }
            self.sent.fetch_add(1, Ordering::Relaxed);
            let url = request.url.clone();
            let response = if request.is_shared {
                let shared = &self.ontologies.shared;
                shared.get_or_send(&url, || self.respond(request)).await
            } else {
                self.respond(request).await
            };
            response.map_err(|verdict| FailedRequest {
                url: Some(Box::new(url)),
                verdict,
            })
        })
    }
}

impl SourceSender<'_> {
    /// Sends a request. A response that tells the client to return later is returned as a failure,
    /// so the source never has to read it.
    async fn respond(&self, mut request: LookupRequest) -> Result<LookupResponse, Verdict> {
        let config = &self.ontologies.config;
        let gated = config.gate.check(&request.url);
        request.url = gated.map_err(|error| {
            let (reason, detail) = (AbsenceReason::Gate, error.to_string());
            Verdict::Never(Absence { reason, detail }, None)
        })?;
        let host = request.url.host_str().unwrap_or_default().to_owned();
        let key = config.sources.authorization(request.source);
        let sent = self
            .hub
            .send(request.secrets(key.map(|key| (AUTHORIZATION, key))));
        let response = sent
            .await
            .map_err(|failed| fetch_failure::of_error(&failed.error, failed.disposition))?;
        let status = response.status;
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            return Err(fetch_failure::of_status(
                status,
                response.disposition,
                &host,
                None,
            ));
        }
        Ok(response)
    }
}

/// Reads the file of a registry's snapshot, in place of a response.
fn snapshot(path: &Path, url: &Url) -> Result<LookupResponse, FailedRequest> {
    let read = read_bytes(path, MAX_RESPONSE_BYTES, SNAPSHOT_HINT);
    let body = read.map_err(|error: io::Error| FailedRequest {
        url: None,
        verdict: Verdict::Never(
            Absence {
                reason: AbsenceReason::Unclear,
                detail: format!("{} cannot be read: {error}", path.display()),
            },
            None,
        ),
    })?;
    let (status, headers) = (StatusCode::OK, HeaderMap::new());
    Ok(LookupResponse::new(
        url.clone(),
        status,
        headers,
        body.into(),
    ))
}

/// Returns the record of a failed look-up or fetch.
pub(super) fn failure(
    source: &str,
    url: Option<&Url>,
    absence: Absence,
    status: Option<u16>,
) -> TriedLocation {
    TriedLocation {
        resolver: source.to_owned(),
        url: url.map(redact),
        status: "failed".to_owned(),
        reason: Some(absence.reason),
        detail: Some(absence.detail),
        http_status: status,
    }
}
