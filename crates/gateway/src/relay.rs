//! The path of a client's request: checked, sent through the hub, and returned as a response.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use docstokg_hub::{Provenance, Request, ResponseHead, Role, StreamedResponse};
use http::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, HOST, RETRY_AFTER, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use url::Url;

use crate::bodies::BodySpace;
use crate::client::ClientAddress;
use crate::headers::{self, RESOLVER, ROLE, ResponseStorage, TraceReach};
use crate::pipe::{self, PipeReader};
use crate::problem::ProblemResponse;
use crate::target::{RequestTarget, TargetForm};
use crate::{Gateway, NAME};

/// Maximum time in which a client sends its body.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum time for which a client may send no byte of its body.
const BODY_PAUSE: Duration = Duration::from_secs(15);
/// The methods in the `Allow` field of the response to OPTIONS. Other methods are relayed as well.
const METHODS: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, TRACE";
/// Maximum number of resolvers that clients may name. Each resolver has its own breaker.
const MAX_RESOLVERS: usize = 256;
/// Maximum length of the name of a resolver, in bytes.
const MAX_RESOLVER: usize = 64;

/// The body of a response to a client.
pub(crate) enum ClientBody {
    /// The rest of the body is in memory.
    Whole(Option<Bytes>),
    /// The body arrives through a pipe, see [`pipe`].
    Piped(PipeReader),
}

impl From<Bytes> for ClientBody {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }
}

impl Body for ClientBody {
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
    /// Returns the response to a client's request, or a problem as a response.
    pub(crate) async fn answer(
        self: Arc<Self>,
        request: http::Request<Incoming>,
        client: ClientAddress,
    ) -> Response<ClientBody> {
        let (parts, body) = request.into_parts();
        match self.serve(parts, (body, client)).await {
            Ok(response) => response,
            Err(problem) => problem.into_response().map(ClientBody::from),
        }
    }

    async fn serve(
        &self,
        mut parts: Parts,
        body: (Incoming, ClientAddress),
    ) -> Result<Response<ClientBody>, Box<ProblemResponse>> {
        self.take_own_authority(&mut parts);
        let form = TargetForm::of(&parts.method, &parts.uri);
        let wanted = self.targets.read(&parts.method, &parts.uri);
        // The health check needs no token, because service managers have none; its result is not
        // secret.
        let judged = if wanted == RequestTarget::Health {
            self.access.check_page(&parts.headers)
        } else {
            self.access.check(form, &parts.headers)
        };
        judged.map_err(ProblemResponse::denied)?;
        match wanted {
            RequestTarget::Url(url) => self.relay(parts, form, *url, body).await,
            RequestTarget::Health => Ok(page("application/json", "{\"ok\":true}\n".to_owned())),
            RequestTarget::Metrics => self.metrics(),
            RequestTarget::Help => Ok(page("text/plain; charset=utf-8", help(&parts))),
            RequestTarget::Tunnel => {
                let authority = parts.uri.authority().map_or("HOST", |it| it.as_str());
                let authority = authority.strip_suffix(":443").unwrap_or(authority);
                Err(ProblemResponse::tunnel(authority))
            }
            RequestTarget::Misdirected => Err(ProblemResponse::new(
                StatusCode::MISDIRECTED_REQUEST,
                "origin",
                "the gateway stands in front of one origin, and the URL names another server",
            )),
            RequestTarget::Unknown(why) => {
                Err(ProblemResponse::new(StatusCode::NOT_FOUND, "target", why))
            }
        }
    }

    /// Removes the authority from a URL of the gateway itself, which leaves the path. Programs that
    /// use the gateway as their proxy send the whole URL for its own pages, too.
    fn take_own_authority(&self, parts: &mut Parts) {
        let is_own = |authority: &http::uri::Authority| self.access.is_name(authority.as_str());
        if parts.method == Method::CONNECT || !parts.uri.authority().is_some_and(is_own) {
            return;
        }
        if let Some(path) = parts.uri.path_and_query().cloned() {
            parts.uri = path.into();
        }
    }

    fn metrics(&self) -> Result<Response<ClientBody>, Box<ProblemResponse>> {
        let metrics = self.metrics.as_ref().ok_or_else(|| {
            let why = "this gateway records no metrics: telemetry is switched off";
            ProblemResponse::new(StatusCode::NOT_FOUND, "metrics", why)
        })?;
        Ok(page("text/plain; version=0.0.4; charset=utf-8", metrics()))
    }

