//! A summary as text for a terminal.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::compare::FigureChange;
use super::slow_hosts;
use super::{BreakerSummary, HostSummary, Makespan, RunSummary, RunTotals, TargetCheck, shares};

/// Maximum number of rows of a table; further rows are only counted.
const MAX_ROWS: usize = 20;

/// Writes a [`RunSummary`] as text, at most 80 columns wide unless names are longer.
#[must_use]
pub fn text(summary: &RunSummary, checks: &[TargetCheck]) -> String {
    let mut out = overview(summary);
    for section in [
        hosts(summary),
        breakers(summary),
        failures(summary),
        slow_hosts::text(summary),
        tops(summary),
        targets(checks),
    ] {
        if !section.is_empty() {
            out.push('\n');
            out.push_str(&section);
        }
    }
    out
}

/// Writes the [`RunTotals`] of a run.
fn overview(summary: &RunSummary) -> String {
    let (run, totals) = (&summary.run, &summary.totals);
    let mut out = format!(
        "run {} ({}, {}), started {}\n",
        run.run_id, run.command, run.state, run.started_at
    );
    let _ = writeln!(
        out,
        "{} in {}: {} answered, {} failed; {}, {} of them retries",
        counted(totals.requests, "request"),
        seconds(totals.duration_s),
        totals.succeeded,
        totals.failed,
        counted(totals.attempts, "attempt"),
        totals.retries
    );
    let _ = writeln!(
        out,
        "429: {} ({}), 503: {} ({}); limiter blocks {}, breaker denials {}, opens {}",
        totals.status_429,
        percent(totals.http_429_ratio),
        totals.status_503,
        percent(totals.http_503_ratio),
        totals.limiter_blocks,
        totals.breaker_denials,
        totals.opens
    );
    let _ = writeln!(
        out,
        "{} received, {} wasted; {} total waiting of all requests (many wait at once), \
         saved about {} by paused hosts",
        bytes(totals.bytes),
        bytes(totals.wasted_bytes),
        seconds(totals.rate_delay_s),
        seconds(totals.time_saved_s)
    );
    out.push_str(&reuse(totals));
    out.push_str(&makespan(&summary.makespan));
    if totals.telemetry_lost > 0 {
        let _ = writeln!(
            out,
            "{} events of telemetry were lost: the figures are too low by that",
            totals.telemetry_lost
        );
    }
    out
}

/// Writes the [`Makespan`]: the time of the run, and the minimum that limits or responses allow.
fn makespan(makespan: &Makespan) -> String {
    let (took, least) = (seconds(makespan.seconds), seconds(makespan.minimum_s));
    match (makespan.ratio, &makespan.limit) {
        (Some(ratio), Some(limit)) => format!(
            "took {took}; the limits allow no less than {least} ({ratio:.2}x, set by {limit})\n"
        ),
        (Some(ratio), None) => {
            format!("took {took}; the answers alone take {least} ({ratio:.2}x), not the limits\n")
        }
        (None, _) => String::new(),
    }
}

/// Writes the requests and bytes that the cache saved.
fn reuse(totals: &RunTotals) -> String {
    let reused = totals.cache_hits + totals.cache_revalidated;
    if reused == 0 {
        return String::new();
    }
    format!(
        "reused {} from the cache ({} confirmed by the origin); the oldest was {} old\n",
        counted(reused, "answer"),
        totals.cache_revalidated,
        seconds(totals.cache_oldest_s.unwrap_or(0.0))
    )
}

fn hosts(summary: &RunSummary) -> String {
    if summary.hosts.is_empty() {
        return String::new();
    }
    let header = [
        "host", "role", "sent", "tokens", "blocked", "denied", "429", "503", "retries", "p50",
        "p95", "p99",
    ];
    let rows: Vec<Vec<String>> = summary.hosts.iter().take(MAX_ROWS).map(host_row).collect();
    let mut out = table(&header, &rows);
    if summary.hosts.len() > MAX_ROWS {
        let more = summary.hosts.len() - MAX_ROWS;
        let _ = writeln!(out, "... and {more} more (--json has all)");
    }
    out.push_str("p50, p95, p99: the wait for the rate, in ms\n");
    out.push_str(&adapted(summary));
    out
}

/// Writes the multiplier of each host and role whose rate was adapted, as a share of the configured
/// rate.
fn adapted(summary: &RunSummary) -> String {
    let shares: Vec<String> = summary
        .hosts
        .iter()
        .filter_map(|host| {
            let share = percent(host.multiplier?);
            Some(format!("{}:{} {share}", host.host, host.role))
        })
        .collect();
    if shares.is_empty() {
        return String::new();
    }
    format!("adaptive rate at the end: {}\n", shares.join(", "))
}

fn breakers(summary: &RunSummary) -> String {
    if summary.breakers.is_empty() {
        return String::new();
    }
    let header = [
        "breaker",
        "opens",
        "open",
        "avoided",
        "saved",
        "probes ok",
        "over reset",
        "reasons",
    ];
    let shown = summary.breakers.iter().take(MAX_ROWS);
    let rows: Vec<Vec<String>> = shown.map(breaker_row).collect();
    let mut out = table(&header, &rows);
    let reasons = reason_counts(&summary.totals.open_reasons);
    if summary.breakers.len() > 1 && !reasons.is_empty() {
        let _ = writeln!(out, "all opens: {reasons}");
    }
    out
}

fn failures(summary: &RunSummary) -> String {
    if summary.failures.is_empty() {
        return String::new();
    }
    let shown = summary.failures.iter().take(MAX_ROWS);
    let rows: Vec<Vec<String>> = shown
        .map(|failure| {
            vec![
                failure.reason.clone(),
                failure.requests.to_string(),
                failure.hosts.join(", "),
            ]
        })
        .collect();
    table(&["failed because", "requests", "top hosts"], &rows)
}

