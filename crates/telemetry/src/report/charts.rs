//! The charts, as SVG and plain HTML.

use std::fmt::Write as _;

use super::data::{COLUMNS, Column, EDGES, HostTimeline};

#[expect(clippy::cast_precision_loss, reason = "a chart is not that exact")]
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// Draws a bar of parts with a legend.
pub(super) fn bar(page: &mut String, name: &str, parts: &[(&str, &str, u64)]) {
    let all: u64 = parts.iter().map(|(_, _, count)| count).sum();
    let _ = write!(
        page,
        "<div class=\"bar\"><span class=\"name\">{name}</span>\
         <div class=\"track\" role=\"img\" aria-label=\"{name}\">"
    );
    for (part, class, count) in parts.iter().filter(|(_, _, count)| *count > 0) {
        let _ = write!(
            page,
            "<span class=\"{class}\" style=\"width:{:.3}%\" title=\"{part}: {count}\"></span>",
            share(*count, all) * 100.0
        );
    }
    page.push_str("</div><p class=\"legend\">");
    for (part, class, count) in parts.iter().filter(|(_, _, count)| *count > 0) {
        let _ = write!(
            page,
            "<span><i class=\"{class}\"></i>{part} {count} ({:.1} %)</span> ",
            share(*count, all) * 100.0
        );
    }
    if all == 0 {
        page.push_str("none");
    }
    page.push_str("</p></div>");
}

/// Height of a timeline in its own units, and of the parts that show attempts and waits.
const HEIGHT: f64 = 60.0;
const ATTEMPTS_HEIGHT: f64 = 42.0;
const WAIT_HEIGHT: f64 = 14.0;
/// Width of a column, gap included.
const COLUMN_WIDTH: u32 = 8;

/// Draws a host over time: attempts upwards, the longest wait of each column downwards, and bands
/// behind them while its breaker is open or half-open.
pub(super) fn timeline(page: &mut String, host: &HostTimeline) {
    let attempts = host.columns.iter().map(|column| column.attempts);
    let most = attempts.max().unwrap_or(0).max(1);
    let delays = host.columns.iter().map(|column| column.delay_ms);
    let longest = delays.fold(0.0, f64::max);
    let _ = write!(
        page,
        "<svg viewBox=\"0 0 {} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" \
         aria-label=\"timeline\">",
        COLUMNS * COLUMN_WIDTH
    );
    bands(page, host);
    for (x, column) in (0..).step_by(COLUMN_WIDTH as usize).zip(&host.columns) {
        if column.attempts > 0 {
            draw_column(page, x, column, most, longest);
        }
    }
    page.push_str("</svg>");
    let waits = if longest >= 1.0 {
        format!("longest wait {}", length(longest))
    } else {
        "no waits".to_owned()
    };
    let _ = write!(
        page,
        "<small>{waits}, busiest column {most} attempts</small>"
    );
}

fn bands(page: &mut String, host: &HostTimeline) {
    let width = f64::from(COLUMNS * COLUMN_WIDTH);
    for band in &host.bands {
        // A band without length stays visible.
        let _ = write!(
            page,
            "<rect class=\"{}\" x=\"{:.2}\" y=\"0\" width=\"{:.2}\" height=\"{HEIGHT}\"/>",
            band.class,
            band.from * width,
            ((band.to - band.from) * width).max(1.5)
        );
    }
}

fn draw_column(page: &mut String, x: u32, column: &Column, most: u64, longest: f64) {
    let height = share(column.attempts, most) * ATTEMPTS_HEIGHT;
    let bad = share(column.throttled, most) * ATTEMPTS_HEIGHT;
    let _ = write!(
        page,
        "<g><title>{} attempts, {} throttled, longest wait {:.0} ms</title>",
        column.attempts, column.throttled, column.delay_ms
    );
    let mut rect = |class: &str, y: f64, height: f64| {
        let _ = write!(
            page,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y:.2}\" width=\"{}\" height=\"{height:.2}\"/>",
            COLUMN_WIDTH - 1
        );
    };
    rect("plain", HEIGHT - height, height - bad);
    if bad > 0.0 {
        rect("bad", HEIGHT - bad, bad);
    }
    if longest > 0.0 {
        rect("wait", 0.0, column.delay_ms / longest * WAIT_HEIGHT);
    }
    page.push_str("</g>");
}

/// Draws how long requests waited.
pub(super) fn histogram(page: &mut String, counts: &[u64]) {
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    page.push_str("<div class=\"histogram\">");
    for (bucket, count) in counts.iter().enumerate() {
        let name = match (
            bucket.checked_sub(1).and_then(|below| EDGES.get(below)),
            EDGES.get(bucket),
        ) {
            (None, Some(edge)) => format!("&lt; {}", length(*edge)),
            (Some(below), _) => format!("&ge; {}", length(*below)),
            (None, None) => String::new(),
        };
        let _ = write!(
            page,
            "<span>{name}</span><div class=\"track\">\
             <span class=\"wait\" style=\"width:{:.2}%\"></span></div><span>{count}</span>",
            share(*count, most) * 100.0
        );
    }
    page.push_str("</div>");
}

fn length(millis: f64) -> String {
    if millis < 1_000.0 {
        format!("{millis:.0} ms")
    } else {
        format!("{:.0} s", millis / 1_000.0)
    }
}