    /// Sends a request through the hub, and returns its response.
    ///
    /// # Errors
    /// Returns a [`ProblemResponse`] for a request that must not be relayed or has no response.
    async fn relay(
        &self,
        mut parts: Parts,
        form: TargetForm,
        url: Url,
        (body, client): (Incoming, ClientAddress),
    ) -> Result<Response<ClientBody>, Box<ProblemResponse>> {
        if headers::has_passed(&parts.headers, &self.via) {
            let why = "the request came back to the gateway that had sent it";
            return Err(ProblemResponse::new(StatusCode::LOOP_DETECTED, "loop", why));
        }
        let method = parts.method.clone();
        if headers::spend_forward(&method, &mut parts.headers) == TraceReach::Gateway {
            return Ok(last_recipient(&parts, &url));
        }
        let (body, _space) = self.read(&parts, body, client).await?;
        let request = self.request(parts, url, body)?;
        let hub = self.hub();
        let streamed = hub.stream(request).await;
        let streamed = streamed.map_err(|error| ProblemResponse::of_error(&error))?;
        let mut response = self.respond(&method, streamed).await?;
        match form {
            TargetForm::Server if self.targets.origin.is_none() => {
                headers::isolate(response.headers_mut());
            }
            TargetForm::Proxy if self.targets.upgrade => {
                headers::downgrade_location(response.headers_mut());
            }
            _ => {}
        }
        Ok(response)
    }

    /// Reads the body of a client's request. The returned [`BodySpace`] reserves its memory.
    ///
    /// # Errors
    /// Returns a [`ProblemResponse`] for a body that is too long, too slow or broken.
    async fn read(
        &self,
        parts: &Parts,
        body: Incoming,
        client: ClientAddress,
    ) -> Result<(Bytes, Option<BodySpace>), Box<ProblemResponse>> {
        let length = length(&parts.headers);
        if !parts.headers.contains_key(TRANSFER_ENCODING) && length.unwrap_or(0) == 0 {
            return Ok((Bytes::new(), None));
        }
        if length.is_some_and(|length| length > self.max_request_body) {
            return Err(too_long(self.max_request_body));
        }
        let mut space = BodySpace::new(&self.request_bodies, client);
        let collected = self.collect(body, &mut space);
        match tokio::time::timeout(BODY_TIMEOUT, collected).await {
            Ok(collected) => Ok((collected?.into(), Some(space))),
            Err(_) => Err(too_slow(&format!("within {} s", BODY_TIMEOUT.as_secs()))),
        }
    }

    /// Collects the pieces of a body, and reserves memory for each in `space` first.
    async fn collect(
        &self,
        mut body: Incoming,
        space: &mut BodySpace,
    ) -> Result<Vec<u8>, Box<ProblemResponse>> {
        let mut bytes = Vec::new();
        loop {
            let frame = tokio::time::timeout(BODY_PAUSE, body.frame()).await;
            let frame = frame
                .map_err(|_| too_slow(&format!("without a pause of {} s", BODY_PAUSE.as_secs())))?;
            let Some(frame) = frame else {
                return Ok(bytes);
            };
            let frame = frame.map_err(|error| {
                let why = format!("the body of the request broke off: {error}");
                ProblemResponse::new(StatusCode::BAD_REQUEST, "request_body", why)
            })?;
            let Ok(piece) = frame.into_data() else {
                continue;
            };
            if bytes.len() + piece.len() > self.max_request_body {
                return Err(too_long(self.max_request_body));
            }
            space.grow(piece.len()).map_err(|_| {
                let why = "the bodies of other requests take all the memory that the gateway has \
                           for them";
                ProblemResponse::new(StatusCode::SERVICE_UNAVAILABLE, "request_bodies", why)
                    .after(Duration::from_secs(1))
            })?;
            bytes.extend_from_slice(&piece);
        }
    }

