//! The database: its lock file, and the operations that run on it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::site::Site;
use docstokg_policy::time::{BootInstant, Clock};
use rusqlite::{Connection, ErrorCode, OptionalExtension, TransactionBehavior, params};

use super::lock::Lock;
use super::record::Row;
use crate::KEEP;
use crate::error::StoreError;
use crate::handle::{SiteKey, SiteView};
use crate::private;
use crate::replica::{Corrupt, Replica, from_first_layout};

/// The version of the tables that this program writes.
const VERSION: i64 = 2;
/// The version whose reservations had no positions: its sites are rewritten when it is opened.
const FIRST_VERSION: i64 = 1;
/// How many operations there are between two sweeps of unused sites.
const SWEEP_EVERY: u32 = 4_096;
/// How long SQLite itself waits, for other programs that use the database.
const BUSY_TIMEOUT: Duration = Duration::from_millis(500);
/// How many operations there are between two checkpoints: a page each, so the write-ahead log has
/// some megabytes by then. The operation after a checkpoint waits for the disk, so it is not more
/// often; and SQLite searches all earlier copies of a page when it adds one, so it is not less often.
const CHECKPOINT_STEPS: u32 = 2_000;
/// The size of a page. An operation writes one: it holds a site with a full log, and not much more.
const PAGE_SIZE: i64 = 2_048;

const TABLES: &str = "
CREATE TABLE boot (id TEXT NOT NULL, anchor_boot INTEGER NOT NULL, anchor_wall INTEGER NOT NULL);
CREATE TABLE sites (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    page_no INTEGER NOT NULL,
    head_no INTEGER NOT NULL,
    head BLOB NOT NULL,
    log BLOB NOT NULL,
    used INTEGER NOT NULL,
    until_wall REAL,
    reason TEXT,
    updated_at REAL
);
CREATE TABLE pages (site INTEGER PRIMARY KEY, page BLOB NOT NULL);
-- For an operator with the sqlite3 shell: which hosts are blocked, until when (seconds since 1970,
-- UTC), and why.
CREATE VIEW breaker_cooldowns(host, until_wall, reason, updated_at) AS
    SELECT key, until_wall, reason, updated_at FROM sites
    WHERE until_wall > (julianday('now') - 2440587.5) * 86400.0;
";

/// This process's copy of a site, and the id of its row.
pub(super) struct SiteCopy {
    pub(super) replica: Replica,
    pub(super) row: i64,
}

/// An open database.
pub(super) struct Database {
    path: PathBuf,
    connection: Connection,
    lock: Lock,
    clock: Arc<dyn Clock>,
    steps: u32,
    /// Whether the busy timeout of SQLite is set.
    waits: bool,
}

/// Why an operation failed.
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

impl From<Corrupt> for StepError {
    fn from(_: Corrupt) -> Self {
        Self::Corrupt
    }
}

/// What to do when another process holds the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Give up.
    IfFree,
    /// Wait for the lock.
    Wait,
}

/// How long to wait for lock and database in all: a process that was stopped while it held the lock
/// must not block the others forever.
const LOCK_TIMEOUT: Duration = Duration::from_secs(3);
/// How long to sleep between two attempts on a database that another program writes to.
const RETRY_INTERVAL: Duration = Duration::from_millis(3);

/// The write-ahead log of the database, which grows with every operation until a checkpoint.
pub(super) struct Wal {
    path: PathBuf,
    connection: Option<Connection>,
}

impl Wal {
    /// Checkpoints the log.
    ///
    /// It holds the lock meanwhile: the next operation restarts only a log that was copied whole, so
    /// that it does not grow without bound. Callers that come in these milliseconds wait in the
    /// thread of their process.
    pub(super) fn checkpoint(&mut self) {
        let connection = self
            .connection
            .take()
            .or_else(|| Connection::open(&self.path).ok());
        if let Some(connection) = connection
            && let Ok(lock) = File::options()
                .write(true)
                .open(self.path.with_extension("lock"))
            && let Ok(Some(_guard)) = Lock::new(lock).take_within(LOCK_TIMEOUT)
        {
            // A checkpoint that fails now succeeds later.
            let _ = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
            self.connection = Some(connection);
        }
    }
}

