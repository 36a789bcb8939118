//! The database of runs. Several processes write to it; what one cannot write now it tries again
//! with the next batch.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use docstokg_hub::clock::{Clock, Timestamp};
use docstokg_hub::policy::breaker::State;
use docstokg_hub::stores::private;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, params};

use super::jsonl::millis;
use super::{Failed, Sink};
use crate::record::{HttpRecord, Record, Stamped};
use crate::run::{Run, hex};

/// The version of the tables. Another one is not touched.
const VERSION: i64 = 2;
/// The version whose tables are changed in place when it is opened.
const FIRST_VERSION: i64 = 1;
/// How long another writer is waited for.
const PATIENCE: Duration = Duration::from_millis(500);
/// How many records are kept for later while the database cannot be written.
const PENDING: usize = 200_000;
/// The tables that hold rows of runs.
const TABLES: [&str; 7] = [
    "http_events",
    "rate_events",
    "breaker_transitions",
    "aimd_events",
    "request_ends",
    "budgets",
    "run_summary",
];

/// Why the database of runs cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// `SQLite` says no.
    #[error("the telemetry database {path} cannot be used: {why}")]
    Sqlite {
        /// The file.
        path: String,
        /// What it says.
        why: String,
    },
    /// It was made by another version.
    #[error(
        "the telemetry database {path} has format {found}, this program knows {VERSION}; move the file away and a new one is begun"
    )]
    Version {
        /// The file.
        path: String,
        /// Its version.
        found: i64,
    },
    /// It was made by the first version and cannot be brought up to date.
    #[error(
        "the telemetry database {path} was written by an older version, and cannot be changed here; make a copy that can be written, and read that"
    )]
    Old {
        /// The file.
        path: String,
    },
    /// There is none.
    #[error(
        "there is no telemetry at {path}: nothing has run with this state directory, or telemetry is off"
    )]
    Missing {
        /// The file.
        path: String,
    },
}

/// Opens the database to read it. One that is missing is not made.
///
/// # Errors
/// It is not there, cannot be read, or is of another version.
pub fn open_to_read(path: &Path) -> Result<Connection, DatabaseError> {
    let shown = path.display().to_string();
    if !path.exists() {
        return Err(DatabaseError::Missing { path: shown });
    }
    let failed = |error: rusqlite::Error| DatabaseError::Sqlite {
        path: shown.clone(),
        why: error.to_string(),
    };
    // Reading beside a writer needs the write-ahead log's index, which a read-only connection
    // cannot make anew.
    let writable = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    );
    let database = writable
        .or_else(|_| Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY))
        .map_err(failed)?;
    database
        .busy_timeout(Duration::from_secs(5))
        .map_err(failed)?;
    let mut found: i64 = database
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .map_err(failed)?;
    if found == FIRST_VERSION {
        found = migrate(&database).map_err(|error| match error.sqlite_error_code() {
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen) => DatabaseError::Old {
                path: shown.clone(),
            },
            _ => failed(error),
        })?;
    }
    if found != VERSION {
        return Err(DatabaseError::Version { path: shown, found });
    }
    Ok(database)
}

