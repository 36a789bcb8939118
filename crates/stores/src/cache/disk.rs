//! Responses in a directory that all processes of a machine share: an index in SQLite, larger
//! bodies in files, and a memory tier of small entries.
//!
//! Guarantees:
//! - A body is served completely only if length and checksum match its row. A damaged or missing
//!   body is a miss, is removed, and is reported once.
//! - A put is visible when its row is committed, after its body has its final name. A process that
//!   is killed leaves at most a file without a row, which is swept after an hour.
//! - The memory tier serves entries only while the counter of their key is unchanged (see
//!   `marks.rs`). This process sees an invalidation at the call, other processes at its completion.
//!   If a process is killed between commit and counter, the delay is at most [`MEMORY_AGE`].

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use docstokg_policy::time::{BootInstant, Clock, micros};
use parking_lot::Mutex;

use super::CacheLimits;
use super::entry::{EntryBody, EntryId, Variants};
use super::key::CacheKey;
use super::marks::CacheMarks;
use super::recent::RecentValues;
use super::reply::CacheReply;
use super::warning::{CacheTrouble, WarningLog};
use crate::error::StoreError;
use crate::multiprocess::PerProcess;

mod admin;
mod evict;
mod index;
mod layout;
mod leases;
mod put;
mod row;
mod schema;
mod sweep;
mod threads;

pub(super) use index::DiskIndex;
use layout::CacheLayout;
pub(super) use layout::TemporaryBody;
use row::{EntryDamage, IndexRow};
pub(super) use threads::IndexJob;
use threads::{IndexQueue, IndexThreads};

/// The time for which the memory tier serves an entry before it is read again.
pub const MEMORY_AGE: Duration = Duration::from_secs(1);
/// The shortest time between two recorded uses of an entry, so that hits do not become writes.
const USE_INTERVAL: Duration = Duration::from_secs(10);
/// The number of uses that one transaction writes.
const MAX_USES_PER_TRANSACTION: usize = 256;
/// The number of entries whose last recorded use is kept in memory.
const MAX_REMEMBERED_NOTES: usize = 8_192;
/// The largest body in bytes that is stored in its row.
const MAX_INLINE_BODY_BYTES: usize = 16 * 1024;
/// The total size in bytes of bodies that a look-up reads to memory; larger bodies are streamed.
const READ_AT_LOOK_UP: u64 = 256 * 1024;

/// A cache directory, as this process and its children use it.
pub(super) struct DiskCache(PerProcess<Option<IndexThreads>>);

/// The state that callers and threads share.
pub(super) struct DiskCore {
    pub(super) layout: CacheLayout,
    pub(super) options: CacheLimits,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) marks: CacheMarks,
    pub(super) warnings: Arc<WarningLog>,
    /// The [`IndexQueue`] of the threads that read the index, and read and write files.
    pub(super) files: Arc<IndexQueue>,
    /// The [`IndexQueue`] of the thread that writes the index.
    pub(super) index: Arc<IndexQueue>,
    memory: Mutex<RecentValues<InMemory>>,
    uses: Mutex<RowUses>,
    invalid: InvalidKeys,
    /// The number of rows that this process has written, for maintenance at intervals.
    written: AtomicU32,
    is_checkpointing: AtomicBool,
    boot: i64,
}

/// Variants in memory.
struct InMemory {
    variants: Variants,
    /// The change count of the key before they were read.
    changes: u64,
    read_at: BootInstant,
}

/// The uses of rows, in microseconds of wall time.
#[derive(Default)]
struct RowUses {
    /// The uses that the index does not contain yet.
    pending: Vec<(i64, i64)>,
    /// The last recorded use of each row.
    noted: HashMap<i64, i64>,
}

impl RowUses {
    /// Records the use of a row, unless a recent use is recorded.
    fn note(&mut self, row: i64, now: i64) {
        let interval = micros(USE_INTERVAL).cast_signed();
        let is_noted = |at: &i64| (0..interval).contains(&(now - at));
        if self.noted.get(&row).is_some_and(is_noted) {
            return;
        }
        if self.noted.len() >= MAX_REMEMBERED_NOTES {
            self.noted.clear();
        }
        self.noted.insert(row, now);
        self.pending.push((row, now));
    }
}

/// The keys whose invalidation could not be written, which this process does not serve.
#[derive(Default)]
struct InvalidKeys {
    any: AtomicBool,
    keys: Mutex<HashSet<CacheKey>>,
}

impl InvalidKeys {
    fn add(&self, key: CacheKey) {
        self.keys.lock().insert(key);
        self.any.store(true, Ordering::Release);
    }

