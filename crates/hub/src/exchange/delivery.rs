//! Deliveries: what becomes of the body of a final answer. Each has its own output type.
//!
//! Memory and file are read inside the attempt, so that a body that breaks off is a failed attempt.
//! A stream is left to the caller: it holds the permits and settles them at its end.

use std::future::Future;

use bytes::Bytes;
use docstokg_policy::site::Report;
use http::header::HeaderMap;
use http::{Method, StatusCode};
use url::Url;

use super::receive::ReadError;
use crate::admission::{Ending, Permits};
use crate::body::{BodyError, BodyReader};
use crate::config::{Durability, TransportConfig};
use crate::download::{FileTarget, PartFile, Partial, Start};
use crate::event::What;
use crate::hub::Inner;
use crate::journey::Track;
use crate::response::{Head, SavedFile};
use crate::spool::{Spool, SpooledBody};
use crate::stream::OpenBody;
use crate::target::Target;

/// How much is read of an answer that the caller does not want.
pub(super) const PREVIEW_BYTES: usize = 64 << 10;

/// A body, or the beginning of one that the delivery is not for: an error page, a redirect.
pub(crate) enum Delivered<T> {
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

    /// Prepares the request; may ask for a part of the body only.
    fn prepare(&self, url: &Url, headers: &mut HeaderMap) -> Self::Prepared;

    /// Returns why an answer cannot be used, before its body is read.
    fn objection(&self, _prepared: &mut Self::Prepared, _head: &Head) -> Option<String> {
        None
    }

    /// Receives the body of an answer that is final and no redirect.
    fn receive(
        &self,
        hub: &Inner,
        answer: UnreadAnswer<'_>,
        prepared: Self::Prepared,
    ) -> impl Future<Output = Result<Delivered<Self::Received>, ReadError>> + Send;

    /// Ends the attempt: settles the permits, or hands them to the body.
    fn conclude(
        received: Self::Received,
        conclusion: Conclusion<'_>,
    ) -> impl Future<Output = Self::Output> + Send;
}

/// The headers of an answer, and the reader of its body.
pub(crate) struct UnreadAnswer<'a> {
    pub(super) url: &'a Url,
    pub(super) method: &'a Method,
    pub(super) head: &'a Head,
    pub(super) reader: &'a mut BodyReader,
}

/// An attempt whose body was received.
pub(crate) struct Conclusion<'a> {
    pub(crate) reader: BodyReader,
    pub(crate) permits: Permits,
    pub(crate) report: Report,
    pub(crate) target: &'a Target,
    pub(crate) track: &'a Track,
}

impl Conclusion<'_> {
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
        permits.settle(Ending::Origin(report), track).await;
        track.note(&target.host, target.role, || What::Settled {
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
        _hub: &Inner,
        answer: UnreadAnswer<'_>,
        (): (),
    ) -> Result<Delivered<Bytes>, ReadError> {
        answer.reader.check_announced()?;
        Ok(Delivered::Body(answer.reader.collect().await?))
    }

    async fn conclude(body: Bytes, conclusion: Conclusion<'_>) -> Bytes {
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
        _hub: &Inner,
        answer: UnreadAnswer<'_>,
        (): (),
    ) -> Result<Delivered<SpooledBody>, ReadError> {
        answer.reader.check_announced()?;
        let mut spool = Spool::new(self.keep);
        while let Some(piece) = answer.reader.next().await? {
            spool.write(&piece).map_err(|source| ReadError::File {
                path: std::env::temp_dir().display().to_string(),
                source,
            })?;
        }
        Ok(Delivered::Body(spool.finish()))
    }

    async fn conclude(body: SpooledBody, conclusion: Conclusion<'_>) -> SpooledBody {
        conclusion.settle().await;
        body
    }
}

/// Left to the caller.
pub(crate) struct ToStream;

impl Delivery for ToStream {
    type Prepared = ();
    type Received = ();
    type Output = OpenBody;

    const STREAMS: bool = true;

    fn prepare(&self, _url: &Url, _headers: &mut HeaderMap) {}

