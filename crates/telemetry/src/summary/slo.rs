//! Compares the figures of a run with its targets.

use docstokg_config::SourcedValue;
use serde::Serialize;

use super::{RunSummary, share_of_whole};
use crate::config::SloSettings;

/// A target, and the figure of the run that it is compared with.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TargetCheck {
    /// The key of the target in the configuration.
    pub target: &'static str,
    /// The value of the target.
    pub wanted: f64,
    /// The figure of the run; `None` if the run has no data for it.
    pub found: Option<f64>,
    /// The host or breaker with the worst figure, if every host or breaker must meet the target.
    pub place: Option<String>,
    /// True if the target is met.
    pub ok: bool,
}

/// The figure for a target, and the host or breaker that has the worst value.
type TargetFigure = (f64, Option<String>);

/// Compares a [`RunSummary`] with the targets.
#[must_use]
pub fn check(summary: &RunSummary, targets: &SloSettings) -> Vec<TargetCheck> {
    let totals = &summary.totals;
    let of_attempts = |ratio: f64| (totals.attempts > 0).then_some((ratio, None));
    let checks = [
        Some(success_after_open(summary, targets)),
        at_most(
            "breaker_block_p95_over_reset_max",
            Some(targets.breaker_block_p95_over_reset_max()),
            longest_block(summary),
        ),
        at_most(
            "http_429_ratio_max",
            Some(targets.http_429_ratio_max()),
            of_attempts(totals.http_429_ratio),
        ),
        at_most(
            "http_503_ratio_max",
            Some(targets.http_503_ratio_max()),
            of_attempts(totals.http_503_ratio),
        ),
        at_most(
            "rate_delay_p95_ms_max",
            targets.rate_delay_p95_ms_max.clone(),
            longest_delay(summary),
        ),
        at_most(
            "opens_per_hour_max",
            targets.opens_per_hour_max.clone(),
            most_opens(summary),
        ),
        telemetry_lost(summary, targets),
    ];
    checks.into_iter().flatten().collect()
}

fn at_most(
    target: &'static str,
    wanted: Option<SourcedValue<f64>>,
    figure: Option<TargetFigure>,
) -> Option<TargetCheck> {
    let wanted = wanted?.value;
    let (found, place) = figure.map_or((None, None), |(found, place)| (Some(found), place));
    Some(TargetCheck {
        target,
        wanted,
        found,
        place,
        ok: found.is_none_or(|found| found <= wanted),
    })
}

fn success_after_open(summary: &RunSummary, targets: &SloSettings) -> TargetCheck {
    let wanted = targets.success_after_open_min().value;
    let probed = summary.breakers.iter().map(|breaker| breaker.probed_opens);
    let successes = summary
        .breakers
        .iter()
        .map(|breaker| breaker.probe_successes);
    let found = share_of_whole(successes.sum(), probed.sum());
    TargetCheck {
        target: "success_after_open_min",
        wanted,
        found,
        place: None,
        ok: found.is_none_or(|found| found >= wanted),
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts fit")]
fn telemetry_lost(summary: &RunSummary, targets: &SloSettings) -> Option<TargetCheck> {
    let wanted = targets.telemetry_lost_max().map(|most| most as f64);
    let lost = summary.totals.telemetry_lost as f64;
    at_most("telemetry_lost_max", Some(wanted), Some((lost, None)))
}

fn longest_block(summary: &RunSummary) -> Option<TargetFigure> {
    worst(
        summary
            .breakers
            .iter()
            .filter_map(|breaker| Some((breaker.block_p95_over_reset?, breaker.key.clone()))),
    )
}

fn longest_delay(summary: &RunSummary) -> Option<TargetFigure> {
    worst(
        summary
            .hosts
            .iter()
            .map(|host| (host.delay.p95_ms, format!("{}:{}", host.host, host.role))),
    )
}

fn most_opens(summary: &RunSummary) -> Option<TargetFigure> {
    worst(
        summary
            .breakers
            .iter()
            .filter_map(|breaker| Some((breaker.opens_per_hour?, breaker.key.clone()))),
    )
}

fn worst(figures: impl Iterator<Item = (f64, String)>) -> Option<TargetFigure> {
    figures
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(value, place)| (value, Some(place)))
}
