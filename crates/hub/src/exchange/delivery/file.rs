//! Delivers a body to a file, which may continue an unfinished one.

use http::header::HeaderMap;
use http::{Method, StatusCode};
use url::Url;

use super::{
    AttemptConclusion, CachedBody, DeliveredBody, Delivery, PREVIEW_BYTES, ReadError, UnreadAnswer,
};
use crate::body::BodyError;
use crate::cache::ServeFailure;
use crate::config::TransportConfig;
use crate::download::{FileTarget, PartFile, ResumableDownload, ResumeStart};
use crate::error::ErrorKind;
use crate::response::{ResponseHead, SavedFile};

/// The part file of an unfinished download, and the position in it from which the rest was
/// requested.
pub(crate) struct UnfinishedDownload {
    partial: Option<ResumableDownload>,
    rest: Option<u64>,
    start: ResumeStart,
}

/// The delivery that writes the body to a file.
impl Delivery for FileTarget<'_> {
    type Prepared = UnfinishedDownload;
    type Received = SavedFile;
    type Output = SavedFile;

    fn cap(&self, config: &TransportConfig) -> u64 {
        config.max_file
    }

    fn prepare(&self, url: &Url, headers: &mut HeaderMap) -> UnfinishedDownload {
        let mut partial = self.resume.then(|| ResumableDownload::of(&self.path));
        let rest = partial
            .as_mut()
            .and_then(|partial| partial.ask_for_rest(url, headers));
        UnfinishedDownload {
            partial,
            rest,
            start: ResumeStart::Anew,
        }
    }

    fn objection(&self, prepared: &mut UnfinishedDownload, head: &ResponseHead) -> Option<String> {
        if let Some(partial) = &mut prepared.partial {
            prepared.start = partial.start(prepared.rest, head.status, &head.headers);
            if prepared.start == ResumeStart::Useless && prepared.rest.is_some() {
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
        answer: UnreadAnswer<'_>,
        prepared: UnfinishedDownload,
    ) -> Result<DeliveredBody<SavedFile>, ReadError> {
        // A part that was not requested is not the file.
        let is_file = answer.head.status.is_success()
            && *answer.method != Method::HEAD
            && prepared.start != ResumeStart::Useless;
        if is_file {
            let saved = self.write(answer, prepared).await;
            saved.map(DeliveredBody::Body)
        } else {
            let preview = answer.reader.preview(PREVIEW_BYTES).await?;
            Ok(DeliveredBody::Preview(preview))
        }
    }

    fn may_be_cached(&self) -> bool {
        // The cache cannot serve the rest of an unfinished file, which has a validator of its own.
        !self.resume
    }

    async fn deliver_stored(
        &self,
        head: &ResponseHead,
        mut body: CachedBody,
    ) -> Result<DeliveredBody<SavedFile>, ServeFailure> {
        if !head.status.is_success() {
            return Ok(DeliveredBody::Preview(body.collect().await?));
        }
        let failed = |source| {
            ServeFailure::Failed(ErrorKind::File {
                path: self.path.display().to_string(),
                source,
            })
        };
        let mut part = self.files.create(&self.path).map_err(failed)?;
        while let Some(piece) = body.next().await.map_err(|_| ServeFailure::Damaged)? {
            part.write(&piece).await.map_err(failed)?;
        }
        let saved = self.files.finish(part).await.map_err(failed)?;
        Ok(DeliveredBody::Body(saved))
    }

    async fn conclude(saved: SavedFile, conclusion: AttemptConclusion<'_>) -> SavedFile {
        conclusion.settle().await;
        saved
    }
}

impl FileTarget<'_> {
    async fn write(
        &self,
        answer: UnreadAnswer<'_>,
        prepared: UnfinishedDownload,
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
            None => self.files.create(&self.path).map_err(failed)?,
        };
        let transfer = self.transfer.as_deref();
        if let Some(transfer) = transfer {
            transfer.begin(part.bytes(), reader.expected());
        }
        loop {
            match reader.next().await {
                Ok(Some(piece)) => {
                    part.write(&piece).await.map_err(failed)?;
                    if let Some(transfer) = transfer {
                        transfer.receive(piece.len() as u64);
                    }
                }
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
        // The caller of a resumable download renames the file once more, which makes it durable.
        let finished = if self.resume {
            self.files.finish_for_now(part).await
        } else {
            self.files.finish(part).await
        };
        finished.map_err(failed)
    }
}
