//! The pictures, as SVG and plain HTML.

use std::fmt::Write as _;

use super::data::{COLUMNS, EDGES, HostTimeline};

/// Makes text safe to stand in a page.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

#[expect(clippy::cast_precision_loss, reason = "a picture is not that exact")]
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
        "<div class=\"bar\"><span class=\"name\">{name}</span><div class=\"track\" role=\"img\" aria-label=\"{name}\">"
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

/// Draws a host over time: attempts upwards, the longest wait of each column as a line from above,
/// bands behind.
pub(super) fn timeline(page: &mut String, host: &HostTimeline) {
    let most = host
        .columns
        .iter()
        .map(|column| column.attempts)
        .max()
        .unwrap_or(0)
        .max(1);
    let longest = host
        .columns
        .iter()
        .map(|column| column.delay_ms)
        .fold(0.0, f64::max);
    let _ = write!(
        page,
        "<svg viewBox=\"0 0 {} 60\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"timeline\">",
        COLUMNS * 8
    );
    let width = f64::from(COLUMNS * 8);
    for (from, to, half) in &host.bands {
        let class = if *half { "half" } else { "open" };
        // A band of no length is still worth a hair.
        let _ = write!(
            page,
            "<rect class=\"{class}\" x=\"{:.2}\" y=\"0\" width=\"{:.2}\" height=\"60\"/>",
            from * width,
            ((to - from) * width).max(1.5)
        );
    }
    for (place, column) in host
        .columns
        .iter()
        .enumerate()
        .filter(|(_, column)| column.attempts > 0)
    {
        let (x, height) = (place * 8, share(column.attempts, most) * 42.0);
        let bad = share(column.throttled, most) * 42.0;
        let _ = write!(
            page,
            "<g><title>{} attempts, {} throttled, longest wait {:.0} ms</title>",
            column.attempts, column.throttled, column.delay_ms
        );
        let _ = write!(
            page,
            "<rect class=\"plain\" x=\"{x}\" y=\"{:.2}\" width=\"7\" height=\"{:.2}\"/>",
            60.0 - height,
            height - bad
        );
        if bad > 0.0 {
            let _ = write!(
                page,
                "<rect class=\"bad\" x=\"{x}\" y=\"{:.2}\" width=\"7\" height=\"{bad:.2}\"/>",
                60.0 - bad
            );
        }
        if longest > 0.0 {
            let _ = write!(
                page,
                "<rect class=\"wait\" x=\"{x}\" y=\"0\" width=\"7\" height=\"{:.2}\"/>",
                column.delay_ms / longest * 14.0
            );
        }
        page.push_str("</g>");
    }
    page.push_str("</svg>");
    if longest >= 1.0 {
        let _ = write!(
            page,
            "<small>longest wait {}, busiest column {most} attempts</small>",
            length(longest)
        );
    } else {
        let _ = write!(
            page,
            "<small>no waits, busiest column {most} attempts</small>"
        );
    }
}

/// Draws how long requests waited.
pub(super) fn histogram(page: &mut String, counts: &[u64]) {
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    page.push_str("<div class=\"histogram\">");
    for (place, count) in counts.iter().enumerate() {
        let name = match (
            place.checked_sub(1).and_then(|below| EDGES.get(below)),
            EDGES.get(place),
        ) {
            (None, Some(edge)) => format!("&lt; {}", length(*edge)),
            (Some(below), _) => format!("&ge; {}", length(*below)),
            (None, None) => String::new(),
        };
        let _ = write!(
            page,
            "<span>{name}</span><div class=\"track\"><span class=\"wait\" style=\"width:{:.2}%\"></span></div><span>{count}</span>",
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