impl Database {
    /// Opens the database, and makes it if it is not there.
    pub(super) fn open(
        path: &Path,
        clock: Arc<dyn Clock>,
        boot_id: &str,
    ) -> Result<Self, StoreError> {
        private::make_directory(directory_of(path))
            .map_err(|error| cannot_write(path, &error.to_string()))?;
        refuse_network(path)?;
        let lock_path = path.with_extension("lock");
        let made = private::make_file(&lock_path).and_then(|()| private::make_file(path));
        let lock = made
            .and_then(|()| File::options().write(true).open(&lock_path))
            .map_err(|error| cannot_write(path, &error.to_string()))?;
        let mut lock = Lock::new(lock);
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

    /// Runs one operation on a site, in one transaction, with the time read inside it.
    ///
    /// Returns `None` if another process holds the lock and `turn` does not wait: then nothing has
    /// happened.
    pub(super) fn step<T>(
        &mut self,
        turn: Turn,
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
            let mut row = Row::new(transaction, key, &mut copy.row, clock, now);
            copy.replica.run(&mut row, |site| step(site, now))
        });
        if done.is_err() {
            // The copy has what could not be committed.
            copy.replica.distrust();
        }
        done
    }

    /// Copies the state of a site.
    pub(super) fn view(
        &mut self,
        turn: Turn,
        key: &SiteKey,
        copy: &mut SiteCopy,
    ) -> Result<Option<SiteView>, StoreError> {
        let now = self.step(turn, key, copy, |_, now| now)?;
        Ok(now.map(|now| copy.replica.view(now)))
    }

    /// Returns `true` once every `CHECKPOINT_STEPS` operations.
    pub(super) fn needs_checkpoint(&self) -> bool {
        self.steps.is_multiple_of(CHECKPOINT_STEPS)
    }

    /// Writes without a change: fails if writing does.
    pub(super) fn touch(&mut self, turn: Turn) -> Result<Option<()>, StoreError> {
        self.in_turn(turn, |transaction, _| {
            transaction
                .prepare_cached("UPDATE boot SET anchor_boot = anchor_boot")?
                .execute([])?;
            Ok(())
        })
    }

    /// Lists the sites that have state.
    pub(super) fn list(&mut self, turn: Turn) -> Result<Option<Vec<SiteKey>>, StoreError> {
        self.in_turn(turn, |transaction, _| {
            let mut statement = transaction.prepare_cached("SELECT key FROM sites ORDER BY key")?;
            let keys = statement.query_map([], |row| row.get::<_, String>(0))?;
            Ok(keys
                .map(|key| key.map(SiteKey::from))
                .collect::<Result<_, _>>()?)
        })
    }

    fn in_turn<T>(
        &mut self,
        turn: Turn,
        work: impl FnOnce(&Connection, &dyn Clock) -> Result<T, StepError>,
    ) -> Result<Option<T>, StoreError> {
        let done = (|| {
            if !self.connection.is_autocommit() {
                // An operation that panicked left its transaction open.
                self.connection.execute_batch("ROLLBACK")?;
            }
            // Another program may be writing: SQLite waits a little for that, but only where
            // waiting is fine.
            if self.waits != (turn == Turn::Wait) {
                self.waits = turn == Turn::Wait;
                self.connection.busy_timeout(if self.waits {
                    BUSY_TIMEOUT
                } else {
                    Duration::ZERO
                })?;
            }
            let mut waited = Duration::ZERO;
            let _guard = loop {
                let guard = if turn == Turn::Wait {
                    self.lock.take_within(LOCK_TIMEOUT)
                } else {
                    self.lock.try_take()
                };
                let Some(guard) = guard.map_err(|error| {
                    StepError::Sqlite(rusqlite::Error::ToSqlConversionFailure(error.into()))
                })?
                else {
                    return Ok(None);
                };
                match self
                    .connection
                    .prepare_cached("BEGIN IMMEDIATE")?
                    .execute([])
                {
                    Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                        drop(guard);
                        if turn == Turn::IfFree || waited >= LOCK_TIMEOUT {
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
                        break guard;
                    }
                }
            };
            let done = work(&self.connection, &*self.clock).and_then(|done| {
                self.connection.prepare_cached("COMMIT")?.execute([])?;
                Ok(done)
            });
            if done.is_err() && !self.connection.is_autocommit() {
                self.connection.execute_batch("ROLLBACK")?;
            }
            done.map(Some)
        })();
        match done {
            Ok(None) if turn == Turn::Wait => Err(locked(&self.path)),
            done => done.map_err(|error| explain(&self.path, &error)),
        }
    }

    /// Returns the write-ahead log, for checkpoints.
    #[must_use]
    pub(super) fn wal(&self) -> Wal {
        Wal {
            path: self.path.clone(),
            connection: None,
        }
    }
}