    fn has(&self, key: &CacheKey) -> bool {
        self.any.load(Ordering::Acquire) && self.keys.lock().contains(key)
    }

    fn forget(&self, key: &CacheKey) {
        if self.any.load(Ordering::Acquire) {
            self.keys.lock().remove(key);
        }
    }
}

impl DiskCache {
    pub(super) fn open(
        directory: &Path,
        options: CacheLimits,
        clock: Arc<dyn Clock>,
        warnings: Arc<WarningLog>,
    ) -> Result<Self, StoreError> {
        let directory = directory.to_owned();
        let start = move || {
            let (clock, warnings) = (Arc::clone(&clock), Arc::clone(&warnings));
            DiskCore::start(&directory, options, clock, warnings)
        };
        let threads = start()?;
        let again = move || start().ok();
        Ok(Self(PerProcess::new(Some(threads), again)))
    }

    /// Returns the state of this process; `None` in a forked child that cannot open the directory.
    pub(super) fn core(&self) -> Option<&Arc<DiskCore>> {
        self.0.get().as_ref().map(|threads| &threads.core)
    }
}

impl DiskCore {
    fn start(
        directory: &Path,
        options: CacheLimits,
        clock: Arc<dyn Clock>,
        warnings: Arc<WarningLog>,
    ) -> Result<IndexThreads, StoreError> {
        let layout = CacheLayout::open(directory)?;
        let marks = CacheMarks::map(&layout.changes()?)
            .map_err(|error| layout::unusable(&layout.root, error.to_string()))?;
        let core = Arc::new(Self {
            layout,
            options,
            clock,
            marks,
            warnings,
            files: IndexQueue::new(),
            index: IndexQueue::new(),
            memory: Mutex::new(RecentValues::new(options.memory_bytes)),
            uses: Mutex::new(RowUses::default()),
            invalid: InvalidKeys::default(),
            written: AtomicU32::new(0),
            is_checkpointing: AtomicBool::new(false),
            boot: crate::hash::fnv(crate::process::boot_id().as_bytes()).cast_signed(),
        });
        let threads = IndexThreads::start(&core)?;
        core.sweep_if_due();
        Ok(threads)
    }

    /// Runs an [`IndexJob`] on a reading thread, or on this thread if those have ended.
    pub(super) fn in_files(&self, job: IndexJob) {
        if let Err(job) = self.files.queue(job) {
            Self::without_threads(job);
        }
    }

    /// Runs an [`IndexJob`] on the writing thread, or on this thread if that has ended.
    pub(super) fn in_index(&self, job: IndexJob) {
        if let Err(job) = self.index.queue(job) {
            Self::without_threads(job);
        }
    }

    /// Runs an [`IndexJob`] with its own connection.
    pub(super) fn without_threads(job: IndexJob) {
        job(&mut DiskIndex::default());
    }

