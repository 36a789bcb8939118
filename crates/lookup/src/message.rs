//! Requests and responses of look-ups.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use docstokg_hub::{Disposition, SpooledBody};
use docstokg_policy::role::Role;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use url::Url;

/// Maximum size of the response of an API, in bytes. A page of a hundred full records is below half
/// of it. Endless responses of a few services at once stay within the memory of a run.
const MAX_RECORD_BYTES: u64 = 16 << 20;

/// A GET request. Secrets are separate from other headers, so that they stay out of logs and are
/// dropped when a redirect leaves the host.
#[derive(Clone)]
pub struct LookupRequest {
    /// The requested URL.
    pub url: Url,
    /// A file of the user that replaces the response, such as a snapshot of a registry.
    pub file: Option<PathBuf>,
    /// The purpose of the request.
    pub role: Role,
    /// The name of the source that needs the response.
    pub source: &'static str,
    /// The kind of request, if the host has a budget for the kind.
    pub kind: Option<&'static str>,
    /// Headers that may be logged.
    pub headers: HeaderMap,
    /// Headers that are never logged, and that stay with the host of `url`.
    pub secret_headers: Vec<(HeaderName, HeaderValue)>,
    /// Maximum size of the body, in bytes; the configured size if absent.
    pub max_body: Option<u64>,
    /// Maximum number of bytes of the body in memory before it is read; the whole body if absent.
    pub keep_in_memory: Option<usize>,
    /// All look-ups of a run share the response, so that one request suffices.
    pub is_shared: bool,
}

impl LookupRequest {
    /// Creates the request of an API's response.
    #[must_use]
    pub fn metadata(url: Url, source: &'static str) -> Self {
        Self::new(url, Role::Metadata, source).max_body(MAX_RECORD_BYTES)
    }

    /// Creates the request of a page made for people.
    #[must_use]
    pub fn landing(url: Url, source: &'static str) -> Self {
        Self::new(url, Role::Landing, source)
    }

    fn new(url: Url, role: Role, source: &'static str) -> Self {
        Self {
            url,
            file: None,
            role,
            source,
            kind: None,
            headers: HeaderMap::new(),
            secret_headers: Vec::new(),
            max_body: None,
            keep_in_memory: None,
            is_shared: false,
        }
    }

    /// Sets the kind of request.
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

    /// Sets the maximum size of the body, in bytes.
    #[must_use]
    pub const fn max_body(mut self, bytes: u64) -> Self {
        self.max_body = Some(bytes);
        self
    }

    /// Limits the bytes of the body in memory before it is read. [`LookupResponse::read`] returns
    /// all of the body.
    #[must_use]
    pub const fn keep_in_memory(mut self, bytes: usize) -> Self {
        self.keep_in_memory = Some(bytes);
        self
    }

    /// Shares the response with the other look-ups of the run.
    #[must_use]
    pub const fn shared(mut self) -> Self {
        self.is_shared = true;
        self
    }

    /// Replaces the response by a file.
    #[must_use]
    pub fn from_file(mut self, file: PathBuf) -> Self {
        self.file = Some(file);
        self
    }
}

impl fmt::Debug for LookupRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secret: Vec<&HeaderName> = self.secret_headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("LookupRequest")
            .field("host", &self.url.host_str())
            .field("path", &self.url.path())
            .field("file", &self.file)
            .field("role", &self.role)
            .field("source", &self.source)
            .field("kind", &self.kind)
            .field("headers", &self.headers)
            .field("secret_headers", &secret)
            .field("max_body", &self.max_body)
            .finish_non_exhaustive()
    }
}

/// The response to a [`LookupRequest`].
#[derive(Clone, Debug)]
pub struct LookupResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The decoded body, or its beginning if the request limits the bytes in memory.
    pub body: Bytes,
    /// The whole body, if the request limits the bytes in memory.
    pub spooled: Option<Arc<SpooledBody>>,
    /// The URL of the response, after redirects.
    pub url: Url,
    /// The action left to the caller, if the response is a failure.
    pub disposition: Disposition,
}

impl LookupResponse {
    /// Creates a response without the hub: a file in its place, or a fixture.
    #[must_use]
    pub const fn new(url: Url, status: StatusCode, headers: HeaderMap, body: Bytes) -> Self {
        Self {
            status,
            headers,
            body,
            spooled: None,
            url,
            disposition: Disposition::GiveUp,
        }
    }

    /// Returns the first `most` bytes of the body. The call may block to read them from a file.
    ///
    /// # Errors
    /// Returns an [`io::Error`] if the file cannot be read.
    pub fn read(&self, most: u64) -> io::Result<Bytes> {
        if let Some(spooled) = &self.spooled {
            return spooled.read(most);
        }
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Ok(self.body.slice(..self.body.len().min(most)))
    }

    /// Returns a header, if its value is text.
    #[must_use]
    pub fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}