/// Sets the connection up and makes the tables, or refuses those of another version.
fn prepare(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let setup = |connection: &Connection| -> rusqlite::Result<i64> {
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.set_prepared_statement_cache_capacity(32);
        // Applies to a new database; an existing one keeps its own.
        connection.pragma_update(None, "page_size", PAGE_SIZE)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        // A checkpoint waits for the disk: the thread runs it, and no operation.
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        connection.pragma_query_value(None, "user_version", |row| row.get(0))
    };
    let version = setup(connection).map_err(|error| explain(path, &error.into()))?;
    match version {
        VERSION => Ok(()),
        FIRST_VERSION => adopt_first_version(connection).map_err(|error| explain(path, &error)),
        0 => {
            let make = |connection: &mut Connection| {
                let transaction =
                    connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                transaction.execute_batch(TABLES)?;
                transaction.pragma_update(None, "user_version", VERSION)?;
                transaction.commit()
            };
            make(connection).map_err(|error| explain(path, &error.into()))
        }
        other => Err(StoreError::Unusable {
            store: name(path),
            why: format!(
                "it was written by another version of the program \
                 (its tables are version {other}, this one reads {VERSION})"
            ),
            remedy:
                "run the version that wrote it, or move the file away to start with fresh limits"
                    .to_owned(),
        }),
    }
}

/// Rewrites the records of the first version of the tables: blocks, breakers and history stay,
/// reservations of waiting requests are dropped. A process of that version that is still running
/// may write such headers again: `replica.rs` reads both.
fn adopt_first_version(connection: &mut Connection) -> Result<(), StepError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut select = transaction.prepare("SELECT id, head FROM sites")?;
    let headers = select
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<Vec<(i64, Vec<u8>)>, _>>()?;
    drop(select);
    for (id, header) in headers {
        // A header that cannot be read is reported when its site is used, as in any version.
        let Ok(header) = from_first_layout(&header) else {
            continue;
        };
        transaction.execute(
            "UPDATE sites SET head = ?2, head_no = head_no + 1 WHERE id = ?1",
            params![id, header],
        )?;
    }
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()?;
    Ok(())
}

/// Moves what an earlier boot of the machine wrote to the clock of this one, by wall time.
fn adopt_boot(
    connection: &mut Connection,
    path: &Path,
    clock: &dyn Clock,
    boot_id: &str,
) -> Result<(), StoreError> {
    let adopt = |connection: &mut Connection| -> Result<(), StepError> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let (now, wall) = (clock.boot(), clock.wall().as_micros());
        let anchor = transaction
            .query_row("SELECT id, anchor_boot, anchor_wall FROM boot", [], |row| {
                Ok((
                    row.get::<_, String>(0)?,
                    row.get::<_, i64>(1)?.unsigned_abs(),
                    row.get::<_, i64>(2)?,
                ))
            })
            .optional()?;
        if let Some((id, anchor_boot, anchor_wall)) = anchor
            && id != boot_id
        {
            let shift = crate::clock::shift((anchor_boot, anchor_wall), (now, wall));
            let mut keys = transaction.prepare("SELECT key FROM sites")?;
            let keys = keys
                .query_map([], |row| row.get::<_, String>(0))?
                .collect::<Result<Vec<_>, _>>()?;
            for key in keys {
                let key = SiteKey::from(key);
                let mut replica = Replica::new(0, crate::process::signature());
                let mut id = 0;
                let mut row = Row::new(&transaction, &key, &mut id, clock, now);
                replica.read(&mut row)?;
                replica.rebase(&mut row, &shift, now)?;
            }
        }
        transaction.execute("DELETE FROM boot", [])?;
        transaction.execute(
            "INSERT INTO boot VALUES (?1, ?2, ?3)",
            params![boot_id, now.as_micros().cast_signed(), wall],
        )?;
        forget(&transaction, now)?;
        transaction.commit()?;
        Ok(())
    };
    adopt(connection).map_err(|error| explain(path, &error))
}

