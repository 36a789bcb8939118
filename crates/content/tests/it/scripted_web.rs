//! A web that answers from a script and remembers what it was asked.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use docstokg_content::identifier::Identifier;
use docstokg_content::location::CandidateLocation;
use docstokg_content::reason::Reason;
use docstokg_content::request_failure::RequestFailure;
use docstokg_content::resolver::settings::Settings;
use docstokg_content::resolver::{LookupOutcome, Resolver, crossref, openalex};
use docstokg_content::work::Work;
use docstokg_hub::{Disposition, Host, RefusedBy, RetryLater, StatedBy};
use docstokg_lookup::credentials::SourceCredentials;
use docstokg_lookup::message::{LookupRequest, LookupResponse};
use docstokg_lookup::step::LookupStep;
use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use url::Url;

/// Values that must go to their own host and nowhere else.
pub(crate) const OPENALEX_KEY: &str = "openalex-key-1234";
pub(crate) const CROSSREF_TOKEN: &str = "crossref-token-1234";
pub(crate) const MAIL: &str = "reader@library.edu";

/// Answers by the beginning of the URL; the first that fits.
#[derive(Default)]
pub(crate) struct Script {
    answers: Vec<(String, Result<LookupResponse, RequestFailure>)>,
    asked: Mutex<Vec<LookupRequest>>,
}

impl Script {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Answers URLs that begin so with a status and a body.
    pub(crate) fn on(self, prefix: &str, status: u16, body: impl Into<Bytes>) -> Self {
        self.with(prefix, status, body, &[], prefix)
    }

    /// The same, with headers and the URL that answered after redirects.
    pub(crate) fn with(
        mut self,
        prefix: &str,
        status: u16,
        body: impl Into<Bytes>,
        headers: &[(&'static str, &'static str)],
        url: &str,
    ) -> Self {
        let headers: HeaderMap = headers
            .iter()
            .map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            })
            .collect();
        let url = Url::parse(url).unwrap();
        // As the hub does, where the response says when to come back.
        let retry_after = headers
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok());
        let seconds = retry_after.and_then(|text| text.parse().ok());
        let seconds = seconds.filter(|_| matches!(status, 429 | 503));
        let disposition = seconds.map_or(Disposition::GiveUp, |seconds| {
            Disposition::Retry(RetryLater {
                host: Host::of(&url).unwrap(),
                wait: Duration::from_secs(seconds),
                stated_by: StatedBy::Server,
                by: RefusedBy::Host,
            })
        });
        let status = StatusCode::from_u16(status).unwrap();
        let response = LookupResponse {
            disposition,
            ..LookupResponse::new(url, status, headers, body.into())
        };
        self.answers.push((prefix.to_owned(), Ok(response)));
        self
    }

    /// Answers URLs that begin so with an error.
    pub(crate) fn failing(mut self, prefix: &str, error: RequestFailure) -> Self {
        self.answers.push((prefix.to_owned(), Err(error)));
        self
    }

    /// Returns the URLs asked for, in order.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked
            .lock()
            .unwrap()
            .iter()
            .map(|ask| ask.url.to_string())
            .collect()
    }

    /// Returns the kinds named, in order.
    pub(crate) fn kinds(&self) -> Vec<Option<&'static str>> {
        self.asked
            .lock()
            .unwrap()
            .iter()
            .map(|ask| ask.kind)
            .collect()
    }

    /// Checks that every secret went to its own host only.
    pub(crate) fn assert_secrets_stayed_home(&self) {
        for ask in self.asked.lock().unwrap().iter() {
            let host = ask.url.host_str().unwrap();
            let query = ask.url.query().unwrap_or_default();
            assert!(
                !query.contains(OPENALEX_KEY) && !query.contains(CROSSREF_TOKEN),
                "a key in the query of {host}"
            );
            for (name, value) in &ask.secret_headers {
                let home = if name == "api_key" {
                    "openalex.org"
                } else {
                    "api.crossref.org"
                };
                assert!(host.ends_with(home), "{name} went to {host}");
                assert!(value.is_sensitive());
            }
            let shown = format!("{ask:?}");
            assert!(
                [OPENALEX_KEY, CROSSREF_TOKEN, "reader"]
                    .iter()
                    .all(|secret| !shown.contains(secret)),
                "{shown}"
            );
        }
    }
}

