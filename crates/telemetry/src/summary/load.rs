//! Reads a [`RunSummary`] from the database.

use std::path::Path;

use docstokg_hub::clock::Timestamp;
use rusqlite::{Connection, Row, params};

use super::{BreakerSummary, HostSummary, RankedEntry, RunInfo, RunSummary, RunTotals, shares};
use crate::sink::sqlite::DatabaseError;

/// Minimum length of a run for which rates per hour are computed, in seconds. Figures of shorter
/// runs are not extrapolated.
const MIN_RATED_S: f64 = 600.0;
/// Maximum number of hosts in a ranking.
const MAX_RANKED: usize = 10;

/// The run to summarise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunChoice {
    /// The run that started last.
    Latest,
    /// All runs of the database together.
    All,
    /// The run whose id starts with this text, which must be unique.
    Named(String),
}

impl RunChoice {
    /// Parses the argument that names a run on the command line.
    ///
    /// ```
    /// use docstokg_telemetry::summary::RunChoice;
    ///
    /// assert!(matches!(RunChoice::parse(None), RunChoice::Latest));
    /// assert!(matches!(RunChoice::parse(Some("20261115T08")), RunChoice::Named(_)));
    /// ```
    #[must_use]
    pub fn parse(text: Option<&str>) -> Self {
        match text {
            None | Some("latest") => Self::Latest,
            Some("all") => Self::All,
            Some(id) => Self::Named(id.to_owned()),
        }
    }
}

/// The reason why there is no summary.
#[derive(Debug, thiserror::Error)]
pub enum SummaryError {
    /// The database cannot be read.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// A query of the database failed.
    #[error("the telemetry cannot be read: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The database has no run.
    #[error("there is no run yet")]
    NoRun,
    /// No run has an id that starts with the requested text.
    #[error("there is no run '{asked}'; the latest are {}", known.join(", "))]
    Unknown {
        /// The requested beginning of an id.
        asked: String,
        /// The ids of the latest runs.
        known: Vec<String>,
    },
    /// Several runs have ids that start with the requested text.
    #[error("'{asked}' may be {}", several(found))]
    Ambiguous {
        /// The requested beginning of an id.
        asked: String,
        /// The ids of these runs.
        found: Vec<String>,
    },
}

/// The most runs that a message lists.
const MAX_NAMED_RUNS: usize = 3;

/// Lists the first of some runs, and counts the others.
fn several(found: &[String]) -> String {
    let named = found.iter().take(MAX_NAMED_RUNS).cloned();
    let mut named = named.collect::<Vec<_>>().join(" or ");
    if found.len() > MAX_NAMED_RUNS {
        named.push_str(&format!(" or one of {} more", found.len() - MAX_NAMED_RUNS));
    }
    named
}

/// A run in the list of all runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunListing {
    /// The run.
    pub run: RunInfo,
    /// Requests that ended.
    pub requests: u64,
}

/// Lists all runs, latest first.
///
/// # Errors
/// The database cannot be read.
pub fn list(database: &Connection) -> Result<Vec<RunListing>, SummaryError> {
    let snapshot = database.unchecked_transaction()?;
    let mut counted = snapshot.prepare("SELECT count(*) FROM request_ends WHERE run_id = ?1")?;
    let mut all = Vec::new();
    for id in runs(&snapshot)? {
        let reader = RunReader {
            database: &snapshot,
            run: Some(&id),
        };
        all.push(RunListing {
            run: reader.run_info()?,
            requests: counted.query_row([&id], |row| integer(row, 0))?,
        });
    }
    Ok(all)
}

/// Returns the run that started last, if possible one with requests: a dry run, or one that
/// failed at its start, is rarely meant.
fn latest(database: &Connection) -> Result<Option<String>, SummaryError> {
    let mut query = database.prepare(
        "SELECT run_id FROM run_summary ORDER BY
         EXISTS (SELECT 1 FROM request_ends e WHERE e.run_id = run_summary.run_id)
         OR EXISTS (SELECT 1 FROM http_events h WHERE h.run_id = run_summary.run_id) DESC,
         started_at DESC, run_id DESC LIMIT 1",
    )?;
    let mut rows = query.query([])?;
    Ok(rows.next()?.map(|row| row.get(0)).transpose()?)
}

