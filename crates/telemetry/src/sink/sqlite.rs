//! A sink that writes to the database of runs.
//!
//! Several processes may write to the database at once. Records that cannot be written because of
//! that are kept and written with a later batch.

mod database;
mod rows;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use docstokg_hub::clock::{Clock, Timestamp};
use docstokg_hub::stores::private;
/// An open database of runs.
pub use rusqlite::Connection as Database;
use rusqlite::{Connection, ErrorCode, params};

use super::{Sink, WriteFailure};
use crate::record::TimedRecord;
use crate::run::RunIdentity;
pub(crate) use database::BREAKER_CHANGES;
pub use database::{DatabaseError, open_to_read};
use database::{FIRST_VERSION, TELEMETRY_TABLES_VERSION, add_missing, migrate, schema};
use rows::Rows;

/// Maximum time for which a write waits until another process has finished its own.
const BUSY_TIMEOUT: Duration = Duration::from_millis(500);
/// Maximum number of records that are kept while the database cannot be written.
const MAX_PENDING: usize = 200_000;
/// The tables whose rows belong to a run, and are deleted with it.
const RUN_TABLES: [&str; 10] = [
    "http_events",
    "cache_events",
    "rate_events",
    "service_waits",
    "robots_events",
    "breaker_transitions",
    "aimd_events",
    "request_ends",
    "budgets",
    "run_summary",
];

/// A [`Sink`] that writes records to the database of runs.
pub struct SqliteSink {
    path: PathBuf,
    run: Arc<RunIdentity>,
    clock: Arc<dyn Clock>,
    keep: Option<Duration>,
    database: Option<Connection>,
    begun: bool,
    pending: Vec<TimedRecord>,
    lost: u64,
}

