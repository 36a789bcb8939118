//! A run as one HTML page.
//!
//! Charts are SVG, so the page works without scripts; a short script filters the table of
//! failures.

mod charts;
mod data;

use maud::{Markup, PreEscaped, html};
use rusqlite::Connection;

use crate::html::{TableLayout, card, document, table};
use crate::summary::{
    HostSummary, RunSummary, SummaryError, ThrottleCounts, bytes, percent, reason_counts, seconds,
};
use charts::{bar, histogram, timeline};
use data::{ReportData, TIMELINE_COLUMNS};

const PAGE_SCRIPT: &str = include_str!("report/page.js");

/// Writes the page of a run.
///
/// # Errors
/// [`SummaryError`] if the database cannot be read.
pub fn page(database: &Connection, summary: &RunSummary) -> Result<String, SummaryError> {
    let title = format!("docstokg run {}", summary.run.run_id);
    Ok(document(&title, &sections(database, summary)?))
}

/// Writes the sections of a run's page: requests, waits, hosts and failures.
///
/// # Errors
/// [`SummaryError`] if the database cannot be read.
pub fn sections(database: &Connection, summary: &RunSummary) -> Result<Markup, SummaryError> {
    let data = data::load(database, summary)?;
    let run = &summary.run;
    Ok(html! {
        header {
            h1 { "Run " (run.run_id) }
            p {
                (run.command) ", " (run.state) ", started " (run.started_at)
                @if !run.config_hash.is_empty() { ", configuration " (run.config_hash) }
            }
        }
        (cards(summary))
        (outcomes(summary, &data))
        (timelines(&data))
        (histograms(&data))
        (slowest(summary))
        (breakers(summary))
        (failures(&data))
    })
}

fn cards(summary: &RunSummary) -> Markup {
    let totals = &summary.totals;
    let ratio = summary.makespan.ratio.map_or_else(
        || "no limit was reached".to_owned(),
        |ratio| format!("{ratio:.2}x the minimum"),
    );
    let throttled = format!(
        "{:.1} % of {} attempts",
        totals.http_429_ratio * 100.0,
        totals.attempts
    );
    let refused = format!("many wait at once; {} refused", totals.limiter_blocks);
    let avoided = format!("{} requests avoided", totals.breaker_denials);
    let wasted = format!("{} wasted", bytes(totals.wasted_bytes));
    html! {
        section.cards {
            (card("", "requests", totals.requests, &format!("{} failed", totals.failed)))
            (card("", "took", seconds(totals.duration_s), &ratio))
            (card("", "answers 429", totals.status_429, &throttled))
            (card("", "total waiting of all requests", seconds(totals.rate_delay_s), &refused))
            (card("", "hosts paused", totals.opens, &avoided))
            (card("", "received", bytes(totals.bytes), &wasted))
        }
        @if totals.telemetry_lost > 0 {
            p.warning {
                (totals.telemetry_lost)
                " events of telemetry were lost: the figures are too low by that."
            }
        }
    }
}

fn outcomes(summary: &RunSummary, data: &ReportData) -> Markup {
    let totals = &summary.totals;
    let from_origin = data.lookups.saturating_sub(totals.cache_revalidated);
    let cache = [
        ("from the cache", "good", totals.cache_hits),
        ("confirmed by the origin", "muted", totals.cache_revalidated),
        ("requested from the origin", "plain", from_origin),
    ];
    let requests = [
        ("answered", "good", totals.succeeded),
        ("failed", "bad", totals.failed),
    ];
    html! {
        section {
            h2 { "Outcomes" }
            (bar("attempts", &data.outcomes))
            (bar("cache", &cache))
            (bar("requests", &requests))
        }
    }
}

fn timelines(data: &ReportData) -> Markup {
    let colours = [
        ("plain", "attempts"),
        ("bad", "429 and 503"),
        ("wait", "wait for the rate"),
        ("open", "open"),
        ("half", "half-open"),
    ];
    html! {
        section {
            h2 { "Timeline" }
            p.legend {
                @for (class, name) in colours { span { i class=(class) {} (name) } }
                span {
                    (seconds(data.length_s)) " in all, "
                    (seconds(data.length_s / f64::from(TIMELINE_COLUMNS))) " per column"
                }
            }
            @for host in &data.hosts {
                figure {
                    figcaption {
                        b { (host.host) } " " (host.attempts) " attempts, "
                        (host.throttled) " throttled"
                    }
                    (timeline(host))
                }
            }
            @if data.more_hosts > 0 {
                p { "... and " (data.more_hosts) " hosts with fewer attempts." }
            }
        }
    }
}