/// Returns the ids of all runs, latest first.
///
/// # Errors
/// [`SummaryError`] if the database cannot be read.
pub fn runs(database: &Connection) -> Result<Vec<String>, SummaryError> {
    let mut query =
        database.prepare("SELECT run_id FROM run_summary ORDER BY started_at DESC, run_id DESC")?;
    let ids = query
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    Ok(ids)
}

/// Reads the [`RunSummary`] of a run.
///
/// ```
/// use docstokg_telemetry::sink::sqlite::{SqliteSink, open_to_read};
/// use docstokg_telemetry::summary::{RunChoice, load};
/// # use docstokg_hub::{config::load, stores::clock::SystemClock};
/// # use docstokg_telemetry::{RunIdentity, sink::Sink};
/// # use std::sync::Arc;
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("telemetry.sqlite3");
/// # let (_, settings) = load::load(&load::ConfigSources::default())?;
/// # let run = Arc::new(RunIdentity::begin("example", &settings, &SystemClock));
/// # let mut sink = SqliteSink::open(&path, Arc::clone(&run), None, Arc::new(SystemClock))?;
/// # sink.close(0).expect("a database");
///
/// let summary = load(&open_to_read(&path)?, &RunChoice::parse(Some("latest")))?;
/// assert_eq!(summary.run.run_id, run.id);
/// assert_eq!((summary.run.state, summary.totals.requests), ("finished", 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`SummaryError`] if there is no such run, or the database cannot be read.
pub fn load(database: &Connection, choice: &RunChoice) -> Result<RunSummary, SummaryError> {
    // All queries see the same state of the database, even while a run writes to it.
    let snapshot = database.unchecked_transaction()?;
    let id = find(&snapshot, choice)?;
    let reader = RunReader {
        database: &snapshot,
        run: id.as_deref(),
    };
    let run = reader.run_info()?;
    let mut hosts = reader.hosts()?;
    let (first, last) = reader.span()?;
    let duration_s = (last - first).max(0.0);
    let breakers = reader.breakers(duration_s)?;
    let makespan = reader.makespan(duration_s, &hosts)?;
    let mut totals = reader.totals(duration_s)?;
    add_up(&mut totals, &hosts, &breakers);
    let failures = reader.failures()?;
    let top_by_delay = top(&hosts, |host| host.delay.total_ms / 1_000.0);
    let top_by_blocks = top(&hosts, |host| {
        f64::from(u32::try_from(host.blocked).unwrap_or(u32::MAX))
    });
    hosts.sort_by(|a, b| {
        b.requests
            .cmp(&a.requests)
            .then_with(|| (&a.host, &a.role).cmp(&(&b.host, &b.role)))
    });
    Ok(RunSummary {
        run,
        totals,
        makespan,
        hosts,
        breakers,
        failures,
        top_by_delay,
        top_by_blocks,
    })
}

/// Adds the sums over hosts and breakers to the [`RunTotals`].
fn add_up(totals: &mut RunTotals, hosts: &[HostSummary], breakers: &[BreakerSummary]) {
    for host in hosts {
        totals.tokens_acquired += host.acquired;
        totals.limiter_blocks += host.blocked;
        totals.breaker_denials += host.denied;
        totals.head_skipped += host.head_skipped;
        totals.rate_delay_s += host.delay.total_ms / 1_000.0;
    }
    totals.opens = breakers.iter().map(|breaker| breaker.opens).sum();
    totals.opens_per_hour = per_hour(totals.opens, totals.duration_s);
    for (reason, opens) in breakers.iter().flat_map(|breaker| &breaker.reasons) {
        *totals.open_reasons.entry(reason.clone()).or_default() += opens;
    }
    totals.open_reason_shares = shares(&totals.open_reasons);
    totals.time_saved_s = breakers
        .iter()
        .fold(0.0, |sum, breaker| sum + breaker.time_saved_s);
}

/// Ranks hosts and roles by a figure, largest first, as [`RankedEntry`]s.
fn top(hosts: &[HostSummary], value: fn(&HostSummary) -> f64) -> Vec<RankedEntry> {
    let mut all: Vec<RankedEntry> = hosts
        .iter()
        .map(|host| RankedEntry {
            host: host.host.clone(),
            role: host.role.clone(),
            value: value(host),
        })
        .filter(|top| top.value > 0.0)
        .collect();
    all.sort_by(|a, b| b.value.total_cmp(&a.value));
    all.truncate(MAX_RANKED);
    all
}

