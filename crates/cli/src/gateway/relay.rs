//! One request of a client: judged, passed through the hub, and answered.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use docstokg_hub::{Provenance, Relay, Request, Role, Streamed};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, Version};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use url::Url;

use super::headers::{self, RESOLVER, ROLE, Stored};
use super::pipe::{self, PipeReader};
use super::problem::Problem;
use super::target::{Form, Wanted};
use super::{Gateway, NAME};

/// How long a client may take to send its body.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// The body of an answer to a client.
pub(super) enum Outgoing {
    /// All of it is here.
    Whole(Option<Bytes>),
    /// It flows.
    Piped(PipeReader),
}

impl From<Bytes> for Outgoing {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        match self.get_mut() {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Piped(reader) => Pin::new(reader).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                let length = bytes.as_ref().map_or(0, Bytes::len);
                SizeHint::with_exact(length as u64)
            }
            Self::Piped(_) => SizeHint::default(),
        }
    }
}

impl Gateway {
    /// Answers a request.
    pub(super) async fn answer(
        self: Arc<Self>,
        request: http::Request<Incoming>,
    ) -> Response<Outgoing> {
        let (parts, body) = request.into_parts();
        match self.serve(parts, body).await {
            Ok(response) => response,
            Err(problem) => problem.into_response().map(Outgoing::from),
        }
    }

    async fn serve(&self, parts: Parts, body: Incoming) -> Result<Response<Outgoing>, Problem> {
        let form = Form::of(&parts.method, &parts.uri);
        let wanted = self.targets.read(&parts.method, &parts.uri);
        // Whether it works is no secret: a service manager asks without a token.
        let judged = if wanted == Wanted::Health {
            self.access.check_page(&parts.headers)
        } else {
            self.access.check(form, &parts.headers)
        };
        judged.map_err(Problem::denied)?;
        match wanted {
            Wanted::Url(url) => self.relay(parts, *url, body).await,
            Wanted::Health => Ok(page("application/json", "{\"ok\":true}\n".to_owned())),
            Wanted::Metrics => self.metrics(),
            Wanted::Help => Ok(page("text/plain; charset=utf-8", self.help(&parts))),
            Wanted::Tunnel => {
                let authority = parts.uri.authority().map(|authority| authority.host());
                Err(Problem::tunnel(authority.unwrap_or("HOST")))
            }
            Wanted::Unknown(why) => Err(Problem::new(StatusCode::NOT_FOUND, "target", why)),
        }
    }

    fn metrics(&self) -> Result<Response<Outgoing>, Problem> {
        let metrics = self.metrics.as_ref().ok_or_else(|| {
            let why = "this gateway records no metrics: telemetry is switched off";
            Problem::new(StatusCode::NOT_FOUND, "metrics", why)
        })?;
        let text = metrics.lock().text();
        Ok(page("text/plain; version=0.0.4; charset=utf-8", text))
    }

    fn help(&self, parts: &Parts) -> String {
        let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
        let host = host.unwrap_or("GATEWAY");
        format!(
            "{NAME} gateway: every request passes one cache, breaker and limiter.\n\n\
             http targets:   set http_proxy=http://{host}\n\
             https targets:  ask for http://{host}/https://HOST/PATH\n\
             state:          http://{host}/-/health and http://{host}/-/metrics\n"
        )
    }

    /// Passes a request through the hub.
    async fn relay(
        &self,
        parts: Parts,
        url: Url,
        body: Incoming,
    ) -> Result<Response<Outgoing>, Problem> {
        let method = parts.method.clone();
        let version = parts.version;
        let body = self.read(&parts, body).await?;
        let request = self.request(parts, url, body)?;
        let hub = self.hub();
        let streamed = hub.stream(request).await;
        let streamed = streamed.map_err(|error| Problem::of_error(&error))?;
        self.respond(&method, version, streamed).await
    }

