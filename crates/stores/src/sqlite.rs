//! State in a database of the state directory, shared by all processes of a machine. The default of
//! the programs.
//!
//! An operation is one immediate transaction behind a lock file, and takes microseconds. The
//! write-ahead log grows with each operation, and a separate thread checkpoints the log. If the
//! lock is free, the caller runs its operation at once; otherwise the thread runs it, so that no
//! caller blocks the executor. `crate::record_copy` describes the reads and writes of an
//! operation.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use docstokg_policy::time::Clock;
use parking_lot::Mutex;

use crate::error::StoreError;
use crate::handle::{HeartbeatObserver, SiteHandle, SiteKey, StateStore, StoreReply};
use crate::multiprocess::PerProcess;
use crate::peers::StorePeers;
use crate::process;

mod database;
mod lock;
mod record;
mod site;
mod worker;

pub(crate) use database::network_of;
use database::{Database, LockMode};
use site::SqliteSite;
use worker::{DatabaseWorker, ask, at_once};

/// A store in a SQLite database.
pub struct SqliteStore {
    worker: Arc<PerProcess<DatabaseWorker>>,
    path: PathBuf,
    peers: Mutex<Option<StorePeers>>,
}

impl SqliteStore {
    /// Opens the database at `path`, or creates it.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use docstokg_stores::clock::SystemClock;
    /// use docstokg_stores::sqlite::SqliteStore;
    /// use docstokg_stores::{SiteKey, StateStore};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("limits.sqlite3");
    /// let store = SqliteStore::open(&path, Arc::new(SystemClock))?;
    /// let _site = store.site(&SiteKey::from("api.example"));
    /// assert!(store.is_shared(), "other processes may open the same file");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`StoreError`] if the database cannot be written, is damaged, or belongs to another
    /// version. A network file system is also an error.
    pub fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        Self::open_after_boot(path, clock, &process::boot_id())
    }

    /// Opens the database as [`SqliteStore::open`] does, in the boot with this id.
    ///
    /// # Errors
    /// Returns [`StoreError`] in the same cases as [`SqliteStore::open`].
    pub fn open_after_boot(
        path: &Path,
        clock: Arc<dyn Clock>,
        boot_id: &str,
    ) -> Result<Self, StoreError> {
        let worker = DatabaseWorker::start(path, Arc::clone(&clock), boot_id)?;
        let (path_again, boot_id) = (path.to_owned(), boot_id.to_owned());
        let again = move || {
            DatabaseWorker::start(&path_again, Arc::clone(&clock), &boot_id)
                .unwrap_or_else(DatabaseWorker::broken)
        };
        Ok(Self {
            worker: Arc::new(PerProcess::new(worker, again)),
            path: path.to_owned(),
            peers: Mutex::new(None),
        })
    }
}

impl StateStore for SqliteStore {
    fn site(&self, key: &SiteKey) -> Arc<dyn SiteHandle> {
        Arc::new(SqliteSite::new(&self.worker, key))
    }

    fn list(&self) -> StoreReply<Vec<SiteKey>> {
        ask(&self.worker, Database::list)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn check(&self) -> StoreReply<()> {
        // Checks are repeated, so this one does not wait for the lock.
        let taken = || {
            Err(StoreError::Unavailable {
                store: "the state database".to_owned(),
                why: "another process holds its lock".to_owned(),
            })
        };
        StoreReply::Ready(
            at_once(&self.worker, |database| database.touch(LockMode::IfFree))
                .unwrap_or_else(taken),
        )
    }

    fn peers(&self) -> Option<u32> {
        self.peers.lock().as_ref().map(StorePeers::count)
    }

    fn rank(&self) -> u32 {
        self.peers.lock().as_ref().map_or(0, StorePeers::rank)
    }

    fn watch_peers(&self, _observer: HeartbeatObserver) {
        *self.peers.lock() = StorePeers::join(&self.path);
    }

    fn flush(&self) -> StoreReply<()> {
        // Jobs run in order, so the queued ones are complete before this one. Operations that ran
        // at once are complete already.
        ask(&self.worker, Database::touch)
    }
}
