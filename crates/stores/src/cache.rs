//! The store of HTTP responses, apart from the state of limits and breakers.
//!
//! A [`CacheStore`] keeps responses by key and variant: metadata that it does not read, and a body
//! of any length. It decides nothing: what may be stored, what is fresh and which variant fits is
//! the caller's. It never fails a request: what cannot be read is a miss, what cannot be written is
//! not stored, and each kind of trouble is reported once to the observer of its warnings.
//!
//! Secrets do not reach it: keys and variants are hashes, and the caller redacts URLs and leaves
//! credentials out of the metadata. One kind is in memory, the other in a directory that processes
//! share; both answer [`Reply`]s, which are ready at once where no disk is involved.

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

pub use admin::{Damaged, Listed, MAX_DAMAGED_LISTED, Position, Removed, Stats, Verified};
pub use body::{BodyError, BodyReader};
pub use disk::MEMORY_AGE;
pub use entry::{Entry, Variants};
pub use key::{CacheKey, MAX_METADATA, MAX_VARIANTS, NewEntry, Stamp, VariantKey};
pub use lease::{Claim, Holder, MAX_LEASE, MAX_UNCACHEABLE};
pub use reply::Reply;
pub use warning::{CacheTrouble, CacheWarning, WarningObserver};
pub use writer::{Stored, Writer};

use disk::{Core, DiskCache};
use memory::MemoryCache;
use warning::Warnings;
use writer::Target;

/// How much a cache keeps, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most that all entries count for: body, metadata, URL and an estimate of their rows.
    /// Eviction follows each put that exceeds it.
    pub max_bytes: u64,
    /// The most that this process keeps in memory in front of a directory.
    pub memory_bytes: u64,
    /// The longest body that is stored.
    pub max_body_bytes: u64,
}

impl Limits {
    /// Limits for a cache of this size: bodies up to an eighth of it.
    #[must_use]
    pub const fn of(max_bytes: u64) -> Self {
        Self {
            max_bytes,
            memory_bytes: 64 << 20,
            max_body_bytes: max_bytes / 8,
        }
    }
}

enum Kind {
    Memory(Arc<MemoryCache>),
    Disk(DiskCache),
    /// There is no usable cache.
    Off(StoreError),
}

/// A store of responses. Clones share it.
#[derive(Clone)]
pub struct CacheStore(Arc<Kind>);

impl CacheStore {
    /// Makes a cache in the memory of this process.
    #[must_use]
    pub fn memory(limits: Limits, clock: Arc<dyn Clock>) -> Self {
        let cache = MemoryCache::new(limits.max_bytes, limits.max_body_bytes, clock);
        Self(Arc::new(Kind::Memory(Arc::new(cache))))
    }

    /// Opens the cache in a directory, and makes it if it is not there. A damaged index is set
    /// aside, and the cache starts empty. It blocks for some milliseconds.
    ///
    /// # Errors
    /// The directory cannot be written, has links in it, or is on a network file system.
    pub fn disk(
        directory: &Path,
        limits: Limits,
        clock: Arc<dyn Clock>,
        warnings: Option<WarningObserver>,
    ) -> Result<Self, StoreError> {
        let warnings = Arc::new(Warnings::new(warnings));
        let cache = DiskCache::open(directory, limits, clock, warnings)?;
        Ok(Self(Arc::new(Kind::Disk(cache))))
    }

    /// Opens the cache in a directory as [`CacheStore::disk`] does. Where that fails, warns once
    /// and returns a store that finds and stores nothing.
    #[must_use]
    pub fn disk_or_off(
        directory: &Path,
        limits: Limits,
        clock: Arc<dyn Clock>,
        warnings: Option<WarningObserver>,
    ) -> Self {
        Self::disk(directory, limits, clock, warnings.clone()).unwrap_or_else(|error| {
            Warnings::new(warnings).report(CacheTrouble::Unusable, || {
                format!("{error} (requests go on without it)")
            });
            Self(Arc::new(Kind::Off(error)))
        })
    }

