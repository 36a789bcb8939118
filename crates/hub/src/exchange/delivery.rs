//! Deliveries: what becomes of the body of a final answer. Each has its own output type.
//!
//! Memory and file are read inside the attempt, so that a body that breaks off is a failed attempt.
//! A stream is left to the caller: it holds the permits and settles them at its end.

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

/// How much is read of an answer that the caller does not want.
pub(super) const PREVIEW_BYTES: usize = 64 << 10;

/// A body, or the beginning of one that the delivery is not for: an error page, a redirect.
pub(crate) enum DeliveredBody<T> {
    /// As the delivery says.
    Body(T),
    /// The beginning, in memory.
    Preview(Bytes),
}

/// What is done with the body of a final answer.
pub(crate) trait Delivery: Sync {
    /// What is known before the request is sent.
    type Prepared: Send;
    /// What the body is once the attempt has received it.
    type Received: Send;
    /// What the caller gets.
    type Output: Send;

    /// Whether the body is read after the attempt, by the caller.
    const STREAMS: bool = false;

    /// Returns the cap of the body, in bytes, unless the request has its own.
    fn cap(&self, config: &TransportConfig) -> u64 {
        config.max_body
    }

    /// Returns whether the cache may answer, and store what comes.
    fn may_be_cached(&self) -> bool {
        true
    }

    /// Delivers a body that the cache has.
    fn deliver_stored(
        &self,
        head: &ResponseHead,
        body: CachedBody,
    ) -> impl Future<Output = Result<DeliveredBody<Self::Output>, ServeFailure>> + Send;

    /// Prepares the request; may ask for a part of the body only.
    fn prepare(&self, url: &Url, headers: &mut HeaderMap) -> Self::Prepared;

    /// Returns why an answer cannot be used, before its body is read.
    fn objection(&self, _prepared: &mut Self::Prepared, _head: &ResponseHead) -> Option<String> {
        None
    }

    /// Receives the body of an answer that is final and no redirect.
    fn receive(
        &self,
        answer: UnreadAnswer<'_>,
        prepared: Self::Prepared,
    ) -> impl Future<Output = Result<DeliveredBody<Self::Received>, ReadError>> + Send;

    /// Ends the attempt: settles the permits, or hands them to the body.
    fn conclude(
        received: Self::Received,
        conclusion: AttemptConclusion<'_>,
    ) -> impl Future<Output = Self::Output> + Send;
}

/// A body that the cache has, or a part of it. A damaged one ends with an error before its last
/// piece.
pub(crate) struct CachedBody {
    reader: StoredReader,
    /// How many bytes come before the part.
    skip: u64,
    /// How many bytes of the part are left.
    left: u64,
    /// The last piece, while the rest of the body is verified.
    last: Option<Bytes>,
}

impl CachedBody {
    /// Reads a body, or a part of it.
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
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, StoredBodyError> {
        while self.left > 0 && self.last.is_none() {
            let Some(mut piece) = self.reader.next().await.transpose()? else {
                return Ok(None);
            };
            let skipped = self.skip.min(piece.len() as u64);
            self.skip -= skipped;
            // Both are at most the length of the piece.
            let _ = piece.split_to(usize::try_from(skipped).unwrap_or(piece.len()));
            piece.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
            self.left -= piece.len() as u64;
            if self.left == 0 {
                self.last = Some(piece);
            } else if !piece.is_empty() {
                return Ok(Some(piece));
            }
        }
        // The checksum is that of the whole, and is judged at its end.
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
    pub(crate) async fn collect(&mut self) -> Result<Bytes, ServeFailure> {
        let read = self.reader.read_to_end().await;
        read.map_err(|_| ServeFailure::Damaged)
    }
}

/// The headers of an answer, and the reader of its body.
pub(crate) struct UnreadAnswer<'a> {
    pub(super) url: &'a Url,
    pub(super) method: &'a Method,
    pub(super) head: &'a ResponseHead,
    pub(super) reader: &'a mut BodyReader,
}

/// An attempt whose body was received.
pub(crate) struct AttemptConclusion<'a> {
    pub(crate) reader: BodyReader,
    pub(crate) permits: Permits,
    pub(crate) report: AttemptResult,
    pub(crate) target: &'a RoutedHop,
    pub(crate) track: &'a RequestTrack,
}

impl AttemptConclusion<'_> {
    /// Reports that the attempt has ended well.
    async fn settle(self) {
        let Self {
            reader,
            permits,
            report,
            target,
            track,
        } = self;
        // The connection is free before the slot is.
        drop(reader);
        permits.settle(AttemptReport::Origin(report), track).await;
        track.note(&target.host, target.role, || EventKind::Settled {
            outcome: report.outcome,
        });
    }
}

/// Kept in memory.
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

/// Kept in memory as far as it is small, else in a file without a name.
pub(crate) struct ToSpool {
    /// How many bytes are kept in memory.
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

/// Read to its end for the cache alone.
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

/// Left to the caller.
pub(crate) struct ToStream;

/// A body for the caller to read.
pub(crate) enum OpenedBody {
    /// It is arriving from the origin.
    Live(Box<OpenBody>),
    /// The cache has it.
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
