//! The database: its lock file, and the operations that run on it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::site::Site;
use docstokg_policy::time::{BootInstant, Clock};
use rusqlite::{Connection, ErrorCode};

use super::lock::{FileLock, LockGuard};
use super::record::SiteRow;
use crate::error::StoreError;
use crate::handle::{SiteKey, SiteView};
use crate::private;
use crate::record_copy::{CorruptRecord, Replica};

mod errors;
mod schema;

use errors::{cannot_write, directory_of, explain, is_link, locked};
pub(crate) use schema::network_of;
use schema::{adopt_boot, forget, prepare, refuse_network};

/// The number of operations between two sweeps of unused sites.
const SWEEP_EVERY: u32 = 4_096;
/// The time for which SQLite itself waits for other programs that use the database.
const BUSY_TIMEOUT: Duration = Duration::from_millis(500);
/// The number of operations between two checkpoints. Each operation writes a page, so the
/// write-ahead log then has some megabytes.
///
/// - A smaller number costs time, because the operation after a checkpoint waits for the disk.
/// - A larger number costs time, because SQLite searches all earlier copies of a page when it adds
///   one.
const CHECKPOINT_STEPS: u32 = 2_000;

/// This process's copy of a site, and the id of its row.
pub(super) struct SiteCopy {
    pub(super) replica: Replica,
    pub(super) row: i64,
}

/// An open database.
pub(super) struct Database {
    path: PathBuf,
    connection: Connection,
    lock: FileLock,
    clock: Arc<dyn Clock>,
    steps: u32,
    /// Set if SQLite currently waits for other programs, because its busy timeout is not zero.
    waits: bool,
}

/// The reason why an operation failed.
#[derive(Debug)]
pub(super) enum StepError {
    Sqlite(rusqlite::Error),
    Corrupt,
}

impl From<rusqlite::Error> for StepError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<CorruptRecord> for StepError {
    fn from(_: CorruptRecord) -> Self {
        Self::Corrupt
    }
}

/// The reaction to a lock that another process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LockMode {
    /// Do not wait.
    IfFree,
    /// Wait for the lock.
    Wait,
}

/// The longest wait for lock and database together. A process that was stopped while it held the
/// lock must not block the others forever.
const LOCK_TIMEOUT: Duration = Duration::from_secs(3);
/// The time between two attempts on a database that another program writes to.
const RETRY_INTERVAL: Duration = Duration::from_millis(3);

/// The write-ahead log of the database, which grows with every operation until a checkpoint.
pub(super) struct WriteAheadLog {
    path: PathBuf,
    connection: Option<Connection>,
}

impl WriteAheadLog {
    /// Checkpoints the log under the lock.
    ///
    /// The next operation restarts only a log that was copied completely. Without the lock, other
    /// operations could extend the log again and again, without bound. Callers that need the lock
    /// during these milliseconds wait in the thread of their process.
    pub(super) fn checkpoint(&mut self) {
        let connection = self
            .connection
            .take()
            .or_else(|| Connection::open(&self.path).ok());
        if let Some(connection) = connection
            && let Ok(lock) = File::options()
                .write(true)
                .open(self.path.with_extension("lock"))
            && let Ok(Some(_guard)) = FileLock::new(lock).take_within(LOCK_TIMEOUT)
        {
            // A checkpoint that fails now succeeds later.
            let _ = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
            self.connection = Some(connection);
        }
    }
}

impl Database {
    /// Opens the database, or creates it.
    pub(super) fn open(
        path: &Path,
        clock: Arc<dyn Clock>,
        boot_id: &str,
    ) -> Result<Self, StoreError> {
        private::make_directory(directory_of(path))
            .map_err(|error| cannot_write(path, &error.to_string()))?;
        refuse_network(path)?;
        private::refuse_link(path).map_err(|error| is_link(path, &error))?;
        let lock_path = path.with_extension("lock");
        let made = private::make_file(&lock_path).and_then(|()| private::make_file(path));
        let lock = made
            .and_then(|()| File::options().write(true).open(&lock_path))
            .map_err(|error| cannot_write(path, &error.to_string()))?;
        let mut lock = FileLock::new(lock);
        let opened = (|| {
            let turn = lock
                .take_within(LOCK_TIMEOUT)
                .map_err(|error| cannot_write(path, &error.to_string()))?;
            let Some(turn) = turn else {
                return Err(locked(path));
            };
            let mut connection =
                Connection::open(path).map_err(|error| explain(path, &error.into()))?;
            prepare(&mut connection, path)?;
            adopt_boot(&mut connection, path, &*clock, boot_id)?;
            drop(turn);
            Ok(connection)
        })();
        Ok(Self {
            path: path.to_owned(),
            connection: opened?,
            lock,
            clock,
            steps: 0,
            waits: true,
        })
    }