    /// Runs work on the thread that `queue` selects, with a pending [`CacheReply`].
    pub(super) fn ask<T: Send + 'static>(
        queue: fn(&Self, IndexJob),
        core: &Arc<Self>,
        otherwise: T,
        work: impl FnOnce(&Arc<Self>, &mut DiskIndex) -> T + Send + 'static,
    ) -> CacheReply<T> {
        let (sender, reply) = CacheReply::later(otherwise);
        let own = Arc::clone(core);
        let job = move |index: &mut DiskIndex| {
            let _ = sender.send(work(&own, index));
        };
        queue(core, Box::new(job));
        reply
    }

    /// Finds the [`Variants`] of a key: in memory at once, in the index by a thread.
    pub(super) fn look_up(core: &Arc<Self>, key: &CacheKey) -> CacheReply<Variants> {
        if core.invalid.has(key) {
            return CacheReply::now(Variants::default());
        }
        if let Some(found) = core.in_memory(key) {
            return CacheReply::now(found);
        }
        let key = *key;
        Self::ask(
            Self::in_files,
            core,
            Variants::default(),
            move |core, index| core.read(index, &key),
        )
    }

    /// Finds the [`Variants`] of a key in memory, if they equal those in the index.
    fn in_memory(&self, key: &CacheKey) -> Option<Variants> {
        let now = self.clock.boot();
        let mut memory = self.memory.lock();
        let found = memory.get(key)?;
        if found.changes != self.marks.changes(key) || now.since(found.read_at) >= MEMORY_AGE {
            memory.remove(key);
            return None;
        }
        Some(found.variants.clone())
    }

    /// Finds the [`Variants`] of a key in the index.
    fn read(self: &Arc<Self>, index: &mut DiskIndex, key: &CacheKey) -> Variants {
        // A file may be missing because its entry was replaced after its row was read, so the rows
        // are read again.
        let changes = self.marks.changes(key);
        let found = self.read_once(index, key, IfMissing::ReadAgain);
        let found = found.or_else(|| self.read_once(index, key, IfMissing::Drop));
        let found = found.unwrap_or_default();
        if !found.is_empty() {
            self.note_use(&found);
            self.keep_in_memory(key, changes, &found);
        }
        found
    }

    /// Reads the rows of a key and their bodies. Returns `None` if a body is missing and `missing`
    /// is [`IfMissing::ReadAgain`].
    fn read_once(
        self: &Arc<Self>,
        index: &mut DiskIndex,
        key: &CacheKey,
        missing: IfMissing,
    ) -> Option<Variants> {
        let rows = index.read(self, |connection| {
            let mut statement = connection.prepare_cached(row::SELECT_KEY)?;
            let rows = statement.query_map([key.as_bytes()], |row| {
                let id = row.get_ref(0)?.as_i64().unwrap_or_default();
                Ok((id, IndexRow::read(row)))
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        });
        let now = self.clock.wall();
        let mut in_memory = READ_AT_LOOK_UP;
        let mut entries = Vec::new();
        let mut rows = rows.unwrap_or_default();
        rows.sort_by_key(|(id, row)| {
            std::cmp::Reverse((row.as_ref().map(|row| row.stored_at), *id))
        });
        for (id, row) in rows {
            let Some(row) = row else {
                self.drop_undecodable(index, id, key);
                continue;
            };
            match row.open_body(self, in_memory) {
                Ok(body) => {
                    if matches!(body, EntryBody::Whole(_)) {
                        in_memory = in_memory.saturating_sub(row.length);
                    }
                    entries.push(Arc::new(row.into_entry(body, now)));
                }
                Err(EntryDamage::Missing) if missing == IfMissing::ReadAgain => return None,
                Err(EntryDamage::Missing) => {
                    self.drop_damaged(index, &row.id, &row.url, "is missing");
                }
                Err(EntryDamage::Wrong(why)) => self.drop_damaged(index, &row.id, &row.url, &why),
            }
        }
        Some(Variants(entries.into()))
    }

    /// Keeps [`Variants`] in memory, if they are small.
    fn keep_in_memory(&self, key: &CacheKey, changes: u64, found: &Variants) {
        let is_small = |body: &EntryBody| matches!(body, EntryBody::Whole(_));
        let bytes: u64 = found.iter().map(|entry| entry.size()).sum();
        if bytes > self.options.memory_bytes / 4 || !found.iter().all(|entry| is_small(&entry.body))
        {
            return;
        }
        let now = self.clock.boot();
        let kept = InMemory {
            variants: found.clone(),
            changes,
            read_at: now,
        };
        self.memory.lock().insert(*key, kept, bytes);
    }

    /// Records the use of variants; the index receives many uses at once. Hits in memory are not
    /// recorded, because their entries are read again after [`MEMORY_AGE`].
    fn note_use(self: &Arc<Self>, found: &Variants) {
        let now = self.clock.wall().as_micros();
        let mut uses = self.uses.lock();
        for entry in found.iter() {
            uses.note(entry.id.row, now);
        }
        let is_due = uses.pending.len() >= MAX_USES_PER_TRANSACTION;
        drop(uses);
        if is_due {
            self.flush_uses();
        }
    }

    /// Drops a [`CacheKey`] from memory after a change of its rows.
    fn changed(&self, key: &CacheKey) {
        self.marks.changed(key);
        self.memory.lock().remove(key);
    }

    /// Drops a damaged entry, and reports it.
    pub(super) fn drop_damaged(&self, index: &mut DiskIndex, id: &EntryId, url: &str, why: &str) {
        // A replaced entry was not damaged; an entry that stays is found again.
        if self.remove(index, id) == Ok(false) {
            return;
        }
        let root = self.layout.root.display();
        self.warnings.report(CacheTrouble::EntryDamaged, || {
            format!(
                "the stored body of {url} in the cache {root} {why}; it was dropped and is \
                 requested again (verify the cache to check the rest)"
            )
        });
    }

    /// Drops a row that cannot be decoded, and reports it.
    fn drop_undecodable(&self, index: &mut DiskIndex, row: i64, key: &CacheKey) {
        let _ = self.remove_row(index, row);
        self.changed(key);
        let root = self.layout.root.display();
        self.warnings.report(CacheTrouble::EntryDamaged, || {
            format!("an entry of the cache {root} cannot be decoded; it was dropped")
        });
    }
}

/// The reaction to a missing body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IfMissing {
    ReadAgain,
    Drop,
}
