//! Counters that say that something changed, shared by the processes of a cache.
//!
//! A memory tier in front of the index is valid while the counter of its key stands still. Keys
//! share counters by bucket: a change of one key makes at most a few others be read again. The
//! counters lie in a mapped file, so that a look-up reads them without a system call and sees what
//! other processes change at once.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use super::key::{CacheKey, InvalidationStamp};
use crate::multiprocess::Segment;

/// How many counters of each kind there are.
const COUNTERS_PER_KIND: usize = 4_096;
/// The words before the counters of keys.
const HEADER_WORDS: usize = 64;
/// The word that counts how often the index was replaced.
const REPLACED_WORD: usize = 0;
/// The word that counts purges.
const PURGES_WORD: usize = 8;
/// The words in all.
const TOTAL_WORDS: usize = HEADER_WORDS + 2 * COUNTERS_PER_KIND;

enum MarkStorage {
    Own(Box<[AtomicU64]>),
    Mapped(Segment),
}

/// The counters of a cache.
pub(super) struct CacheMarks(MarkStorage);

impl CacheMarks {
    /// Makes counters of this process alone.
    pub(super) fn own() -> Self {
        Self(MarkStorage::Own(
            (0..TOTAL_WORDS).map(|_| AtomicU64::new(0)).collect(),
        ))
    }

    /// Maps the counters in a file, and allocates them where it is new.
    pub(super) fn map(file: &File) -> io::Result<Self> {
        Ok(Self(MarkStorage::Mapped(Segment::map(
            file,
            0,
            TOTAL_WORDS * 8,
        )?)))
    }

    #[inline]
    fn word(&self, index: usize) -> &AtomicU64 {
        match &self.0 {
            MarkStorage::Own(words) => &words[index],
            MarkStorage::Mapped(segment) => segment.word(index * 8),
        }
    }

    fn change_word(&self, key: &CacheKey) -> &AtomicU64 {
        self.word(HEADER_WORDS + key.bucket(COUNTERS_PER_KIND))
    }

    fn invalidation_word(&self, key: &CacheKey) -> &AtomicU64 {
        self.word(HEADER_WORDS + COUNTERS_PER_KIND + key.bucket(COUNTERS_PER_KIND))
    }

    /// Returns the count of changes of a key, its invalidations and all purges included.
    #[inline]
    pub(super) fn changes(&self, key: &CacheKey) -> u64 {
        let changes = self.change_word(key).load(Ordering::Acquire);
        changes.wrapping_add(self.word(PURGES_WORD).load(Ordering::Acquire))
    }

    /// Counts a change of a key.
    pub(super) fn changed(&self, key: &CacheKey) {
        self.change_word(key).fetch_add(1, Ordering::AcqRel);
    }

    /// Counts an invalidation of a key.
    pub(super) fn invalidated(&self, key: &CacheKey) {
        self.invalidation_word(key).fetch_add(1, Ordering::AcqRel);
        self.changed(key);
    }

    /// Counts a purge.
    pub(super) fn purged(&self) {
        self.word(PURGES_WORD).fetch_add(1, Ordering::AcqRel);
    }

    /// Returns how the invalidations of a key stand.
    pub(super) fn stamp(&self, key: &CacheKey) -> InvalidationStamp {
        InvalidationStamp {
            invalidations: self.invalidation_word(key).load(Ordering::Acquire),
            purges: self.word(PURGES_WORD).load(Ordering::Acquire),
        }
    }

    /// Returns how often the index was replaced by a new one.
    pub(super) fn replacements(&self) -> u64 {
        self.word(REPLACED_WORD).load(Ordering::Acquire)
    }

    /// Counts a replacement of the index: every connection has to be opened anew.
    pub(super) fn replaced(&self) {
        self.word(REPLACED_WORD).fetch_add(1, Ordering::AcqRel);
        self.purged();
    }
}
