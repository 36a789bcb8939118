//! The store of HTTP responses, separate from the state of limits and breakers.
//!
//! A [`CacheStore`] keeps responses by key and variant: opaque metadata, and a body of any length.
//! The caller decides what is stored, what is fresh and which variant fits. The store never fails a
//! request: an unreadable entry is a miss, and a failed write stores nothing. Each kind of trouble
//! is reported once to the [`WarningObserver`].
//!
//! No secrets are stored: keys and variants are hashes, and the caller removes credentials from
//! URLs and metadata. A cache is in memory, or in a directory that processes share. Both return
//! [`CacheReply`]s, which are ready at once without a disk.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use docstokg_policy::time::{BootInstant, Clock};

use crate::error::StoreError;

mod admin;
mod body;
mod disk;
mod entry;
mod key;
mod lease;
mod marks;
mod memory;
mod recent;
mod reply;
mod warning;
mod writer;

pub use admin::{
    CacheStats, DamagedEntry, ListPosition, ListedEntry, MAX_DAMAGED_LISTED, RemovedEntries,
    VerificationReport,
};
pub use body::{StoredBodyError, StoredBodyReader};
pub use disk::MEMORY_AGE;
pub use entry::{CacheEntry, Variants};
pub use key::{CacheKey, InvalidationStamp, MAX_METADATA, MAX_VARIANTS, NewEntry, VariantHash};
pub use lease::{Claim, Holder, MAX_LEASE, MAX_UNCACHEABLE};
pub use reply::CacheReply;
pub use warning::{CacheTrouble, CacheWarning, WarningObserver};
pub use writer::{ResponseWriter, StoreOutcome};

use disk::{DiskCache, DiskCore};
use memory::MemoryCache;
use warning::WarningLog;
use writer::WriteTarget;

/// The size limits of a cache, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// The largest size of all entries: body, metadata, URL and an estimate of their rows. A put
    /// that exceeds the limit causes an eviction.
    pub max_bytes: u64,
    /// The size of the memory tier with which this process serves small entries of a directory.
    pub memory_bytes: u64,
    /// The longest body that is stored.
    pub max_body_bytes: u64,
}

impl CacheLimits {
    /// Returns limits for a cache of `max_bytes`, with bodies of up to an eighth of that size.
    #[must_use]
    pub const fn of(max_bytes: u64) -> Self {
        Self {
            max_bytes,
            memory_bytes: 64 << 20,
            max_body_bytes: max_bytes / 8,
        }
    }
}

enum CacheKind {
    Memory(Arc<MemoryCache>),
    Disk(DiskCache),
    /// No usable cache, because of this [`StoreError`].
    Off(StoreError),
}

/// A store of responses. Clones share the cache.
#[derive(Clone)]
pub struct CacheStore(Arc<CacheKind>);

