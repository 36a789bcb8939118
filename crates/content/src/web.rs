//! The interface between resolvers and the network.
//!
//! A resolver asks a [`Web`] and knows nothing of budgets, breakers, caches and retries: all of
//! that is behind the trait. The web follows redirects; an [`Answer`] says which URL answered in
//! the end. Secrets travel apart from other headers, so that the implementation can keep them
//! out of logs and drop them when a redirect leaves the host.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
pub use docstokg_bulk::job::BoxFuture;
use docstokg_hub::policy::classify::Fault;
use docstokg_hub::{Disposition, ErrorKind, FetchError, HostFailure, SpooledBody};
use docstokg_policy::role::Role;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use url::Url;

use crate::reason::{Reason, WaitCause};
use crate::resolver::ResolverId;

/// What a user can do about a robots.txt that cannot be read, and never will be.
const ROBOTS_OVERRIDE: &str = "--ignore-robots requests it all the same";
/// How soon to try again while this machine has no network.
pub(crate) const OFFLINE_RETRY: Duration = Duration::from_secs(30);

/// Answers requests: the hub in programs, a script in tests.
pub trait Web: Send + Sync {
    /// Sends one GET request and reads its body into memory.
    fn ask(&self, ask: Ask) -> BoxFuture<'_, Result<Answer, WebError>>;
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
    /// The failure of the host that this is, if the host may serve the request later.
    pub host_failure: Option<HostFailure>,
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

/// Why nothing came back, and when another try makes sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct WebError {
    /// The class.
    pub reason: Reason,
    /// What happened.
    pub text: String,
    /// When to try again, if another try makes sense.
    pub retry: Option<RetryLater>,
}

/// When to try again, and what holds the request back until then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryLater {
    /// How long to wait.
    pub wait: Duration,
    /// What holds the request back; `None` if it is the network of this machine.
    pub cause: Option<WaitCause>,
}

impl RetryLater {
    /// Waits for a host that failed a request.
    pub(crate) fn after_host_failure(failure: &HostFailure) -> Self {
        Self {
            wait: failure.wait,
            cause: Some(WaitCause::new(&failure.host, failure.stated_by)),
        }
    }
}

impl WebError {
    /// Describes a failure that another try does not change.
    #[must_use]
    pub fn new(reason: Reason, text: impl Into<String>) -> Self {
        Self {
            reason,
            text: text.into(),
            retry: None,
        }
    }
}

impl From<&FetchError> for WebError {
    fn from(error: &FetchError) -> Self {
        let text = error.sentence();
        let (retry, reason) = match error.disposition() {
            Disposition::Retry {
                host,
                wait,
                stated_by,
            } => {
                let retry = RetryLater {
                    wait,
                    cause: Some(WaitCause::new(&host, stated_by)),
                };
                (Some(retry), reason_of_retry(&error.kind))
            }
            Disposition::Offline => {
                let retry = RetryLater {
                    wait: OFFLINE_RETRY,
                    cause: None,
                };
                (Some(retry), Reason::Offline)
            }
            _ => (None, reason_of(&error.kind)),
        };
        let text = match (&error.kind, &retry) {
            (ErrorKind::RobotsUnread { .. }, None) => format!("{text}; {ROBOTS_OVERRIDE}"),
            _ => text,
        };
        Self {
            reason,
            text,
            retry,
        }
    }
}

fn reason_of_retry(kind: &ErrorKind) -> Reason {
    match kind {
        ErrorKind::BreakerOpen(_) => Reason::BreakerOpen,
        ErrorKind::RateLimited(_) => Reason::RateLimited,
        kind => reason_of(kind),
    }
}

fn reason_of(kind: &ErrorKind) -> Reason {
    match kind {
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
