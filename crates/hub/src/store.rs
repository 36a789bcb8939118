//! Opening the store that the configuration names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use docstokg_stores::fallback::{Fallback, Notice};
use docstokg_stores::memory::MemoryStore;
use docstokg_stores::multiprocess::MultiprocessStore;
use docstokg_stores::redis::RedisStore;
use docstokg_stores::sqlite::SqliteStore;
use docstokg_stores::{StateStore, StoreError};

use crate::clock::Clock;
use crate::config::{Backend, BackendKind, OnStoreFailure};

/// Opens the store that `backend` names, and goes on without it while it is away if `backend` says so; `notice` hears of
/// that. Files lie in `state_dir` unless its DSN says otherwise.
///
/// # Errors
/// The store cannot be used: the message says why and what to do.
pub fn open(backend: &Backend, state_dir: &Path, clock: Arc<dyn Clock>, notice: Notice) -> Result<Arc<dyn StateStore>, StoreError> {
    let store = reach(backend, state_dir, Arc::clone(&clock))?;
    Ok(match backend.on_failure {
        OnStoreFailure::Local if store.is_shared() => Arc::new(Fallback::new(store, clock, notice)),
        OnStoreFailure::Local | OnStoreFailure::Refuse => store,
    })
}

/// Opens the store that `backend` names, and nothing in its place.
///
/// # Errors
/// As [`open`].
pub fn reach(backend: &Backend, state_dir: &Path, clock: Arc<dyn Clock>) -> Result<Arc<dyn StateStore>, StoreError> {
    Ok(match backend.kind.value {
        BackendKind::Memory => Arc::new(MemoryStore::new(clock)),
        BackendKind::Sqlite => Arc::new(SqliteStore::open(&place(backend, state_dir, "state.sqlite"), clock)?),
        BackendKind::Multiprocess => Arc::new(MultiprocessStore::open(&place(backend, state_dir, docstokg_stores::multiprocess::FILE_NAME), clock)?),
        BackendKind::Redis => Arc::new(RedisStore::open(&backend.dsn, clock)?),
    })
}

fn place(backend: &Backend, state_dir: &Path, name: &str) -> PathBuf {
    match backend.dsn.trim() {
        "" => state_dir.join(name),
        dsn => PathBuf::from(dsn.strip_prefix("sqlite://").or_else(|| dsn.strip_prefix("file://")).unwrap_or(dsn)),
    }
}
