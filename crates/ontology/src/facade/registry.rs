//! The keys that one process has used, each created at its first use.

use std::collections::HashMap;
use std::sync::Arc;

use docstokg_stores::{SiteKey, StateStore, StoreError};
use parking_lot::RwLock;

use super::entry::KeyEntry;
use super::error::AcquireError;
use super::key::ServiceKey;
use super::settings::RateLimits;

/// Number of keys above which keys that no caller is using are dropped from memory.
const MAX_KEYS: usize = 4_096;

/// The hosts that share the limit of one operator, each with the [`SiteKey`] that has the limit.
pub(super) type JoinedHosts = Arc<HashMap<String, SiteKey>>;

/// The function that opens the store; called once in each process.
pub(super) type OpenStore = Box<dyn Fn() -> Result<Arc<dyn StateStore>, StoreError> + Send + Sync>;

/// The [`KeyEntry`]s of one process.
pub(super) struct KeyRegistry {
    store: Result<Arc<dyn StateStore>, StoreError>,
    limits: Arc<RateLimits>,
    joined: JoinedHosts,
    entries: RwLock<HashMap<ServiceKey, Arc<KeyEntry>>>,
}

impl KeyRegistry {
    /// Creates a registry in which every service of the settings is ready.
    pub(super) fn new(
        store: Result<Arc<dyn StateStore>, StoreError>,
        limits: Arc<RateLimits>,
        joined: JoinedHosts,
    ) -> Self {
        let registry = Self {
            store,
            joined,
            entries: RwLock::default(),
            limits,
        };
        for service in registry.limits.per_service.keys() {
            let _ = registry.entry(Some(service), None);
        }
        registry
    }

    /// Returns the [`StoreError`] that makes the store unusable, if there is one.
    pub(super) fn store_error(&self) -> Option<StoreError> {
        self.store.as_ref().err().cloned()
    }

    pub(super) fn entry(
        &self,
        service: Option<&str>,
        host: Option<&str>,
    ) -> Result<Arc<KeyEntry>, AcquireError> {
        self.entry_of(&ServiceKey::new(service, host)?)
    }

    pub(super) fn entry_of(&self, key: &ServiceKey) -> Result<Arc<KeyEntry>, AcquireError> {
        if let Some(entry) = self.entries.read().get(key) {
            return Ok(Arc::clone(entry));
        }
        let store = self.store.as_ref().map_err(Clone::clone)?;
        let mut entries = self.entries.write();
        if entries.len() >= MAX_KEYS {
            // The store still has the permits in use of a dropped key, for the next use of the key.
            entries.retain(|_, entry| Arc::strong_count(entry) > 1);
        }
        let windows = self.limits.windows(key.service());
        let site = self.joined.get(&**key.host()).unwrap_or(key.host());
        let entry = entries
            .entry(key.clone())
            .or_insert_with(|| Arc::new(KeyEntry::new(key.clone(), windows, &**store, site)));
        Ok(Arc::clone(entry))
    }

    /// Returns every [`ServiceKey`], sorted.
    pub(super) fn keys(&self) -> Result<Vec<ServiceKey>, AcquireError> {
        if let Some(error) = self.store_error() {
            return Err(error.into());
        }
        let mut keys: Vec<ServiceKey> = self.entries.read().keys().cloned().collect();
        keys.sort();
        Ok(keys)
    }
}
