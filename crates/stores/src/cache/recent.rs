//! A map with a size limit in bytes, which drops the least recently used values first.

use hashlink::LinkedHashMap;

use super::key::CacheKey;

struct RecentValue<V> {
    value: V,
    bytes: u64,
}

/// Values in the order of their last use.
pub(super) struct RecentValues<V> {
    slots: LinkedHashMap<CacheKey, RecentValue<V>>,
    bytes: u64,
    max_bytes: u64,
}

impl<V> RecentValues<V> {
    pub(super) fn new(max_bytes: u64) -> Self {
        Self {
            slots: LinkedHashMap::new(),
            bytes: 0,
            max_bytes,
        }
    }

    /// Returns a value, which becomes the most recently used one.
    pub(super) fn get(&mut self, key: &CacheKey) -> Option<&mut V> {
        self.slots.to_back(key).map(|slot| &mut slot.value)
    }

    /// Returns a value without a change of the order.
    pub(super) fn peek(&self, key: &CacheKey) -> Option<&V> {
        self.slots.get(key).map(|slot| &slot.value)
    }

    /// Inserts a value as the most recently used one, in place of an older value of its
    /// [`CacheKey`]. Drops others until all fit. A value that is too large alone is dropped.
    pub(super) fn insert(&mut self, key: CacheKey, value: V, bytes: u64) {
        self.remove(&key);
        if bytes > self.max_bytes {
            return;
        }
        self.bytes += bytes;
        self.slots.insert(key, RecentValue { value, bytes });
        self.shrink(self.max_bytes);
    }

    /// Replaces the value of a [`CacheKey`] at its position in the order.
    pub(super) fn replace(&mut self, key: &CacheKey, value: V, bytes: u64) {
        if let Some(slot) = self.slots.get_mut(key) {
            self.bytes = self.bytes - slot.bytes + bytes;
            *slot = RecentValue { value, bytes };
        }
        self.shrink(self.max_bytes);
    }

    pub(super) fn remove(&mut self, key: &CacheKey) -> Option<V> {
        let slot = self.slots.remove(key)?;
        self.bytes -= slot.bytes;
        Some(slot.value)
    }

    /// Drops the least recently used values until the rest has at most `bytes`. Returns the number
    /// of dropped values and of their bytes.
    pub(super) fn shrink(&mut self, bytes: u64) -> (u64, u64) {
        let (mut dropped, before) = (0, self.bytes);
        while self.bytes > bytes
            && let Some((_, slot)) = self.slots.pop_front()
        {
            self.bytes -= slot.bytes;
            dropped += 1;
        }
        (dropped, before - self.bytes)
    }

    /// Drops all values.
    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.bytes = 0;
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &CacheKey> {
        self.slots.keys()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &V> {
        self.slots.values().map(|slot| &slot.value)
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}
