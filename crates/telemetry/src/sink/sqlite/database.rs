//! Opens the database of runs: its versions, the migration between them, and its errors.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

/// The version of the tables that this program writes. A database of an unknown version is not
/// changed.
pub(super) const TELEMETRY_TABLES_VERSION: i64 = 2;
/// The version whose tables are migrated when the database is opened.
pub(super) const FIRST_VERSION: i64 = 1;
/// Maximum wait of a reader for a lock.
const READ_BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// The statements that create the tables, indexes and views.
const CREATE_TELEMETRY_TABLES: &str = include_str!("../schema.sql");
/// The query of the view `breaker_changes`.
pub(crate) const BREAKER_CHANGES: &str = include_str!("../breaker_changes.sql");

/// The statement that creates the table of cache records. Databases of the same version may lack
/// it.
const CACHE_EVENTS: &str = include_str!("../cache_events.sql");

/// The statements that create further tables, which databases of the same version may lack.
const LATER_TABLES: &str = include_str!("../later_tables.sql");

/// Returns the statements that create the tables, indexes and views.
pub(super) fn schema() -> String {
    format!(
        "{CREATE_TELEMETRY_TABLES} CREATE VIEW IF NOT EXISTS breaker_changes AS {BREAKER_CHANGES};"
    )
}

/// Returns the statements that drop the views.
fn dropped_views() -> String {
    CREATE_TELEMETRY_TABLES
        .split("CREATE VIEW IF NOT EXISTS ")
        .skip(1)
        .filter_map(|view| view.split_whitespace().next())
        .map(|view| format!("DROP VIEW IF EXISTS {view};"))
        .collect::<Vec<_>>()
        .join(" ")
}

/// Creates the parts that databases of the same version may lack: the table of cache records,
/// further tables, and views in which a repeated open counts once.
pub(super) fn add_missing(database: &Connection) -> rusqlite::Result<()> {
    let found: i64 = database.query_row(
        "SELECT count(*) FROM sqlite_master WHERE name = 'breaker_changes'",
        [],
        |row| row.get(0),
    )?;
    if found == 0 {
        let dropped = dropped_views();
        let made = schema();
        let done = database.execute_batch(&format!("BEGIN IMMEDIATE; {dropped} {made} COMMIT;"));
        if done.is_err() && !database.is_autocommit() {
            database.execute_batch("ROLLBACK")?;
        }
        done?;
    }
    add_cache_events(database)?;
    database.execute_batch(LATER_TABLES)
}

/// Creates the table of cache records and its view, if they are missing. An older view is replaced,
/// because it read a column that is never set.
fn add_cache_events(database: &Connection) -> rusqlite::Result<()> {
    let old: i64 = database.query_row(
        "SELECT count(*) FROM sqlite_master WHERE name = 'cache_hits' AND sql LIKE '%from_cache%'",
        [],
        |row| row.get(0),
    )?;
    if old > 0 {
        database.execute_batch("DROP VIEW IF EXISTS cache_hits")?;
    }
    database.execute_batch(CACHE_EVENTS)
}

/// The reason why the database of runs cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// `SQLite` reports an error.
    #[error("the telemetry database {path} cannot be used: {why}")]
    Sqlite {
        /// The path of the database.
        path: String,
        /// The error message of `SQLite`.
        why: String,
    },
    /// Another version of the program created the file, in a format that this one does not know.
    #[error(
        "the telemetry database {path} has format {found}, this program knows {TELEMETRY_TABLES_VERSION}; \
         move the file away and a new one is created"
    )]
    Version {
        /// The path of the database.
        path: String,
        /// The version of the file.
        found: i64,
    },
    /// The first version of the program created the file. Its tables cannot be migrated, because
    /// the file is read-only.
    #[error(
        "the telemetry database {path} was written by an older version and is read-only; \
         read a writable copy of it"
    )]
    Old {
        /// The path of the database.
        path: String,
    },
    /// The file does not exist.
    #[error(
        "there is no telemetry at {path}: nothing has run with this state directory, \
         or telemetry is off"
    )]
    Missing {
        /// The path of the database.
        path: String,
    },
}

/// Opens the database to read it. A missing database is not created.
///
/// # Errors
/// [`DatabaseError`] if the file is missing, cannot be read, or has another version.
pub fn open_to_read(path: &Path) -> Result<Connection, DatabaseError> {
    let shown = path.display().to_string();
    if !path.exists() {
        return Err(DatabaseError::Missing { path: shown });
    }
    let failed = |error: rusqlite::Error| DatabaseError::Sqlite {
        path: shown.clone(),
        why: error.to_string(),
    };
    // To read a database while a process writes to it, `SQLite` needs the index of the write-ahead
    // log. A read-only connection cannot create that index.
    let writable = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    );
    let database = writable
        .or_else(|_| Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY))
        .map_err(failed)?;
    database.busy_timeout(READ_BUSY_TIMEOUT).map_err(failed)?;
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
    if found != TELEMETRY_TABLES_VERSION {
        return Err(DatabaseError::Version { path: shown, found });
    }
    // A reader without permission to write cannot add the tables. It then reports nothing about the
    // cache.
    let _ = add_missing(&database);
    Ok(database)
}

/// Migrates the tables of [`FIRST_VERSION`], and keeps the runs in them. Returns the version of the
/// tables afterwards.
pub(super) fn migrate(database: &Connection) -> rusqlite::Result<i64> {
    database.execute_batch("BEGIN IMMEDIATE")?;
    // Another process may have migrated the database in the meantime.
    let found: i64 = database.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let done = if found == FIRST_VERSION {
        let (dropped, made) = (dropped_views(), schema());
        let steps = include_str!("../migrate_1.sql");
        database.execute_batch(&format!(
            "{dropped} {steps} {made} PRAGMA user_version = {TELEMETRY_TABLES_VERSION};"
        ))
    } else {
        Ok(())
    };
    database.execute_batch(if done.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    done?;
    Ok(if found == FIRST_VERSION {
        TELEMETRY_TABLES_VERSION
    } else {
        found
    })
}