impl SqliteSink {
    /// Opens or creates the database, and records the start of the run.
    ///
    /// # Errors
    /// [`DatabaseError`] if the directory cannot be written, or the database has another version.
    pub fn open(
        path: &Path,
        run: Arc<RunIdentity>,
        keep: Option<Duration>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, DatabaseError> {
        private::refuse_link(path).map_err(|error| DatabaseError::Sqlite {
            path: path.display().to_string(),
            why: format!("{error}; remove the link, or name the file itself in telemetry.sqlite"),
        })?;
        let mut sink = Self {
            path: path.to_owned(),
            run,
            clock,
            keep,
            database: None,
            begun: false,
            pending: Vec::new(),
            lost: 0,
        };
        match sink.connect() {
            // Another process has locked the database: the records are written later.
            Err(error) if is_busy(&error) => {}
            Err(error) => {
                return Err(DatabaseError::Sqlite {
                    path: path.display().to_string(),
                    why: error.to_string(),
                });
            }
            Ok(found) if found != TELEMETRY_TABLES_VERSION => {
                return Err(DatabaseError::Version {
                    path: path.display().to_string(),
                    found,
                });
            }
            Ok(_) => {
                let _ = sink.store(&[], 0, None);
                sink.delete_old_runs();
            }
        }
        Ok(sink)
    }

    fn connect(&mut self) -> rusqlite::Result<i64> {
        // If the file cannot be created, opening the database reports the reason.
        let _ = private::make_file(&self.path);
        let database = Connection::open(&self.path)?;
        database.busy_timeout(BUSY_TIMEOUT)?;
        let mut found: i64 = database.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if found == FIRST_VERSION {
            found = migrate(&database)?;
        }
        if found == 0 {
            database.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        }
        database.pragma_update(None, "journal_mode", "WAL")?;
        // The death of the process loses nothing. A power cut may lose the last rows, which are not
        // needed for anything else.
        database.pragma_update(None, "synchronous", "OFF")?;
        if found == 0 {
            database.execute_batch(&format!(
                "BEGIN IMMEDIATE; {} PRAGMA user_version = {TELEMETRY_TABLES_VERSION}; COMMIT;",
                schema()
            ))?;
        } else if found != TELEMETRY_TABLES_VERSION {
            return Ok(found);
        }
        add_missing(&database)?;
        self.database = Some(database);
        Ok(TELEMETRY_TABLES_VERSION)
    }

    /// Deletes runs that are older than `keep`. If this fails, the next run tries again.
    fn delete_old_runs(&mut self) {
        let (Some(keep), Some(database)) = (self.keep, &self.database) else {
            return;
        };
        let before = self.clock.wall().as_secs_f64() - keep.as_secs_f64();
        let ids = database
            .prepare("SELECT run_id FROM run_summary WHERE updated_at < ?1 LIMIT 1000")
            .and_then(|mut query| {
                query
                    .query_map([before], |row| row.get::<_, String>(0))?
                    .collect::<rusqlite::Result<Vec<_>>>()
            });
        for id in ids.unwrap_or_default() {
            for table in RUN_TABLES {
                let _ = database.execute(&format!("DELETE FROM {table} WHERE run_id = ?1"), [&id]);
            }
        }
        let _ = database.execute_batch("PRAGMA incremental_vacuum(1000)");
    }

    fn store(
        &mut self,
        batch: &[TimedRecord],
        dropped: u64,
        finished: Option<Timestamp>,
    ) -> rusqlite::Result<()> {
        if self.database.is_none() {
            self.connect()?;
        }
        let Some(database) = &mut self.database else {
            return Err(rusqlite::Error::InvalidQuery);
        };
        let transaction =
            database.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        if !self.begun {
            transaction.execute(
                "INSERT OR IGNORE INTO run_summary
                     (run_id, command, config_hash, version, pid, started_at, updated_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)",
                params![
                    self.run.id,
                    self.run.command,
                    self.run.config_hash,
                    env!("CARGO_PKG_VERSION"),
                    std::process::id(),
                    self.run.started.as_secs_f64()
                ],
            )?;
        }
        let rows = Rows {
            transaction: &transaction,
            run: &self.run.id,
        };
        for stamped in self.pending.iter().chain(batch) {
            rows.insert(stamped)?;
        }
        transaction
            .prepare_cached(
                "UPDATE run_summary
                 SET updated_at = ?2, finished_at = ?3, dropped = ?4, lost = ?5
                 WHERE run_id = ?1",
            )?
            .execute(params![
                self.run.id,
                self.clock.wall().as_secs_f64(),
                finished.map(Timestamp::as_secs_f64),
                integer(dropped),
                integer(self.lost)
            ])?;
        if finished.is_some() {
            transaction.execute(include_str!("finish.sql"), [&self.run.id])?;
        }
        transaction.commit()?;
        self.begun = true;
        self.pending.clear();
        Ok(())
    }

    fn failed(&self, lost: u64, error: &rusqlite::Error) -> WriteFailure {
        let why = if is_busy(error) {
            "another program has locked it".to_owned()
        } else {
            error.to_string()
        };
        WriteFailure {
            lost,
            why: format!(
                "the database {} cannot be written: {why}",
                self.path.display()
            ),
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
    )
}

impl Sink for SqliteSink {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn write(&mut self, batch: &[TimedRecord], _: usize, dropped: u64) -> Result<(), WriteFailure> {
        if batch.is_empty() && self.pending.is_empty() {
            return Ok(());
        }
        let Err(error) = self.store(batch, dropped, None) else {
            return Ok(());
        };
        let free = MAX_PENDING.saturating_sub(self.pending.len());
        let kept = free.min(batch.len());
        self.pending.extend_from_slice(&batch[..kept]);
        let lost = (batch.len() - kept) as u64;
        self.lost += lost;
        Err(self.failed(lost, &error))
    }

    fn close(&mut self, dropped: u64) -> Result<(), WriteFailure> {
        let finished = self.clock.wall();
        let Err(error) = self.store(&[], dropped, Some(finished)) else {
            return Ok(());
        };
        Err(self.failed(self.pending.len() as u64, &error))
    }
}

/// Converts a number to the integer type of `SQLite`.
fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
