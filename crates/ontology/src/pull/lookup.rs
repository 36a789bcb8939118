//! Asking a source where an ontology is.

use std::sync::Arc;

use docstokg_bulk::contained::contained;
use docstokg_bulk::patience::patient;
use docstokg_bulk::scheduler::RunError;
use docstokg_config::bounded::read_bytes;
use docstokg_hub::{Host, Request, RequestGroup, Response, Role, redact};
use http::header::{ACCEPT, AUTHORIZATION};
use http::{HeaderMap, HeaderValue, StatusCode};
use url::Url;

use super::ontologies::{ActiveOntology, Ontologies};
use super::state::{IsSent, PutOff, Step as PullStep};
use super::verdict::{self, Verdict};
use crate::library::Attempted;
use crate::source::{Absence, AbsenceReason, Outcome, Place, Query, Reply, Source, Step};

/// The largest answer of a source: the whole registry of the OBO Foundry has 0.6 MB.
const MAX_ANSWER: u64 = 32 << 20;
/// Said of a snapshot that is larger.
const SNAPSHOT_HINT: &str = "which no registry is; name the right file";
/// The most questions that one look-up takes.
const MAX_QUESTIONS: u32 = 8;

/// What a look-up came to.
enum LookedUp {
    Outcome(Outcome),
    Verdict(Verdict, Option<Url>),
}

impl Ontologies {
    /// Asks one source, and takes what it says into the state.
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
        match self.dialog(source, item, requests).await {
            LookedUp::Outcome(Outcome::Found(locations)) => {
                item.state.found(locations);
            }
            LookedUp::Outcome(Outcome::Absent(absence)) => {
                item.state.failed(failure(&name, None, absence, None));
            }
            LookedUp::Outcome(Outcome::Failed(detail)) => {
                let absence = Absence {
                    reason: AbsenceReason::Unreachable,
                    detail,
                };
                item.state.failed(failure(&name, None, absence, None));
            }
            LookedUp::Verdict(verdict, url) => {
                return self.take_verdict(item, step, &name, url.as_ref(), verdict);
            }
        }
        Ok(())
    }

    /// Goes through the questions of a source.
    async fn dialog(
        &self,
        source: &dyn Source,
        item: &mut ActiveOntology,
        requests: &Arc<RequestGroup>,
    ) -> LookedUp {
        let settings = &self.config.sources;
        let title = source.spec().title;
        let mut step = read_answer(title, || source.begin(&item.state.wanted, settings));
        // After an outage a host is given one request to prove itself: the one that may succeed.
        if let (true, Step::Ask(query)) = (item.state.is_repeated(), &step)
            && let Some(instead) = source.instead_of(settings, query)
        {
            step = Step::Ask(instead);
        }
        let mut unanswered = None;
        for _ in 0..MAX_QUESTIONS {
            let query = match step {
                Step::Done(outcome) => return LookedUp::Outcome(outcome),
                Step::Ask(query) => query,
            };
            let reply = match &query.place {
                Place::File(path) => match read_bytes(path, MAX_ANSWER, SNAPSHOT_HINT) {
                    Ok(body) => Reply {
                        status: StatusCode::OK,
                        headers: HeaderMap::new(),
                        body: body.into(),
                    },
                    Err(error) => {
                        let detail = format!("{} cannot be read: {error}", path.display());
                        return LookedUp::Outcome(Outcome::Absent(Absence {
                            reason: AbsenceReason::Unclear,
                            detail,
                        }));
                    }
                },
                Place::Web(url) => {
                    item.state.count_attempt();
                    match self.ask(source, &query, url, requests).await {
                        Ok(reply) => reply,
                        Err(verdict) => {
                            let instead = source.instead_of(settings, &query);
                            // What was asked first says when to come back.
                            let first = unanswered.unwrap_or((verdict, url.clone()));
                            match (&first.0, instead) {
                                (Verdict::Later(..) | Verdict::Paused(..), Some(instead)) => {
                                    unanswered = Some(first);
                                    step = Step::Ask(instead);
                                    continue;
                                }
                                _ => return LookedUp::Verdict(first.0, Some(first.1)),
                            }
                        }
                    }
                }
            };
            let wanted = &item.state.wanted;
            step = read_answer(title, || source.next(wanted, settings, &query, &reply));
        }
        LookedUp::Outcome(Outcome::Failed(format!(
            "{title} leads from one answer to the next"
        )))
    }

    /// Asks a question; one that is the same for all ontologies is asked once.
    async fn ask(
        &self,
        source: &dyn Source,
        query: &Query,
        url: &Url,
        requests: &Arc<RequestGroup>,
    ) -> Result<Reply, Verdict> {
        if !query.is_shared {
            return self.send(source, query, url, requests).await;
        }
        let cell = Arc::clone(self.shared.lock().entry(url.clone()).or_default());
        let reply = cell.get_or_try_init(|| self.send(source, query, url, requests));
        reply.await.cloned()
    }

    async fn send(
        &self,
        source: &dyn Source,
        query: &Query,
        url: &Url,
        requests: &Arc<RequestGroup>,
    ) -> Result<Reply, Verdict> {
        let name = source.spec().name;
        let url = self.config.gate.check(url).map_err(|error| {
            Verdict::Never(
                Absence {
                    reason: AbsenceReason::Gate,
                    detail: error.to_string(),
                },
                None,
            )
        })?;
        let mut request = patient(Request::get(url.clone()))
            .role(Role::Metadata)
            .service(name)
            .resolver(name)
            .header(ACCEPT, HeaderValue::from_static(query.accept))
            .max_body(MAX_ANSWER)
            .redirect_gate(Arc::clone(&self.redirects))
            .in_group(Arc::clone(requests));
        if let Some(key) = self.config.sources.authorization(name) {
            request = request.secret_header(AUTHORIZATION, key);
        }
        let answer = self.fetch_response(request).await?;
        Self::reply(answer, &url)
    }

    /// Takes an answer that the source can read; one that asks to come back later is none.
    fn reply(answer: Response, url: &Url) -> Result<Reply, Verdict> {
        let status = answer.head.status;
        if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
            let host = url.host_str().unwrap_or_default();
            return Err(verdict::of_status(status, &answer.journey, host, None));
        }
        Ok(Reply {
            status,
            headers: answer.head.headers,
            body: answer.body,
        })
    }

    /// Takes a request that gave nothing into the state.
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

/// Lets a source read what came. Where it panics, the source has failed for this ontology, and the
/// run goes on.
pub(super) fn read_answer(title: &str, read: impl FnOnce() -> Step) -> Step {
    contained(read).unwrap_or_else(|| {
        Outcome::failed(format!(
            "the answer of {title} could not be read; this is a fault of the program"
        ))
    })
}

/// Records something that was tried and failed.
pub(super) fn failure(
    source: &str,
    url: Option<&Url>,
    absence: Absence,
    status: Option<u16>,
) -> Attempted {
    Attempted {
        resolver: source.to_owned(),
        url: url.map(redact),
        status: "failed".to_owned(),
        reason: Some(absence.reason),
        detail: Some(absence.detail),
        http_status: status,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_panics_has_failed_for_one_ontology() {
        let odd: Vec<u8> = Vec::new();
        let Step::Done(Outcome::Failed(why)) = read_answer("the registry", || {
            Outcome::failed(format!("begins with {}", odd[0]))
        }) else {
            panic!("it has failed");
        };
        assert!(why.contains("the answer of the registry"), "{why}");
    }
}
