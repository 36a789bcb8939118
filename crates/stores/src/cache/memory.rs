//! Responses in the memory of one process: for embedders without a state directory, and for tests.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use docstokg_policy::time::{BootInstant, Clock};
use parking_lot::Mutex;

use super::admin::{CacheStats, ListPosition, ListedEntry, RemovedEntries, VerificationReport};
use super::entry::{CacheEntry, EntryBody, EntryId, Variants};
use super::key::{CacheKey, MAX_VARIANTS, NewEntry, size_of};
use super::lease::{self, Claim, Holder, LeaseRecord};
use super::marks::CacheMarks;
use super::recent::RecentValues;
use super::writer::StoreOutcome;

/// The number of lease records above which expired ones are dropped.
const MAX_LEASE_RECORDS: usize = 1_024;

/// A cache in memory.
pub(super) struct MemoryCache {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) marks: CacheMarks,
    pub(super) max_bytes: u64,
    pub(super) max_body_bytes: u64,
    state: Mutex<MemoryState>,
}

struct MemoryState {
    entries: RecentValues<Variants>,
    leases: HashMap<CacheKey, LeaseRecord>,
    last_row: i64,
}

fn size(variants: &[Arc<CacheEntry>]) -> u64 {
    variants.iter().map(|entry| entry.size()).sum()
}

impl CacheEntry {
    /// Returns the size of the entry in bytes.
    pub(super) fn size(&self) -> u64 {
        size_of(self.length, &self.metadata, &self.url, &self.host)
    }
}