    async fn receive(
        &self,
        _hub: &Inner,
        _answer: UnreadAnswer<'_>,
        (): (),
    ) -> Result<Delivered<()>, ReadError> {
        Ok(Delivered::Body(()))
    }

    async fn conclude((): (), conclusion: Conclusion<'_>) -> OpenBody {
        let Report { outcome, sent, .. } = conclusion.report;
        OpenBody {
            reader: conclusion.reader,
            permits: conclusion.permits.stream(sent, conclusion.track).await,
            outcome,
            sent,
            host: conclusion.target.host.clone(),
            role: conclusion.target.role,
        }
    }
}

/// What an unfinished download has, and from where on the rest was asked for.
pub(crate) struct Unfinished {
    partial: Option<Partial>,
    rest: Option<u64>,
    start: Start,
}

/// Written to a file.
impl Delivery for FileTarget {
    type Prepared = Unfinished;
    type Received = SavedFile;
    type Output = SavedFile;

    fn cap(&self, config: &TransportConfig) -> u64 {
        config.max_file
    }

    fn prepare(&self, url: &Url, headers: &mut HeaderMap) -> Unfinished {
        let mut partial = self.resume.then(|| Partial::of(&self.path));
        let rest = partial
            .as_mut()
            .and_then(|partial| partial.ask_for_rest(url, headers));
        Unfinished {
            partial,
            rest,
            start: Start::Anew,
        }
    }

    fn objection(&self, prepared: &mut Unfinished, head: &Head) -> Option<String> {
        if let Some(partial) = &mut prepared.partial {
            prepared.start = partial.start(prepared.rest, head.status, &head.headers);
            if prepared.start == Start::Useless && prepared.rest.is_some() {
                partial.forget();
                return Some(format!(
                    "the rest of the file was requested, and {} is no answer to that",
                    head.status
                ));
            }
        } else if head.status == StatusCode::PARTIAL_CONTENT {
            return Some(
                "it answered with a part of the file that was not requested (206)".to_owned(),
            );
        }
        None
    }

    async fn receive(
        &self,
        hub: &Inner,
        answer: UnreadAnswer<'_>,
        prepared: Unfinished,
    ) -> Result<Delivered<SavedFile>, ReadError> {
        // A part that was not requested is no file.
        let is_file = answer.head.status.is_success()
            && *answer.method != Method::HEAD
            && prepared.start != Start::Useless;
        if is_file {
            let saved = self.write(hub, answer, prepared).await;
            saved.map(Delivered::Body)
        } else {
            let preview = answer.reader.preview(PREVIEW_BYTES).await?;
            Ok(Delivered::Preview(preview))
        }
    }

    async fn conclude(saved: SavedFile, conclusion: Conclusion<'_>) -> SavedFile {
        conclusion.settle().await;
        saved
    }
}

impl FileTarget {
    async fn write(
        &self,
        hub: &Inner,
        answer: UnreadAnswer<'_>,
        prepared: Unfinished,
    ) -> Result<SavedFile, ReadError> {
        let UnreadAnswer {
            url, head, reader, ..
        } = answer;
        reader.check_announced()?;
        let failed = |source| ReadError::File {
            path: self.path.display().to_string(),
            source,
        };
        let resumes = prepared.partial.is_some();
        let mut part = match prepared.partial {
            Some(partial) => {
                let mut part =
                    PartFile::resume(&self.path, partial, prepared.start).map_err(failed)?;
                part.note_begun(url, &head.headers, reader.expected());
                part
            }
            None => PartFile::create(&self.path, hub.random.number()).map_err(failed)?,
        };
        loop {
            match reader.next().await {
                Ok(Some(piece)) => part.write(&piece).await.map_err(failed)?,
                Ok(None) => break,
                Err(error) => {
                    let broke_off = matches!(error, BodyError::Fault(..) | BodyError::Deadline);
                    if resumes && broke_off {
                        part.note_broken_off(url, &head.headers);
                    }
                    return Err(error.into());
                }
            }
        }
        // A caller that resumes gives the file its final name later, and makes it durable then.
        let durability = if self.resume {
            Durability::None
        } else {
            hub.config.transport.durability
        };
        part.finish(durability, &hub.syncer).await.map_err(failed)
    }
}
