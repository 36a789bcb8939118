//! Bringing the file of an earlier version into the present one.

use rusqlite::{Connection, params};

use super::TABLES_VERSION;
use crate::lane::WorkLaneKey;

/// A word of a job's records, and how earlier versions spelled it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Respelling {
    /// The word of an earlier version.
    pub earlier: &'static str,
    /// The word of this one.
    pub now: &'static str,
}

/// Migrates a file of version `found`, in one transaction: reasons get their one spelling (since
/// version 9), lanes their codec (since version 10), items a column for the trust in their input
/// and runs a table of settings (since version 11).
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
    transaction.pragma_update(None, "user_version", TABLES_VERSION)?;
    transaction.commit()
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

/// Writes the lanes of items that are to do in the present codec. Items that have ended stand in no
/// lane.
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