    /// Reads the body of a client's request.
    async fn read(&self, parts: &Parts, body: Incoming) -> Result<Bytes, Problem> {
        let has_body = parts.headers.contains_key(TRANSFER_ENCODING)
            || parts
                .headers
                .get(CONTENT_LENGTH)
                .is_some_and(|length| length != "0");
        if !has_body {
            return Ok(Bytes::new());
        }
        let most = self.max_request_body;
        let collected = Limited::new(body, most).collect();
        match tokio::time::timeout(BODY_TIMEOUT, collected).await {
            Ok(Ok(collected)) => Ok(collected.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Problem::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "request_body",
                format!("the body of the request is longer than {most} bytes (--max-request-body)"),
            )),
            Ok(Err(error)) => Err(Problem::new(
                StatusCode::BAD_REQUEST,
                "request_body",
                format!("the body of the request broke off: {error}"),
            )),
            Err(_) => Err(Problem::new(
                StatusCode::REQUEST_TIMEOUT,
                "request_body",
                format!(
                    "the body of the request did not arrive within {} s",
                    BODY_TIMEOUT.as_secs()
                ),
            )),
        }
    }

    /// Makes a client's request one for the hub.
    fn request(&self, parts: Parts, url: Url, body: Bytes) -> Result<Request, Problem> {
        let Parts {
            method,
            mut headers,
            version,
            ..
        } = parts;
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let role = match text(ROLE) {
            None => Role::Metadata,
            Some(role) => role.parse().map_err(|_| {
                Problem::new(
                    StatusCode::BAD_REQUEST,
                    "role",
                    "Docstokg-Role is metadata, landing or artifact",
                )
            })?,
        };
        let resolver = text(RESOLVER).map(str::to_owned);
        headers::outgoing(&mut headers, version);
        let mut request = Request::new(method, url)
            .role(role)
            .body(body)
            .max_body(u64::MAX)
            .relayed(Relay {
                mode: self.mode,
                hold: self.hold,
            });
        if let Some(resolver) = resolver {
            request = request.resolver(&resolver);
        }
        for (name, value) in &headers {
            request = request.header(name.clone(), value.clone());
        }
        Ok(match self.provenance() {
            Provenance::UserSupplied => request,
            Provenance::Discovered => request.discovered(),
        })
    }

    /// Returns who named the target: the operator, or a client, which may not reach into the
    /// private network.
    fn provenance(&self) -> Provenance {
        if self.targets.origin.is_some() {
            Provenance::UserSupplied
        } else {
            Provenance::Discovered
        }
    }

    /// Makes an answer of the hub one for the client.
    async fn respond(
        &self,
        method: &Method,
        version: Version,
        streamed: Streamed,
    ) -> Result<Response<Outgoing>, Problem> {
        let Streamed {
            mut head,
            mut body,
            journey,
        } = streamed;
        let stored = if body.is_being_stored() {
            Stored::Yes
        } else {
            Stored::No
        };
        headers::incoming(&mut head.headers, version, method, &journey, stored);
        let body = if body.is_live() {
            Outgoing::Piped(pipe::through(body, &self.spool))
        } else {
            let broken = |error: docstokg_hub::stream::StreamError| {
                Problem::new(StatusCode::BAD_GATEWAY, "cache", error.to_string())
            };
            // Most stored bodies are one piece.
            match body.next().await.map_err(broken)? {
                None => Outgoing::Whole(None),
                Some(first) if has_all(&head.headers, &first) => Outgoing::from(first),
                Some(first) => Outgoing::Piped(pipe::after(first, body, &self.spool)),
            }
        };
        let mut response = Response::new(body);
        *response.status_mut() = head.status;
        *response.headers_mut() = head.headers;
        Ok(response)
    }
}

/// Says whether a piece is all of a body.
fn has_all(headers: &http::HeaderMap, piece: &Bytes) -> bool {
    let length = headers.get(CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    length == Some(piece.len())
}

/// Makes a page of the gateway itself.
fn page(kind: &'static str, text: String) -> Response<Outgoing> {
    let mut response = Response::new(Outgoing::from(Bytes::from(text)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(
        http::header::CACHE_CONTROL,
        HeaderValue::from_static("no-store"),
    );
    response
}
