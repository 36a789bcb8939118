//! Deliveries: the ways in which the body of a final response reaches the caller.
//!
//! Each [`Delivery`] has its own output type. Bodies for memory or a file are read during the
//! attempt, so that a body that breaks off is a failed attempt. A streamed body is read by the
//! caller: it keeps the permits, and settles them at its end.

mod file;

use std::future::Future;

use bytes::Bytes;
use docstokg_policy::freshness::ByteRange;
use docstokg_policy::site::AttemptResult;
use docstokg_stores::cache::{StoredBodyError, StoredBodyReader as StoredReader};
use http::Method;
use http::header::HeaderMap;
use url::Url;

use super::receive::ReadError;
use crate::admission::{AttemptReport, Permits};
use crate::body::BodyReader;
use crate::cache::ServeFailure;
use crate::config::TransportConfig;
use crate::error::ErrorKind;
use crate::event::EventKind;
use crate::journey::RequestTrack;
use crate::response::ResponseHead;
use crate::spool::{Spool, SpooledBody};
use crate::stream::OpenBody;
use crate::target::RoutedHop;

/// Maximum number of bytes that are read of a response that the caller does not need.
pub(super) const PREVIEW_BYTES: usize = 64 << 10;

/// A body, or the beginning of a body that the delivery does not apply to, such as an error page.
pub(crate) enum DeliveredBody<T> {
    /// The body in the form of the delivery.
    Body(T),
    /// The beginning of the body, in memory.
    Preview(Bytes),
}

/// A way in which the body of a final response reaches the caller.
pub(crate) trait Delivery: Sync {
    /// The facts that are known before the request is sent.
    type Prepared: Send;
    /// The body after the attempt has received it.
    type Received: Send;
    /// The result for the caller.
    type Output: Send;

    /// `true` if the caller reads the body after the attempt.
    const STREAMS: bool = false;

    /// Returns the maximum size of the body in bytes, for requests without their own.
    fn cap(&self, config: &TransportConfig) -> u64 {
        config.max_body
    }

    /// Returns whether the cache may serve the request and store its response.
    fn may_be_cached(&self) -> bool {
        true
    }

    /// Delivers a stored body.
    ///
    /// # Errors
    /// Returns a [`ServeFailure`] if the body is damaged or cannot be delivered.
    fn deliver_stored(
        &self,
        head: &ResponseHead,
        body: CachedBody,
    ) -> impl Future<Output = Result<DeliveredBody<Self::Output>, ServeFailure>> + Send;

    /// Prepares the request before it is sent. May add headers that request a part of the body.
    fn prepare(&self, url: &Url, headers: &mut HeaderMap) -> Self::Prepared;

    /// Returns the reason why a response with this [`ResponseHead`] cannot be used, before its body
    /// is read.
    fn objection(&self, _prepared: &mut Self::Prepared, _head: &ResponseHead) -> Option<String> {
        None
    }

    /// Receives the body of a final response that is not a redirect.
    ///
    /// # Errors
    /// Returns a [`ReadError`] if the body cannot be received.
    fn receive(
        &self,
        answer: UnreadAnswer<'_>,
        prepared: Self::Prepared,
    ) -> impl Future<Output = Result<DeliveredBody<Self::Received>, ReadError>> + Send;

    /// Ends the attempt: settles the permits, or passes them to the body.
    fn conclude(
        received: Self::Received,
        conclusion: AttemptConclusion<'_>,
    ) -> impl Future<Output = Self::Output> + Send;
}

/// A stored body, or a part of one. A damaged body ends with an error before its last piece.
pub(crate) struct CachedBody {
    reader: StoredReader,
    /// The number of bytes before the part.
    skip: u64,
    /// The number of bytes of the part that are left.
    left: u64,
    /// The last piece, kept until the rest of the body is verified.
    last: Option<Bytes>,
}

