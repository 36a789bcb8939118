//! The storing of a response while its body arrives.
//!
//! Small bodies stay in memory until the commit. Larger bodies go to a temporary file, one chunk
//! behind the network. A response is visible only after the commit, and a dropped writer leaves no
//! trace.

use std::sync::Arc;

use bytes::Bytes;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::body::READ_CHUNK_BYTES;
use super::disk::{DiskCore, TemporaryBody};
use super::key::{MAX_METADATA, NewEntry};
use super::memory::MemoryCache;
use super::reply::CacheReply;

/// The result of storing a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreOutcome {
    /// The response is stored.
    Yes,
    /// The body or the metadata are too large.
    TooLarge,
    /// The key was invalidated, or the cache purged, since the request was sent.
    Invalidated,
    /// The cache cannot be written, as a warning explains.
    Failed,
}

/// The destination of a response.
pub(super) enum WriteTarget {
    Memory(Arc<MemoryCache>),
    Disk(Arc<DiskCore>),
    Nowhere,
}

/// The part of a body that is in a temporary file.
pub(super) struct SpilledBody {
    pub(super) file: TemporaryBody,
    pub(super) hasher: Box<Xxh3>,
    /// The buffer that was written last, for the next bytes, so that memory does not grow with the
    /// body.
    pub(super) spare: Vec<u8>,
}

/// The writer of one response: write its body, then commit.
#[must_use = "a writer that is dropped stores nothing"]
pub struct ResponseWriter {
    target: WriteTarget,
    new: Option<NewEntry>,
    buffer: Vec<u8>,
    length: u64,
    max_length: u64,
    spilled: Option<SpilledBody>,
    /// The part of the [`SpilledBody`] that is being written to the file.
    writing: Option<CacheReply<Option<SpilledBody>>>,
    /// The reason why the response will not be stored.
    given_up: Option<StoreOutcome>,
}

impl ResponseWriter {
    pub(super) fn new(target: WriteTarget, new: NewEntry) -> Self {
        let (max_length, given_up) = match &target {
            WriteTarget::Memory(cache) => (cache.max_body_bytes, None),
            WriteTarget::Disk(core) => (core.options.max_body_bytes, None),
            WriteTarget::Nowhere => (0, Some(StoreOutcome::Failed)),
        };
        let too_large = new.metadata.len() > MAX_METADATA;
        Self {
            target,
            new: Some(new.cut()),
            buffer: Vec::new(),
            length: 0,
            max_length,
            spilled: None,
            writing: None,
            given_up: given_up.or(too_large.then_some(StoreOutcome::TooLarge)),
        }
    }

    /// Returns whether the response may still be stored. If not, further writes have no effect.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.given_up.is_none()
    }

    /// Writes a part of the body. Errors are reported by [`ResponseWriter::commit`]. The call waits
    /// if the disk is slower than the network, so that memory does not grow.
    pub async fn write(&mut self, chunk: &[u8]) {
        if self.given_up.is_some() {
            return;
        }
        self.length += chunk.len() as u64;
        if self.length > self.max_length {
            self.give_up(StoreOutcome::TooLarge);
            return;
        }
        if self.buffer.capacity() < READ_CHUNK_BYTES && self.spilled.is_some() {
            // Allocates once for each of the two buffers that alternate.
            self.buffer.reserve_exact(READ_CHUNK_BYTES + chunk.len());
        }
        self.buffer.extend_from_slice(chunk);
        if self.buffer.len() >= READ_CHUNK_BYTES && matches!(self.target, WriteTarget::Disk(_)) {
            self.settle().await;
            self.spill();
        }
    }

    /// Waits for the part of the body that is being written.
    async fn settle(&mut self) {
        if let Some(writing) = &mut self.writing {
            self.spilled = writing.await;
            self.writing = None;
            if self.spilled.is_none() {
                self.give_up(StoreOutcome::Failed);
            }
        }
    }

    /// Queues a write of the buffer to the file on a thread.
    fn spill(&mut self) {
        let WriteTarget::Disk(core) = &self.target else {
            return;
        };
        if self.given_up.is_some() {
            return;
        }
        let mut spilled = self.spilled.take();
        let spare = spilled
            .as_mut()
            .map(|spilled| std::mem::take(&mut spilled.spare));
        let buffer = std::mem::replace(&mut self.buffer, spare.unwrap_or_default());
        let (sender, reply) = CacheReply::later(None);
        let writes = Arc::clone(core);
        core.in_files(Box::new(move |_| {
            let _ = sender.send(writes.spill(spilled, buffer));
        }));
        self.writing = Some(reply);
    }

    fn give_up(&mut self, why: StoreOutcome) {
        self.given_up = Some(why);
        self.buffer = Vec::new();
        self.discard();
    }

    /// Removes the written part, on a thread of the store.
    fn discard(&mut self) {
        // The thread that finds its reply dropped removes the part that is being written.
        self.writing = None;
        if let (Some(spilled), WriteTarget::Disk(core)) = (self.spilled.take(), &self.target) {
            core.in_files(Box::new(move |_| drop(spilled)));
        }
    }

    /// Stores the response, in place of an older one of the same variant. All processes see the
    /// response when the call returns.
    pub async fn commit(mut self) -> StoreOutcome {
        self.settle().await;
        if let Some(why) = self.given_up {
            return why;
        }
        let Some(new) = self.new.take() else {
            return StoreOutcome::Failed;
        };
        let buffer = std::mem::take(&mut self.buffer);
        match &self.target {
            WriteTarget::Nowhere => StoreOutcome::Failed,
            WriteTarget::Memory(cache) => {
                let checksum = xxh3_64(&buffer);
                cache.put(new, Bytes::from(buffer.into_boxed_slice()), checksum)
            }
            WriteTarget::Disk(core) => {
                let spilled = self.spilled.take();
                DiskCore::put(core, new, spilled, buffer).await
            }
        }
    }
}

impl Drop for ResponseWriter {
    fn drop(&mut self) {
        self.discard();
    }
}