/// Writes the hosts and roles with the longest waits and the most refusals. A run with a single
/// host and role has no such list.
fn tops(summary: &RunSummary) -> String {
    let lists = [
        (
            "waited longest, all requests together",
            &summary.top_by_delay,
            " s",
        ),
        ("refused most", &summary.top_by_blocks, ""),
    ];
    let lines: Vec<String> = lists
        .into_iter()
        .filter(|(_, top, _)| top.len() > 1)
        .map(|(title, top, unit)| {
            let list: Vec<String> = top
                .iter()
                .take(5)
                .map(|top| format!("{}:{} {:.1}{unit}", top.host, top.role, top.value))
                .collect();
            format!("{title}: {}\n", list.join(", "))
        })
        .collect();
    lines.join("\n")
}

fn targets(checks: &[TargetCheck]) -> String {
    if checks.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = checks
        .iter()
        .map(|check| {
            let found = check
                .found
                .map_or_else(|| "no data".to_owned(), |found| format!("{found:.3}"));
            vec![
                check.target.to_owned(),
                check.wanted.to_string(),
                found,
                if check.ok { "pass" } else { "FAIL" }.to_owned(),
                check.place.clone().unwrap_or_default(),
            ]
        })
        .collect();
    table(&["target", "wanted", "found", "", "where"], &rows)
}

/// Writes a list of `FigureChange`s as text.
#[must_use]
pub fn comparison_text(before: &str, after: &str, compared: &[FigureChange]) -> String {
    let rows: Vec<Vec<String>> = compared
        .iter()
        .map(|line| {
            let change = line.change.map_or_else(
                || "-".to_owned(),
                |change| format!("{:+.1} %", change * 100.0),
            );
            vec![
                line.figure.to_owned(),
                number(line.before),
                number(line.after),
                change,
            ]
        })
        .collect();
    format!(
        "before {before}, after {after}\n{}",
        table(&["figure", "before", "after", "change"], &rows)
    )
}

fn breaker_row(breaker: &BreakerSummary) -> Vec<String> {
    vec![
        breaker.key.clone(),
        breaker.opens.to_string(),
        seconds(breaker.open_s),
        breaker.requests_avoided.to_string(),
        seconds(breaker.time_saved_s),
        format!("{}/{}", breaker.probe_successes, breaker.probes),
        breaker.retry_after_over_reset.to_string(),
        reason_counts(&breaker.reasons),
    ]
}

fn host_row(host: &HostSummary) -> Vec<String> {
    let throttled =
        |t: super::ThrottleCounts| (t.with_retry_after + t.without_retry_after).to_string();
    vec![
        host.host.clone(),
        host.role.clone(),
        host.requests.to_string(),
        host.acquired.to_string(),
        host.blocked.to_string(),
        host.denied.to_string(),
        throttled(host.status_429),
        throttled(host.status_503),
        host.retries.to_string(),
        format!("{:.0}", host.delay.p50_ms),
        format!("{:.0}", host.delay.p95_ms),
        format!("{:.0}", host.delay.p99_ms),
    ]
}

/// Maximum width of a column, in characters; longer cells extend beyond it.
const MAX_WIDTH: usize = 200;

/// Formats rows in columns, two spaces apart.
///
/// ```
/// use docstokg_telemetry::summary::table;
///
/// let row = |host: &str, count: &str| vec![host.to_owned(), count.to_owned()];
/// let text = table(&["host", "requests"], &[row("api.example", "12"), row("b.example", "3")]);
/// assert_eq!(text.lines().next(), Some("host         requests"));
/// assert_eq!(text.lines().last(), Some("b.example    3"));
/// ```
#[must_use]
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let widths: Vec<usize> = (0..header.len())
        .map(|column| {
            rows.iter()
                .map(|row| row[column].chars().count())
                .chain([header[column].len()])
                .max()
                .unwrap_or(0)
                .min(MAX_WIDTH)
        })
        .collect();
    let line = |cells: Vec<&str>| {
        let padded: Vec<String> = cells
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        padded.join("  ").trim_end().to_owned() + "\n"
    };
    let mut text = line(header.to_vec());
    for row in rows {
        text.push_str(&line(row.iter().map(String::as_str).collect()));
    }
    text
}

/// Lists reasons, each with its count and its share.
pub(crate) fn reason_counts(reasons: &BTreeMap<String, u64>) -> String {
    let shares = shares(reasons);
    reasons
        .iter()
        .map(|(reason, count)| format!("{reason} {count} ({:.0} %)", shares[reason] * 100.0))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Formats a count: `1 request`, `2 requests`.
fn counted(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// Formats a share as a percentage.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.4}")
    }
}

/// Formats a number of seconds in the largest suitable unit.
pub(crate) fn seconds(length: f64) -> String {
    match length {
        length if length < 10.0 => format!("{length:.2} s"),
        length if length < 120.0 => format!("{length:.1} s"),
        length if length < 7_200.0 => format!("{:.1} min", length / 60.0),
        length => format!("{:.1} h", length / 3_600.0),
    }
}

/// Formats a size in the unit that fits: `512 B`, `1.5 KiB`, `3.2 GiB`.
#[must_use]
#[expect(
    clippy::cast_precision_loss,
    reason = "one digit after the point is shown"
)]
pub fn bytes(size: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = size as f64;
    let mut unit = 0;
    while value >= 1_024.0 && unit < UNITS.len() - 1 {
        value /= 1_024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{size} B")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_of_any_length_is_shown() {
        let long = "a".repeat(100_000);
        let text = table(&["host", "role"], &[vec![long.clone(), "x".to_owned()]]);
        assert!(text.contains(&format!("{long}  x")));
    }
}
