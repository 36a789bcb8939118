//! The tables of the database, and the conversion of an existing database when it is opened.

use std::path::Path;

use docstokg_policy::time::{BootInstant, Clock};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use super::errors::{directory_of, explain, name};
use super::{BUSY_TIMEOUT, SiteRow, StepError};
use crate::SITE_RETENTION;
use crate::error::StoreError;
use crate::handle::SiteKey;
use crate::record_copy::Replica;

/// The version of the tables that this program writes.
const STATE_TABLES_VERSION: i64 = 2;
/// The size of a page in bytes. An operation writes one page, which holds a site with a full log.
const PAGE_SIZE: i64 = 2_048;

const CREATE_STATE_TABLES: &str = "
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

/// Configures the connection and creates the tables. Refuses tables of another version.
pub(super) fn prepare(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let setup = |connection: &Connection| -> rusqlite::Result<i64> {
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.set_prepared_statement_cache_capacity(32);
        // Applies to a new database; an existing one keeps its own.
        connection.pragma_update(None, "page_size", PAGE_SIZE)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        // A checkpoint waits for the disk, so the thread runs it instead of an operation.
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        connection.pragma_query_value(None, "user_version", |row| row.get(0))
    };
    let version = setup(connection).map_err(|error| explain(path, &error.into()))?;
    match version {
        STATE_TABLES_VERSION => Ok(()),
        0 => {
            let make = |connection: &mut Connection| {
                let transaction =
                    connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                transaction.execute_batch(CREATE_STATE_TABLES)?;
                transaction.pragma_update(None, "user_version", STATE_TABLES_VERSION)?;
                transaction.commit()
            };
            make(connection).map_err(|error| explain(path, &error.into()))
        }
        other => Err(StoreError::Unusable {
            store: name(path),
            why: format!(
                "it was written by another version of the program \
                 (its tables are version {other}, this one reads {STATE_TABLES_VERSION})"
            ),
            remedy:
                "run the version that wrote it, or move the file away to start with fresh limits"
                    .to_owned(),
        }),
    }
}

/// Moves the state of an earlier boot to the clock of this boot, by wall time.
pub(super) fn adopt_boot(
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
            rebase_sites(&transaction, clock, &shift, now)?;
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

/// Moves the instants of every site to another clock.
fn rebase_sites(
    transaction: &Connection,
    clock: &dyn Clock,
    shift: &dyn Fn(BootInstant) -> BootInstant,
    now: BootInstant,
) -> Result<(), StepError> {
    let mut keys = transaction.prepare("SELECT key FROM sites")?;
    let keys = keys
        .query_map([], |row| row.get::<_, String>(0))?
        .collect::<Result<Vec<_>, _>>()?;
    for key in keys {
        let key = SiteKey::from(key);
        let mut replica = Replica::new(0, crate::process::signature());
        let mut id = 0;
        let mut row = SiteRow::new(transaction, &key, &mut id, clock, now);
        replica.read(&mut row)?;
        replica.rebase(&mut row, shift, now)?;
    }
    Ok(())
}

/// Removes sites that were unused for longer than any window, unless they are blocked.
pub(super) fn forget(transaction: &Connection, now: BootInstant) -> Result<(), StepError> {
    let before = (now - SITE_RETENTION).as_micros().cast_signed();
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
const NETWORK_FILE_SYSTEMS: [(u32, &str); 9] = [
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

/// Returns the name of the network file system of a directory, if any.
pub(crate) fn network_of(directory: &Path) -> Option<&'static str> {
    let found = rustix::fs::statfs(directory).ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the magic numbers have 32 bits"
    )]
    let kind = found.f_type as u32;
    let known = NETWORK_FILE_SYSTEMS
        .iter()
        .find(|(magic, _)| *magic == kind);
    known.map(|(_, system)| *system)
}

/// Refuses network file systems, because WAL needs memory that all processes of the database share.
pub(super) fn refuse_network(path: &Path) -> Result<(), StoreError> {
    match network_of(directory_of(path)) {
        None => Ok(()),
        Some(system) => Err(StoreError::Unusable {
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