impl CacheStore {
    /// Creates a cache in the memory of this process.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use docstokg_stores::cache::{CacheLimits, CacheStore};
    /// use docstokg_stores::clock::SystemClock;
    ///
    /// let cache = CacheStore::memory(CacheLimits::of(1 << 20), Arc::new(SystemClock));
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// assert_eq!(cache.stats().await?.entries, 0);
    /// # Ok::<(), docstokg_stores::StoreError>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn memory(limits: CacheLimits, clock: Arc<dyn Clock>) -> Self {
        let cache = MemoryCache::new(limits.max_bytes, limits.max_body_bytes, clock);
        Self(Arc::new(CacheKind::Memory(Arc::new(cache))))
    }

    /// Opens the cache in a directory, or creates it. A damaged index is moved aside, and the cache
    /// starts empty. The call blocks for some milliseconds.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the directory cannot be written, contains links, or is on a
    /// network file system.
    pub fn disk(
        directory: &Path,
        limits: CacheLimits,
        clock: Arc<dyn Clock>,
        warnings: Option<WarningObserver>,
    ) -> Result<Self, StoreError> {
        let warnings = Arc::new(WarningLog::new(warnings));
        let cache = DiskCache::open(directory, limits, clock, warnings)?;
        Ok(Self(Arc::new(CacheKind::Disk(cache))))
    }

    /// Opens the cache in a directory as [`CacheStore::disk`] does. If that fails, warns once and
    /// returns a store that finds and stores nothing.
    #[must_use]
    pub fn disk_or_off(
        directory: &Path,
        limits: CacheLimits,
        clock: Arc<dyn Clock>,
        warnings: Option<WarningObserver>,
    ) -> Self {
        Self::disk(directory, limits, clock, warnings.clone()).unwrap_or_else(|error| {
            WarningLog::new(warnings).report(CacheTrouble::Unusable, || {
                format!("{error} (requests go on without it)")
            });
            Self(Arc::new(CacheKind::Off(error)))
        })
    }

    /// Returns the [`ResponseLocation`] of the cache in this process: memory, disk or nowhere.
    fn place(&self) -> ResponseLocation<'_> {
        match &*self.0 {
            CacheKind::Memory(cache) => ResponseLocation::Memory(cache),
            CacheKind::Disk(cache) => cache
                .core()
                .map_or(ResponseLocation::Nowhere, ResponseLocation::Disk),
            CacheKind::Off(_) => ResponseLocation::Nowhere,
        }
    }

    /// Returns the [`StoreError`] of an unusable cache.
    fn off(&self) -> StoreError {
        match &*self.0 {
            CacheKind::Off(error) => error.clone(),
            _ => StoreError::Unavailable {
                store: "the cache".to_owned(),
                why: "this process could not open it again after a fork".to_owned(),
            },
        }
    }

    /// Runs an operation in memory or on a thread of the [`DiskIndex`](disk::DiskIndex). `queue`
    /// selects the writing thread, which keeps the order of calls, or a reading thread.
    fn question<T: Send + 'static>(
        &self,
        queue: fn(&DiskCore, disk::IndexJob),
        in_memory: impl FnOnce(&MemoryCache) -> T,
        on_disk: impl FnOnce(&DiskCore, &mut disk::DiskIndex) -> Result<T, StoreError> + Send + 'static,
    ) -> CacheReply<Result<T, StoreError>> {
        match self.place() {
            ResponseLocation::Memory(cache) => CacheReply::now(Ok(in_memory(cache))),
            ResponseLocation::Disk(core) => {
                let ended = Err(StoreError::Unavailable {
                    store: "the cache".to_owned(),
                    why: "its thread has ended".to_owned(),
                });
                DiskCore::ask(queue, core, ended, move |core, index| on_disk(core, index))
            }
            ResponseLocation::Nowhere => CacheReply::now(Err(self.off())),
        }
    }

    /// Finds the stored [`Variants`] of a key; an empty result is a miss. Entries in memory are
    /// found at once.
    pub fn look_up(&self, key: &CacheKey) -> CacheReply<Variants> {
        match self.place() {
            ResponseLocation::Memory(cache) => CacheReply::now(cache.look_up(key)),
            ResponseLocation::Disk(core) => DiskCore::look_up(core, key),
            ResponseLocation::Nowhere => CacheReply::now(Variants::default()),
        }
    }

    /// Returns the [`InvalidationStamp`] of a key. Callers read it before a request whose response
    /// may be stored.
    #[must_use]
    pub fn stamp(&self, key: &CacheKey) -> InvalidationStamp {
        match self.place() {
            ResponseLocation::Memory(cache) => cache.marks.stamp(key),
            ResponseLocation::Disk(core) => core.marks.stamp(key),
            ResponseLocation::Nowhere => InvalidationStamp {
                invalidations: 0,
                purges: 0,
            },
        }
    }

    /// Returns a count that changes with every entry or lease of a [`CacheKey`], in any process.
    /// The call takes nanoseconds. The count may also change without such a change.
    #[must_use]
    pub fn changes(&self, key: &CacheKey) -> u64 {
        match self.place() {
            ResponseLocation::Memory(cache) => cache.marks.changes(key),
            ResponseLocation::Disk(core) => core.marks.changes(key),
            ResponseLocation::Nowhere => 0,
        }
    }

    /// Begins to store a response, which is visible after [`ResponseWriter::commit`].
    pub fn begin_put(&self, new: NewEntry) -> ResponseWriter {
        let target = match self.place() {
            ResponseLocation::Memory(cache) => WriteTarget::Memory(Arc::clone(cache)),
            ResponseLocation::Disk(core) => WriteTarget::Disk(Arc::clone(core)),
            ResponseLocation::Nowhere => WriteTarget::Nowhere,
        };
        ResponseWriter::new(target, new)
    }

    /// Replaces the metadata of an entry, after a validation. Returns `false` if the entry is no
    /// longer stored, or if the metadata exceeds [`MAX_METADATA`] bytes.
    pub fn update_metadata(&self, entry: &CacheEntry, metadata: Bytes) -> CacheReply<bool> {
        if metadata.len() > MAX_METADATA {
            return CacheReply::now(false);
        }
        let id = entry.id;
        match self.place() {
            ResponseLocation::Memory(cache) => {
                CacheReply::now(cache.update_metadata(&id, metadata))
            }
            ResponseLocation::Disk(core) => {
                DiskCore::ask(DiskCore::in_index, core, false, move |core, index| {
                    core.update_metadata(index, &id, &metadata).unwrap_or(false)
                })
            }
            ResponseLocation::Nowhere => CacheReply::now(false),
        }
    }

    /// Removes all variants of a key. This process stops serving them at the call, other processes
    /// at the [`CacheReply`]. Responses to earlier requests are not stored. An error is only for
    /// the log: other processes may still serve the entries.
    pub fn invalidate(&self, key: &CacheKey) -> CacheReply<Result<(), StoreError>> {
        match self.place() {
            ResponseLocation::Memory(cache) => {
                cache.invalidate(key);
                CacheReply::now(Ok(()))
            }
            ResponseLocation::Disk(core) => DiskCore::invalidate(core, key),
            ResponseLocation::Nowhere => CacheReply::now(Ok(())),
        }
    }

    /// Removes one [`CacheEntry`]. Returns `false` if the entry is no longer stored.
    pub fn remove(&self, entry: &CacheEntry) -> CacheReply<Result<bool, StoreError>> {
        let id = entry.id;
        self.question(
            DiskCore::in_index,
            |cache| cache.remove(&id),
            move |core, index| core.remove(index, &id),
        )
    }

    /// Removes the entries of a host, or all entries. Responses to earlier requests are not stored.
    pub fn purge(&self, host: Option<&str>) -> CacheReply<Result<RemovedEntries, StoreError>> {
        let owned = host.map(str::to_owned);
        self.question(
            DiskCore::in_index,
            |cache| cache.purge(host),
            move |core, index| core.purge(index, owned.as_deref()),
        )
    }

    /// Removes the least recently used entries above the size limit. Puts do this automatically.
    pub fn evict(&self) -> CacheReply<Result<RemovedEntries, StoreError>> {
        self.question(
            DiskCore::in_index,
            |cache| cache.evict(cache.max_bytes),
            |core, index| core.evict(index, core.options.max_bytes),
        )
    }

    /// Returns the size of the cache, after the evictions of earlier puts.
    pub fn stats(&self) -> CacheReply<Result<CacheStats, StoreError>> {
        self.question(DiskCore::in_index, MemoryCache::stats, DiskCore::stats)
    }

    /// Lists entries in the order in which they were stored, one page at a time.
    pub fn list(
        &self,
        host: Option<&str>,
        after: ListPosition,
        limit: usize,
    ) -> CacheReply<Result<Vec<ListedEntry>, StoreError>> {
        let owned = host.map(str::to_owned);
        self.question(
            DiskCore::in_files,
            |cache| cache.list(host, after, limit),
            move |core, index| core.list(index, owned.as_deref(), after, limit),
        )
    }

    /// Checks the length and checksum of every body. Removes damaged entries and reports them, and
    /// removes old files without an entry. Requests continue meanwhile.
    pub fn verify(&self) -> CacheReply<Result<VerificationReport, StoreError>> {
        self.question(DiskCore::in_files, MemoryCache::verify, DiskCore::verify)
    }

    /// Claims the flight of a key until an instant, for at most [`MAX_LEASE`].
    pub fn claim(&self, key: &CacheKey, holder: Holder, until: BootInstant) -> CacheReply<Claim> {
        let key = *key;
        match self.place() {
            ResponseLocation::Memory(cache) => CacheReply::now(cache.claim(&key, holder, until)),
            ResponseLocation::Disk(core) => DiskCore::ask(
                DiskCore::in_index,
                core,
                Claim::Leader,
                move |core, index| {
                    let claim = core.claim(index, &key, holder, until);
                    core.maintain(index);
                    claim
                },
            ),
            ResponseLocation::Nowhere => CacheReply::now(Claim::Leader),
        }
    }

    /// Extends the lease of a flight. Returns `false` if the [`Holder`] is no longer the leader.
    pub fn renew(&self, key: &CacheKey, holder: Holder, until: BootInstant) -> CacheReply<bool> {
        let key = *key;
        match self.place() {
            ResponseLocation::Memory(cache) => CacheReply::now(cache.renew(&key, holder, until)),
            ResponseLocation::Disk(core) => {
                DiskCore::ask(DiskCore::in_index, core, false, move |core, index| {
                    core.renew(index, &key, holder, until)
                })
            }
            ResponseLocation::Nowhere => CacheReply::now(false),
        }
    }

    /// Ends a flight. The operation is queued at the return, so the caller need not await the
    /// [`CacheReply`].
    pub fn release(&self, key: &CacheKey, holder: Holder) -> CacheReply<()> {
        let key = *key;
        match self.place() {
            ResponseLocation::Memory(cache) => {
                cache.release(&key, holder);
                CacheReply::now(())
            }
            ResponseLocation::Disk(core) => {
                DiskCore::ask(DiskCore::in_index, core, (), move |core, index| {
                    core.release(index, &key, holder);
                })
            }
            ResponseLocation::Nowhere => CacheReply::now(()),
        }
    }

    /// Records that the response for a key is not storable, for at most [`MAX_UNCACHEABLE`], and
    /// ends its flight.
    pub fn remember_uncacheable(&self, key: &CacheKey, until: BootInstant) -> CacheReply<()> {
        let key = *key;
        match self.place() {
            ResponseLocation::Memory(cache) => {
                cache.remember_uncacheable(&key, until);
                CacheReply::now(())
            }
            ResponseLocation::Disk(core) => {
                DiskCore::ask(DiskCore::in_index, core, (), move |core, index| {
                    core.remember_uncacheable(index, &key, until);
                })
            }
            ResponseLocation::Nowhere => CacheReply::now(()),
        }
    }
}

/// The location of the responses of a process.
enum ResponseLocation<'a> {
    Memory(&'a Arc<MemoryCache>),
    Disk(&'a Arc<DiskCore>),
    Nowhere,
}
