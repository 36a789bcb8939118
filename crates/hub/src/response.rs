//! The responses of the hub, in the forms in which it delivers bodies.

use std::path::PathBuf;

use bytes::Bytes;
use http::{HeaderMap, StatusCode, Version};
use url::Url;

use crate::download::FileEnds;
use crate::journey::Journey;
use crate::spool::SpooledBody;
use crate::stream::BodyStream;

/// The head of a response: everything before its body.
#[derive(Clone, Debug)]
pub struct ResponseHead {
    /// The status of the response.
    pub status: StatusCode,
    /// The version of HTTP.
    pub version: Version,
    /// The headers as the origin sent them.
    pub headers: HeaderMap,
    /// The URL that returned the response, after all redirects.
    pub url: Url,
}

/// A response with its body in memory.
///
/// ```
/// use docstokg_hub::Request;
/// # use docstokg_origin_sim::{OriginScript, ScriptedReply, Simulation};
/// # let simulation = Simulation::exact();
/// # let busy = ScriptedReply::status(503);
/// # let origin = OriginScript::new("a.example").route("/", [busy, ScriptedReply::ok("found")]);
/// # let (hub, _web) = simulation.hub([origin]);
/// # simulation.block_on(async move {
/// let response = hub.fetch(Request::get("http://a.example/".parse()?)).await?;
/// assert_eq!(response.head.url.as_str(), "http://a.example/");
/// assert_eq!(response.body, "found");
/// assert_eq!(response.journey.attempts, 2, "the first attempt was answered with 503");
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Debug)]
pub struct Response {
    /// The status, the headers and the URL.
    pub head: ResponseHead,
    /// The decoded body.
    pub body: Bytes,
    /// The [`Journey`] of the request.
    pub journey: Journey,
}

/// A response whose body is in memory, or in a file without a name.
#[derive(Debug)]
pub struct SpooledResponse {
    /// The status, the headers and the URL.
    pub head: ResponseHead,
    /// The decoded body.
    pub body: SpooledBody,
    /// The [`Journey`] of the request.
    pub journey: Journey,
}

/// A response whose body the caller reads, piece by piece.
#[derive(Debug)]
pub struct StreamedResponse {
    /// The status, the headers and the URL.
    pub head: ResponseHead,
    /// The body, as a stream.
    pub body: BodyStream,
    /// The [`Journey`] of the request, up to the headers.
    pub journey: Journey,
}

/// A response whose body was written to a file if its status is a success.
#[derive(Debug)]
pub struct DownloadedResponse {
    /// The status, the headers and the URL.
    pub head: ResponseHead,
    /// The file; `None` if the status is not a success.
    pub file: Option<SavedFile>,
    /// The beginning of the body, for messages; empty if there is a file.
    pub preview: Bytes,
    /// The [`Journey`] of the request.
    pub journey: Journey,
}

/// A complete file. Its [`path`](Self::path) says where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedFile {
    /// The path of the file.
    pub path: PathBuf,
    /// The size of the file in bytes.
    pub bytes: u64,
    /// The SHA-256 of the file, in hexadecimal digits.
    pub sha256: String,
    /// The [`FileEnds`]: the first and last bytes of the file.
    pub ends: FileEnds,
}