    /// Returns the cache as this process uses it: in memory, on disk, or not at all.
    fn place(&self) -> Place<'_> {
        match &*self.0 {
            Kind::Memory(cache) => Place::Memory(cache),
            Kind::Disk(cache) => cache.core().map_or(Place::Nowhere, Place::Disk),
            Kind::Off(_) => Place::Nowhere,
        }
    }

    /// Describes a store that finds nothing.
    fn off(&self) -> StoreError {
        match &*self.0 {
            Kind::Off(error) => error.clone(),
            _ => StoreError::Unavailable {
                store: "the cache".to_owned(),
                why: "this process could not open it again after a fork".to_owned(),
            },
        }
    }

    /// Runs an operation on the thread that writes the index, in the order of the calls, or on one
    /// that reads it.
    fn question<T: Send + 'static>(
        &self,
        queue: fn(&Core, disk::Job),
        in_memory: impl FnOnce(&MemoryCache) -> T,
        on_disk: impl FnOnce(&Core, &mut disk::Index) -> Result<T, StoreError> + Send + 'static,
    ) -> Reply<Result<T, StoreError>> {
        match self.place() {
            Place::Memory(cache) => Reply::now(Ok(in_memory(cache))),
            Place::Disk(core) => {
                let ended = Err(StoreError::Unavailable {
                    store: "the cache".to_owned(),
                    why: "its thread has ended".to_owned(),
                });
                Core::ask(queue, core, ended, move |core, index| on_disk(core, index))
            }
            Place::Nowhere => Reply::now(Err(self.off())),
        }
    }

    /// Finds the stored variants of a key; none is a miss. What is in memory is found at once.
    pub fn look_up(&self, key: &CacheKey) -> Reply<Variants> {
        match self.place() {
            Place::Memory(cache) => Reply::now(cache.look_up(key)),
            Place::Disk(core) => Core::look_up(core, key),
            Place::Nowhere => Reply::now(Variants::default()),
        }
    }

    /// Returns how the invalidations of a key stand: to be taken before a request is sent whose
    /// response may be stored.
    #[must_use]
    pub fn stamp(&self, key: &CacheKey) -> Stamp {
        match self.place() {
            Place::Memory(cache) => cache.marks.stamp(key),
            Place::Disk(core) => core.marks.stamp(key),
            Place::Nowhere => Stamp {
                invalidations: 0,
                purges: 0,
            },
        }
    }

    /// Returns a count that moves whenever an entry or the lease of a key changes, in any process.
    /// It costs nanoseconds, and may move without such a change.
    #[must_use]
    pub fn changes(&self, key: &CacheKey) -> u64 {
        match self.place() {
            Place::Memory(cache) => cache.marks.changes(key),
            Place::Disk(core) => core.marks.changes(key),
            Place::Nowhere => 0,
        }
    }

    /// Begins to store a response. Nothing is visible before the writer's commit.
    pub fn begin_put(&self, new: NewEntry) -> Writer {
        let target = match self.place() {
            Place::Memory(cache) => Target::Memory(Arc::clone(cache)),
            Place::Disk(core) => Target::Disk(Arc::clone(core)),
            Place::Nowhere => Target::Nowhere,
        };
        Writer::new(target, new)
    }

    /// Replaces the metadata of an entry, after a validation. `false` if the entry is not stored
    /// any more, or the metadata has more than [`MAX_METADATA`] bytes.
    pub fn update_metadata(&self, entry: &Entry, metadata: Bytes) -> Reply<bool> {
        if metadata.len() > MAX_METADATA {
            return Reply::now(false);
        }
        let id = entry.id;
        match self.place() {
            Place::Memory(cache) => Reply::now(cache.update_metadata(&id, metadata)),
            Place::Disk(core) => Core::ask(Core::in_index, core, false, move |core, index| {
                core.update_metadata(index, &id, &metadata).unwrap_or(false)
            }),
            Place::Nowhere => Reply::now(false),
        }
    }

    /// Removes all variants of a key. This process does not serve them from the call on, and
    /// others not after the answer; responses to requests sent before are not stored. An error is
    /// for the record: other processes may serve what could not be removed.
    pub fn invalidate(&self, key: &CacheKey) -> Reply<Result<(), StoreError>> {
        match self.place() {
            Place::Memory(cache) => {
                cache.invalidate(key);
                Reply::now(Ok(()))
            }
            Place::Disk(core) => Core::invalidate(core, key),
            Place::Nowhere => Reply::now(Ok(())),
        }
    }

    /// Removes one entry. `false` if it is not stored any more.
    pub fn remove(&self, entry: &Entry) -> Reply<Result<bool, StoreError>> {
        let id = entry.id;
        self.question(
            Core::in_index,
            |cache| cache.remove(&id),
            move |core, index| core.remove(index, &id),
        )
    }

    /// Removes the entries of a host, or all. Responses to requests sent before are not stored.
    pub fn purge(&self, host: Option<&str>) -> Reply<Result<Removed, StoreError>> {
        let owned = host.map(str::to_owned);
        self.question(
            Core::in_index,
            |cache| cache.purge(host),
            move |core, index| core.purge(index, owned.as_deref()),
        )
    }

    /// Removes the least recently used entries that are over the cap. Puts do this themselves.
    pub fn evict(&self) -> Reply<Result<Removed, StoreError>> {
        self.question(
            Core::in_index,
            |cache| cache.evict(cache.max_bytes),
            |core, index| core.evict(index, core.options.max_bytes),
        )
    }

    /// Returns the size of the cache, after the evictions of the puts before.
    pub fn stats(&self) -> Reply<Result<Stats, StoreError>> {
        self.question(Core::in_index, MemoryCache::stats, Core::stats)
    }

    /// Lists entries in the order in which they were stored, a page at a time.
    pub fn list(
        &self,
        host: Option<&str>,
        after: Position,
        limit: usize,
    ) -> Reply<Result<Vec<Listed>, StoreError>> {
        let owned = host.map(str::to_owned);
        self.question(
            Core::in_files,
            |cache| cache.list(host, after, limit),
            move |core, index| core.list(index, owned.as_deref(), after, limit),
        )
    }

    /// Checks the length and checksum of every body, removes the damaged entries and says which,
    /// and removes old files that belong to no entry. Requests go on meanwhile.
    pub fn verify(&self) -> Reply<Result<Verified, StoreError>> {
        self.question(Core::in_files, MemoryCache::verify, Core::verify)
    }

    /// Claims the flight of a key until an instant, for at most [`MAX_LEASE`].
    pub fn claim(&self, key: &CacheKey, holder: Holder, until: BootInstant) -> Reply<Claim> {
        let key = *key;
        match self.place() {
            Place::Memory(cache) => Reply::now(cache.claim(&key, holder, until)),
            Place::Disk(core) => {
                Core::ask(Core::in_index, core, Claim::Leader, move |core, index| {
                    let claim = core.claim(index, &key, holder, until);
                    core.maintain(index);
                    claim
                })
            }
            Place::Nowhere => Reply::now(Claim::Leader),
        }
    }

    /// Extends the lease of a flight. `false` if the holder does not lead any more.
    pub fn renew(&self, key: &CacheKey, holder: Holder, until: BootInstant) -> Reply<bool> {
        let key = *key;
        match self.place() {
            Place::Memory(cache) => Reply::now(cache.renew(&key, holder, until)),
            Place::Disk(core) => Core::ask(Core::in_index, core, false, move |core, index| {
                core.renew(index, &key, holder, until)
            }),
            Place::Nowhere => Reply::now(false),
        }
    }

    /// Ends a flight. It is queued when this returns: the answer need not be awaited.
    pub fn release(&self, key: &CacheKey, holder: Holder) -> Reply<()> {
        let key = *key;
        match self.place() {
            Place::Memory(cache) => {
                cache.release(&key, holder);
                Reply::now(())
            }
            Place::Disk(core) => Core::ask(Core::in_index, core, (), move |core, index| {
                core.release(index, &key, holder);
            }),
            Place::Nowhere => Reply::now(()),
        }
    }

    /// Records that the answer for a key is not storable, for at most [`MAX_UNCACHEABLE`], and
    /// ends its flight.
    pub fn remember_uncacheable(&self, key: &CacheKey, until: BootInstant) -> Reply<()> {
        let key = *key;
        match self.place() {
            Place::Memory(cache) => {
                cache.remember_uncacheable(&key, until);
                Reply::now(())
            }
            Place::Disk(core) => Core::ask(Core::in_index, core, (), move |core, index| {
                core.remember_uncacheable(index, &key, until);
            }),
            Place::Nowhere => Reply::now(()),
        }
    }
}

/// Where the responses of a process are.
enum Place<'a> {
    Memory(&'a Arc<MemoryCache>),
    Disk(&'a Arc<Core>),
    Nowhere,
}
