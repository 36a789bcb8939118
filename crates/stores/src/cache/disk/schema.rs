//! The tables of the index, and the opening of a connection to it.

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::layout::CacheLayout;
use crate::private;

/// The version of the tables.
const CACHE_TABLES_VERSION: i64 = 1;
/// The time for which SQLite waits for the write lock of another process.
const BUSY_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(2);
/// The number of pages of the write-ahead log after which a writer checkpoints it. A reading thread
/// normally does so much earlier, but cannot finish if writers never pause.
const WAL_PAGES: i64 = 8_192;
/// The size in bytes to which the write-ahead log is cut after a checkpoint.
const WAL_BYTES: i64 = 8 << 20;

/// The statements that create the tables. Bodies and metadata come last, so that rows are listed
/// without reading them. The last use has its own table, so that its update does not rewrite a
/// body.
const CREATE_CACHE_TABLES: &str = "
CREATE TABLE entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key BLOB NOT NULL,
    variant BLOB NOT NULL,
    url TEXT NOT NULL,
    host TEXT NOT NULL,
    stored_at INTEGER NOT NULL,
    length INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    row_checksum INTEGER NOT NULL,
    size INTEGER NOT NULL,
    file BLOB,
    metadata BLOB NOT NULL,
    body BLOB
);
CREATE UNIQUE INDEX entries_by_key ON entries (key, variant);
CREATE UNIQUE INDEX entries_by_file ON entries (file) WHERE file IS NOT NULL;
CREATE TABLE uses (entry INTEGER PRIMARY KEY, used_at INTEGER NOT NULL);
CREATE INDEX uses_by_time ON uses (used_at, entry);
CREATE TABLE totals (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    entries INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    swept_at INTEGER NOT NULL
);
INSERT INTO totals VALUES (1, 0, 0, 0);
CREATE TRIGGER entry_added AFTER INSERT ON entries BEGIN
    UPDATE totals SET entries = entries + 1, bytes = bytes + new.size;
END;
CREATE TRIGGER entry_removed AFTER DELETE ON entries BEGIN
    UPDATE totals SET entries = entries - 1, bytes = bytes - old.size;
    DELETE FROM uses WHERE entry = old.id;
END;
CREATE TRIGGER entry_resized AFTER UPDATE OF size ON entries BEGIN
    UPDATE totals SET bytes = bytes + new.size - old.size;
END;
CREATE TABLE leases (
    key BLOB PRIMARY KEY,
    holder INTEGER,
    until INTEGER NOT NULL,
    boot INTEGER NOT NULL
) WITHOUT ROWID;
";

/// The reason why a connection was not opened.
pub(super) enum OpenError {
    /// The file is not an index of this version.
    Damaged(String),
    Sqlite(rusqlite::Error),
    Io(std::io::Error),
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> Self {
        if is_damage(&error) {
            Self::Damaged("is damaged".to_owned())
        } else {
            Self::Sqlite(error)
        }
    }
}

/// Returns whether an error shows that the file is not the index that this program wrote.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    let code = match error {
        rusqlite::Error::SqliteFailure(error, _) | rusqlite::Error::SqlInputError { error, .. } => {
            error.code
        }
        // The type of a column or row differs from that of the tables.
        rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::QueryReturnedNoRows => return true,
        _ => return false,
    };
    // `Unknown` is SQLite's general error: an expected table or column does not exist.
    matches!(
        code,
        ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::TypeMismatch
            | ErrorCode::Unknown
    )
}

/// Opens a connection, and creates the tables in a new index. The caller holds the lock of the
/// directory.
pub(super) fn connect(layout: &CacheLayout) -> Result<Connection, OpenError> {
    let path = layout.index();
    private::make_file(&path).map_err(OpenError::Io)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(&path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(48);
    // Applies to a new index: freed pages can be returned to the disk.
    connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "journal_size_limit", WAL_BYTES)?;
    connection.pragma_update(None, "wal_autocheckpoint", WAL_PAGES)?;
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version == 0 {
        make_tables(&connection)?;
    } else if version != CACHE_TABLES_VERSION {
        let why = format!(
            "has tables of version {version}, and this program reads {CACHE_TABLES_VERSION}"
        );
        return Err(OpenError::Damaged(why));
    }
    connection.query_row("SELECT entries, bytes FROM totals", [], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
    })?;
    Ok(connection)
}

/// Creates the tables, unless another process is first.
fn make_tables(connection: &Connection) -> Result<(), OpenError> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let create = || {
        let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if version == CACHE_TABLES_VERSION {
            return Ok(());
        }
        let objects: i64 =
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        if objects > 0 {
            let why = "has tables without a version".to_owned();
            return Err(OpenError::Damaged(why));
        }
        connection.execute_batch(CREATE_CACHE_TABLES)?;
        connection.pragma_update(None, "user_version", CACHE_TABLES_VERSION)?;
        Ok(())
    };
    let made = create();
    let end = if made.is_ok() { "COMMIT" } else { "ROLLBACK" };
    connection.execute_batch(end)?;
    made
}
