//! What the robots.txt of a host last said, over all runs.

use docstokg_hub::Host;
use rusqlite::{Connection, OptionalExtension as _};
use serde::Serialize;

use super::SummaryError;

/// What a robots.txt last said.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LatestRobots {
    /// When, in seconds since 1970.
    pub at: f64,
    /// `allows`, `forbids` or `unread`.
    pub state: String,
    /// The time that it last asked for between two requests, in seconds.
    pub crawl_delay_s: Option<f64>,
}

/// Returns what the robots.txt of a host last said; `None` if no recorded run has asked for it.
///
/// # Errors
/// The database cannot be read.
pub fn latest_robots(
    database: &Connection,
    host: &Host,
) -> Result<Option<LatestRobots>, SummaryError> {
    let mut latest = database.prepare(
        "SELECT ts, state, (
             SELECT crawl_delay_s FROM robots_events
             WHERE host = ?1 AND state = 'allows' ORDER BY ts DESC LIMIT 1
         ) FROM robots_events WHERE host = ?1 ORDER BY ts DESC LIMIT 1",
    )?;
    let row = latest.query_row([host.as_str()], |row| {
        Ok(LatestRobots {
            at: row.get(0)?,
            state: row.get(1)?,
            crawl_delay_s: row.get(2)?,
        })
    });
    Ok(row.optional()?)
}
