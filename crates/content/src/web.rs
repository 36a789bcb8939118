//! The interface between resolvers and the network.
//!
//! A resolver asks a [`Web`] and knows nothing of budgets, breakers, caches and retries: all of
//! that is behind the trait. The web follows redirects; an [`Answer`] says which URL answered in
//! the end. Secrets travel apart from other headers, so that the implementation can keep them
//! out of logs and drop them when a redirect leaves the host.

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
pub use docstokg_bulk::job::BoxFuture;
use docstokg_hub::policy::classify::Fault;
use docstokg_hub::{Disposition, ErrorKind, FetchError, SpooledBody, StatedBy};
use docstokg_policy::role::Role;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use url::Url;

use crate::reason::{Failure, Reason, Stage, WaitCause};
use crate::resolver::ResolverId;

/// What a user can do about a robots.txt that cannot be read, and never will be.
const ROBOTS_OVERRIDE: &str = "--ignore-robots requests it all the same";

/// Answers requests: the hub in programs, a script in tests.
pub trait Web: Send + Sync {
    /// Sends one GET request and reads its body into memory.
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<Answer, RequestFailure>>;
}

/// One GET request.
#[derive(Clone)]
pub struct Ask {
    /// What to get.
    pub url: Url,
    /// What for.
    pub role: Role,
    /// The resolver that asks.
    pub resolver: ResolverId,
    /// The kind of request, where the host has a budget for it.
    pub kind: Option<&'static str>,
    /// Headers that may be logged.
    pub headers: HeaderMap,
    /// Headers that are never logged, and that stay with the host of `url`.
    pub secret_headers: Vec<(HeaderName, HeaderValue)>,
    /// The largest body accepted, in bytes; as configured when absent.
    pub max_body: Option<u64>,
    /// How much of the body is kept in memory until it is read, in bytes; all of it when absent.
    pub keep_in_memory: Option<usize>,
}

/// The largest answer of an API. A page of a hundred full records stays below half of it; answers
/// without an end from a few services at once do not add up to more than a run may take.
const MAX_RECORD_BYTES: u64 = 16 << 20;

impl Ask {
    /// Asks an API.
    #[must_use]
    pub fn metadata(url: Url, resolver: ResolverId) -> Self {
        Self::new(url, Role::Metadata, resolver).max_body(MAX_RECORD_BYTES)
    }

    /// Asks for a page made for people.
    #[must_use]
    pub fn landing(url: Url, resolver: ResolverId) -> Self {
        Self::new(url, Role::Landing, resolver)
    }

    fn new(url: Url, role: Role, resolver: ResolverId) -> Self {
        Self {
            url,
            role,
            resolver,
            kind: None,
            headers: HeaderMap::new(),
            secret_headers: Vec::new(),
            max_body: None,
            keep_in_memory: None,
        }
    }

    /// Names the kind of request.
    #[must_use]
    pub const fn kind(mut self, kind: &'static str) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Adds a header that may be logged.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Adds headers that are never logged.
    #[must_use]
    pub fn secrets(mut self, secrets: impl IntoIterator<Item = (HeaderName, HeaderValue)>) -> Self {
        self.secret_headers.extend(secrets);
        self
    }

    /// Bounds the body, in bytes.
    #[must_use]
    pub const fn max_body(mut self, bytes: u64) -> Self {
        self.max_body = Some(bytes);
        self
    }

    /// Bounds how much of the body is in memory while it waits to be read: [`Answer::read`] gives
    /// all of it.
    #[must_use]
    pub const fn keep_in_memory(mut self, bytes: usize) -> Self {
        self.keep_in_memory = Some(bytes);
        self
    }
}

impl fmt::Debug for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secret: Vec<&HeaderName> = self.secret_headers.iter().map(|(name, _)| name).collect();
        let Self {
            url,
            role,
            resolver,
            kind,
            headers,
            max_body,
            ..
        } = self;
        let mut shown = f.debug_struct("Ask");
        shown
            .field("host", &url.host_str())
            .field("path", &url.path())
            .field("role", role)
            .field("resolver", resolver)
            .field("kind", kind);
        shown
            .field("headers", headers)
            .field("secret_headers", &secret)
            .field("max_body", max_body)
            .finish_non_exhaustive()
    }
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, decoded; its beginning where the request asked to keep no more in memory.
    pub body: Bytes,
    /// The whole body, where the request asked for that.
    pub spooled: Option<Arc<SpooledBody>>,
    /// The URL that answered, after redirects.
    pub url: Url,
    /// What a caller can do about the answer if it is a failure.
    pub disposition: Disposition,
}

