//! The latest waits for rates, over all runs.

use rusqlite::Connection;
use serde::Serialize;

use super::SummaryError;

/// A request that waited for a rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecentWait {
    /// The run.
    pub run_id: String,
    /// The host.
    pub host: String,
    /// The role.
    pub role: String,
    /// How long it waited, in milliseconds.
    pub blocked_ms: f64,
}

/// Returns the latest requests that waited for a rate, the last one first.
///
/// # Errors
/// The database cannot be read.
pub fn recent_waits(database: &Connection, most: usize) -> Result<Vec<RecentWait>, SummaryError> {
    let mut query = database.prepare(
        "SELECT run_id, host, role, delay_ms FROM rate_events WHERE delay_ms > 0
         ORDER BY ts DESC LIMIT ?1",
    )?;
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let rows = query.query_map([most], |row| {
        Ok(RecentWait {
            run_id: row.get(0)?,
            host: row.get(1)?,
            role: row.get(2)?,
            blocked_ms: row.get(3)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
