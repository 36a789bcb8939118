//! Counters of changes, shared by the processes of a cache.
//!
//! The memory tier of a key is valid while the counter of the key is unchanged. Keys share counters
//! by bucket, so a change of one key makes only a few others be read again. The counters are in a
//! mapped file, so that a look-up reads them without a system call and sees changes of other
//! processes at once.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use super::key::{CacheKey, InvalidationStamp};
use crate::multiprocess::Segment;

/// The number of counters of each kind: changes and invalidations.
const COUNTERS_PER_KIND: usize = 4_096;
/// The number of words before the counters of keys.
const HEADER_WORDS: usize = 64;
/// The word that counts replacements of the index.
const REPLACED_WORD: usize = 0;
/// The word that counts purges.
const PURGES_WORD: usize = 8;
/// The total number of words.
const TOTAL_WORDS: usize = HEADER_WORDS + 2 * COUNTERS_PER_KIND;

enum MarkStorage {
    Own(Box<[AtomicU64]>),
    Mapped(Segment),
}

/// The counters of a cache.
pub(super) struct CacheMarks(MarkStorage);

impl CacheMarks {
    /// Creates counters that only this process uses.
    pub(super) fn own() -> Self {
        Self(MarkStorage::Own(
            (0..TOTAL_WORDS).map(|_| AtomicU64::new(0)).collect(),
        ))
    }

    /// Maps the counters in a file, and allocates them in a new file.
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

    /// Returns the change count of a [`CacheKey`], including its invalidations and all purges.
    #[inline]
    pub(super) fn changes(&self, key: &CacheKey) -> u64 {
        let changes = self.change_word(key).load(Ordering::Acquire);
        changes.wrapping_add(self.word(PURGES_WORD).load(Ordering::Acquire))
    }

    /// Counts a change of a [`CacheKey`].
    pub(super) fn changed(&self, key: &CacheKey) {
        self.change_word(key).fetch_add(1, Ordering::AcqRel);
    }

    /// Counts an invalidation of a [`CacheKey`].
    pub(super) fn invalidated(&self, key: &CacheKey) {
        self.invalidation_word(key).fetch_add(1, Ordering::AcqRel);
        self.changed(key);
    }

    /// Counts a purge.
    pub(super) fn purged(&self) {
        self.word(PURGES_WORD).fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the [`InvalidationStamp`] of a key.
    pub(super) fn stamp(&self, key: &CacheKey) -> InvalidationStamp {
        InvalidationStamp {
            invalidations: self.invalidation_word(key).load(Ordering::Acquire),
            purges: self.word(PURGES_WORD).load(Ordering::Acquire),
        }
    }

    /// Returns the number of replacements of the index.
    pub(super) fn replacements(&self) -> u64 {
        self.word(REPLACED_WORD).load(Ordering::Acquire)
    }

    /// Counts a replacement of the index, after which every connection must be opened again.
    pub(super) fn replaced(&self) {
        self.word(REPLACED_WORD).fetch_add(1, Ordering::AcqRel);
        self.purged();
    }
}