impl Answer {
    /// Returns the first `most` bytes of the body. It may block to read them from a file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self, most: u64) -> io::Result<Bytes> {
        if let Some(spooled) = &self.spooled {
            return spooled.read(most);
        }
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Ok(self.body.slice(..self.body.len().min(most)))
    }

    /// Returns a header as text, where it is text.
    #[must_use]
    pub fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// A request that brought nothing usable, and what a caller can do about that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestFailure {
    /// The class.
    pub reason: Reason,
    /// What happened, without keys and addresses of ours.
    pub detail: String,
    /// The status, if there was a response.
    pub http_status: Option<u16>,
    /// What a caller can do about it.
    pub disposition: Disposition,
}

impl RequestFailure {
    /// Describes a failure that another try does not change.
    #[must_use]
    pub fn new(reason: Reason, detail: impl Into<String>, http_status: Option<u16>) -> Self {
        Self {
            reason,
            detail: detail.into(),
            http_status,
            disposition: Disposition::GiveUp,
        }
    }

    /// Describes a response whose status says no.
    pub(crate) fn of_status(status: StatusCode, detail: String, disposition: Disposition) -> Self {
        let reason = match status {
            StatusCode::TOO_MANY_REQUESTS => Reason::RateLimited,
            _ => Reason::HttpStatus,
        };
        Self {
            disposition,
            ..Self::new(reason, detail, Some(status.as_u16()))
        }
    }

    /// Describes a request without a response.
    pub(crate) fn of_error(error: &FetchError, disposition: Disposition) -> Self {
        let detail = match (&error.kind, &disposition) {
            (ErrorKind::RobotsUnread { .. }, Disposition::GiveUp) => {
                format!("{}; {ROBOTS_OVERRIDE}", error.sentence())
            }
            (ErrorKind::File { path, source }, _) => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    format!("there is no room left for {path}")
                }
                _ => format!("{path} cannot be written: {source}"),
            },
            _ => error.sentence(),
        };
        let reason = match &disposition {
            Disposition::Offline(_) => Reason::Offline,
            _ => reason_of(&error.kind),
        };
        Self {
            disposition,
            ..Self::new(reason, detail, None)
        }
    }

    /// Describes it as what a work met.
    pub(crate) fn at(&self, stage: Stage) -> Failure {
        let cause = match &self.disposition {
            Disposition::Retry(later) => Some(WaitCause::new(later)),
            _ => None,
        };
        Failure::new(stage, self.reason, &self.detail, self.http_status).held_back_by(cause)
    }

    /// Tells whether a request was sent: what was held back is not an attempt.
    pub(crate) fn was_requested(&self) -> bool {
        let is_held_back = match &self.disposition {
            Disposition::Retry(later) if later.stated_by == StatedBy::ThisMachine => true,
            _ => matches!(
                self.reason,
                Reason::BreakerOpen | Reason::RateLimited | Reason::Offline
            ),
        };
        self.http_status.is_some() || !is_held_back
    }
}

fn reason_of(kind: &ErrorKind) -> Reason {
    match kind {
        ErrorKind::BreakerOpen(_) => Reason::BreakerOpen,
        ErrorKind::RateLimited(_) => Reason::RateLimited,
        ErrorKind::Disallowed { .. } => Reason::RobotsDisallowed,
        ErrorKind::RobotsUnread { .. } => Reason::RobotsUnreachable,
        ErrorKind::TooLarge { .. } => Reason::PayloadTooLarge,
        ErrorKind::Deadline { .. }
        | ErrorKind::Fault {
            fault: Fault::Timeout,
            ..
        } => Reason::Timeout,
        _ => Reason::RequestException,
    }
}