    /// Converts a client's request to a [`Request`] of the hub.
    fn request(
        &self,
        parts: Parts,
        url: Url,
        body: Bytes,
    ) -> Result<Request, Box<ProblemResponse>> {
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
                ProblemResponse::new(
                    StatusCode::BAD_REQUEST,
                    "role",
                    "Docstokg-Role is metadata, landing or artifact",
                )
            })?,
        };
        let resolver = text(RESOLVER).map(|name| self.resolver(name)).transpose()?;
        headers::outgoing(&mut headers, version, &self.via);
        let mut request = Request::new(method, url)
            .role(role)
            .body(body)
            .max_body(u64::MAX)
            .relayed(self.relay.clone());
        if let Some(resolver) = resolver {
            request = request.resolver(&resolver);
        }
        for (name, value) in &headers {
            request = request.header(name.clone(), value.clone());
        }
        Ok(match self.provenance() {
            Provenance::UserSupplied => request,
            Provenance::Discovered => request.discovered(),
            Provenance::Untrusted => request.untrusted(),
        })
    }

    /// Returns the name of a resolver if it is valid. The number of names is limited, because the
    /// hub keeps state for each.
    fn resolver(&self, name: &str) -> Result<String, Box<ProblemResponse>> {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        let is_name = !name.is_empty() && name.len() <= MAX_RESOLVER && name.bytes().all(is_word);
        let mut known = self.resolvers.lock();
        if is_name && (known.len() < MAX_RESOLVERS || known.contains(name)) {
            known.insert(name.to_owned());
            return Ok(name.to_owned());
        }
        let why = format!(
            "Docstokg-Resolver is a name of at most {MAX_RESOLVER} letters, digits, _, - and ., \
             and a gateway knows at most {MAX_RESOLVERS}"
        );
        Err(ProblemResponse::new(
            StatusCode::BAD_REQUEST,
            "resolver",
            why,
        ))
    }

    /// Returns the [`Provenance`] of the URLs of requests. The operator has chosen a single origin.
    /// Other URLs come from clients, which must not reach internal addresses.
    fn provenance(&self) -> Provenance {
        if self.targets.origin.is_some() {
            Provenance::UserSupplied
        } else {
            Provenance::Discovered
        }
    }

    /// Converts a response of the hub to one for the client.
    async fn respond(
        &self,
        method: &Method,
        streamed: StreamedResponse,
    ) -> Result<Response<ClientBody>, Box<ProblemResponse>> {
        let StreamedResponse {
            mut head,
            mut body,
            journey,
        } = streamed;
        let stored = if body.is_being_stored() {
            ResponseStorage::Yes
        } else {
            ResponseStorage::No
        };
        headers::incoming(&mut head.headers, head.version, &journey, stored);
        if head.status == StatusCode::TOO_MANY_REQUESTS {
            // Many clients wait only if `Retry-After` tells them to. After that time, the limits of
            // the hub delay their requests as necessary.
            let wait = head.headers.entry(RETRY_AFTER);
            wait.or_insert(HeaderValue::from_static("1"));
        }
        let broken = |error: docstokg_hub::stream::StreamError| {
            ProblemResponse::new(StatusCode::BAD_GATEWAY, "body", error.to_string())
        };
        let body = if has_no_body(method, &head) {
            // The server never polls the body of a response that has none. Reading to its end here
            // settles the attempt, and stores the response before the next request.
            while body.next().await.map_err(broken)?.is_some() {}
            ClientBody::Whole(None)
        } else if body.is_live() {
            ClientBody::Piped(pipe::through(body, &self.spool))
        } else {
            // Most stored bodies consist of one piece, which needs no pipe.
            match body.next().await.map_err(broken)? {
                None => ClientBody::Whole(None),
                Some(first) if has_all(&head.headers, &first) => ClientBody::from(first),
                Some(first) => ClientBody::Piped(pipe::after(first, body, &self.spool)),
            }
        };
        let mut response = Response::new(body);
        *response.status_mut() = head.status;
        *response.headers_mut() = head.headers;
        Ok(response)
    }
}

/// Returns the [`ProblemResponse`] for a request body that is too long.
fn too_long(most: usize) -> Box<ProblemResponse> {
    let why = format!("the body of the request is longer than {most} bytes (--max-request-body)");
    ProblemResponse::new(StatusCode::PAYLOAD_TOO_LARGE, "request_body", why)
}

/// Returns the [`ProblemResponse`] for a request body that arrives too slowly.
fn too_slow(missed: &str) -> Box<ProblemResponse> {
    let why = format!("the body of the request did not arrive {missed}");
    ProblemResponse::new(StatusCode::REQUEST_TIMEOUT, "request_body", why)
}

/// Returns the gateway's own response to a request whose `Max-Forwards` ends here: the received
/// request for TRACE, the allowed methods for OPTIONS.
fn last_recipient(parts: &Parts, url: &Url) -> Response<ClientBody> {
    let (kind, text) = if parts.method == Method::TRACE {
        let line = format!("TRACE {} {:?}", docstokg_hub::redact(url), parts.version);
        ("message/http", headers::trace(&line, &parts.headers))
    } else {
        ("text/plain; charset=utf-8", Vec::new())
    };
    let mut response = page(kind, text);
    if parts.method == Method::OPTIONS {
        let methods = HeaderValue::from_static(METHODS);
        response.headers_mut().insert(ALLOW, methods);
    }
    response
}

/// Returns `Content-Length`; `None` if the field is missing or invalid.
fn length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Returns whether `piece` is the whole body, according to `Content-Length`.
fn has_all(headers: &HeaderMap, piece: &Bytes) -> bool {
    length(headers) == Some(piece.len())
}

/// Returns whether a response has no body (RFC 9110 section 6.4.1), or an empty one.
fn has_no_body(method: &Method, head: &ResponseHead) -> bool {
    *method == Method::HEAD
        || matches!(
            head.status,
            StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED
        )
        || length(&head.headers) == Some(0)
}

/// Returns the text of the help page.
fn help(parts: &Parts) -> String {
    let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok());
    let host = host.unwrap_or("GATEWAY");
    format!(
        "{NAME} gateway: every request passes one cache, breaker and limiter.\n\n\
         http targets:   set http_proxy=http://{host}\n\
         https targets:  ask for http://{host}/https://HOST/PATH\n\
         state:          http://{host}/-/health and http://{host}/-/metrics\n"
    )
}

/// Returns a page of the gateway itself.
fn page(kind: &'static str, text: impl Into<Bytes>) -> Response<ClientBody> {
    let mut response = Response::new(ClientBody::from(text.into()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(
        http::header::CACHE_CONTROL,
        HeaderValue::from_static("no-store"),
    );
    response
}