impl CachedBody {
    /// Creates the reader of a stored body, or of the [`ByteRange`] `part` of it.
    pub(crate) fn new(mut reader: StoredReader, part: Option<ByteRange>) -> Self {
        let first = part.map_or(0, |part| part.first);
        let skipped = if first > 0 { reader.skip(first) } else { 0 };
        Self {
            reader,
            skip: first - skipped,
            left: part.map_or(u64::MAX, ByteRange::bytes),
            last: None,
        }
    }

    /// Returns the next piece, or `None` at the end.
    ///
    /// # Errors
    /// Returns a [`StoredBodyError`] if the body is damaged.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, StoredBodyError> {
        while self.left > 0 && self.last.is_none() {
            let Some(mut piece) = self.reader.next().await.transpose()? else {
                return Ok(None);
            };
            let skipped = self.skip.min(piece.len() as u64);
            self.skip -= skipped;
            // Both values are at most the length of the piece.
            let _ = piece.split_to(usize::try_from(skipped).unwrap_or(piece.len()));
            piece.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
            self.left -= piece.len() as u64;
            if self.left == 0 {
                self.last = Some(piece);
            } else if !piece.is_empty() {
                return Ok(Some(piece));
            }
        }
        // The checksum covers the whole body, and is checked at its end.
        while self.last.is_some() && !self.reader.is_verified() {
            if self.reader.next().await.transpose()?.is_none() {
                break;
            }
        }
        Ok(self.last.take())
    }

    /// Returns whether every piece has been read.
    pub(crate) fn is_at_end(&self) -> bool {
        self.last.is_none() && (self.left == 0 || self.reader.is_at_end())
    }

    /// Reads a whole body into memory.
    ///
    /// # Errors
    /// Returns [`ServeFailure::Damaged`] if the body is damaged.
    pub(crate) async fn collect(&mut self) -> Result<Bytes, ServeFailure> {
        let read = self.reader.read_to_end().await;
        read.map_err(|_| ServeFailure::Damaged)
    }
}

/// The headers of a response, and the reader of its body.
pub(crate) struct UnreadAnswer<'a> {
    pub(super) url: &'a Url,
    pub(super) method: &'a Method,
    pub(super) head: &'a ResponseHead,
    pub(super) reader: &'a mut BodyReader,
}

/// An attempt whose response is final and whose body was received, with its unsettled permits.
pub(crate) struct AttemptConclusion<'a> {
    pub(crate) reader: BodyReader,
    pub(crate) permits: Permits,
    pub(crate) report: AttemptResult,
    pub(crate) target: &'a RoutedHop,
    pub(crate) track: &'a RequestTrack,
}

impl AttemptConclusion<'_> {
    /// Reports the end of the attempt to breakers and limits.
    async fn settle(self) {
        let Self {
            reader,
            permits,
            report,
            target,
            track,
        } = self;
        // The connection becomes free before the slot.
        drop(reader);
        permits.settle(AttemptReport::Origin(report), track).await;
        track.note(&target.host, target.role, || EventKind::Settled {
            outcome: report.outcome,
        });
    }
}

/// The delivery of a body in memory.
pub(crate) struct ToMemory;

impl Delivery for ToMemory {
    type Prepared = ();
    type Received = Bytes;
    type Output = Bytes;

    fn prepare(&self, _url: &Url, _headers: &mut HeaderMap) {}

    async fn receive(
        &self,
        answer: UnreadAnswer<'_>,
        (): (),
    ) -> Result<DeliveredBody<Bytes>, ReadError> {
        answer.reader.check_announced()?;
        Ok(DeliveredBody::Body(answer.reader.collect().await?))
    }

    async fn deliver_stored(
        &self,
        _head: &ResponseHead,
        mut body: CachedBody,
    ) -> Result<DeliveredBody<Bytes>, ServeFailure> {
        Ok(DeliveredBody::Body(body.collect().await?))
    }

    async fn conclude(body: Bytes, conclusion: AttemptConclusion<'_>) -> Bytes {
        conclusion.settle().await;
        body
    }
}

