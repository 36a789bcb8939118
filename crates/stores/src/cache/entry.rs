//! A stored response.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use docstokg_policy::time::Timestamp;

use super::body::{FileBody, StoredBodyReader};
use super::key::{CacheKey, VariantHash};

/// The location of the body of an entry.
#[derive(Clone)]
pub(super) enum EntryBody {
    /// A verified body in memory.
    Whole(Bytes),
    /// An open file, which is verified while it is read.
    File(Arc<FileBody>),
}

/// The identity of one stored response, even after another has replaced it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryId {
    pub(super) row: i64,
    pub(super) key: CacheKey,
    pub(super) variant: VariantHash,
    pub(super) checksum: u64,
}

/// A stored response: its metadata, and a handle to its body. The entry stays usable after the
/// store drops it.
pub struct CacheEntry {
    pub(super) id: EntryId,
    pub(super) metadata: Bytes,
    pub(super) url: Box<str>,
    pub(super) host: Box<str>,
    pub(super) stored_at: Timestamp,
    pub(super) length: u64,
    pub(super) body: EntryBody,
    pub(super) decoded: OnceLock<Box<dyn Any + Send + Sync>>,
    /// The time of the last use, in microseconds of wall time.
    pub(super) used_at: AtomicI64,
}

impl CacheEntry {
    /// Returns the [`CacheKey`] of its resource.
    #[must_use]
    pub fn key(&self) -> &CacheKey {
        &self.id.key
    }

    /// Returns the [`VariantHash`] of its variant.
    #[must_use]
    pub fn variant(&self) -> &VariantHash {
        &self.id.variant
    }

    /// Returns the metadata as it was stored.
    #[must_use]
    pub fn metadata(&self) -> &Bytes {
        &self.metadata
    }

    /// Returns the metadata as `decode` parses it. An entry that stays in memory is decoded once.
    pub fn decoded<T: Send + Sync + 'static>(
        &self,
        decode: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Option<&Arc<T>> {
        if self.decoded.get().is_none() {
            // Another thread may have stored the same decoded value meanwhile.
            let _ = self
                .decoded
                .set(Box::new(Arc::new(decode(&self.metadata)?)));
        }
        self.decoded.get()?.downcast_ref()
    }

    /// Returns the URL for display.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the host.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns when the response was stored; an update of its metadata does not change this time.
    #[must_use]
    pub fn stored_at(&self) -> Timestamp {
        self.stored_at
    }

    /// Returns the length of the body in bytes.
    #[must_use]
    pub fn body_length(&self) -> u64 {
        self.length
    }

    /// Returns the body if it is in memory, as that of every small response is.
    #[must_use]
    pub fn body_in_memory(&self) -> Option<Bytes> {
        match &self.body {
            EntryBody::Whole(body) => Some(body.clone()),
            EntryBody::File(_) => None,
        }
    }

    /// Returns a [`StoredBodyReader`] from the start of the body.
    #[must_use]
    pub fn body(&self) -> StoredBodyReader {
        StoredBodyReader::new(&self.body)
    }
}

impl fmt::Debug for CacheEntry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Entry")
            .field("url", &self.url)
            .field("length", &self.length)
            .field("stored_at", &self.stored_at)
            .finish_non_exhaustive()
    }
}

/// The stored variants of a resource, the newest first; empty for a miss.
#[derive(Clone, Debug, Default)]
pub struct Variants(pub(super) Arc<[Arc<CacheEntry>]>);

impl Deref for Variants {
    type Target = [Arc<CacheEntry>];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