    /// Runs one operation on a site in one transaction, with the time read inside it.
    ///
    /// Returns `None` if another process holds the lock and `turn` is [`LockMode::IfFree`]: then
    /// the operation did not run.
    pub(super) fn step<T>(
        &mut self,
        turn: LockMode,
        key: &SiteKey,
        copy: &mut SiteCopy,
        step: impl FnOnce(&mut Site, BootInstant) -> T,
    ) -> Result<Option<T>, StoreError> {
        self.steps = self.steps.wrapping_add(1);
        let sweep = self.steps.is_multiple_of(SWEEP_EVERY);
        let done = self.in_turn(turn, |transaction, clock| {
            let now = clock.boot();
            if sweep {
                forget(transaction, now)?;
            }
            let mut row = SiteRow::new(transaction, key, &mut copy.row, clock, now);
            copy.replica.run(&mut row, |site| step(site, now))
        });
        if done.is_err() {
            // The in-memory copy holds uncommitted changes, so it is read again before the next
            // step.
            copy.replica.distrust();
        }
        done
    }

    /// Copies the state of a site.
    pub(super) fn view(
        &mut self,
        turn: LockMode,
        key: &SiteKey,
        copy: &mut SiteCopy,
    ) -> Result<Option<SiteView>, StoreError> {
        let now = self.step(turn, key, copy, |_, now| now)?;
        Ok(now.map(|now| copy.replica.view(now)))
    }

    /// Returns `true` once every [`CHECKPOINT_STEPS`] operations.
    pub(super) fn needs_checkpoint(&self) -> bool {
        self.steps.is_multiple_of(CHECKPOINT_STEPS)
    }

    /// Writes to the database without a change, to test that writes succeed.
    pub(super) fn touch(&mut self, turn: LockMode) -> Result<Option<()>, StoreError> {
        self.in_turn(turn, |transaction, _| {
            transaction
                .prepare_cached("UPDATE boot SET anchor_boot = anchor_boot")?
                .execute([])?;
            Ok(())
        })
    }

    /// Lists the sites that have state.
    pub(super) fn list(&mut self, turn: LockMode) -> Result<Option<Vec<SiteKey>>, StoreError> {
        self.in_turn(turn, |transaction, _| {
            let mut statement = transaction.prepare_cached("SELECT key FROM sites ORDER BY key")?;
            let keys = statement.query_map([], |row| row.get::<_, String>(0))?;
            Ok(keys
                .map(|key| key.map(SiteKey::from))
                .collect::<Result<_, _>>()?)
        })
    }

    /// Runs work in one transaction, while the lock file is locked.
    fn in_turn<T>(
        &mut self,
        turn: LockMode,
        work: impl FnOnce(&Connection, &dyn Clock) -> Result<T, StepError>,
    ) -> Result<Option<T>, StoreError> {
        match self.try_in_turn(turn, work) {
            Ok(None) if turn == LockMode::Wait => Err(locked(&self.path)),
            done => done.map_err(|error| explain(&self.path, &error)),
        }
    }

    fn try_in_turn<T>(
        &mut self,
        turn: LockMode,
        work: impl FnOnce(&Connection, &dyn Clock) -> Result<T, StepError>,
    ) -> Result<Option<T>, StepError> {
        if !self.connection.is_autocommit() {
            // An operation that panicked left its transaction open.
            self.connection.execute_batch("ROLLBACK")?;
        }
        // Another program may be writing. SQLite waits for that program for a short time, but only
        // if a wait is allowed.
        if self.waits != (turn == LockMode::Wait) {
            self.waits = turn == LockMode::Wait;
            let timeout = if self.waits {
                BUSY_TIMEOUT
            } else {
                Duration::ZERO
            };
            self.connection.busy_timeout(timeout)?;
        }
        let Some(_guard) = self.begin(turn)? else {
            return Ok(None);
        };
        let done = work(&self.connection, &*self.clock).and_then(|done| {
            self.connection.prepare_cached("COMMIT")?.execute([])?;
            Ok(done)
        });
        if done.is_err() && !self.connection.is_autocommit() {
            self.connection.execute_batch("ROLLBACK")?;
        }
        done.map(Some)
    }

    /// Takes the lock and begins a transaction. Returns `None` if another process or program holds
    /// it for too long.
    fn begin(&mut self, turn: LockMode) -> Result<Option<LockGuard>, StepError> {
        let mut waited = Duration::ZERO;
        loop {
            let guard = if turn == LockMode::Wait {
                self.lock.take_within(LOCK_TIMEOUT)
            } else {
                self.lock.try_take()
            };
            let not_lockable = |error: std::io::Error| {
                StepError::Sqlite(rusqlite::Error::ToSqlConversionFailure(error.into()))
            };
            let Some(guard) = guard.map_err(not_lockable)? else {
                return Ok(None);
            };
            let begun = self
                .connection
                .prepare_cached("BEGIN IMMEDIATE")?
                .execute([]);
            match begun {
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                    drop(guard);
                    if turn == LockMode::IfFree || waited >= LOCK_TIMEOUT {
                        return Ok(None);
                    }
                    #[expect(
                        clippy::disallowed_methods,
                        reason = "the thread of the store waits for another program, in real time"
                    )]
                    std::thread::sleep(RETRY_INTERVAL);
                    waited += BUSY_TIMEOUT + RETRY_INTERVAL;
                }
                begun => {
                    begun?;
                    return Ok(Some(guard));
                }
            }
        }
    }

    /// Returns the [`WriteAheadLog`], for checkpoints.
    #[must_use]
    pub(super) fn wal(&self) -> WriteAheadLog {
        WriteAheadLog {
            path: self.path.clone(),
            connection: None,
        }
    }
}
