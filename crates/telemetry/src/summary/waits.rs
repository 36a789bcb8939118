//! The waits and refusals of the limiter in all runs, by budget.

use std::collections::BTreeMap;

use rusqlite::Connection;
use serde::Serialize;

use super::SummaryError;

/// A request that waited for a rate limit, from [`recent_waits`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecentWait {
    /// The id of the run.
    pub run_id: String,
    /// The key of the budget: `service:host` or `host:role`.
    pub key: String,
    /// The host of the request.
    pub host: String,
    /// The role of the request.
    pub role: String,
    /// The length of the wait, in milliseconds.
    pub blocked_ms: f64,
}

/// Numbers of permitted and refused requests of one budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KeyTally {
    /// Number of permitted requests, with or without a wait.
    pub ok: u64,
    /// Number of requests refused because the wait would have been too long.
    pub exceeded: u64,
}

/// Returns the latest requests that waited for a rate limit, latest first, and at most `most`.
///
/// # Errors
/// [`SummaryError`] if the database cannot be read.
pub fn recent_waits(database: &Connection, most: usize) -> Result<Vec<RecentWait>, SummaryError> {
    let mut query = database.prepare(
        "SELECT run_id, key, host, role, delay_ms FROM service_waits WHERE delay_ms > 0
         ORDER BY ts DESC LIMIT ?1",
    )?;
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let rows = query.query_map([most], |row| {
        Ok(RecentWait {
            run_id: row.get(0)?,
            key: row.get(1)?,
            host: row.get(2)?,
            role: row.get(3)?,
            blocked_ms: row.get(4)?,
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Counts the permitted and refused requests of services, as a [`KeyTally`] for each budget.
///
/// # Errors
/// [`SummaryError`] if the database cannot be read.
pub fn tallies_by_key(database: &Connection) -> Result<BTreeMap<String, KeyTally>, SummaryError> {
    let mut query = database.prepare(
        "SELECT key, sum(outcome = 'ok'), sum(outcome = 'exceeded') FROM service_waits GROUP BY key",
    )?;
    let count = |number: i64| u64::try_from(number).unwrap_or_default();
    let rows = query.query_map([], |row| {
        let tally = KeyTally {
            ok: count(row.get(1)?),
            exceeded: count(row.get(2)?),
        };
        Ok((row.get(0)?, tally))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
