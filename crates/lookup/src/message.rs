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

/// Maximum size of the response of an API, in bytes: more than twice the size of a page of a
/// hundred full records. If a few services send endless responses at once, they still fit into
/// memory.
const MAX_RECORD_BYTES: u64 = 16 << 20;

/// A GET request of a look-up. Secret headers are separate from other headers, so that they are not
/// logged, and are dropped if a redirect leads to another host.
#[derive(Clone)]
pub struct LookupRequest {
    /// The requested URL.
    pub url: Url,
    /// A file from the user that is read instead of sending the request, such as a snapshot of a
    /// registry.
    pub file: Option<PathBuf>,
    /// The [`Role`] whose limits apply to the request.
    pub role: Role,
    /// The name of the source that needs the response.
    pub source: &'static str,
    /// The kind of request, if the host has a separate limit for this kind.
    pub kind: Option<&'static str>,
    /// Headers that may be logged.
    pub headers: HeaderMap,
    /// Headers that are never logged, and are sent only to the host of `url`.
    pub secret_headers: Vec<(HeaderName, HeaderValue)>,
    /// Maximum size of the body, in bytes; `None` for the configured maximum.
    pub max_body: Option<u64>,
    /// Maximum number of bytes of the body that are kept in memory: a longer body goes to a
    /// temporary file. `None` to keep the whole body in memory.
    pub keep_in_memory: Option<usize>,
    /// True if all look-ups of a run share the response, so that one request suffices.
    pub is_shared: bool,
}

impl LookupRequest {
    /// Creates a request to an API for metadata.
    #[must_use]
    pub fn metadata(url: Url, source: &'static str) -> Self {
        Self::new(url, Role::Metadata, source).max_body(MAX_RECORD_BYTES)
    }

    /// Creates a request for a web page that is made for people.
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

    /// Keeps at most `bytes` of the body in memory: a longer body goes to a temporary file, from
    /// which [`LookupResponse::read`] reads.
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

    /// Reads `file` instead of sending the request.
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
    /// The decoded body, or only its beginning if the request limits the bytes in memory.
    pub body: Bytes,
    /// The whole body, if the request limits the bytes in memory.
    pub spooled: Option<Arc<SpooledBody>>,
    /// The URL of the response, after redirects.
    pub url: Url,
    /// The [`Disposition`] of the response, which tells the caller whether to retry if the status
    /// is a failure.
    pub disposition: Disposition,
}

impl LookupResponse {
    /// Creates a response that was not received through the hub: from a file, or for a test.
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

    /// Returns at most the first `most` bytes of the body. The call may block to read a file.
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

    /// Returns the value of a header; `None` if the header is missing or not text.
    #[must_use]
    pub fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}
