//! Reading a summary out of the database.

use std::path::Path;

use docstokg_hub::clock::Timestamp;
use rusqlite::{Connection, Row, params};

use super::{
    FAILED, FailureSummary, HostSummary, Makespan, RunHead, Summary, Top, Totals, minimum, share,
};
use crate::sink::sqlite::DatabaseError;

/// Which run is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunChoice {
    /// The one that began last.
    Latest,
    /// All that are there, taken together.
    All,
    /// The one whose id begins so.
    Named(String),
}

impl RunChoice {
    /// Reads what was written on the command line.
    #[must_use]
    pub fn read(text: Option<&str>) -> Self {
        match text {
            None | Some("latest") => Self::Latest,
            Some("all") => Self::All,
            Some(id) => Self::Named(id.to_owned()),
        }
    }
}

/// Why there is no summary.
#[derive(Debug, thiserror::Error)]
pub enum SummaryError {
    /// The database cannot be read.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// A question to it failed.
    #[error("the telemetry cannot be read: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// No run is there.
    #[error("there is no run yet")]
    NoRun,
    /// No run is called so.
    #[error("there is no run '{asked}'; the latest are {}", known.join(", "))]
    Unknown {
        /// What was asked for.
        asked: String,
        /// What there is.
        known: Vec<String>,
    },
    /// Several are.
    #[error("'{asked}' may be {}", found.join(" or "))]
    Ambiguous {
        /// What was asked for.
        asked: String,
        /// What it may be.
        found: Vec<String>,
    },
}

/// Returns the ids of all runs, latest first.
///
/// # Errors
/// The database cannot be read.
pub fn runs(database: &Connection) -> Result<Vec<String>, SummaryError> {
    let mut query =
        database.prepare("SELECT run_id FROM run_summary ORDER BY started_at DESC, run_id DESC")?;
    let ids = query
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    Ok(ids)
}

