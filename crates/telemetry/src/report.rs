//! A run as one HTML page: self-contained, light and dark, readable on a phone.
//!
//! Charts are SVG, so the page works without scripts; a short script filters the table of
//! failures.

mod charts;
mod data;

use std::fmt::Write as _;

use docstokg_hub::html::escape;
use rusqlite::Connection;

use crate::summary::{
    HostSummary, Summary, SummaryError, Throttled, bytes, percent, reason_counts, seconds,
};
use charts::{bar, histogram, timeline};
use data::{COLUMNS, HostTimeline, ReportData};

const STYLE: &str = include_str!("report/page.css");
const SCRIPT: &str = include_str!("report/page.js");

/// Writes the page of a run.
///
/// # Errors
/// The database cannot be read.
pub fn page(database: &Connection, summary: &Summary) -> Result<String, SummaryError> {
    let title = format!("docstokg run {}", summary.run.run_id);
    Ok(document(&title, &sections(database, summary)?))
}

/// Writes a page with this title around sections of HTML.
#[must_use]
pub fn document(title: &str, sections: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head><body>{sections}\
         <script>{SCRIPT}</script></body></html>\n",
        title = escape(title),
    )
}

/// Writes what a page says about a run: requests, waits, hosts and failures.
///
/// # Errors
/// The database cannot be read.
pub fn sections(database: &Connection, summary: &Summary) -> Result<String, SummaryError> {
    let data = data::load(database, summary)?;
    let run = &summary.run;
    let mut page = String::with_capacity(64 << 10);
    let _ = write!(
        page,
        "<header><h1>Run {id}</h1><p>{command}, {state}, started {started}{hash}</p></header>",
        id = escape(&run.run_id),
        command = escape(&run.command),
        state = run.state,
        started = escape(&run.started_at),
        hash = if run.config_hash.is_empty() {
            String::new()
        } else {
            format!(", configuration {}", escape(&run.config_hash))
        }
    );
    cards(&mut page, summary);
    outcomes(&mut page, summary, &data);
    timelines(&mut page, &data);
    histograms(&mut page, &data);
    slowest(&mut page, summary);
    breakers(&mut page, summary);
    failures(&mut page, &data);
    Ok(page)
}

fn cards(page: &mut String, summary: &Summary) {
    let totals = &summary.totals;
    let ratio = summary.makespan.ratio.map_or_else(
        || "no limit was reached".to_owned(),
        |ratio| format!("{ratio:.2}x the minimum"),
    );
    let cards = [
        (
            "requests",
            totals.requests.to_string(),
            format!("{} failed", totals.failed),
        ),
        ("took", seconds(totals.duration_s), ratio),
        (
            "answers 429",
            totals.status_429.to_string(),
            format!(
                "{:.1} % of {} attempts",
                totals.http_429_ratio * 100.0,
                totals.attempts
            ),
        ),
        (
            "total waiting of all requests",
            seconds(totals.rate_delay_s),
            format!("many wait at once; {} refused", totals.limiter_blocks),
        ),
        (
            "hosts paused",
            totals.opens.to_string(),
            format!("{} requests avoided", totals.breaker_denials),
        ),
        (
            "received",
            bytes(totals.bytes),
            format!("{} wasted", bytes(totals.wasted_bytes)),
        ),
    ];
    page.push_str("<section class=\"cards\">");
    for (name, value, note) in cards {
        let _ = write!(
            page,
            "<div class=\"card\"><span>{name}</span><strong>{}</strong><small>{}</small></div>",
            escape(&value),
            escape(&note)
        );
    }
    page.push_str("</section>");
    if totals.telemetry_lost > 0 {
        let _ = write!(
            page,
            "<p class=\"warning\">{} events of telemetry were lost: \
             the figures are too low by that.</p>",
            totals.telemetry_lost
        );
    }
}

fn outcomes(page: &mut String, summary: &Summary, data: &ReportData) {
    page.push_str("<section><h2>Outcomes</h2>");
    bar(page, "attempts", &data.outcomes);
    bar(
        page,
        "cache",
        &[
            ("from the cache", "good", summary.totals.cache_hits),
            (
                "confirmed by the origin",
                "muted",
                summary.totals.cache_revalidated,
            ),
            (
                "requested from the origin",
                "plain",
                data.lookups
                    .saturating_sub(summary.totals.cache_revalidated),
            ),
        ],
    );
    bar(
        page,
        "requests",
        &[
            ("answered", "good", summary.totals.succeeded),
            ("failed", "bad", summary.totals.failed),
        ],
    );
    page.push_str("</section>");
}

