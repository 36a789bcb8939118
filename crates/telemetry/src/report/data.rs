//! What the pictures are drawn from.

use std::collections::HashMap;

use rusqlite::{Connection, params};

use crate::summary::{FAILED, Summary, SummaryError};

/// Columns of a timeline.
pub(super) const COLUMNS: u32 = 120;
/// Hosts with a timeline of their own.
const HOSTS: usize = 20;
/// Failures that are listed.
const FAILURES: usize = 2_000;
/// The upper edges of the histogram's bars, in milliseconds; the last bar is open.
pub(super) const EDGES: [f64; 9] = [
    1.0, 10.0, 50.0, 100.0, 500.0, 1_000.0, 5_000.0, 30_000.0, 300_000.0,
];

/// Everything that is drawn.
pub(super) struct Picture {
    pub(super) length_s: f64,
    pub(super) outcomes: Vec<(&'static str, &'static str, u64)>,
    pub(super) lookups: u64,
    pub(super) cache_hits: u64,
    pub(super) hosts: Vec<HostTimeline>,
    pub(super) more_hosts: usize,
    pub(super) failures: Vec<Failure>,
    pub(super) more_failures: u64,
}

/// One host over time.
#[derive(Default)]
pub(super) struct HostTimeline {
    pub(super) host: String,
    pub(super) attempts: u64,
    pub(super) throttled: u64,
    pub(super) columns: Vec<Column>,
    /// From, to (as shares of the run), and whether it is half-open.
    pub(super) bands: Vec<(f64, f64, bool)>,
    pub(super) delays: [u64; EDGES.len() + 1],
}

/// A slice of a host's time.
#[derive(Clone, Copy, Default)]
pub(super) struct Column {
    pub(super) attempts: u64,
    pub(super) throttled: u64,
    pub(super) delay_ms: f64,
}

/// A request that failed.
pub(super) struct Failure {
    pub(super) after_s: f64,
    pub(super) host: String,
    pub(super) role: String,
    pub(super) reason: String,
    pub(super) attempts: u64,
    pub(super) url: String,
}

