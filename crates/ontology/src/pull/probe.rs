//! Probes of files: HEAD requests for size and date, without a download.

use std::sync::Arc;

use docstokg_bulk::bulk_request::bulk_request;
use docstokg_hub::clock::Timestamp;
use docstokg_hub::policy::retry_after::http_date;
use docstokg_hub::{Request, RequestGroup, Response, Role};
use http::HeaderMap;
use http::header::{
    ACCEPT, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, LAST_MODIFIED,
};
use http::{HeaderValue, Method, StatusCode};
use url::Url;

use super::fetch_failure::{self, Verdict};
use super::ontologies::OntologiesJob;
use crate::source::{Absence, OntologyLocation};

/// Size and date of a file, from the headers of a response.
#[derive(Clone, Debug, Default)]
pub(super) struct ProbeResult {
    pub(super) final_url: Option<Url>,
    pub(super) media_type: Option<String>,
    pub(super) last_modified: Option<String>,
    pub(super) content_length: Option<u64>,
    pub(super) notes: Vec<String>,
}

/// Returns a header field as text.
pub(super) fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

impl ProbeResult {
    pub(super) fn changed_at(&self) -> Option<Timestamp> {
        http_date(self.last_modified.as_deref()?)
    }
}

impl OntologiesJob {
    /// Creates a request for a location. The request uses the rate limit of the location's service,
    /// the gate checks every redirect, and the service's key is sent only to the service's own
    /// origin.
    pub(super) fn request(
        &self,
        method: Method,
        location: &OntologyLocation,
        url: &Url,
        requests: &Arc<RequestGroup>,
    ) -> Request {
        let mut request = bulk_request(Request::new(method, url.clone()))
            .role(Role::Artifact)
            .service(&location.source)
            .redirect_gate(Arc::clone(&self.redirects))
            .in_group(Arc::clone(requests));
        if let Some(accept) = &location.accept
            && let Ok(accept) = HeaderValue::from_str(accept)
        {
            request = request.header(ACCEPT, accept);
        }
        if location.is_authorised
            && self.is_own_origin(&location.source, url)
            && let Some(key) = self.config.sources.authorization(&location.source)
        {
            request = request.secret_header(AUTHORIZATION, key);
        }
        if !location.is_user_supplied && !self.is_own_origin(&location.source, url) {
            request = request.discovered();
        }
        request
    }

    /// Returns true if a URL is on the configured origin of a source.
    fn is_own_origin(&self, source: &str, url: &Url) -> bool {
        let sources = &self.config.sources;
        let Some(source) = sources.source(source) else {
            return false;
        };
        let bases = source.spec().endpoints.iter();
        let mut bases = bases.filter_map(|endpoint| sources.base(endpoint));
        bases.any(|base| base.origin() == url.origin())
    }

    /// Requests the header fields of a file with HEAD. If the server refuses HEAD, the
    /// [`ProbeResult`] has only a note about the refusal.
    ///
    /// # Errors
    /// If the file is missing or restricted, or if the request failed. The error says how the pull
    /// continues.
    pub(super) async fn probe(
        &self,
        location: &OntologyLocation,
        url: &Url,
        requests: &Arc<RequestGroup>,
    ) -> Result<ProbeResult, Verdict> {
        let request = self.request(Method::HEAD, location, url, requests);
        let answered = self.context.hub.fetch(request).await;
        if let Ok(answer) = &answered {
            self.context.connectivity.note_response(&answer.journey);
        }
        match answered {
            Ok(answer) if answer.head.status.is_success() => {
                let headers = &answer.head.headers;
                Ok(ProbeResult {
                    media_type: text(headers, &CONTENT_TYPE),
                    last_modified: text(headers, &LAST_MODIFIED),
                    content_length: text(headers, &CONTENT_LENGTH)
                        .and_then(|text| text.parse().ok()),
                    final_url: Some(answer.head.url),
                    notes: Vec::new(),
                })
            }
            Ok(answer) => self.unsuccessful(location, &answer),
            Err(error) => Err(self.judge_file(&error).await),
        }
    }

    fn unsuccessful(
        &self,
        location: &OntologyLocation,
        answer: &Response,
    ) -> Result<ProbeResult, Verdict> {
        let status = answer.head.status;
        let host = answer.head.url.host_str().unwrap_or_default();
        let explained = self.explained_status(location, status);
        let is_gone = matches!(status, StatusCode::NOT_FOUND | StatusCode::GONE);
        if explained.is_some() || is_gone {
            return Err(fetch_failure::of_status(
                status,
                answer.journey.disposition(),
                host,
                explained,
            ));
        }
        // A URL that is signed for GET alone refuses HEAD, and a server without support for HEAD
        // returns 405.
        let note = format!("{host} answered with status {} to HEAD", status.as_u16());
        Ok(ProbeResult {
            notes: vec![note],
            ..ProbeResult::default()
        })
    }

    /// Returns the meaning that the source of a location gives to a status. Returns `None` if the
    /// source gives no meaning, or if the location is requested without the user's key.
    pub(super) fn explained_status(
        &self,
        location: &OntologyLocation,
        status: StatusCode,
    ) -> Option<Absence> {
        let source = self.config.sources.source(&location.source)?;
        location
            .is_authorised
            .then(|| source.explain_status(status))
            .flatten()
    }
}
