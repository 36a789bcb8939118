//! Deliveries: the ways in which the body of a final response reaches the caller.
//!
//! Each [`Delivery`] has its own output type. A body for memory or a file is read during the
//! attempt, so that the attempt fails if the body breaks off. A streamed body is read by the caller
//! after the attempt. Such a body keeps the permits of the attempt, and settles them at its end.

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

/// The body of a response in the form of the delivery or, if the caller does not need it, its
/// beginning.
pub(crate) enum DeliveredBody<T> {
    /// The body in the form of the delivery.
    Body(T),
    /// The beginning of a body that is not delivered, such as an error page.
    Preview(Bytes),
}

/// A way in which the body of a final response reaches the caller.
pub(crate) trait Delivery: Sync {
    /// The data that the delivery keeps from preparing the request until receiving the response.
    type Prepared: Send;
    /// The body after it was received, while the attempt is not settled.
    type Received: Send;
    /// The body in the form in which the caller receives it.
    type Output: Send;

    /// `true` if the caller reads the body after the attempt.
    const STREAMS: bool = false;

    /// Returns the maximum size of the body in bytes, for requests that do not set their own.
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

    /// Prepares the request before it is sent, for example by headers that request a part of the
    /// body.
    fn prepare(&self, url: &Url, headers: &mut HeaderMap) -> Self::Prepared;

    /// Returns the reason why the response with this [`ResponseHead`] cannot be used; `None` if it
    /// can. Its body has not been read yet.
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

    /// Ends the attempt: settles its permits, or passes them to the body, which settles them at its
    /// end.
    fn conclude(
        received: Self::Received,
        conclusion: AttemptConclusion<'_>,
    ) -> impl Future<Output = Self::Output> + Send;
}

/// A stored body, or a part of one. If the body is damaged, reading ends with an error before the
/// last piece is returned.
pub(crate) struct CachedBody {
    reader: StoredReader,
    /// The number of bytes to skip before the part begins.
    skip: u64,
    /// The number of bytes of the part that have not been read yet.
    left: u64,
    /// The last piece, kept back until the checksum of the whole body is verified.
    last: Option<Bytes>,
}

impl CachedBody {
    /// Creates the reader of a stored body; of the [`ByteRange`] `part` of it, if given.
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

    /// Returns the next piece; `None` at the end.
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
        // The checksum covers the whole body, so the rest of it is read before the last piece is
        // returned.
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

/// A response whose body has not been read: its headers, and the reader of the body.
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
        // The connection becomes free before the slot, so that the next request can reuse it.
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

/// The delivery that keeps a small body in memory, and writes a large one to a file without a name.
pub(crate) struct ToSpool {
    /// Maximum number of bytes of the body in memory.
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

/// The delivery to the cache alone: the body is read to its end, and not returned.
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

/// The delivery of a body as a stream, which the caller reads.
pub(crate) struct ToStream;

/// A body that the caller can read.
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
