//! The charts of a report, as SVG and plain HTML.

use maud::{Markup, html};

use super::data::{HISTOGRAM_EDGES_MS, HostTimeline, TIMELINE_COLUMNS, TimeColumn};

#[expect(clippy::cast_precision_loss, reason = "a chart is not that exact")]
fn percent_of(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// Draws a horizontal bar of labelled parts, with a legend.
pub(super) fn bar(name: &str, parts: &[(&str, &str, u64)]) -> Markup {
    let all: u64 = parts.iter().map(|(_, _, count)| count).sum();
    let parts = || parts.iter().filter(|(_, _, count)| *count > 0);
    let percent = |count: u64| percent_of(count, all) * 100.0;
    html! {
        div.bar {
            span.name { (name) }
            div.track role="img" aria-label=(name) {
                @for (part, class, count) in parts() {
                    @let width = format!("width:{:.3}%", percent(*count));
                    span class=(class) style=(width) title={ (part) ": " (count) } {}
                }
            }
            p.legend {
                @for (part, class, count) in parts() {
                    @let shown = format!("{part} {count} ({:.1} %)", percent(*count));
                    span { i class=(class) {} (shown) } " "
                }
                @if all == 0 { "none" }
            }
        }
    }
}

/// Height of a timeline, in units of its SVG. [`ATTEMPTS_HEIGHT`] and [`WAIT_HEIGHT`] add up to it.
const TIMELINE_HEIGHT: f64 = 60.0;
const ATTEMPTS_HEIGHT: f64 = 42.0;
const WAIT_HEIGHT: f64 = 14.0;
/// Width of a column and the gap after it, in units of the SVG.
const COLUMN_WIDTH: u32 = 8;

/// Draws a [`HostTimeline`]: attempts upwards, and the longest wait of each column downwards.
/// Coloured bands behind the columns show when a breaker was open or half-open.
pub(super) fn timeline(host: &HostTimeline) -> Markup {
    let attempts = host.columns.iter().map(|column| column.attempts);
    let most = attempts.max().unwrap_or(0).max(1);
    let delays = host.columns.iter().map(|column| column.delay_ms);
    let longest = delays.fold(0.0, f64::max);
    let box_size = format!("0 0 {} {TIMELINE_HEIGHT}", TIMELINE_COLUMNS * COLUMN_WIDTH);
    let columns = (0..).step_by(COLUMN_WIDTH as usize).zip(&host.columns);
    let waits = if longest >= 1.0 {
        format!("longest wait {}", length(longest))
    } else {
        "no waits".to_owned()
    };
    html! {
        svg viewBox=(box_size) preserveAspectRatio="none" role="img"
            aria-label={ "timeline of " (host.host) } {
            (bands(host))
            @for (x, column) in columns.filter(|(_, column)| column.attempts > 0) {
                (draw_column(x, column, most, longest))
            }
        }
        small { (waits) ", busiest column " (most) " attempts" }
    }
}

fn bands(host: &HostTimeline) -> Markup {
    let all = f64::from(TIMELINE_COLUMNS * COLUMN_WIDTH);
    html! {
        @for band in &host.bands {
            @let x = format!("{:.2}", band.from * all);
            // A band of no length would be invisible.
            @let width = format!("{:.2}", ((band.to - band.from) * all).max(1.5));
            rect class=(band.class) x=(x) y="0" width=(width) height=(TIMELINE_HEIGHT) {}
        }
    }
}

fn draw_column(x: u32, column: &TimeColumn, most: u64, longest: f64) -> Markup {
    let height = percent_of(column.attempts, most) * ATTEMPTS_HEIGHT;
    let bad = percent_of(column.throttled, most) * ATTEMPTS_HEIGHT;
    let rect = |class: &str, y: f64, height: f64| {
        let (y, height) = (format!("{y:.2}"), format!("{height:.2}"));
        html! { rect class=(class) x=(x) y=(y) width=(COLUMN_WIDTH - 1) height=(height) {} }
    };
    html! {
        g {
            title {
                (column.attempts) " attempts, " (column.throttled) " throttled, longest wait "
                (format!("{:.0} ms", column.delay_ms))
            }
            (rect("plain", TIMELINE_HEIGHT - height, height - bad))
            @if bad > 0.0 { (rect("bad", TIMELINE_HEIGHT - bad, bad)) }
            @if longest > 0.0 { (rect("wait", 0.0, column.delay_ms / longest * WAIT_HEIGHT)) }
        }
    }
}

/// Draws a histogram of the waits of requests, with bars between [`HISTOGRAM_EDGES_MS`].
pub(super) fn histogram(counts: &[u64]) -> Markup {
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    html! {
        div.histogram {
            @for (bucket, count) in counts.iter().enumerate() {
                @let width = format!("width:{:.2}%", percent_of(*count, most) * 100.0);
                span { (bucket_name(bucket)) }
                div.track { span.wait style=(width) {} }
                span { (count) }
            }
        }
    }
}

fn bucket_name(bucket: usize) -> String {
    let below = bucket
        .checked_sub(1)
        .and_then(|below| HISTOGRAM_EDGES_MS.get(below));
    match (below, HISTOGRAM_EDGES_MS.get(bucket)) {
        (None, Some(edge)) => format!("< {}", length(*edge)),
        (Some(below), _) => format!("≥ {}", length(*below)),
        (None, None) => String::new(),
    }
}

fn length(millis: f64) -> String {
    if millis < 1_000.0 {
        format!("{millis:.0} ms")
    } else {
        format!("{:.0} s", millis / 1_000.0)
    }
}