/// Something that responds to requests at once.
pub(crate) trait Responds {
    /// Responds to a request.
    fn respond(&self, request: LookupRequest) -> Result<LookupResponse, RequestFailure>;
}

impl Responds for Script {
    fn respond(&self, request: LookupRequest) -> Result<LookupResponse, RequestFailure> {
        let url = request.url.to_string();
        self.asked.lock().unwrap().push(request);
        let response = self
            .answers
            .iter()
            .find(|(prefix, _)| url.starts_with(prefix.as_str()))
            .map(|(_, response)| response.clone());
        response.unwrap_or_else(|| {
            let text = format!("nothing is scripted for {url}");
            Err(RequestFailure::new(Reason::RequestException, text, None))
        })
    }
}

/// Feeds steps with responses until the look-up is over.
pub(crate) fn finish<T>(mut step: LookupStep<'_, T, RequestFailure>, web: &dyn Responds) -> T {
    loop {
        step = match step {
            LookupStep::Done(value) => return value,
            LookupStep::Request(pending) => {
                let result = web.respond(pending.request.clone());
                pending.next(result)
            }
            LookupStep::Parse(pending) => pending.next(),
        }
    }
}

/// Looks up works, one after the other once the requests about all of them are sent.
pub(crate) fn look_up(
    resolver: &dyn Resolver,
    works: &[Work],
    web: &dyn Responds,
) -> Vec<LookupOutcome> {
    let steps = finish(resolver.begin(works), web);
    steps.into_iter().map(|step| finish(step, web)).collect()
}

/// Reads a fixture.
pub(crate) fn fixture(path: &str) -> Vec<u8> {
    std::fs::read(format!(
        "{}/tests/fixtures/{path}",
        env!("CARGO_MANIFEST_DIR")
    ))
    .unwrap()
}

/// Settings with every credential set.
pub(crate) fn settings() -> Arc<Settings> {
    let credentials = SourceCredentials::default()
        .with_mailto(MAIL)
        .with(&openalex::KEY, format!(" {OPENALEX_KEY}\n"))
        .with(&crossref::PLUS_TOKEN, CROSSREF_TOKEN);
    Arc::new(Settings {
        credentials,
        ..Settings::default()
    })
}

pub(crate) fn work(id: &str) -> Work {
    Work::new(Identifier::parse(id).unwrap())
}

/// Asks about works and checks what holds for every resolver: one outcome each, no secret abroad,
/// none in any text.
pub(crate) fn ask(resolver: &dyn Resolver, ids: &[&str], web: &Script) -> Vec<LookupOutcome> {
    let works: Vec<Work> = ids.iter().map(|id| work(id)).collect();
    resolve(resolver, &works, web)
}

pub(crate) fn resolve(resolver: &dyn Resolver, works: &[Work], web: &Script) -> Vec<LookupOutcome> {
    let outcomes = look_up(resolver, works, web);
    assert_eq!(outcomes.len(), works.len());
    web.assert_secrets_stayed_home();
    let text = format!("{outcomes:?}");
    assert!(
        [OPENALEX_KEY, CROSSREF_TOKEN, "reader@", "reader%40"]
            .iter()
            .all(|secret| !text.contains(secret)),
        "{text}"
    );
    outcomes
}

/// Shows an outcome as text, one line per place.
pub(crate) fn show(outcome: &LookupOutcome) -> String {
    let learned = outcome.learned().map(|learned| {
        let ids = &learned.identifiers;
        let mut parts = Vec::new();
        parts.extend(ids.doi.as_ref().map(|id| format!("doi:{id}")));
        parts.extend(ids.arxiv.as_ref().map(|id| format!("arxiv:{id}")));
        parts.extend(ids.pmid.map(|id| format!("pmid:{id}")));
        parts.extend(ids.pmcid.map(|id| id.to_string()));
        parts.extend(ids.openalex.map(|id| id.to_string()));
        parts.extend(learned.title.as_ref().map(|title| format!("'{title}'")));
        parts.extend(learned.year.map(|year| year.to_string()));
        parts.extend(learned.retracted.then(|| "retracted".to_owned()));
        format!("learned {}", parts.join(" "))
    });
    match outcome {
        LookupOutcome::Found(found) => format!(
            "{}\n{}",
            found
                .locations
                .iter()
                .map(place)
                .collect::<Vec<_>>()
                .join("\n"),
            learned.unwrap_or_default()
        ),
        LookupOutcome::NotFound { detail, .. } => {
            format!("not found: {detail}\n{}", learned.unwrap_or_default())
        }
        LookupOutcome::Failed(failure) => {
            let retry = failure.disposition.retry();
            let wait_ms = retry.map(|retry| retry.wait.as_millis());
            format!(
                "{} {:?} {wait_ms:?}: {}",
                failure.reason, failure.http_status, failure.detail
            )
        }
    }
}

