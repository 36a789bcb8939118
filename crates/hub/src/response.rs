//! What the hub gives back.

use std::path::PathBuf;

use bytes::Bytes;
use http::{HeaderMap, StatusCode, Version};
use url::Url;

use crate::download::FileEnds;
use crate::journey::Journey;
use crate::spool::SpooledBody;
use crate::stream::BodyStream;

/// The head of an answer: everything before its body.
#[derive(Clone, Debug)]
pub struct ResponseHead {
    /// The status.
    pub status: StatusCode,
    /// The protocol.
    pub version: Version,
    /// The headers, as the origin sent them.
    pub headers: HeaderMap,
    /// The URL that answered, after redirects.
    pub url: Url,
}

/// An answer with its body in memory.
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
    /// Status, headers and URL.
    pub head: ResponseHead,
    /// The body, decoded.
    pub body: Bytes,
    /// How it came about.
    pub journey: Journey,
}

/// An answer whose body is in memory, or in a file without a name.
#[derive(Debug)]
pub struct SpooledResponse {
    /// Status, headers and URL.
    pub head: ResponseHead,
    /// The body, decoded.
    pub body: SpooledBody,
    /// How it came about.
    pub journey: Journey,
}

/// An answer whose body is read by the caller, piece by piece.
#[derive(Debug)]
pub struct StreamedResponse {
    /// Status, headers and URL.
    pub head: ResponseHead,
    /// The body.
    pub body: BodyStream,
    /// How it came about, up to the headers.
    pub journey: Journey,
}

/// An answer whose body, if it was a good one, is a file now.
#[derive(Debug)]
pub struct DownloadedResponse {
    /// Status, headers and URL.
    pub head: ResponseHead,
    /// The file, when the status was a success.
    pub file: Option<SavedFile>,
    /// The beginning of the body otherwise, for messages.
    pub preview: Bytes,
    /// How it came about.
    pub journey: Journey,
}

/// A file that is complete and in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Its SHA-256, in hex.
    pub sha256: String,
    /// Its first and last bytes.
    pub ends: FileEnds,
}
