//! Reads the data of the charts from the database.

use std::collections::HashMap;

use rusqlite::{Connection, params};

use crate::summary::{FAILED_REQUEST, RunSummary, SummaryError};

/// Number of columns of a timeline.
pub(super) const TIMELINE_COLUMNS: u32 = 120;
/// Maximum number of hosts with a timeline.
const MAX_HOSTS: usize = 20;
/// Maximum number of failures that are listed.
const MAX_FAILURES: usize = 2_000;
/// The upper edges of the histogram's bars, in milliseconds. The bar after the last edge has no
/// upper edge.
pub(super) const HISTOGRAM_EDGES_MS: [f64; 9] = [
    1.0, 10.0, 50.0, 100.0, 500.0, 1_000.0, 5_000.0, 30_000.0, 300_000.0,
];

/// All data of a report page.
pub(super) struct ReportData {
    pub(super) length_s: f64,
    pub(super) outcomes: Vec<(&'static str, &'static str, u64)>,
    pub(super) lookups: u64,
    pub(super) hosts: Vec<HostTimeline>,
    pub(super) more_hosts: usize,
    pub(super) failures: Vec<FailedRequest>,
    pub(super) more_failures: u64,
}

/// The attempts, waits and breaker states of a host over time, for a chart.
#[derive(Default)]
pub(super) struct HostTimeline {
    pub(super) host: String,
    pub(super) attempts: u64,
    pub(super) throttled: u64,
    pub(super) columns: Vec<TimeColumn>,
    pub(super) bands: Vec<OpenBand>,
    pub(super) delays: [u64; HISTOGRAM_EDGES_MS.len() + 1],
}

impl HostTimeline {
    fn new(host: String) -> Self {
        Self {
            host,
            columns: vec![TimeColumn::default(); TIMELINE_COLUMNS as usize],
            ..Self::default()
        }
    }
}

/// A time in which a breaker was open or half-open, with its ends as shares of the run's time.
pub(super) struct OpenBand {
    pub(super) class: &'static str,
    pub(super) from: f64,
    pub(super) to: f64,
}

/// The attempts and the longest wait in one column of a [`HostTimeline`].
#[derive(Clone, Copy, Default)]
pub(super) struct TimeColumn {
    pub(super) attempts: u64,
    pub(super) throttled: u64,
    pub(super) delay_ms: f64,
}

/// A request that failed, for the table of failures.
pub(super) struct FailedRequest {
    pub(super) after_s: f64,
    pub(super) host: String,
    pub(super) role: String,
    pub(super) reason: String,
    pub(super) attempts: u64,
    pub(super) url: String,
}

/// Reads the [`ReportData`] of a page.
pub(super) fn load(
    database: &Connection,
    summary: &RunSummary,
) -> Result<ReportData, SummaryError> {
    let run = Some(summary.run.run_id.as_str()).filter(|id| *id != "all");
    let span = "SELECT coalesce(min(ts - elapsed_ms / 1000.0), 0), coalesce(max(ts), 0)
                FROM http_events WHERE run_id = ?1 OR ?1 IS NULL";
    let (first, last): (f64, f64) =
        database.query_row(span, params![run], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let length_s = (last - first).max(1e-3);
    let (outcomes, lookups) = outcomes(database, run)?;
    let extract = ReportExtract {
        database,
        run,
        first,
        length_s,
    };
    let (hosts, more_hosts) = extract.timelines()?;
    let (failures, all) = failures(database, run, first)?;
    let more_failures = all.saturating_sub(failures.len() as u64);
    Ok(ReportData {
        length_s,
        outcomes,
        lookups,
        hosts,
        more_hosts,
        failures,
        more_failures,
    })
}

type Outcomes = (Vec<(&'static str, &'static str, u64)>, u64);

fn outcomes(database: &Connection, run: Option<&str>) -> Result<Outcomes, SummaryError> {
    let sql = "SELECT coalesce(sum(sent AND status < 300 AND error IS NULL), 0),
                      coalesce(sum(sent AND status BETWEEN 300 AND 399), 0),
                      coalesce(sum(sent AND status BETWEEN 400 AND 499 AND status <> 429), 0),
                      coalesce(sum(status IS 429), 0), coalesce(sum(status >= 500), 0),
                      coalesce(sum(sent AND error IS NOT NULL), 0),
                      coalesce(sum(sent = 0), 0), coalesce(sum(sent), 0)
               FROM http_events WHERE run_id = ?1 OR ?1 IS NULL";
    let counts = database.query_row(sql, params![run], |row| {
        (0..8)
            .map(|column| row.get::<_, i64>(column))
            .collect::<Result<Vec<_>, _>>()
    })?;
    let count = |column: usize| {
        counts
            .get(column)
            .and_then(|count| u64::try_from(*count).ok())
            .unwrap_or(0)
    };
    let names = [
        ("2xx", "good"),
        ("3xx", "plain"),
        ("other 4xx", "muted"),
        ("429", "bad"),
        ("5xx", "worse"),
        ("connection broken", "wait"),
        ("denied by a breaker", "open"),
    ];
    Ok((
        names
            .into_iter()
            .enumerate()
            .map(|(column, (name, class))| (name, class, count(column)))
            .collect(),
        count(7),
    ))
}

/// Queries the rows for a report: those of one run or of all runs, within the time of these runs.
struct ReportExtract<'a> {
    database: &'a Connection,
    run: Option<&'a str>,
    first: f64,
    length_s: f64,
}

