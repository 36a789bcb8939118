//! Migration of the file of an earlier version.

use rusqlite::{Connection, params};

use super::TABLES_VERSION;
use crate::lane::WorkLaneKey;

/// A word of a job's records, with its spelling in earlier versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Respelling {
    /// The spelling of an earlier version.
    pub earlier: &'static str,
    /// The present spelling of the word.
    pub now: &'static str,
}

/// Migrates a file of version `found`, in one transaction. Reasons got their present spelling in
/// version 9, lanes their codec in version 10. Version 11 added the trust in the input of an item,
/// and the table of settings; version 12 added the tables of lines and metadata.
pub(super) fn migrate(
    database: &mut Connection,
    found: i64,
    reasons: &[Respelling],
) -> rusqlite::Result<()> {
    let transaction = database.transaction()?;
    if found < 9 {
        respell_reasons(&transaction, reasons)?;
    }
    if found < 10 {
        encode_lanes(&transaction)?;
    }
    if found < 11 {
        transaction.execute_batch(
            "ALTER TABLE items ADD COLUMN untrusted INTEGER;
             CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;",
        )?;
    }
    if found < 12 {
        add_lines(&transaction)?;
    }
    transaction.pragma_update(None, "user_version", TABLES_VERSION)?;
    transaction.commit()
}

/// Adds the tables of lines and metadata. Earlier versions kept of each item where it was first read,
/// and no text; several items of one line are its parts.
fn add_lines(to: &Connection) -> rusqlite::Result<()> {
    to.execute_batch(include_str!("lines.sql"))?;
    to.execute_batch(
        "INSERT INTO sources (name) SELECT source FROM items GROUP BY source ORDER BY min(id);
         INSERT INTO lines (source, line, part, item, text, problem, read_at)
         SELECT sources.id, line, row_number() OVER (PARTITION BY source, line ORDER BY items.id) - 1, items.id, work_id, NULL, 0
         FROM items JOIN sources ON sources.name = items.source;",
    )
}

fn respell_reasons(to: &Connection, reasons: &[Respelling]) -> rusqlite::Result<()> {
    for Respelling { earlier, now } in reasons {
        to.execute(
            "UPDATE items SET reason = ?1 WHERE reason = ?2",
            [now, earlier],
        )?;
        for table in ["manifests", "attempts"] {
            to.execute(
                &format!(
                    "UPDATE {table} SET reason = ?1, payload = json_set(payload, '$.reason', ?1) WHERE reason = ?2"
                ),
                [now, earlier],
            )?;
        }
    }
    Ok(())
}

/// Rewrites the lanes of unfinished items in the present codec. Finished items have no lane.
fn encode_lanes(to: &Connection) -> rusqlite::Result<()> {
    let mut query = to.prepare("SELECT DISTINCT lane FROM items WHERE state = 'queued'")?;
    let lanes = query.query_map([], |row| row.get::<_, String>(0))?;
    let lanes = lanes.collect::<rusqlite::Result<Vec<_>>>()?;
    let mut update =
        to.prepare("UPDATE items SET lane = ?1 WHERE state = 'queued' AND lane = ?2")?;
    for earlier in lanes {
        update.execute(params![WorkLaneKey::from_version_9(&earlier), earlier])?;
    }
    Ok(())
}