/// Reads everything that is drawn.
pub(super) fn load(database: &Connection, summary: &Summary) -> Result<Picture, SummaryError> {
    let run = Some(summary.run.run_id.as_str()).filter(|id| *id != "all");
    let span = "SELECT coalesce(min(ts - elapsed_ms / 1000.0), 0), coalesce(max(ts), 0) FROM http_events WHERE run_id = ?1 OR ?1 IS NULL";
    let (first, last): (f64, f64) =
        database.query_row(span, params![run], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let length_s = (last - first).max(1e-3);
    let (outcomes, lookups, cache_hits) = outcomes(database, run)?;
    let (hosts, more_hosts) = timelines(database, run, first, length_s)?;
    let (failures, all) = failures(database, run, first)?;
    let more_failures = all.saturating_sub(failures.len() as u64);
    Ok(Picture {
        length_s,
        outcomes,
        lookups,
        cache_hits,
        hosts,
        more_hosts,
        failures,
        more_failures,
    })
}

type Outcomes = (Vec<(&'static str, &'static str, u64)>, u64, u64);

fn outcomes(database: &Connection, run: Option<&str>) -> Result<Outcomes, SummaryError> {
    let sql = "SELECT coalesce(sum(sent AND status < 300 AND error IS NULL), 0), coalesce(sum(sent AND status BETWEEN 300 AND 399), 0),
                      coalesce(sum(sent AND status BETWEEN 400 AND 499 AND status <> 429), 0), coalesce(sum(status IS 429), 0),
                      coalesce(sum(status >= 500), 0), coalesce(sum(sent AND error IS NOT NULL), 0), coalesce(sum(sent = 0), 0),
                      coalesce(sum(sent), 0), coalesce(sum(from_cache), 0)
               FROM http_events WHERE run_id = ?1 OR ?1 IS NULL";
    let counts = database.query_row(sql, params![run], |row| {
        (0..9)
            .map(|column| row.get::<_, i64>(column))
            .collect::<Result<Vec<_>, _>>()
    })?;
    let count = |place: usize| {
        counts
            .get(place)
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
            .map(|(place, (name, class))| (name, class, count(place)))
            .collect(),
        count(7),
        count(8),
    ))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of the columns is a column"
)]
fn timelines(
    database: &Connection,
    run: Option<&str>,
    first: f64,
    length_s: f64,
) -> Result<(Vec<HostTimeline>, usize), SummaryError> {
    let mut query =
        database.prepare("SELECT host, sum(sent) AS n FROM http_events WHERE run_id = ?1 OR ?1 IS NULL GROUP BY host ORDER BY n DESC, host")?;
    let names = query
        .query_map(params![run], |row| row.get::<_, String>(0))?
        .collect::<Result<Vec<_>, _>>()?;
    let mut hosts: Vec<HostTimeline> = names
        .iter()
        .take(HOSTS)
        .map(|host| HostTimeline {
            host: host.clone(),
            columns: vec![Column::default(); COLUMNS as usize],
            ..HostTimeline::default()
        })
        .collect();
    let place: HashMap<String, usize> = hosts
        .iter()
        .enumerate()
        .map(|(place, host)| (host.host.clone(), place))
        .collect();
    let column_of = |ts: f64| {
        (((ts - first) / length_s * f64::from(COLUMNS)) as usize).min(COLUMNS as usize - 1)
    };
    let mut query = database
        .prepare("SELECT host, ts - elapsed_ms / 1000.0, status, rate_delay_ms FROM http_events WHERE (run_id = ?1 OR ?1 IS NULL) AND sent = 1")?;
    let mut rows = query.query(params![run])?;
    while let Some(row) = rows.next()? {
        let Some(host) = place
            .get(row.get_ref(0)?.as_str().unwrap_or_default())
            .and_then(|place| hosts.get_mut(*place))
        else {
            continue;
        };
        let (ts, status, delay): (f64, Option<u16>, f64) = (row.get(1)?, row.get(2)?, row.get(3)?);
        let throttled = u64::from(matches!(status, Some(429 | 503)));
        let column = &mut host.columns[column_of(ts.max(first))];
        column.attempts += 1;
        column.throttled += throttled;
        column.delay_ms = column.delay_ms.max(delay);
        host.attempts += 1;
        host.throttled += throttled;
        host.delays[EDGES
            .iter()
            .position(|edge| delay < *edge)
            .unwrap_or(EDGES.len())] += 1;
    }
    let mut query = database.prepare(
        "SELECT host, to_state, ts, coalesce(lead(ts) OVER each_key, 1e18), reset_timeout_s FROM breaker_transitions
         WHERE (run_id = ?1 OR ?1 IS NULL) AND scope IN ('host', 'site') WINDOW each_key AS (PARTITION BY run_id, key ORDER BY ts, rowid)",
    )?;
    let mut rows = query.query(params![run])?;
    while let Some(row) = rows.next()? {
        let (host, state, from, next, reset): (String, String, f64, f64, Option<f64>) = (
            row.get(0)?,
            row.get(1)?,
            row.get(2)?,
            row.get(3)?,
            row.get(4)?,
        );
        let Some(host) = place.get(&host).and_then(|place| hosts.get_mut(*place)) else {
            continue;
        };
        let share = |ts: f64| ((ts - first) / length_s).clamp(0.0, 1.0);
        match state.as_str() {
            "open" => host.bands.push((
                share(from),
                share(next.min(from + reset.unwrap_or(0.0))),
                false,
            )),
            "half_open" => host.bands.push((share(from), share(next), true)),
            _ => {}
        }
    }
    Ok((hosts, names.len().saturating_sub(HOSTS)))
}

fn failures(
    database: &Connection,
    run: Option<&str>,
    first: f64,
) -> Result<(Vec<Failure>, u64), SummaryError> {
    let failed = format!("(run_id = ?1 OR ?1 IS NULL) AND {FAILED}");
    let all: i64 = database.query_row(
        &format!("SELECT count(*) FROM request_ends WHERE {failed}"),
        params![run],
        |row| row.get(0),
    )?;
    let mut query = database.prepare(&format!(
        "SELECT ts, host, role, coalesce(error, 'http_' || status, 'unknown'), attempts, coalesce(url, '') FROM request_ends WHERE {failed} ORDER BY ts LIMIT {FAILURES}"
    ))?;
    let rows = query.query_map(params![run], |row| {
        Ok(Failure {
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