/// The delivery of a small body in memory, and of a large one in a file without a name.
pub(crate) struct ToSpool {
    /// Maximum number of bytes in memory.
    pub(crate) keep: usize,
}

impl Delivery for ToSpool {
    type Prepared = ();
    type Received = SpooledBody;
    type Output = SpooledBody;

    fn prepare(&self, _url: &Url, _headers: &mut HeaderMap) {}

    async fn receive(
        &self,
        answer: UnreadAnswer<'_>,
        (): (),
    ) -> Result<DeliveredBody<SpooledBody>, ReadError> {
        answer.reader.check_announced()?;
        let mut spool = Spool::new(self.keep);
        while let Some(piece) = answer.reader.next().await? {
            spool.write(&piece).map_err(|source| ReadError::File {
                path: std::env::temp_dir().display().to_string(),
                source,
            })?;
        }
        Ok(DeliveredBody::Body(spool.finish()))
    }

    async fn deliver_stored(
        &self,
        _head: &ResponseHead,
        mut body: CachedBody,
    ) -> Result<DeliveredBody<SpooledBody>, ServeFailure> {
        let mut spool = Spool::new(self.keep);
        while let Some(piece) = body.next().await.map_err(|_| ServeFailure::Damaged)? {
            spool.write(&piece).map_err(|source| {
                ServeFailure::Failed(ErrorKind::File {
                    path: std::env::temp_dir().display().to_string(),
                    source,
                })
            })?;
        }
        Ok(DeliveredBody::Body(spool.finish()))
    }

    async fn conclude(body: SpooledBody, conclusion: AttemptConclusion<'_>) -> SpooledBody {
        conclusion.settle().await;
        body
    }
}

/// The delivery to the cache only: the body is read to its end and dropped.
pub(crate) struct ToCache;

impl Delivery for ToCache {
    type Prepared = ();
    type Received = ();
    type Output = ();

    fn prepare(&self, _url: &Url, _headers: &mut HeaderMap) {}

    async fn receive(
        &self,
        answer: UnreadAnswer<'_>,
        (): (),
    ) -> Result<DeliveredBody<()>, ReadError> {
        while answer.reader.next().await?.is_some() {}
        Ok(DeliveredBody::Body(()))
    }

    async fn deliver_stored(
        &self,
        _head: &ResponseHead,
        _body: CachedBody,
    ) -> Result<DeliveredBody<()>, ServeFailure> {
        Ok(DeliveredBody::Body(()))
    }

    async fn conclude((): (), conclusion: AttemptConclusion<'_>) {
        conclusion.settle().await;
    }
}

/// The delivery of a body that the caller reads.
pub(crate) struct ToStream;

/// A body for the caller to read.
pub(crate) enum OpenedBody {
    /// A body that is arriving from the origin.
    Live(Box<OpenBody>),
    /// A body from the cache.
    Stored(CachedBody),
}

impl Delivery for ToStream {
    type Prepared = ();
    type Received = ();
    type Output = OpenedBody;

    const STREAMS: bool = true;

    fn prepare(&self, _url: &Url, _headers: &mut HeaderMap) {}

    async fn receive(
        &self,
        _answer: UnreadAnswer<'_>,
        (): (),
    ) -> Result<DeliveredBody<()>, ReadError> {
        Ok(DeliveredBody::Body(()))
    }

    async fn deliver_stored(
        &self,
        _head: &ResponseHead,
        body: CachedBody,
    ) -> Result<DeliveredBody<OpenedBody>, ServeFailure> {
        Ok(DeliveredBody::Body(OpenedBody::Stored(body)))
    }

    async fn conclude((): (), conclusion: AttemptConclusion<'_>) -> OpenedBody {
        let report = conclusion.report;
        OpenedBody::Live(Box::new(OpenBody {
            reader: conclusion.reader,
            permits: conclusion
                .permits
                .stream(report.sent, conclusion.track)
                .await,
            report,
            host: conclusion.target.host.clone(),
            role: conclusion.target.role,
        }))
    }
}
