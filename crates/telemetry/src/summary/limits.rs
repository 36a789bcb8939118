//! Queries about the limits of a run: its requests with their times and results, and the limits
//! that did not delay any request.

use rusqlite::{Connection, params};
use serde::Serialize;

use super::load::{RunChoice, SummaryError, find, integer};

/// Minimum length of a wait for a rate limit, in milliseconds. A shorter delay is the time that the
/// store needs.
const SHORTEST_WAIT_MS: f64 = 10.0;

/// A request that was sent to a host, from [`sent_requests`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SentRequest {
    /// The time of sending, in seconds since 1970.
    pub sent_s: f64,
    /// The time at which the response was complete, in seconds since 1970.
    pub ended_s: f64,
    /// The status, if there was a response.
    pub status: Option<u16>,
}

/// A limit that did not delay any request of a run, from [`unreached`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnreachedLimit {
    /// The host of the limit.
    pub host: String,
    /// The role of the limit.
    pub role: String,
    /// The windows, as configured.
    pub rates: String,
    /// Number of requests that were sent under this limit.
    pub requests: u64,
}

/// Returns the id of a run, or `None` for all runs.
///
/// # Errors
/// [`SummaryError`] if there is no such run, or the database cannot be read.
pub fn run_id(database: &Connection, choice: &RunChoice) -> Result<Option<String>, SummaryError> {
    find(database, choice)
}

/// Returns the requests of a run to a host, as [`SentRequest`]s in the order of sending.
///
/// # Errors
/// [`SummaryError`] if the database cannot be read.
pub fn sent_requests(
    database: &Connection,
    run: Option<&str>,
    host: &str,
) -> Result<Vec<SentRequest>, SummaryError> {
    let mut query = database.prepare_cached(
        "SELECT ts - elapsed_ms / 1000.0 AS sent_s, ts, status FROM http_events
         WHERE (run_id = ?1 OR ?1 IS NULL) AND host = ?2 AND sent = 1 ORDER BY sent_s",
    )?;
    let rows = query.query_map(params![run, host], |row| {
        Ok(SentRequest {
            sent_s: row.get(0)?,
            ended_s: row.get(1)?,
            status: row.get(2)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns the roles in which a run sent requests to a host.
///
/// # Errors
/// [`SummaryError`] if the database cannot be read.
pub fn roles_used(
    database: &Connection,
    run: Option<&str>,
    host: &str,
) -> Result<Vec<String>, SummaryError> {
    let mut query = database.prepare_cached(
        "SELECT DISTINCT role FROM http_events
         WHERE (run_id = ?1 OR ?1 IS NULL) AND host = ?2 AND sent = 1 ORDER BY role",
    )?;
    let rows = query.query_map(params![run, host], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns the hosts that a run sent requests to, each with the number of responses with status
/// 429.
///
/// # Errors
/// [`SummaryError`] if the database cannot be read.
pub fn hosts_used(
    database: &Connection,
    run: Option<&str>,
) -> Result<Vec<(String, u64)>, SummaryError> {
    let mut query = database.prepare_cached(
        "SELECT host, sum(status IS 429) FROM http_events
         WHERE (run_id = ?1 OR ?1 IS NULL) AND sent = 1 GROUP BY host ORDER BY host",
    )?;
    let rows = query.query_map(params![run], |row| Ok((row.get(0)?, integer(row, 1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Returns the limits of hosts and roles that neither delayed nor refused a request of a run.
///
/// # Errors
/// [`SummaryError`] if the database cannot be read.
pub fn unreached(
    database: &Connection,
    run: Option<&str>,
) -> Result<Vec<UnreachedLimit>, SummaryError> {
    let mut query = database.prepare_cached(
        "SELECT b.host, b.role, b.rates, max(h.requests)
         FROM (SELECT DISTINCT host, role, rates FROM budgets
               WHERE (run_id = ?1 OR ?1 IS NULL) AND kind IS NULL AND rates <> '') b
         JOIN (SELECT host, role, count(*) AS requests, max(rate_delay_ms) AS longest
               FROM http_events WHERE (run_id = ?1 OR ?1 IS NULL) AND sent = 1
               GROUP BY host, role) h ON h.host = b.host AND h.role = b.role
         WHERE h.longest < ?2 AND NOT EXISTS (
             SELECT 1 FROM rate_events r WHERE (r.run_id = ?1 OR ?1 IS NULL)
             AND r.host = b.host AND r.role = b.role AND r.action = 'block')
         GROUP BY b.host, b.role, b.rates ORDER BY b.host, b.role, b.rates",
    )?;
    let rows = query.query_map(params![run, SHORTEST_WAIT_MS], |row| {
        Ok(UnreachedLimit {
            host: row.get(0)?,
            role: row.get(1)?,
            rates: row.get(2)?,
            requests: integer(row, 3)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