/// Summarises a run.
///
/// # Errors
/// There is no such run, or the database cannot be read.
pub fn load(database: &Connection, choice: &RunChoice) -> Result<Summary, SummaryError> {
    // One state of the database for all questions, though a run may go on.
    let reading = database.unchecked_transaction()?;
    let id = find(&reading, choice)?;
    let reader = Reader {
        database: &reading,
        run: id.as_deref(),
    };
    let run = reader.head()?;
    let mut hosts = reader.hosts()?;
    let (first, last) = reader.span()?;
    let duration_s = (last - first).max(0.0);
    let breakers = reader.breakers(duration_s)?;
    let makespan = reader.makespan(duration_s, &hosts)?;
    let mut totals = reader.totals(duration_s)?;
    for host in &hosts {
        totals.tokens_acquired += host.acquired;
        totals.limiter_blocks += host.blocked;
        totals.breaker_denials += host.denied;
        totals.head_skipped += host.head_skipped;
        totals.rate_delay_s += host.delay.total_ms / 1_000.0;
    }
    totals.opens = breakers.iter().map(|breaker| breaker.opens).sum();
    totals.opens_per_hour = per_hour(totals.opens, duration_s);
    totals.time_saved_s = breakers
        .iter()
        .fold(0.0, |sum, breaker| sum + breaker.time_saved_s);
    let failures = reader.failures()?;
    let top = |value: fn(&HostSummary) -> f64| {
        let mut all: Vec<Top> = hosts
            .iter()
            .map(|host| Top {
                host: host.host.clone(),
                role: host.role.clone(),
                value: value(host),
            })
            .filter(|top| top.value > 0.0)
            .collect();
        all.sort_by(|a, b| b.value.total_cmp(&a.value));
        all.truncate(10);
        all
    };
    let top_by_delay = top(|host| host.delay.total_ms / 1_000.0);
    let top_by_blocks = top(|host| f64::from(u32::try_from(host.blocked).unwrap_or(u32::MAX)));
    hosts.sort_by(|a, b| {
        b.requests
            .cmp(&a.requests)
            .then_with(|| (&a.host, &a.role).cmp(&(&b.host, &b.role)))
    });
    Ok(Summary {
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

fn find(database: &Connection, choice: &RunChoice) -> Result<Option<String>, SummaryError> {
    let known = runs(database)?;
    match choice {
        RunChoice::Latest => known
            .into_iter()
            .next()
            .map(Some)
            .ok_or(SummaryError::NoRun),
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
pub(super) fn per_hour(count: u64, duration_s: f64) -> f64 {
    // A run of seconds is not stretched to an hour: one open in it is one in that hour.
    count as f64 / (duration_s / 3_600.0).max(1.0)
}

/// The rows of one run, or of all.
pub(super) struct Reader<'a> {
    database: &'a Connection,
    run: Option<&'a str>,
}

/// What rows are grouped by: host and role, or scope and key.
pub(super) type Key = (String, String);

impl Reader<'_> {
    /// Asks a question whose `?1` is the run; rows of every run answer when there is none.
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

    fn head(&self) -> Result<RunHead, SummaryError> {
        let Some(id) = self.run else {
            let (first, last): (f64, f64) = self.database.query_row(
                "SELECT min(started_at), max(updated_at) FROM run_summary",
                [],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )?;
            return Ok(RunHead {
                run_id: "all".to_owned(),
                command: "all".to_owned(),
                config_hash: String::new(),
                started_at: time(first),
                finished_at: Some(time(last)),
                state: "finished",
            });
        };
        let sql = "SELECT command, config_hash, started_at, finished_at, pid FROM run_summary WHERE run_id = ?1";
        let head = self.database.query_row(sql, [id], |row| {
            let finished: Option<f64> = row.get(3)?;
            let pid: i64 = row.get(4)?;
            let alive = Path::new("/proc").join(pid.to_string()).exists();
            Ok(RunHead {
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
        Ok(head?)
    }

    pub(super) fn span(&self) -> Result<(f64, f64), SummaryError> {
        let sql = "SELECT min(ts - (elapsed_ms + rate_delay_ms + rate_concurrency_wait_ms + breaker_wait_ms) / 1000.0), max(ts)
                   FROM http_events WHERE run_id = ?1 OR ?1 IS NULL";
        let span: (Option<f64>, Option<f64>) =
            self.database
                .query_row(sql, params![self.run], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok((span.0.unwrap_or(0.0), span.1.unwrap_or(0.0)))
    }

    fn totals(&self, duration_s: f64) -> Result<Totals, SummaryError> {
        let mut totals = Totals {
            duration_s,
            ..Totals::default()
        };
        self.each(
            "SELECT count(*), coalesce(sum(retry_count > 0), 0), coalesce(sum(status IS 429), 0), coalesce(sum(status IS 503), 0), coalesce(sum(bytes), 0),
                    coalesce(sum(bytes * wasted), 0), coalesce(sum(from_cache), 0) FROM http_events WHERE (run_id = ?1 OR ?1 IS NULL) AND sent = 1",
            |row| {
                totals.attempts = whole(row, 0)?;
                totals.retries = whole(row, 1)?;
                totals.status_429 = whole(row, 2)?;
                totals.status_503 = whole(row, 3)?;
                totals.bytes = whole(row, 4)?;
                totals.wasted_bytes = whole(row, 5)?;
                totals.cache_hit_ratio = share(whole(row, 6)?, totals.attempts);
                Ok(())
            },
        )?;
        totals.http_429_ratio = share(totals.status_429, totals.attempts).unwrap_or(0.0);
        totals.http_503_ratio = share(totals.status_503, totals.attempts).unwrap_or(0.0);
        let ends = format!(
            "SELECT count(*), coalesce(sum({FAILED}), 0), coalesce(sum(error IS 'cancelled'), 0) FROM request_ends WHERE run_id = ?1 OR ?1 IS NULL"
        );
        self.each(&ends, |row| {
            totals.requests = whole(row, 0)?;
            totals.failed = whole(row, 1)?;
            totals.succeeded = totals.requests - totals.failed - whole(row, 2)?;
            Ok(())
        })?;
        self.each("SELECT coalesce(sum(dropped + lost), 0) FROM run_summary WHERE run_id = ?1 OR ?1 IS NULL", |row| {
            totals.telemetry_lost = whole(row, 0)?;
            Ok(())
        })?;
        Ok(totals)
    }

    fn failures(&self) -> Result<Vec<FailureSummary>, SummaryError> {
        let mut failures: Vec<FailureSummary> = Vec::new();
        self.each(
            &format!(
                "SELECT coalesce(error, 'http_' || status, 'unknown') AS reason, host, count(*) AS n FROM request_ends
                 WHERE (run_id = ?1 OR ?1 IS NULL) AND {FAILED} GROUP BY reason, host ORDER BY reason, n DESC"
            ),
            |row| {
                let (reason, host, count): (String, String, u64) = (row.get(0)?, row.get(1)?, whole(row, 2)?);
                match failures.last_mut().filter(|last| last.reason == reason) {
                    Some(last) => {
                        last.requests += count;
                        if last.hosts.len() < 5 {
                            last.hosts.push(host);
                        }
                    }
                    None => failures.push(FailureSummary { reason, requests: count, hosts: vec![host] }),
                }
                Ok(())
            },
        )?;
        failures.sort_by(|a, b| {
            b.requests
                .cmp(&a.requests)
                .then_with(|| a.reason.cmp(&b.reason))
        });
        Ok(failures)
    }

    fn makespan(&self, seconds: f64, hosts: &[HostSummary]) -> Result<Makespan, SummaryError> {
        let mut best = Makespan {
            seconds,
            ..Makespan::default()
        };
        self.each(
            "SELECT b.budget, b.rates, b.host, sum(r.weight) FROM (SELECT DISTINCT host, role, kind, budget, rates FROM budgets WHERE run_id = ?1 OR ?1 IS NULL) b
             JOIN (SELECT host, role, kind, sum(CASE action WHEN 'acquire' THEN weight ELSE -weight END) AS weight FROM rate_events
                 WHERE (run_id = ?1 OR ?1 IS NULL) AND action IN ('acquire', 'given_back') GROUP BY host, role, kind) r
             ON r.host = b.host AND r.role = b.role AND r.kind IS b.kind GROUP BY b.budget, b.rates",
            |row| {
                let (budget, rates, host): (String, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
                let answer = hosts.iter().filter(|known| known.host == host).map(|known| known.latency.p50_ms).fold(0.0, f64::max) / 1_000.0;
                let least = minimum::seconds(&rates, whole(row, 3)?) + answer;
                if least > best.minimum_s {
                    best.minimum_s = least;
                    best.bottleneck = Some(format!("{budget} ({rates})"));
                }
                Ok(())
            },
        )?;
        best.ratio = (best.minimum_s > 0.0).then(|| best.seconds / best.minimum_s);
        Ok(best)
    }
}

pub(super) fn key(row: &Row<'_>) -> rusqlite::Result<Key> {
    Ok((row.get(0)?, row.get(1)?))
}

pub(super) fn whole(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
}

/// Writes a time of the database for a person.
#[expect(
    clippy::cast_possible_truncation,
    reason = "microseconds of this century fit"
)]
fn time(seconds: f64) -> String {
    Timestamp::from_micros((seconds * 1_000_000.0) as i64).to_string()
}