/// Forgets sites that were unused for longer than any window, and that are not blocked.
fn forget(transaction: &Connection, now: BootInstant) -> Result<(), StepError> {
    let before = (now - KEEP).as_micros().cast_signed();
    transaction.execute(
        "DELETE FROM sites WHERE used < ?1 AND (until_wall IS NULL OR until_wall < unixepoch())",
        [before],
    )?;
    transaction.execute(
        "DELETE FROM pages WHERE site NOT IN (SELECT id FROM sites)",
        [],
    )?;
    Ok(())
}

/// The magic numbers of network file systems.
const NETWORKS: [(u32, &str); 9] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x0102_1997, "9P"),
    (0x5346_414f, "AFS"),
    (0x00c3_6400, "Ceph"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
];

/// Refuses network file systems: WAL needs memory that all processes of the database share.
fn refuse_network(path: &Path) -> Result<(), StoreError> {
    let Ok(found) = rustix::fs::statfs(directory_of(path)) else {
        return Ok(());
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the magic numbers have 32 bits"
    )]
    let kind = found.f_type as u32;
    match NETWORKS.iter().find(|(magic, _)| *magic == kind) {
        None => Ok(()),
        Some((_, system)) => Err(StoreError::Unusable {
            store: name(path),
            why: format!(
                "it lies on a network file system ({system}), \
                 where SQLite's write-ahead log is not safe"
            ),
            remedy: "choose a directory on a local disk with --state-dir, \
                     or share state between machines with the redis backend"
                .to_owned(),
        }),
    }
}

fn directory_of(path: &Path) -> &Path {
    path.parent()
        .filter(|directory| !directory.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

fn name(path: &Path) -> String {
    format!("the state database {}", path.display())
}

fn cannot_write(path: &Path, why: &str) -> StoreError {
    StoreError::Unusable {
        store: name(path),
        why: why.to_owned(),
        remedy: "choose a directory that can be written with --state-dir".to_owned(),
    }
}

/// Returns whether the disk has space for a few pages.
fn has_room(path: &Path) -> bool {
    rustix::fs::statvfs(directory_of(path))
        .is_ok_and(|found| found.f_bavail * found.f_frsize >= 1 << 17)
}

/// Describes a lock that is not released.
fn locked(path: &Path) -> StoreError {
    let why =
        "another process holds its lock and does not go on; it may have been stopped".to_owned();
    StoreError::Unavailable {
        store: name(path),
        why,
    }
}

/// Describes an error of SQLite, and what to do about it.
fn explain(path: &Path, error: &StepError) -> StoreError {
    let unusable = |why: &str, remedy: &str| StoreError::Unusable {
        store: name(path),
        why: why.to_owned(),
        remedy: remedy.to_owned(),
    };
    let full = || {
        unusable(
            "the disk is full",
            "make room, or choose another directory with --state-dir",
        )
    };
    let error = match error {
        StepError::Corrupt => {
            return unusable(
                "a record in it is corrupt",
                "move the file away to start with fresh limits",
            );
        }
        StepError::Sqlite(error) => error,
    };
    match error.sqlite_error_code() {
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            unusable(
                "it cannot be written",
                "make it and its directory writable, or choose another with --state-dir",
            )
        }
        // In mapped memory SQLite reports a full disk as a failure of I/O.
        Some(ErrorCode::SystemIoFailure) if !has_room(path) => full(),
        Some(ErrorCode::DiskFull) => full(),
        Some(ErrorCode::SystemIoFailure) => unusable(
            "its disk cannot be read or written",
            "check the disk, or choose another directory with --state-dir",
        ),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => unusable(
            "the file is not a database, or is damaged",
            "move the file away to start with fresh limits",
        ),
        _ => StoreError::Unavailable {
            store: name(path),
            why: error.to_string(),
        },
    }
}
