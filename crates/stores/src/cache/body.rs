//! The reader of stored bodies, which verifies a body before it returns the last chunk.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use xxhash_rust::xxh3::Xxh3;

use super::disk::{DiskCore, DiskIndex};
use super::entry::{EntryBody, EntryId};
use super::reply::CacheReply;

/// The number of bytes of a file that are read at once.
pub(super) const READ_CHUNK_BYTES: usize = 256 * 1024;

/// A stored body that is damaged. Its entry is dropped, and the chunks read so far are not the
/// response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stored body of {url} {why}; its entry was removed from the cache: request it again")]
pub struct StoredBodyError {
    /// The URL for display.
    pub url: String,
    /// The damage, in words.
    pub why: String,
}

/// An open body file.
pub(super) struct FileBody {
    pub(super) file: File,
    pub(super) length: u64,
    pub(super) id: EntryId,
    pub(super) url: Box<str>,
    pub(super) core: Arc<DiskCore>,
    /// Set if the file was read to its end before, and its checksum was correct.
    pub(super) verified: AtomicBool,
}

/// The progress of reading and verifying a file.
struct VerifyProgress {
    offset: u64,
    /// The hasher; `None` if a verified file is read in part.
    hasher: Option<Box<Xxh3>>,
}

impl FileBody {
    /// Reads the next chunk. The last chunk is returned only if the checksum of the whole body is
    /// correct. A damaged body is dropped before its [`StoredBodyError`] is returned.
    fn read(
        &self,
        index: &mut DiskIndex,
        mut progress: VerifyProgress,
    ) -> Result<(Bytes, VerifyProgress), StoredBodyError> {
        let left = self.length - progress.offset;
        let wanted =
            usize::try_from(left).map_or(READ_CHUNK_BYTES, |left| left.min(READ_CHUNK_BYTES));
        let mut chunk = vec![0; wanted];
        self.file
            .read_exact_at(&mut chunk, progress.offset)
            .map_err(|error| self.damaged(index, &format!("cannot be read ({error})")))?;
        progress.offset += wanted as u64;
        if let Some(hasher) = &mut progress.hasher {
            hasher.update(&chunk);
            if progress.offset == self.length {
                if hasher.digest() != self.id.checksum {
                    return Err(self.damaged(index, "does not match its checksum"));
                }
                self.verified.store(true, Ordering::Release);
            }
        }
        Ok((chunk.into(), progress))
    }

    fn damaged(&self, index: &mut DiskIndex, why: &str) -> StoredBodyError {
        self.core.drop_damaged(index, &self.id, &self.url, why);
        self.unreadable(why)
    }

    fn unreadable(&self, why: &str) -> StoredBodyError {
        StoredBodyError {
            url: self.url.to_string(),
            why: why.to_owned(),
        }
    }
}

type ReadReply = CacheReply<Option<Result<(Bytes, VerifyProgress), StoredBodyError>>>;

enum BodySource {
    Whole(Bytes),
    File {
        body: Arc<FileBody>,
        progress: Option<VerifyProgress>,
        reading: Option<ReadReply>,
    },
    Ended,
}

/// A reader of a stored body. A body that fails its verification ends with an error instead of its
/// last chunk, so that a damaged body is never complete.
pub struct StoredBodyReader(BodySource);

impl StoredBodyReader {
    pub(super) fn new(body: &EntryBody) -> Self {
        Self(match body {
            EntryBody::Whole(bytes) => BodySource::Whole(bytes.clone()),
            EntryBody::File(body) => BodySource::File {
                body: Arc::clone(body),
                progress: Some(VerifyProgress {
                    offset: 0,
                    hasher: Some(Box::new(Xxh3::new())),
                }),
                reading: None,
            },
        })
    }

    /// Returns whether the body is known to be correct before the last chunk is read. This is so if
    /// the body is in memory, or if an earlier reader verified its file.
    #[must_use]
    pub fn is_verified(&self) -> bool {
        match &self.0 {
            BodySource::Whole(_) | BodySource::Ended => true,
            BodySource::File { body, .. } => body.verified.load(Ordering::Acquire),
        }
    }

    /// Returns whether every chunk has been read.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        match &self.0 {
            BodySource::Ended => true,
            BodySource::Whole(rest) => rest.is_empty(),
            BodySource::File { body, progress, .. } => progress
                .as_ref()
                .is_some_and(|progress| progress.offset == body.length),
        }
    }

    /// Skips the beginning of a verified body before the first read. Returns the number of skipped
    /// bytes; zero if these bytes are needed to verify the rest.
    pub fn skip(&mut self, bytes: u64) -> u64 {
        let is_verified = self.is_verified();
        match &mut self.0 {
            BodySource::Whole(whole) => {
                let bytes = usize::try_from(bytes).map_or(whole.len(), |it| it.min(whole.len()));
                let _ = whole.split_to(bytes);
                bytes as u64
            }
            BodySource::File {
                body,
                progress: Some(progress),
                ..
            } if is_verified && progress.offset == 0 => {
                progress.hasher = None;
                progress.offset = bytes.min(body.length);
                progress.offset
            }
            BodySource::File { .. } | BodySource::Ended => 0,
        }
    }

    /// Returns the next chunk, and `None` at the end. No data is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<Result<Bytes, StoredBodyError>> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// Polls for the next chunk, as a stream does.
    pub fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, StoredBodyError>>> {
        match &mut self.0 {
            BodySource::Ended => Poll::Ready(None),
            BodySource::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                self.0 = BodySource::Ended;
                Poll::Ready((!bytes.is_empty()).then_some(Ok(bytes)))
            }
            BodySource::File {
                body,
                progress,
                reading,
            } => {
                if let Some(from) = progress.take() {
                    if from.offset == body.length {
                        self.0 = BodySource::Ended;
                        return Poll::Ready(None);
                    }
                    *reading = Some(start(body, from));
                }
                let Some(reply) = reading else {
                    return Poll::Ready(None);
                };
                let read = ready!(Pin::new(reply).poll(context));
                let read = read.unwrap_or_else(|| Err(body.unreadable("cannot be read")));
                let chunk = match read {
                    Ok((chunk, to)) => {
                        *progress = Some(to);
                        Ok(chunk)
                    }
                    Err(error) => {
                        self.0 = BodySource::Ended;
                        Err(error)
                    }
                };
                Poll::Ready(Some(chunk))
            }
        }
    }

    /// Reads the rest of the body to memory.
    ///
    /// # Errors
    /// Returns [`StoredBodyError`] if the body is damaged.
    pub async fn read_to_end(&mut self) -> Result<Bytes, StoredBodyError> {
        let Some(first) = self.next().await.transpose()? else {
            return Ok(Bytes::new());
        };
        let Some(second) = self.next().await.transpose()? else {
            return Ok(first);
        };
        let mut whole = [first, second].concat();
        while let Some(chunk) = self.next().await.transpose()? {
            whole.extend_from_slice(&chunk);
        }
        Ok(whole.into())
    }
}

/// Starts to read the next chunk on a thread of the store, or on this thread if those have ended.
fn start(body: &Arc<FileBody>, from: VerifyProgress) -> ReadReply {
    let (sender, reply) = CacheReply::later(None);
    let of = Arc::clone(body);
    body.core.in_files(Box::new(move |index| {
        let _ = sender.send(Some(of.read(index, from)));
    }));
    reply
}
