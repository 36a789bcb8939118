//! Opening the stores and the cache that the configuration names.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use docstokg_stores::cache::{CacheLimits, CacheStore, WarningObserver};
use docstokg_stores::fallback::{AvailabilityNotice, Fallback};
use docstokg_stores::memory::MemoryStore;
use docstokg_stores::multiprocess::MultiprocessStore;
use docstokg_stores::redis::RedisStore;
use docstokg_stores::split::SplitStore;
use docstokg_stores::sqlite::SqliteStore;
use docstokg_stores::{StateStore, StoreError};

use crate::cache::Sharing;
use crate::clock::Clock;
use crate::config::{Backend, BackendKind, CacheConfig, Config, OnStoreFailure};

/// The name of the `SQLite` database of limits and breakers in the state directory.
pub const SQLITE_FILE: &str = "state.sqlite";

/// Opens the stores of a [`Config`]: one for limits and breakers together, or one for each.
///
/// # Errors
/// Returns the errors of [`open`].
pub fn open_for(
    config: &Config,
    state_dir: &Path,
    clock: Arc<dyn Clock>,
    notice: &AvailabilityNotice,
) -> Result<Arc<dyn StateStore>, StoreError> {
    let limits = open(
        &config.limits.backend,
        state_dir,
        Arc::clone(&clock),
        Arc::clone(notice),
    )?;
    Ok(match &config.breakers.backend {
        None => limits,
        Some(breakers) => Arc::new(SplitStore::new(
            open(breakers, state_dir, clock, Arc::clone(notice))?,
            limits,
        )),
    })
}

/// Opens the stores of a [`Config`] for a program that embeds the hub, and that may set the
/// directory of the stores' files.
///
/// # Errors
/// Returns the errors of [`open`], and one if a store with files has neither a directory nor a DSN.
pub(crate) fn open_for_library(
    config: &Config,
    state_dir: Option<&Path>,
    clock: Arc<dyn Clock>,
    notice: &AvailabilityNotice,
) -> Result<Arc<dyn StateStore>, StoreError> {
    let backends = [
        Some(&config.limits.backend),
        config.breakers.backend.as_ref(),
    ];
    let needs_place = |backend: &&Backend| {
        matches!(
            backend.kind.value,
            BackendKind::Sqlite | BackendKind::Multiprocess
        ) && backend.dsn.trim().is_empty()
    };
    if let (None, Some(backend)) = (state_dir, backends.into_iter().flatten().find(needs_place)) {
        return Err(StoreError::Unusable {
            store: format!("the {} store of limits", backend.kind.value.as_str()),
            why: "the configuration names it without a place".to_owned(),
            remedy: "give a file as its dsn, or a directory with HubBuilder::state_dir".to_owned(),
        });
    }
    open_for(config, state_dir.unwrap_or(Path::new(".")), clock, notice)
}

/// Opens the stores of a [`Config`] for a command of an operator. There is no fallback: if a store
/// is unavailable, the command fails.
///
/// # Errors
/// Returns the errors of [`open`].
pub fn open_strict_for(
    config: &Config,
    state_dir: &Path,
    clock: Arc<dyn Clock>,
) -> Result<Arc<dyn StateStore>, StoreError> {
    let limits = open_strict(&config.limits.backend, state_dir, Arc::clone(&clock))?;
    Ok(match &config.breakers.backend {
        None => limits,
        Some(breakers) => Arc::new(SplitStore::new(
            open_strict(breakers, state_dir, clock)?,
            limits,
        )),
    })
}

/// Opens the store of a [`Backend`], with a fallback if the backend has [`OnStoreFailure::Local`].
///
/// While the store is unavailable, the fallback applies this process's share of the limits.
/// `notice` is called when that begins and ends. Files are in `state_dir`, unless the DSN names a
/// path.
///
/// # Errors
/// Returns a [`StoreError`] with the cause and the remedy if the store cannot be used.
pub fn open(
    backend: &Backend,
    state_dir: &Path,
    clock: Arc<dyn Clock>,
    notice: AvailabilityNotice,
) -> Result<Arc<dyn StateStore>, StoreError> {
    let store = open_strict(backend, state_dir, Arc::clone(&clock))?;
    Ok(match backend.on_failure {
        OnStoreFailure::Local if store.is_shared() => {
            Arc::new(Fallback::new(store, clock, notice, backend.assumed_peers))
        }
        OnStoreFailure::Local | OnStoreFailure::Refuse => store,
    })
}

/// Opens the store of a [`Backend`] without a fallback, so that its failures become errors.
///
/// # Errors
/// Returns the errors of [`open`].
pub fn open_strict(
    backend: &Backend,
    state_dir: &Path,
    clock: Arc<dyn Clock>,
) -> Result<Arc<dyn StateStore>, StoreError> {
    Ok(match backend.kind.value {
        BackendKind::Memory => Arc::new(MemoryStore::new(clock)),
        BackendKind::Sqlite => Arc::new(SqliteStore::open(
            &place(backend, state_dir, SQLITE_FILE),
            clock,
        )?),
        BackendKind::Multiprocess => Arc::new(MultiprocessStore::open(
            &place(backend, state_dir, docstokg_stores::multiprocess::FILE_NAME),
            clock,
        )?),
        BackendKind::Redis => Arc::new(RedisStore::open(&backend.dsn, clock)?),
    })
}

fn place(backend: &Backend, state_dir: &Path, name: &str) -> PathBuf {
    match backend.dsn.trim() {
        "" => state_dir.join(name),
        dsn => PathBuf::from(
            dsn.strip_prefix("sqlite://")
                .or_else(|| dsn.strip_prefix("file://"))
                .unwrap_or(dsn),
        ),
    }
}

/// Opens the cache of a configuration: in its own directory, otherwise in the state directory,
/// otherwise in memory. If the directory cannot be used, the cache reports this and stores nothing.
pub(crate) fn open_cache(
    config: &CacheConfig,
    state_dir: Option<&Path>,
    clock: Arc<dyn Clock>,
    notice: &AvailabilityNotice,
) -> Option<(CacheStore, Sharing)> {
    if !config.enabled {
        return None;
    }
    let limits = cache_limits(config);
    let Some(directory) = cache_directory(config, state_dir) else {
        return Some((CacheStore::memory(limits, clock), Sharing::Process));
    };
    let notice = Arc::clone(notice);
    let warnings: WarningObserver = Arc::new(move |warning| notice(&warning.to_string()));
    let store = CacheStore::disk_or_off(&directory, limits, clock, Some(warnings));
    Some((store, Sharing::Processes))
}

/// Returns the directory of the cache: the configured one, otherwise `cache` in the state
/// directory; `None` if neither is given.
#[must_use]
pub fn cache_directory(config: &CacheConfig, state_dir: Option<&Path>) -> Option<PathBuf> {
    let own = config.directory.clone();
    own.or_else(|| state_dir.map(|directory| directory.join("cache")))
}

/// Returns the [`CacheLimits`] of a configuration.
#[must_use]
pub fn cache_limits(config: &CacheConfig) -> CacheLimits {
    CacheLimits {
        memory_bytes: config.memory_bytes,
        ..CacheLimits::of(config.max_bytes)
    }
}
