//! Targets, and whether a run kept to them.

use docstokg_hub::config::settings::SloSettings;
use serde::Serialize;

use super::Summary;

/// One target and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// The target, as its key in the configuration.
    pub target: &'static str,
    /// What was wanted.
    pub wanted: f64,
    /// What was found; `None` when nothing happened that could be judged.
    pub found: Option<f64>,
    /// Where, for a target that is judged by its worst place.
    pub place: Option<String>,
    /// Whether it was kept.
    pub ok: bool,
}

/// Compares a run with the targets.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "counts fit")]
pub fn check(summary: &Summary, targets: &SloSettings) -> Vec<Check> {
    let totals = &summary.totals;
    let attempts = totals.attempts > 0;
    let target = |set: &Option<docstokg_hub::config::Sourced<f64>>, otherwise: Option<f64>| {
        set.as_ref().map(|set| set.value).or(otherwise)
    };
    let (probes, successes) = summary
        .breakers
        .iter()
        .fold((0, 0), |(probes, good), breaker| {
            (probes + breaker.probes, good + breaker.probe_successes)
        });
    let mut checks = Vec::new();
    if let Some(wanted) = target(&targets.success_after_open_min, Some(0.5)) {
        let found = super::share(successes, probes);
        checks.push(Check {
            target: "success_after_open_min",
            wanted,
            found,
            place: None,
            ok: found.is_none_or(|found| found >= wanted),
        });
    }
    let mut at_most =
        |name: &'static str, wanted: Option<f64>, found: Option<f64>, place: Option<String>| {
            if let Some(wanted) = wanted {
                checks.push(Check {
                    target: name,
                    wanted,
                    found,
                    place,
                    ok: found.is_none_or(|found| found <= wanted),
                });
            }
        };
    let block = worst(
        summary
            .breakers
            .iter()
            .filter_map(|breaker| Some((breaker.block_p95_over_reset?, breaker.key.clone()))),
    );
    let (found, place) = split(block);
    at_most(
        "breaker_block_p95_over_reset_max",
        target(&targets.breaker_block_p95_over_reset_max, Some(1.0)),
        found,
        place,
    );
    at_most(
        "http_429_ratio_max",
        target(&targets.http_429_ratio_max, Some(0.05)),
        attempts.then_some(totals.http_429_ratio),
        None,
    );
    at_most(
        "http_503_ratio_max",
        target(&targets.http_503_ratio_max, Some(0.05)),
        attempts.then_some(totals.http_503_ratio),
        None,
    );
    let (found, place) =
        split(worst(summary.hosts.iter().map(|host| {
            (host.delay.p95_ms, format!("{}:{}", host.host, host.role))
        })));
    at_most(
        "rate_delay_p95_ms_max",
        target(&targets.rate_delay_p95_ms_max, None),
        found,
        place,
    );
    let (found, place) = split(worst(
        summary
            .breakers
            .iter()
            .map(|breaker| (breaker.opens_per_hour, breaker.key.clone())),
    ));
    at_most(
        "opens_per_hour_max",
        target(&targets.opens_per_hour_max, None),
        found,
        place,
    );
    let most = targets
        .telemetry_lost_max
        .as_ref()
        .map_or(0, |set| set.value);
    at_most(
        "telemetry_lost_max",
        Some(most as f64),
        Some(totals.telemetry_lost as f64),
        None,
    );
    checks
}

fn worst(found: impl Iterator<Item = (f64, String)>) -> Option<(f64, String)> {
    found.max_by(|a, b| a.0.total_cmp(&b.0))
}

fn split(found: Option<(f64, String)>) -> (Option<f64>, Option<String>) {
    found.map_or((None, None), |(value, place)| (Some(value), Some(place)))
}