fn timelines(page: &mut String, data: &ReportData) {
    let _ = write!(
        page,
        "<section><h2>Timeline</h2><p class=\"legend\">\
         <span><i class=\"plain\"></i>attempts</span>\
         <span><i class=\"bad\"></i>429 and 503</span>\
         <span><i class=\"wait\"></i>wait for the rate</span>\
         <span><i class=\"open\"></i>open</span><span><i class=\"half\"></i>half-open</span>\
         <span>{} in all, {} per column</span></p>",
        seconds(data.length_s),
        seconds(data.length_s / f64::from(COLUMNS))
    );
    for host in &data.hosts {
        let HostTimeline {
            host: name,
            attempts,
            throttled,
            ..
        } = host;
        let _ = write!(
            page,
            "<figure><figcaption><b>{}</b> {attempts} attempts, {throttled} throttled</figcaption>",
            escape(name)
        );
        timeline(page, host);
        page.push_str("</figure>");
    }
    if data.more_hosts > 0 {
        let _ = write!(
            page,
            "<p>... and {} hosts with fewer attempts.</p>",
            data.more_hosts
        );
    }
    page.push_str("</section>");
}

fn histograms(page: &mut String, data: &ReportData) {
    page.push_str("<section><h2>Waits for the rate</h2><div class=\"grid\">");
    for host in data
        .hosts
        .iter()
        .filter(|host| host.delays.iter().any(|count| *count > 0))
    {
        let _ = write!(
            page,
            "<figure><figcaption><b>{}</b></figcaption>",
            escape(&host.host)
        );
        histogram(page, &host.delays);
        page.push_str("</figure>");
    }
    page.push_str("</div></section>");
}

fn slowest(page: &mut String, summary: &Summary) {
    let mut hosts: Vec<&HostSummary> = summary
        .hosts
        .iter()
        .filter(|host| host.requests > 0)
        .collect();
    hosts.sort_by(|a, b| b.latency.p95_ms.total_cmp(&a.latency.p95_ms));
    page.push_str(
        "<section><h2>Slowest hosts</h2><div class=\"wide\"><table><thead><tr>\
         <th>host<th>role<th>sent<th>answer p50<th>answer p95<th>wait p95<th>429<th>503\
         <th>retries<th>received<th>adaptive rate</tr></thead><tbody>",
    );
    for host in hosts.iter().take(20) {
        let sum = |t: Throttled| t.with_retry_after + t.without_retry_after;
        let _ = write!(
            page,
            "<tr><td>{}<td>{}<td>{}<td>{:.0} ms<td>{:.0} ms<td>{:.0} ms\
             <td>{}<td>{}<td>{}<td>{}<td>{}</tr>",
            escape(&host.host),
            escape(&host.role),
            host.requests,
            host.latency.p50_ms,
            host.latency.p95_ms,
            host.delay.p95_ms,
            sum(host.status_429),
            sum(host.status_503),
            host.retries,
            bytes(host.bytes),
            host.multiplier.map_or_else(String::new, percent)
        );
    }
    page.push_str("</tbody></table></div></section>");
}

fn breakers(page: &mut String, summary: &Summary) {
    if summary.breakers.is_empty() {
        return;
    }
    page.push_str(
        "<section><h2>Breakers</h2><div class=\"wide\"><table><thead><tr>\
         <th>breaker<th>opens<th>open<th>avoided<th>saved<th>probes that succeeded<th>reasons</tr>\
         </thead><tbody>",
    );
    for breaker in summary.breakers.iter().take(50) {
        let _ = write!(
            page,
            "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{} of {}<td>{}</tr>",
            escape(&breaker.key),
            breaker.opens,
            seconds(breaker.open_s),
            breaker.requests_avoided,
            seconds(breaker.time_saved_s),
            breaker.probe_successes,
            breaker.probes,
            escape(&reason_counts(&breaker.reasons))
        );
    }
    page.push_str("</tbody></table></div>");
    let reasons = reason_counts(&summary.totals.open_reasons);
    if !reasons.is_empty() {
        let _ = write!(page, "<p>All opens: {}</p>", escape(&reasons));
    }
    page.push_str("</section>");
}

fn failures(page: &mut String, data: &ReportData) {
    page.push_str("<section><h2>Failures</h2>");
    if data.failures.is_empty() {
        page.push_str("<p>None.</p></section>");
        return;
    }
    let _ = write!(
        page,
        "<p><input id=\"search\" type=\"search\" placeholder=\"Search host, reason or URL\" \
         aria-label=\"Search failures\"> <span id=\"found\">{} shown</span>{}</p>\
         <div class=\"wide\"><table id=\"failures\"><thead><tr>\
         <th>after<th>host<th>role<th>reason<th>attempts<th>URL</tr></thead><tbody>",
        data.failures.len(),
        if data.more_failures > 0 {
            format!(", {} more are not on this page", data.more_failures)
        } else {
            String::new()
        }
    );
    for failure in &data.failures {
        let _ = write!(
            page,
            "<tr><td>{:.1} s<td>{}<td>{}<td>{}<td>{}<td class=\"url\">{}</tr>",
            failure.after_s,
            escape(&failure.host),
            escape(&failure.role),
            escape(&failure.reason),
            failure.attempts,
            escape(&failure.url)
        );
    }
    page.push_str("</tbody></table></div></section>");
}
