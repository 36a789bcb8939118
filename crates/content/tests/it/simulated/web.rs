use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use docstokg_content::reason::Reason;
use docstokg_content::request_failure::RequestFailure;
use docstokg_content::resolver::endpoints;
use docstokg_content::resolver::settings::Settings;
use docstokg_lookup::credentials::SourceCredentials;
use docstokg_lookup::endpoints::SourceEndpoints;
use docstokg_lookup::message::{LookupRequest, LookupResponse};
use docstokg_origin_sim::scholarly::WorkLibrary;
use docstokg_origin_sim::{Arrival, Piece, ScriptedReply};
use docstokg_policy::time::{BootInstant, Timestamp};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use sha2::{Digest, Sha256};
use url::Url;

use crate::scripted_web::Responds;

pub(super) fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

/// Asks the origins in process, a second between requests: no limit matters, and no outage is met.
pub(super) struct Simulated {
    library: WorkLibrary,
    web: docstokg_origin_sim::SimulatedWeb,
    seconds: AtomicU64,
}

impl Simulated {
    pub(super) fn new(library: &WorkLibrary) -> Self {
        let web = docstokg_origin_sim::SimulatedWeb::new(library.origins(), BootInstant::ZERO);
        Self {
            library: library.clone(),
            web,
            seconds: AtomicU64::new(100),
        }
    }

    /// Returns settings with every service at its simulated place.
    pub(super) fn settings(&self) -> Arc<Settings> {
        let mut places = SourceEndpoints::default();
        for endpoint in endpoints() {
            let base = self.library.endpoint(endpoint.key).unwrap();
            places.set(endpoint, Url::parse(&base).unwrap());
        }
        let credentials = SourceCredentials::default().with_mailto("reader@library.edu");
        Arc::new(Settings {
            endpoints: places,
            credentials,
            ..Settings::default()
        })
    }

    /// Tells whether a URL is one of this web.
    pub(super) fn knows(&self, url: &Url) -> bool {
        url.scheme() == "http"
            && url
                .host_str()
                .is_some_and(|host| self.library.hosts().iter().any(|known| known == host))
    }

    /// Fetches a file; `None` when there is none.
    pub(super) fn fetch(&self, url: &Url) -> Option<LookupResponse> {
        self.get(url.clone())
            .ok()
            .filter(|answer| answer.status.is_success())
    }

    /// Sends one request.
    pub(super) fn once(&self, url: &Url) -> Option<ScriptedReply> {
        let second = self.seconds.fetch_add(1, Ordering::Relaxed);
        let path = url.query().map_or(url.path().to_owned(), |query| {
            format!("{}?{query}", url.path())
        });
        let arrival = Arrival::get(
            url.host_str()?,
            &path,
            BootInstant::ZERO + Duration::from_secs(second),
        );
        self.web
            .ask(arrival, Timestamp::from_micros(0))
            .filter(|_| self.knows(url))
    }

    /// Follows redirects and tries again where that helps, as what is behind the seam does.
    pub(super) fn get(&self, mut url: Url) -> Result<LookupResponse, RequestFailure> {
        let failed = |text: &str| Err(RequestFailure::new(Reason::RequestException, text, None));
        for _ in 0..6 {
            let Some(reply) = self.once(&url) else {
                return failed("no such host");
            };
            if reply.dead.is_some() {
                return failed("the connection was reset");
            }
            if let Some((_, to)) = reply.headers.iter().find(|(name, _)| name == "location") {
                url = url.join(to).unwrap();
            } else if !(reply.breaks_off() || matches!(reply.status, 202 | 500)) {
                return Ok(answer(url, &reply));
            }
        }
        failed("no answer after six requests")
    }
}

fn answer(url: Url, reply: &ScriptedReply) -> LookupResponse {
    let header = |(name, value): &(String, String)| {
        (
            HeaderName::try_from(name).unwrap(),
            HeaderValue::try_from(value).unwrap(),
        )
    };
    let headers: HeaderMap = reply.headers.iter().map(header).collect();
    let bytes = |piece: &Piece| {
        if let Piece::Bytes(bytes) = piece {
            bytes.to_vec()
        } else {
            Vec::new()
        }
    };
    let body: Bytes = reply.pieces.iter().flat_map(bytes).collect();
    let status = StatusCode::from_u16(reply.status).unwrap();
    LookupResponse::new(url, status, headers, body)
}

impl Responds for Simulated {
    fn respond(&self, request: LookupRequest) -> Result<LookupResponse, RequestFailure> {
        self.get(request.url)
    }
}
