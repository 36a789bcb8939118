//! What operators ask about a cache: its size, its entries, and what was removed from it.

use std::sync::atomic::Ordering;

use docstokg_policy::time::Timestamp;

use super::entry::CacheEntry;

/// The size of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// How many responses are stored.
    pub entries: u64,
    /// How many bytes they count for: body, metadata, URL, and an estimate of their rows.
    pub bytes: u64,
    /// The most bytes that may be stored.
    pub max_bytes: u64,
    /// How many keys this process has in memory.
    pub memory_keys: u64,
    /// How many bytes this process has in memory.
    pub memory_bytes: u64,
}

/// What an operation removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemovedEntries {
    /// How many responses.
    pub entries: u64,
    /// How many bytes they counted for.
    pub bytes: u64,
}

/// A position in the list of entries: the start by default, or that of the last one listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListPosition(pub(super) i64);

/// An entry as `cache show` lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedEntry {
    /// Its position: pass the last one to get the next page.
    pub position: ListPosition,
    /// The URL for display.
    pub url: String,
    /// The host.
    pub host: String,
    /// The length of the body in bytes.
    pub body_length: u64,
    /// When it was stored.
    pub stored_at: Timestamp,
    /// When it was last used, to some seconds.
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
    /// The URL for display; empty where the row itself could not be read.
    pub url: String,
    /// What was wrong.
    pub why: String,
}

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerificationReport {
    /// How many entries were checked, the damaged ones included.
    pub entries: u64,
    /// How many bytes of bodies were read.
    pub bytes: u64,
    /// How many entries were damaged and removed.
    pub damaged: u64,
    /// The first [`MAX_DAMAGED_LISTED`] of them.
    pub list: Vec<DamagedEntry>,
    /// How many files belonged to no entry and were removed.
    pub orphans: u64,
    /// Whether the index itself was damaged: it was set aside and the cache started anew.
    pub index_replaced: bool,
}

/// How many damaged entries a verification lists.
pub const MAX_DAMAGED_LISTED: usize = 1_000;
