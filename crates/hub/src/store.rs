//! Opening the store that the configuration names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use docstokg_stores::memory::MemoryStore;
use docstokg_stores::multiprocess::MultiprocessStore;
use docstokg_stores::sqlite::SqliteStore;
use docstokg_stores::{StateStore, StoreError};

use crate::clock::Clock;
use crate::config::{Backend, BackendKind};

/// Opens the store that `backend` names. Files lie in `state_dir` unless its DSN says otherwise.
///
/// # Errors
/// The store cannot be used: the message says why and what to do.
pub fn open(backend: &Backend, state_dir: &Path, clock: Arc<dyn Clock>) -> Result<Arc<dyn StateStore>, StoreError> {
    Ok(match backend.kind.value {
        BackendKind::Memory => Arc::new(MemoryStore::new(clock)),
        BackendKind::Sqlite => Arc::new(SqliteStore::open(&place(backend, state_dir, "state.sqlite"), clock)?),
        BackendKind::Multiprocess => Arc::new(MultiprocessStore::open(&place(backend, state_dir, "limits.shm"), clock)?),
        kind @ BackendKind::Redis => {
            return Err(StoreError::Unusable {
                store: format!("the {} backend", kind.as_str()),
                why: "this version does not have it yet".to_owned(),
                remedy: "choose sqlite".to_owned(),
            });
        }
    })
}

fn place(backend: &Backend, state_dir: &Path, name: &str) -> PathBuf {
    match backend.dsn.trim() {
        "" => state_dir.join(name),
        dsn => PathBuf::from(dsn.strip_prefix("sqlite://").or_else(|| dsn.strip_prefix("file://")).unwrap_or(dsn)),
    }
}
