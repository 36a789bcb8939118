//! The responses that the gateway itself creates if an origin has not responded: JSON problems (RFC
//! 9457).
//!
//! A problem has `Retry-After` if waiting helps, and `Proxy-Status` (RFC 9209) for other
//! intermediaries.

use std::time::Duration;

use bytes::Bytes;
use docstokg_hub::json::whole_millis;
use docstokg_hub::policy::classify::Fault;
use docstokg_hub::{Disposition, ErrorKind, FetchError};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use serde_json::{Map, Value, json};

use crate::access::AccessDenial;
use crate::{NAME, headers};

const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");

/// A problem that the gateway sends as its response.
pub(crate) struct ProblemResponse {
    status: StatusCode,
    /// The reason, as a word for programs.
    reason: String,
    /// The reason, as a sentence for people.
    detail: String,
    /// The error type in `Proxy-Status`, defined by RFC 9209.
    error: &'static str,
    retry_after: Option<Duration>,
    more: Map<String, Value>,
    header: Option<(HeaderName, HeaderValue)>,
    /// The waits of the request as `Server-Timing`; `None` if the request did not reach the hub.
    timing: Option<String>,
}

impl ProblemResponse {
    /// Creates a problem from a status, a word for programs and a sentence for people.
    pub(crate) fn new(status: StatusCode, reason: &str, detail: impl Into<String>) -> Box<Self> {
        Box::new(Self {
            status,
            reason: reason.to_owned(),
            detail: detail.into(),
            error: "http_request_denied",
            retry_after: None,
            more: Map::new(),
            header: None,
            timing: None,
        })
    }

    /// Sets `Retry-After`: the client should wait this long before its next attempt.
    pub(crate) fn after(mut self: Box<Self>, wait: Duration) -> Box<Self> {
        self.retry_after = Some(wait);
        self
    }

    /// Returns the problem of a CONNECT request to `authority`: the gateway does not support
    /// tunnels.
    pub(crate) fn tunnel(authority: &str) -> Box<Self> {
        let detail = format!(
            "CONNECT would hide the requests from the limits; ask for \
             http://GATEWAY/https://{authority}/PATH instead, or set only the http proxy and start \
             the gateway with --upgrade-https"
        );
        Self::new(StatusCode::NOT_IMPLEMENTED, "tunnel", detail)
    }

    /// Returns the problem that tells a client why it may not use the gateway, for an
    /// [`AccessDenial`].
    pub(crate) fn denied(denied: AccessDenial) -> Box<Self> {
        match denied {
            AccessDenial::Token => {
                let mut problem = Self::new(
                    StatusCode::PROXY_AUTHENTICATION_REQUIRED,
                    "token",
                    "the gateway needs its token: as the password of the proxy setting, or in the \
                     header Docstokg-Token",
                );
                let scheme = HeaderValue::from_static("Basic realm=\"docstokg\"");
                problem.header = Some((http::header::PROXY_AUTHENTICATE, scheme));
                problem
            }
            AccessDenial::OtherSite => Self::new(
                StatusCode::FORBIDDEN,
                "other_site",
                "the request was sent by a web page of another site, for which the gateway is not",
            ),
            AccessDenial::Name => Self::new(
                StatusCode::MISDIRECTED_REQUEST,
                "host",
                "the Host header does not name the gateway; ask for it by its address, or start it \
                 with --name NAME:PORT",
            ),
        }
    }

    /// Returns the problem of a request for which the hub has no response, for a [`FetchError`].
    pub(crate) fn of_error(error: &FetchError) -> Box<Self> {
        let (status, proxy_error) = status_of(&error.kind);
        let mut problem = Self::new(status, error.kind.class(), error.sentence());
        problem.error = proxy_error;
        problem.timing = Some(headers::server_timing(&error.journey));
        if let Disposition::Retry(later) = error.disposition() {
            problem.retry_after = Some(later.wait);
        }
        if let Some(refused) = error.kind.refused() {
            let wait = refused.cooldown_remaining;
            problem.more = Map::from_iter([
                ("host".to_owned(), json!(refused.host.as_str())),
                ("role".to_owned(), json!(refused.role.as_str())),
                ("limit".to_owned(), json!(refused.reason())),
                ("until".to_owned(), json!(refused.until.to_string())),
                (
                    "cooldown_remaining_ms".to_owned(),
                    json!(whole_millis(wait)),
                ),
            ]);
        }
        problem
    }

