//! The latest robots.txt of each host, over all runs.

use docstokg_hub::Host;
use rusqlite::{Connection, OptionalExtension as _};
use serde::Serialize;

use super::SummaryError;

/// The latest recorded state of a host's robots.txt.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LatestRobots {
    /// The time of the record, in seconds since 1970.
    pub at: f64,
    /// `allows`, `forbids` or `unread`.
    pub state: String,
    /// The time that the file demands between two requests, in seconds.
    pub crawl_delay_s: Option<f64>,
}

/// Returns the [`LatestRobots`] of a host; `None` if no recorded run has requested its robots.txt.
///
/// # Errors
/// [`SummaryError`] if the database cannot be read.
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