/// Brings the tables of the first version up to date: its runs stay readable. Returns the version
/// after that.
fn migrate(database: &Connection) -> rusqlite::Result<i64> {
    database.execute_batch("BEGIN IMMEDIATE")?;
    // Another process may have done it meanwhile.
    let found: i64 = database.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let done = if found == FIRST_VERSION {
        let views = include_str!("schema.sql")
            .split("CREATE VIEW IF NOT EXISTS ")
            .skip(1)
            .filter_map(|view| view.split_whitespace().next());
        let dropped = views
            .map(|view| format!("DROP VIEW IF EXISTS {view};"))
            .collect::<Vec<_>>()
            .join(" ");
        let steps = include_str!("migrate_1.sql");
        database.execute_batch(&format!(
            "{dropped} {steps} {} PRAGMA user_version = {VERSION};",
            include_str!("schema.sql")
        ))
    } else {
        Ok(())
    };
    database.execute_batch(if done.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    done?;
    Ok(if found == FIRST_VERSION {
        VERSION
    } else {
        found
    })
}

/// Writes records to the database of runs.
pub struct SqliteSink {
    path: PathBuf,
    run: Arc<Run>,
    clock: Arc<dyn Clock>,
    keep: Option<Duration>,
    database: Option<Connection>,
    begun: bool,
    pending: Vec<Stamped>,
    lost: u64,
}

impl SqliteSink {
    /// Opens the database, making it where it is missing, and writes down that the run has begun.
    ///
    /// # Errors
    /// It cannot be opened at all: a directory that cannot be written, another version.
    pub fn open(
        path: &Path,
        run: Arc<Run>,
        keep: Option<Duration>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, DatabaseError> {
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
            // Somebody holds it at the moment: the records will wait.
            Err(error) if is_busy(&error) => {}
            Err(error) => {
                return Err(DatabaseError::Sqlite {
                    path: path.display().to_string(),
                    why: error.to_string(),
                });
            }
            Ok(found) if found != VERSION => {
                return Err(DatabaseError::Version {
                    path: path.display().to_string(),
                    found,
                });
            }
            Ok(_) => {
                let _ = sink.store(&[], 0, None);
                sink.forget_old();
            }
        }
        Ok(sink)
    }

    fn connect(&mut self) -> rusqlite::Result<i64> {
        // What cannot be made is said by the database itself.
        let _ = private::make_file(&self.path);
        let database = Connection::open(&self.path)?;
        database.busy_timeout(PATIENCE)?;
        let mut found: i64 = database.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if found == FIRST_VERSION {
            found = migrate(&database)?;
        }
        if found == 0 {
            database.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        }
        database.pragma_update(None, "journal_mode", "WAL")?;
        // A killed process loses nothing; a power cut may lose the last moments of a record of the
        // past.
        database.pragma_update(None, "synchronous", "OFF")?;
        if found == 0 {
            database.execute_batch(&format!(
                "BEGIN IMMEDIATE; {} PRAGMA user_version = {VERSION}; COMMIT;",
                include_str!("schema.sql")
            ))?;
        } else if found != VERSION {
            return Ok(found);
        }
        self.database = Some(database);
        Ok(VERSION)
    }

    /// Removes what is older than it has to be. A sweep that does not come through is made good by
    /// the next run.
    fn forget_old(&mut self) {
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
            for table in TABLES {
                let _ = database.execute(&format!("DELETE FROM {table} WHERE run_id = ?1"), [&id]);
            }
        }
        let _ = database.execute_batch("PRAGMA incremental_vacuum(1000)");
    }

    fn store(
        &mut self,
        batch: &[Stamped],
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
                "INSERT OR IGNORE INTO run_summary (run_id, command, config_hash, version, pid, started_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6)",
                params![self.run.id, self.run.command, self.run.config_hash, env!("CARGO_PKG_VERSION"), std::process::id(), self.run.started.as_secs_f64()],
            )?;
        }
        for stamped in self.pending.iter().chain(batch) {
            insert(&transaction, &self.run.id, stamped)?;
        }
        transaction
            .prepare_cached("UPDATE run_summary SET updated_at = ?2, finished_at = ?3, dropped = ?4, lost = ?5 WHERE run_id = ?1")?
            .execute(params![self.run.id, self.clock.wall().as_secs_f64(), finished.map(Timestamp::as_secs_f64), whole(dropped), whole(self.lost)])?;
        if finished.is_some() {
            transaction.execute(include_str!("finish.sql"), [&self.run.id])?;
        }
        transaction.commit()?;
        self.begun = true;
        self.pending.clear();
        Ok(())
    }

    fn failed(&self, lost: u64, error: &rusqlite::Error) -> Failed {
        let why = if is_busy(error) {
            "another program holds it locked".to_owned()
        } else {
            error.to_string()
        };
        Failed {
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

    fn write(&mut self, batch: &[Stamped], _: usize, dropped: u64) -> Result<(), Failed> {
        if batch.is_empty() && self.pending.is_empty() {
            return Ok(());
        }
        let Err(error) = self.store(batch, dropped, None) else {
            return Ok(());
        };
        let room = PENDING.saturating_sub(self.pending.len()).min(batch.len());
        self.pending.extend_from_slice(&batch[..room]);
        let lost = (batch.len() - room) as u64;
        self.lost += lost;
        Err(self.failed(lost, &error))
    }

    fn close(&mut self, dropped: u64) -> Result<(), Failed> {
        let finished = self.clock.wall();
        let Err(error) = self.store(&[], dropped, Some(finished)) else {
            return Ok(());
        };
        Err(self.failed(self.pending.len() as u64, &error))
    }
}

/// Returns a number as the database has it.
fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn insert(to: &Transaction<'_>, run: &str, stamped: &Stamped) -> rusqlite::Result<()> {
    let ts = stamped.at.as_secs_f64();
    match &stamped.record {
        Record::Http(http) => insert_http(to, run, ts, http),
        Record::Rate(rate) => to.prepare_cached("INSERT INTO rate_events VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)")?.execute(params![
            run,
            ts,
            rate.place.host.as_str(),
            rate.place.role.as_str(),
            rate.place.kind.as_deref(),
            rate.action.as_str(),
            rate.weight,
            rate.mode,
            millis(rate.delay),
            rate.max_delay.map(millis),
            rate.estimate.map(millis)
        ]),
        Record::Transition(change) => {
            to.prepare_cached("INSERT INTO breaker_transitions VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)")?.execute(params![
                run,
                ts,
                change.scope,
                &*change.key,
                change.host.as_str(),
                change.from.as_str(),
                change.to.as_str(),
                change.fail_count,
                change.reset.map(|reset| reset.as_secs_f64()),
                change.reason,
                change.elsewhere
            ])
        }
        Record::Adjusted(change) => to.prepare_cached("INSERT INTO aimd_events VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?.execute(params![
            run,
            ts,
            change.place.host.as_str(),
            change.place.role.as_str(),
            change.old,
            change.new,
            change.reason
        ]),
        Record::End(end) => {
            let good = end.error.is_none() && end.status.is_some_and(|status| status < 400);
            to.prepare_cached("INSERT INTO request_ends VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)")?.execute(params![
                run,
                ts,
                whole(end.place.request),
                end.place.host.as_str(),
                end.place.role.as_str(),
                end.place.resolver.as_deref(),
                end.attempts,
                end.status,
                end.stopped,
                end.error,
                millis(end.elapsed),
                (!good).then_some(&*end.url)
            ])
        }
        Record::Budget(budget) => to.prepare_cached("INSERT INTO budgets VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?.execute(params![
            run,
            budget.host.as_str(),
            budget.role.as_str(),
            budget.kind.as_deref(),
            budget.budget,
            budget.rates,
            budget.reset.as_secs_f64()
        ]),
        // The attempt says so in its own row.
        Record::Cooldown(_) | Record::Call(_) => Ok(0),
    }
    .map(|_| ())
}