fn histograms(data: &ReportData) -> Markup {
    let waits = |counts: &[u64]| counts.iter().any(|count| *count > 0);
    html! {
        section {
            h2 { "Waits for the rate" }
            div.grid {
                @for host in data.hosts.iter().filter(|host| waits(&host.delays)) {
                    figure { figcaption { b { (host.host) } } (histogram(&host.delays)) }
                }
            }
        }
    }
}

fn slowest(summary: &RunSummary) -> Markup {
    let hosts = summary.hosts.iter().filter(|host| host.requests > 0);
    let mut hosts: Vec<&HostSummary> = hosts.collect();
    hosts.sort_by(|a, b| b.latency.p95_ms.total_cmp(&a.latency.p95_ms));
    let sum = |t: ThrottleCounts| t.with_retry_after + t.without_retry_after;
    let millis = |length: f64| format!("{length:.0} ms");
    let columns = [
        "host",
        "role",
        "sent",
        "answer p50",
        "answer p95",
        "wait p95",
        "429",
        "503",
        "retries",
        "received",
        "adaptive rate",
    ];
    let rows = html! {
        @for host in hosts.iter().take(20) {
            tr {
                td { (host.host) }
                td { (host.role) }
                td { (host.requests) }
                td { (millis(host.latency.p50_ms)) }
                td { (millis(host.latency.p95_ms)) }
                td { (millis(host.delay.p95_ms)) }
                td { (sum(host.status_429)) }
                td { (sum(host.status_503)) }
                td { (host.retries) }
                td { (bytes(host.bytes)) }
                td { (host.multiplier.map_or_else(String::new, percent)) }
            }
        }
    };
    html! {
        section { h2 { "Slowest hosts" } (table(TableLayout::Wide, &columns, &rows)) }
    }
}

fn breakers(summary: &RunSummary) -> Markup {
    let columns = [
        "breaker",
        "opens",
        "open",
        "avoided",
        "saved",
        "probes that succeeded",
        "reasons",
    ];
    let rows = html! {
        @for breaker in summary.breakers.iter().take(50) {
            tr {
                td { (breaker.key) }
                td { (breaker.opens) }
                td { (seconds(breaker.open_s)) }
                td { (breaker.requests_avoided) }
                td { (seconds(breaker.time_saved_s)) }
                td { (breaker.probe_successes) " of " (breaker.probes) }
                td { (reason_counts(&breaker.reasons)) }
            }
        }
    };
    let reasons = reason_counts(&summary.totals.open_reasons);
    html! {
        @if !summary.breakers.is_empty() {
            section {
                h2 { "Breakers" }
                (table(TableLayout::Wide, &columns, &rows))
                @if !reasons.is_empty() { p { "All opens: " (reasons) } }
            }
        }
    }
}

fn failures(data: &ReportData) -> Markup {
    let rows = html! {
        @for failure in &data.failures {
            tr {
                td { (format!("{:.1} s", failure.after_s)) }
                td { (failure.host) }
                td { (failure.role) }
                td { (failure.reason) }
                td { (failure.attempts) }
                td.url { (failure.url) }
            }
        }
    };
    let columns = ["after", "host", "role", "reason", "attempts", "URL"];
    html! {
        section #failures {
            h2 { "Failures" }
            @if data.failures.is_empty() {
                p { "None." }
            } @else {
                p {
                    input #search type="search" placeholder="Search host, reason or URL"
                        aria-label="Search failures";
                    " " span #found role="status" { (data.failures.len()) " shown" }
                    @if data.more_failures > 0 {
                        ", " (data.more_failures) " more are not on this page"
                    }
                }
                (table(TableLayout::Wide, &columns, &rows))
                script { (PreEscaped(PAGE_SCRIPT)) }
            }
        }
    }
}