impl ReportExtract<'_> {
    /// Returns the [`HostTimeline`]s of the busiest hosts, and the number of hosts without a
    /// timeline.
    fn timelines(&self) -> Result<(Vec<HostTimeline>, usize), SummaryError> {
        let mut query = self.database.prepare(
            "SELECT host, sum(sent) AS n FROM http_events WHERE run_id = ?1 OR ?1 IS NULL
             GROUP BY host ORDER BY n DESC, host",
        )?;
        let names = query
            .query_map(params![self.run], |row| row.get::<_, String>(0))?
            .collect::<Result<Vec<_>, _>>()?;
        let more = names.len().saturating_sub(MAX_HOSTS);
        let shown = names.into_iter().take(MAX_HOSTS);
        let mut hosts: Vec<HostTimeline> = shown.map(HostTimeline::new).collect();
        let index: HashMap<String, usize> = hosts
            .iter()
            .enumerate()
            .map(|(index, host)| (host.host.clone(), index))
            .collect();
        self.add_attempts(&mut hosts, &index)?;
        self.add_bands(&mut hosts, &index)?;
        Ok((hosts, more))
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of the columns is a column"
    )]
    fn column_of(&self, ts: f64) -> usize {
        let column = (ts - self.first) / self.length_s * f64::from(TIMELINE_COLUMNS);
        (column as usize).min(TIMELINE_COLUMNS as usize - 1)
    }

    fn add_attempts(
        &self,
        hosts: &mut [HostTimeline],
        index: &HashMap<String, usize>,
    ) -> Result<(), SummaryError> {
        let mut query = self.database.prepare(
            "SELECT host, ts - elapsed_ms / 1000.0, status, rate_delay_ms FROM http_events
             WHERE (run_id = ?1 OR ?1 IS NULL) AND sent = 1",
        )?;
        let mut rows = query.query(params![self.run])?;
        while let Some(row) = rows.next()? {
            let name = row.get_ref(0)?.as_str().unwrap_or_default();
            let Some(host) = index.get(name).and_then(|index| hosts.get_mut(*index)) else {
                continue;
            };
            let (ts, status, delay): (f64, Option<u16>, f64) =
                (row.get(1)?, row.get(2)?, row.get(3)?);
            let throttled = u64::from(matches!(status, Some(429 | 503)));
            let column = &mut host.columns[self.column_of(ts.max(self.first))];
            column.attempts += 1;
            column.throttled += throttled;
            column.delay_ms = column.delay_ms.max(delay);
            host.attempts += 1;
            host.throttled += throttled;
            let bucket = HISTOGRAM_EDGES_MS.iter().position(|edge| delay < *edge);
            host.delays[bucket.unwrap_or(HISTOGRAM_EDGES_MS.len())] += 1;
        }
        Ok(())
    }

    /// Adds an [`OpenBand`] for each time in which a host's breaker was open or half-open.
    fn add_bands(
        &self,
        hosts: &mut [HostTimeline],
        index: &HashMap<String, usize>,
    ) -> Result<(), SummaryError> {
        let mut query = self.database.prepare(
            "SELECT host, to_state, ts, coalesce(lead(ts) OVER each_key, 1e18), reset_timeout_s
             FROM breaker_transitions
             WHERE (run_id = ?1 OR ?1 IS NULL) AND scope IN ('host', 'site', 'role')
             WINDOW each_key AS (PARTITION BY run_id, key ORDER BY ts, rowid)",
        )?;
        let share = |ts: f64| ((ts - self.first) / self.length_s).clamp(0.0, 1.0);
        let mut rows = query.query(params![self.run])?;
        while let Some(row) = rows.next()? {
            let (host, state): (String, String) = (row.get(0)?, row.get(1)?);
            let (from, next, reset): (f64, f64, Option<f64>) =
                (row.get(2)?, row.get(3)?, row.get(4)?);
            let Some(host) = index.get(&host).and_then(|index| hosts.get_mut(*index)) else {
                continue;
            };
            let (class, to) = match state.as_str() {
                "open" => ("open", next.min(from + reset.unwrap_or(0.0))),
                "half_open" => ("half", next),
                _ => continue,
            };
            host.bands.push(OpenBand {
                class,
                from: share(from),
                to: share(to),
            });
        }
        Ok(())
    }
}

fn failures(
    database: &Connection,
    run: Option<&str>,
    first: f64,
) -> Result<(Vec<FailedRequest>, u64), SummaryError> {
    let failed = format!("(run_id = ?1 OR ?1 IS NULL) AND {FAILED_REQUEST}");
    let all: i64 = database.query_row(
        &format!("SELECT count(*) FROM request_ends WHERE {failed}"),
        params![run],
        |row| row.get(0),
    )?;
    let mut query = database.prepare(&format!(
        "SELECT ts, host, role, coalesce(error, 'http_' || status, 'unknown'), attempts,
                coalesce(url, '')
         FROM request_ends WHERE {failed} ORDER BY ts LIMIT {MAX_FAILURES}"
    ))?;
    let rows = query.query_map(params![run], |row| {
        Ok(FailedRequest {
            after_s: (row.get::<_, f64>(0)? - first).max(0.0),
            host: row.get(1)?,
            role: row.get(2)?,
            reason: row.get(3)?,
            attempts: u64::try_from(row.get::<_, i64>(4)?).unwrap_or(0),
            url: row.get(5)?,
        })
    })?;
    Ok((
        rows.collect::<Result<_, _>>()?,
        u64::try_from(all).unwrap_or(0),
    ))
}