fn place(location: &CandidateLocation) -> String {
    let CandidateLocation {
        url,
        offers,
        licence,
        version,
        checksum,
        referer,
        ..
    } = location;
    let mut line = format!("{offers:?} {url}");
    for detail in [licence, version].into_iter().flatten() {
        line.push_str(&format!(" [{detail}]"));
    }
    line.extend(checksum.iter().map(|checksum| format!(" {checksum:?}")));
    line.extend(referer.iter().map(|page| format!(" from {page}")));
    line
}

/// The answers that no service should give and every service gives, with the reason that they must
/// have.
pub(crate) fn assert_bad_answers_have_reasons(resolver: &dyn Resolver, id: &str, prefix: &str) {
    let page = "<html><body>Service unavailable</body></html>";
    let one = |web: &Script| show(&ask(resolver, &[id], web)[0]);
    for (status, body) in [
        (200, page),
        (200, ""),
        (200, "null"),
        (200, "{\"id\": \"cut"),
        (200, "\"text\""),
        (200, "[]"),
        (200, "{\"error\":\"x\"}"),
    ] {
        let shown = one(&Script::new().on(prefix, status, body.to_owned()));
        assert!(
            shown.starts_with("json_error Some(200) None"),
            "{body}: {shown}"
        );
    }
    let bare = one(&Script::new().on(prefix, 429, "Rate exceeded."));
    assert!(bare.starts_with("rate_limited Some(429) None"), "{bare}");
    for (value, wanted) in [("7", "Some(7000)"), ("57539", "Some(57539000)")] {
        let headers = &[("retry-after", value)];
        let shown = one(&Script::new().with(prefix, 429, "x", headers, prefix));
        assert!(
            shown.starts_with(&format!("rate_limited Some(429) {wanted}")),
            "{value}: {shown}"
        );
    }
    let paused = one(&Script::new().with(prefix, 503, page, &[("retry-after", "20")], prefix));
    assert!(
        paused.starts_with("http_status Some(503) Some(20000)"),
        "{paused}"
    );
    for status in [500, 502, 503, 504, 400, 401, 202, 301] {
        let shown = one(&Script::new().on(prefix, status, page));
        assert!(
            shown.starts_with(&format!("http_status Some({status}) None")),
            "{shown}"
        );
        assert!(shown.contains("Service unavailable"), "{shown}");
    }
    let echo = one(&Script::new().on(
        prefix,
        500,
        format!("{OPENALEX_KEY} {CROSSREF_TOKEN} {MAIL} reader%40library.edu"),
    ));
    assert!(echo.contains("***"), "{echo}");
    let text = || format!("GET https://x/?email={MAIL}");
    let later = Disposition::Retry(RetryLater {
        host: Host::parse("paused.example").unwrap(),
        wait: Duration::from_millis(1500),
        stated_by: StatedBy::Breaker,
        by: RefusedBy::Host,
    });
    let never = || Disposition::GiveUp;
    for (reason, disposition, wanted) in [
        (Reason::BreakerOpen, later, "breaker_open None Some(1500)"),
        (Reason::Timeout, never(), "timeout None None"),
        (
            Reason::RobotsDisallowed,
            never(),
            "robots_disallowed None None",
        ),
        (
            Reason::RequestException,
            never(),
            "request_exception None None",
        ),
    ] {
        let error = RequestFailure {
            disposition,
            ..RequestFailure::new(reason, text(), None)
        };
        let shown = one(&Script::new().failing(prefix, error));
        assert!(shown.starts_with(wanted), "{shown}");
    }
}
