//! Metrics in Prometheus' text format.

use std::fmt::Write as _;
use std::time::Duration;

use super::catalogue::{CATALOGUE, Metric};
use super::{Histogram, Metrics};
use crate::sink::jsonl::millis;

impl Metrics {
    /// Writes all metrics as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (metric, about) in CATALOGUE {
            let lines = self.samples(*metric, about.name);
            if !lines.is_empty() {
                let _ = write!(
                    text,
                    "# HELP {} {}\n# TYPE {} {}\n{lines}",
                    about.name, about.help, about.name, about.kind
                );
            }
        }
        text
    }

    /// Writes the samples of one metric.
    fn samples(&self, metric: Metric, name: &str) -> String {
        let mut lines = String::new();
        let of = |key: &(Metric, String)| key.0 == metric;
        for ((_, labels), value) in self.values.iter().filter(|(key, _)| of(key)) {
            let _ = writeln!(lines, "{name}{} {value}", braced(labels));
        }
        for ((_, labels), histogram) in self.histograms.iter().filter(|(key, _)| of(key)) {
            histogram.write(name, labels, &mut lines);
        }
        match metric {
            Metric::StoreUnavailable | Metric::StoreOutages => {
                self.write_availability(metric, name, &mut lines);
            }
            Metric::HostCooldown => self.write_cooldowns(name, &mut lines),
            _ => {}
        }
        lines
    }

    fn write_availability(&self, metric: Metric, name: &str, lines: &mut String) {
        let Some(store) = &self.store else { return };
        let availability = store.availability();
        let value = if metric == Metric::StoreOutages {
            availability.outages
        } else {
            u64::from(availability.unavailable)
        };
        let _ = writeln!(lines, "{name} {value}");
    }

    /// Writes the remaining time for which each open breaker denies requests.
    fn write_cooldowns(&self, name: &str, lines: &mut String) {
        let now = self.clock.wall();
        for (labels, until) in &self.open_until {
            let remaining = u64::try_from(until.micros_after(now)).unwrap_or(0);
            let remaining = millis(Duration::from_micros(remaining));
            let _ = writeln!(lines, "{name}{} {remaining}", braced(labels));
        }
    }

    /// Returns the name and type of every metric, with or without samples.
    #[must_use]
    pub fn names() -> Vec<(&'static str, &'static str)> {
        CATALOGUE
            .iter()
            .map(|(_, about)| (about.name, about.kind))
            .collect()
    }
}

impl Histogram {
    fn write(&self, name: &str, labels: &str, lines: &mut String) {
        let comma = if labels.is_empty() { "" } else { "," };
        let mut below = 0;
        for (bound, count) in self.bounds.iter().zip(&self.counts) {
            below += count;
            let _ = writeln!(
                lines,
                "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {below}"
            );
        }
        let _ = writeln!(
            lines,
            "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {}",
            self.count
        );
        let _ = writeln!(
            lines,
            "{name}_sum{} {}\n{name}_count{} {}",
            braced(labels),
            self.sum,
            braced(labels),
            self.count
        );
    }
}

fn braced(labels: &str) -> String {
    if labels.is_empty() {
        String::new()
    } else {
        format!("{{{labels}}}")
    }
}

/// Formats labels as `name="value"` pairs, without the braces around them.
pub(super) fn labels(pairs: &[(&str, &str)]) -> String {
    let escaped = |value: &str| {
        value
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
    };
    pairs
        .iter()
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
        .collect::<Vec<_>>()
        .join(",")
}