impl MemoryCache {
    pub(super) fn new(max_bytes: u64, max_body_bytes: u64, clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            marks: CacheMarks::own(),
            max_bytes,
            max_body_bytes,
            state: Mutex::new(MemoryState {
                entries: RecentValues::new(max_bytes),
                leases: HashMap::new(),
                last_row: 0,
            }),
        }
    }

    pub(super) fn look_up(&self, key: &CacheKey) -> Variants {
        let found = self
            .state
            .lock()
            .entries
            .get(key)
            .map(|found| found.clone());
        let Some(found) = found else {
            return Variants::default();
        };
        let now = self.clock.wall().as_micros();
        for entry in found.iter() {
            entry.used_at.store(now, Ordering::Relaxed);
        }
        found
    }

    /// Stores a response. The stamp is compared under the lock that invalidations take.
    pub(super) fn put(&self, new: NewEntry, body: Bytes, checksum: u64) -> StoreOutcome {
        let mut state = self.state.lock();
        if self.marks.stamp(&new.key) != new.since {
            return StoreOutcome::Invalidated;
        }
        let now = self.clock.wall();
        state.last_row += 1;
        let entry = Arc::new(CacheEntry {
            id: EntryId {
                row: state.last_row,
                key: new.key,
                variant: new.variant,
                checksum,
            },
            metadata: new.metadata,
            url: new.url.into(),
            host: new.host.into(),
            stored_at: now,
            length: body.len() as u64,
            body: EntryBody::Whole(body),
            decoded: OnceLock::new(),
            used_at: AtomicI64::new(now.as_micros()),
        });
        if entry.size() > self.max_bytes {
            return StoreOutcome::TooLarge;
        }
        let older = state.entries.peek(&new.key).cloned().unwrap_or_default();
        let others = older
            .iter()
            .filter(|other| other.id.variant != new.variant)
            .cloned();
        let mut variants: Vec<_> = std::iter::once(entry).chain(others).collect();
        variants.truncate(MAX_VARIANTS);
        while size(&variants) > self.max_bytes {
            variants.pop();
        }
        let bytes = size(&variants);
        state
            .entries
            .insert(new.key, Variants(variants.into()), bytes);
        self.marks.changed(&new.key);
        StoreOutcome::Yes
    }

    /// Changes the variants of a [`CacheKey`]. A key without variants is removed.
    fn edit(&self, key: &CacheKey, edit: impl FnOnce(&mut Vec<Arc<CacheEntry>>) -> bool) -> bool {
        let mut state = self.state.lock();
        let Some(variants) = state.entries.peek(key) else {
            return false;
        };
        let mut variants = variants.to_vec();
        let edited = edit(&mut variants);
        if variants.is_empty() {
            state.entries.remove(key);
        } else {
            let bytes = size(&variants);
            state.entries.replace(key, Variants(variants.into()), bytes);
        }
        self.marks.changed(key);
        edited
    }

    pub(super) fn update_metadata(&self, id: &EntryId, metadata: Bytes) -> bool {
        self.edit(&id.key, |variants| {
            let Some(entry) = variants.iter_mut().find(|entry| entry.id == *id) else {
                return false;
            };
            *entry = Arc::new(CacheEntry {
                id: *id,
                metadata,
                url: entry.url.clone(),
                host: entry.host.clone(),
                stored_at: entry.stored_at,
                length: entry.length,
                body: entry.body.clone(),
                decoded: OnceLock::new(),
                used_at: AtomicI64::new(entry.used_at.load(Ordering::Relaxed)),
            });
            true
        })
    }

    pub(super) fn remove(&self, id: &EntryId) -> bool {
        self.edit(&id.key, |variants| {
            let before = variants.len();
            variants.retain(|entry| entry.id != *id);
            variants.len() < before
        })
    }

    pub(super) fn invalidate(&self, key: &CacheKey) {
        let mut state = self.state.lock();
        state.entries.remove(key);
        self.marks.invalidated(key);
    }

    pub(super) fn purge(&self, host: Option<&str>) -> RemovedEntries {
        let mut state = self.state.lock();
        let mut removed = RemovedEntries::default();
        self.marks.purged();
        let keys: Vec<CacheKey> = state.entries.keys().copied().collect();
        for key in keys {
            let variants = state.entries.peek(&key).cloned().unwrap_or_default();
            let (gone, kept): (Vec<_>, Vec<_>) = variants
                .iter()
                .cloned()
                .partition(|entry| host.is_none_or(|host| *entry.host == *host));
            removed.entries += gone.len() as u64;
            removed.bytes += size(&gone);
            if kept.is_empty() {
                state.entries.remove(&key);
            } else {
                let bytes = size(&kept);
                state.entries.replace(&key, Variants(kept.into()), bytes);
            }
        }
        removed
    }

    pub(super) fn evict(&self, to_bytes: u64) -> RemovedEntries {
        let mut state = self.state.lock();
        let before: usize = state.entries.values().map(|found| found.len()).sum();
        let (_, bytes) = state.entries.shrink(to_bytes);
        let after: usize = state.entries.values().map(|found| found.len()).sum();
        RemovedEntries {
            entries: (before - after) as u64,
            bytes,
        }
    }

    pub(super) fn stats(&self) -> CacheStats {
        let state = self.state.lock();
        let entries: usize = state.entries.values().map(|found| found.len()).sum();
        CacheStats {
            entries: entries as u64,
            bytes: state.entries.bytes(),
            max_bytes: self.max_bytes,
            memory_keys: state.entries.len() as u64,
            memory_bytes: state.entries.bytes(),
        }
    }

    /// Returns a [`VerificationReport`] without damage, because a disk cannot damage bodies in
    /// memory.
    pub(super) fn verify(&self) -> VerificationReport {
        let stats = self.stats();
        VerificationReport {
            entries: stats.entries,
            ..VerificationReport::default()
        }
    }

    pub(super) fn list(
        &self,
        host: Option<&str>,
        after: ListPosition,
        limit: usize,
    ) -> Vec<ListedEntry> {
        let state = self.state.lock();
        let mut listed: Vec<ListedEntry> = state
            .entries
            .values()
            .flat_map(|found| found.iter())
            .filter(|entry| entry.id.row > after.0)
            .filter(|entry| host.is_none_or(|host| *entry.host == *host))
            .map(|entry| ListedEntry::of(entry))
            .collect();
        listed.sort_by_key(|entry| entry.position);
        listed.truncate(limit);
        listed
    }

    pub(super) fn claim(&self, key: &CacheKey, holder: Holder, until: BootInstant) -> Claim {
        let mut state = self.state.lock();
        let now = self.clock.boot();
        let claim = lease::claim(state.leases.get(key).copied(), holder, now);
        if claim == Claim::Leader {
            state.record(*key, LeaseRecord::flight(holder, until, now), now);
        }
        claim
    }

    pub(super) fn renew(&self, key: &CacheKey, holder: Holder, until: BootInstant) -> bool {
        let mut state = self.state.lock();
        let now = self.clock.boot();
        let held = lease::is_held(state.leases.get(key).copied(), holder, now);
        if held {
            state.record(*key, LeaseRecord::flight(holder, until, now), now);
        }
        held
    }

    pub(super) fn release(&self, key: &CacheKey, holder: Holder) {
        let mut state = self.state.lock();
        let is_mine = |lease: &LeaseRecord| lease.holder == Some(holder);
        if state.leases.get(key).is_some_and(is_mine) {
            state.leases.remove(key);
            self.marks.changed(key);
        }
    }

    pub(super) fn remember_uncacheable(&self, key: &CacheKey, until: BootInstant) {
        let mut state = self.state.lock();
        let now = self.clock.boot();
        state.record(*key, LeaseRecord::uncacheable(until, now), now);
        self.marks.changed(key);
    }
}

impl MemoryState {
    /// Records a lease, and drops expired leases if there are many.
    fn record(&mut self, key: CacheKey, lease: LeaseRecord, now: BootInstant) {
        if self.leases.len() >= MAX_LEASE_RECORDS && !self.leases.contains_key(&key) {
            self.leases.retain(|_, lease| lease.is_live(now));
        }
        self.leases.insert(key, lease);
    }
}