pub(super) fn find(
    database: &Connection,
    choice: &RunChoice,
) -> Result<Option<String>, SummaryError> {
    let known = runs(database)?;
    match choice {
        RunChoice::Latest => latest(database)?.map(Some).ok_or(SummaryError::NoRun),
        RunChoice::All if known.is_empty() => Err(SummaryError::NoRun),
        RunChoice::All => Ok(None),
        RunChoice::Named(asked) => {
            let mut found: Vec<String> = known
                .iter()
                .filter(|id| id.starts_with(asked.as_str()))
                .cloned()
                .collect();
            match found.len() {
                0 => Err(SummaryError::Unknown {
                    asked: asked.clone(),
                    known: known.into_iter().take(3).collect(),
                }),
                1 => Ok(found.pop()),
                _ => Err(SummaryError::Ambiguous {
                    asked: asked.clone(),
                    found,
                }),
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of opens fit")]
pub(super) fn per_hour(count: u64, duration_s: f64) -> Option<f64> {
    (duration_s >= MIN_RATED_S).then(|| count as f64 * 3_600.0 / duration_s)
}

/// Reads the rows of one run, or of all runs.
pub(super) struct RunReader<'a> {
    database: &'a Connection,
    run: Option<&'a str>,
}

/// The key of a group of rows: host and role, or scope and key of a breaker.
pub(super) type GroupKey = (String, String);

impl RunReader<'_> {
    /// Runs a query whose `?1` is the run, or NULL for all runs, and passes every row to `take`.
    pub(super) fn each(
        &self,
        sql: &str,
        mut take: impl FnMut(&Row<'_>) -> rusqlite::Result<()>,
    ) -> Result<(), SummaryError> {
        let mut query = self.database.prepare_cached(sql)?;
        let mut rows = query.query(params![self.run])?;
        while let Some(row) = rows.next()? {
            take(row)?;
        }
        Ok(())
    }

    /// Returns true if the database has the table of cache records. A read-only database of an
    /// older program lacks the table.
    pub(super) fn has_cache_events(&self) -> Result<bool, SummaryError> {
        let sql = "SELECT count(*) FROM sqlite_master WHERE name = 'cache_events'";
        let found: i64 = self.database.query_row(sql, [], |row| row.get(0))?;
        Ok(found > 0)
    }

    fn run_info(&self) -> Result<RunInfo, SummaryError> {
        let Some(id) = self.run else {
            let (first, last): (f64, f64) = self.database.query_row(
                "SELECT min(started_at), max(updated_at) FROM run_summary",
                [],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?;
            return Ok(RunInfo {
                run_id: "all".to_owned(),
                command: "all".to_owned(),
                config_hash: String::new(),
                started_at: time(first),
                finished_at: Some(time(last)),
                state: "finished",
            });
        };
        let sql = "SELECT command, config_hash, started_at, finished_at, pid
                   FROM run_summary WHERE run_id = ?1";
        let info = self.database.query_row(sql, [id], |row| {
            let finished: Option<f64> = row.get(3)?;
            let pid: i64 = row.get(4)?;
            let alive = Path::new("/proc").join(pid.to_string()).exists();
            Ok(RunInfo {
                run_id: id.to_owned(),
                command: row.get(0)?,
                config_hash: row.get(1)?,
                started_at: time(row.get(2)?),
                finished_at: finished.map(time),
                state: match finished {
                    Some(_) => "finished",
                    None if alive => "running",
                    None => "killed",
                },
            })
        });
        Ok(info?)
    }

    pub(super) fn span(&self) -> Result<(f64, f64), SummaryError> {
        let sql = "SELECT min(ts - (elapsed_ms + rate_delay_ms + rate_concurrency_wait_ms
                                   + breaker_wait_ms) / 1000.0),
                          max(ts)
                   FROM http_events WHERE run_id = ?1 OR ?1 IS NULL";
        let span: (Option<f64>, Option<f64>) =
            self.database
                .query_row(sql, params![self.run], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok((span.0.unwrap_or(0.0), span.1.unwrap_or(0.0)))
    }
}

pub(super) fn key(row: &Row<'_>) -> rusqlite::Result<GroupKey> {
    Ok((row.get(0)?, row.get(1)?))
}

pub(super) fn integer(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
}

/// Formats a time of the database.
#[expect(
    clippy::cast_possible_truncation,
    reason = "microseconds of this century fit"
)]
fn time(seconds: f64) -> String {
    Timestamp::from_micros((seconds * 1_000_000.0) as i64).to_string()
}
