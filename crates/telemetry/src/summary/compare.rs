//! The comparison of two runs, figure by figure.

use serde::Serialize;

use super::RunSummary;

/// A figure of two runs, and its change from one to the other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FigureChange {
    /// The name of the figure.
    pub figure: &'static str,
    /// The figure of the earlier run.
    pub before: f64,
    /// The figure of the later run.
    pub after: f64,
    /// The change as a share of `before`; `None` if `before` is 0.
    pub change: Option<f64>,
}

/// Compares a [`RunSummary`] with an earlier one.
#[must_use]
pub fn compare(before: &RunSummary, after: &RunSummary) -> Vec<FigureChange> {
    let worst_delay = |summary: &RunSummary| {
        summary
            .hosts
            .iter()
            .map(|host| host.delay.p95_ms)
            .fold(0.0, f64::max)
    };
    let figure = |name, of: &dyn Fn(&RunSummary) -> f64| {
        let (was, is) = (of(before), of(after));
        FigureChange {
            figure: name,
            before: was,
            after: is,
            change: (was != 0.0).then(|| (is - was) / was),
        }
    };
    #[expect(clippy::cast_precision_loss, reason = "counts fit")]
    let count = |number: u64| number as f64;
    let mut compared = vec![
        figure("requests", &|summary| count(summary.totals.requests)),
        figure("failed", &|summary| count(summary.totals.failed)),
        figure("http_429_ratio", &|summary| summary.totals.http_429_ratio),
        figure("http_503_ratio", &|summary| summary.totals.http_503_ratio),
        figure("rate_delay_p95_ms", &worst_delay),
        figure("rate_delay_s", &|summary| summary.totals.rate_delay_s),
        figure("limiter_blocks", &|summary| {
            count(summary.totals.limiter_blocks)
        }),
        figure("breaker_denials", &|summary| {
            count(summary.totals.breaker_denials)
        }),
        figure("opens", &|summary| count(summary.totals.opens)),
        figure("retries", &|summary| count(summary.totals.retries)),
        figure("duration_s", &|summary| summary.totals.duration_s),
        figure("wasted_bytes", &|summary| {
            count(summary.totals.wasted_bytes)
        }),
    ];
    // Runs of less than ten minutes have no rate per hour.
    let rate = |summary: &RunSummary| summary.totals.opens_per_hour;
    if rate(before).and(rate(after)).is_some() {
        let figure = figure("opens_per_hour", &|summary| rate(summary).unwrap_or(0.0));
        compared.push(figure);
    }
    compared
}