fn insert_http(
    to: &Transaction<'_>,
    run: &str,
    ts: f64,
    http: &HttpRecord,
) -> rusqlite::Result<usize> {
    let mut insert = to.prepare_cached(
        "INSERT INTO http_events (run_id, ts, request, host, role, resolver, kind, method, status, url_hash, url, sent, retry_count, retry_after_s, \
         rate_delay_ms, rate_concurrency_wait_ms, breaker_wait_ms, breaker_host_state, breaker_host_cooldown_ms, breaker_recorded, header_ms, body_ms, elapsed_ms, \
         bytes, wasted, error, breaker_resolver_state) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27)",
    )?;
    insert.execute(params![
        run,
        ts,
        whole(http.place.request),
        http.place.host.as_str(),
        http.place.role.as_str(),
        http.place.resolver.as_deref(),
        http.place.kind.as_deref(),
        http.method.as_str(),
        http.status,
        hex(&http.url, 16),
        http.wasted.then_some(&*http.url),
        http.sent,
        http.attempt.saturating_sub(1),
        http.retry_after.map(|asked| asked.as_secs_f64()),
        millis(http.rate_delay),
        millis(http.slot_wait),
        millis(http.breaker_wait),
        http.host_state.as_str(),
        http.cooldown.map(millis),
        http.breaker_recorded,
        http.header_time.map(millis),
        http.body_time.map(millis),
        millis(http.elapsed),
        whole(http.bytes),
        http.wasted,
        http.error,
        http.resolver_state.map(State::as_str)
    ])
}