    /// Returns the problem as a [`Response`].
    pub(crate) fn into_response(self: Box<Self>) -> Response<Bytes> {
        let mut body = json!({
            "type": format!("urn:docstokg:problem:{}", self.reason),
            "title": self.status.canonical_reason().unwrap_or("Problem"),
            "status": self.status.as_u16(),
            "detail": self.detail,
            "reason": self.reason,
        });
        if let Some(fields) = body.as_object_mut() {
            fields.extend(self.more);
        }
        let text = docstokg_hub::json::escape_controls(format!("{body}\n"));
        let mut response = Response::new(Bytes::from(text));
        *response.status_mut() = self.status;
        let fields = response.headers_mut();
        fields.insert(
            CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        fields.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(wait) = self.retry_after {
            // Rounded up to seconds, and at least one.
            let seconds = wait.as_millis().div_ceil(1000).max(1);
            if let Ok(value) = seconds.to_string().parse() {
                fields.insert(RETRY_AFTER, value);
            }
        }
        let status = format!("{NAME}; error={}", self.error);
        if let Ok(value) = status.parse() {
            fields.insert(PROXY_STATUS, value);
        }
        if let Some(timing) = self.timing.and_then(|timing| timing.parse().ok()) {
            fields.insert(headers::SERVER_TIMING, timing);
        }
        if let Some((name, value)) = self.header {
            fields.insert(name, value);
        }
        response
    }
}

/// Returns the status for an [`ErrorKind`] of the hub, and the error type that RFC 9209 defines for
/// it.
fn status_of(kind: &ErrorKind) -> (StatusCode, &'static str) {
    match kind {
        ErrorKind::RateLimited(_) => (StatusCode::TOO_MANY_REQUESTS, "http_request_denied"),
        ErrorKind::BreakerOpen(_) => (StatusCode::SERVICE_UNAVAILABLE, "destination_unavailable"),
        ErrorKind::Store { .. } => (StatusCode::SERVICE_UNAVAILABLE, "proxy_internal_error"),
        ErrorKind::Deadline { .. } => (StatusCode::GATEWAY_TIMEOUT, "http_response_timeout"),
        ErrorKind::Fault { fault, .. } => match fault {
            Fault::Timeout => (StatusCode::GATEWAY_TIMEOUT, "http_response_timeout"),
            Fault::Dns => (StatusCode::BAD_GATEWAY, "dns_error"),
            Fault::NoRoute | Fault::OpenFiles => {
                (StatusCode::BAD_GATEWAY, "destination_ip_unroutable")
            }
            Fault::Connect => (StatusCode::BAD_GATEWAY, "connection_refused"),
            Fault::Tls => (StatusCode::BAD_GATEWAY, "tls_protocol_error"),
            Fault::Write => (StatusCode::BAD_GATEWAY, "connection_terminated"),
            Fault::ConnectionClosed | Fault::Read => {
                (StatusCode::BAD_GATEWAY, "http_response_incomplete")
            }
        },
        ErrorKind::Url(_) | ErrorKind::Unsendable(_) => {
            (StatusCode::BAD_REQUEST, "http_request_error")
        }
        ErrorKind::Internal { .. } => (StatusCode::FORBIDDEN, "destination_ip_prohibited"),
        ErrorKind::NotCached { .. } => (StatusCode::GATEWAY_TIMEOUT, "http_request_denied"),
        ErrorKind::TooLarge { .. } => (StatusCode::BAD_GATEWAY, "http_response_body_size"),
        ErrorKind::Disallowed { .. } | ErrorKind::Weight { .. } => {
            (StatusCode::FORBIDDEN, "http_request_denied")
        }
        ErrorKind::Cancelled { .. } | ErrorKind::RobotsUnread { .. } => {
            (StatusCode::SERVICE_UNAVAILABLE, "http_request_denied")
        }
        _ => (StatusCode::BAD_GATEWAY, "proxy_internal_error"),
    }
}

#[cfg(test)]
mod tests {
    use docstokg_hub::{Cause, Host, Journey, RefusedBy, RetryLater, StatedBy};

    use super::*;

    fn retry_after(host_failure: Option<RetryLater>) -> Option<HeaderValue> {
        let error = FetchError {
            kind: ErrorKind::Fault {
                host: Host::parse("a.example").unwrap(),
                fault: Fault::Connect,
                cause: Cause::from("refused".to_owned()),
            },
            url: "http://a.example/".to_owned(),
            journey: Journey {
                host_failure,
                ..Journey::default()
            },
        };
        let mut response = ProblemResponse::of_error(&error).into_response();
        response.headers_mut().remove(RETRY_AFTER)
    }

    #[test]
    fn the_problem_of_a_host_that_may_be_down_says_when_to_come_back() {
        let later = RetryLater {
            host: Host::parse("a.example").unwrap(),
            wait: Duration::from_millis(29_500),
            stated_by: StatedBy::Breaker,
            by: RefusedBy::Host,
        };
        assert_eq!(retry_after(Some(later)), Some(HeaderValue::from(30)));
        assert_eq!(retry_after(None), None);
    }
}
