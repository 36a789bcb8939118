//! The queries of operators about a cache: its size, its entries, and removed entries.

use std::sync::atomic::Ordering;

use docstokg_policy::time::Timestamp;

use super::entry::CacheEntry;

/// The size of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// The number of stored responses.
    pub entries: u64,
    /// The size of all entries in bytes: body, metadata, URL, and an estimate of their rows.
    pub bytes: u64,
    /// The size limit in bytes.
    pub max_bytes: u64,
    /// The number of keys in the memory of this process.
    pub memory_keys: u64,
    /// The number of bytes in the memory of this process.
    pub memory_bytes: u64,
}

/// The entries that an operation removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemovedEntries {
    /// The number of responses.
    pub entries: u64,
    /// The size of these entries in bytes.
    pub bytes: u64,
}

/// A position in the list of entries: the start by default, or that of the last listed entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListPosition(pub(super) i64);

/// An entry as `cache show` lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEntry {
    /// The [`ListPosition`] of the entry; the position of the last entry starts the next page.
    pub position: ListPosition,
    /// The URL for display.
    pub url: String,
    /// The host.
    pub host: String,
    /// The length of the body in bytes.
    pub body_length: u64,
    /// The time at which the entry was stored.
    pub stored_at: Timestamp,
    /// The time of the last use, accurate to some seconds.
    pub used_at: Timestamp,
    /// The metadata, as the caller encoded it.
    pub metadata: bytes::Bytes,
}

impl ListedEntry {
    pub(super) fn of(entry: &CacheEntry) -> Self {
        Self {
            position: ListPosition(entry.id.row),
            url: entry.url.to_string(),
            host: entry.host.to_string(),
            body_length: entry.length,
            stored_at: entry.stored_at,
            used_at: Timestamp::from_micros(entry.used_at.load(Ordering::Relaxed)),
            metadata: entry.metadata.clone(),
        }
    }
}

/// An entry that a verification removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedEntry {
    /// The URL for display; empty if the row itself could not be read.
    pub url: String,
    /// The damage, in words.
    pub why: String,
}

/// The result of a verification of the cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerificationReport {
    /// The number of checked entries, damaged entries included.
    pub entries: u64,
    /// The number of bytes of bodies that were read.
    pub bytes: u64,
    /// The number of damaged entries, which were removed.
    pub damaged: u64,
    /// The first [`MAX_DAMAGED_LISTED`] damaged entries.
    pub list: Vec<DamagedEntry>,
    /// The number of removed files without an entry.
    pub orphans: u64,
    /// Set if the index itself was damaged: it was moved aside, and the cache starts empty.
    pub index_replaced: bool,
}

/// The largest number of damaged entries that a verification lists.
pub const MAX_DAMAGED_LISTED: usize = 1_000;
