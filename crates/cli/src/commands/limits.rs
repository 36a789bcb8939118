//! `docstokg limits show`: the limits in force, and the source of each value.

use std::collections::{BTreeSet, HashSet};
use std::process::ExitCode;
use std::time::Duration;

use docstokg_hub::Host;
use docstokg_hub::config::show::{self, LimitRow, rates_text};
use docstokg_hub::config::{Config, Source};
use docstokg_hub::policy::pacing::Pacing;
use docstokg_hub::policy::rate::Window;
use docstokg_telemetry::summary::table;
use serde_json::json;

use super::doctor;
use crate::arguments::{Global, Limits, LimitsCommand};
use crate::exit::Failure;
use crate::output;

/// Runs the command.
pub(crate) fn run(global: &Global, arguments: &Limits) -> Result<ExitCode, Failure> {
    let (LimitsCommand::Show { host } | LimitsCommand::Doctor { host }) = &arguments.command;
    let config = global.load()?.config;
    let host = host
        .as_deref()
        .map(Host::parse)
        .transpose()
        .map_err(|error| Failure::Usage(error.to_string()))?;
    if matches!(arguments.command, LimitsCommand::Doctor { .. }) {
        return doctor::run(global, config, host);
    }
    let rows = show::limit_rows(&config, host.as_ref());
    if global.json {
        output::json(
            &json!({ "limits": rows.iter().map(|row| row_json(row, &config)).collect::<Vec<_>>() }),
        );
    } else {
        output::line(&text(&rows, &config));
    }
    Ok(ExitCode::SUCCESS)
}

/// Formats the table of limits, for `limits show` and for the start of a run.
pub(crate) fn text(rows: &[LimitRow], config: &Config) -> String {
    let cells: Vec<Vec<String>> = rows.iter().map(|row| cells(row, config)).collect();
    let header = [
        "host",
        "role",
        "rates",
        "max_delay_ms",
        "count_head",
        "max_concurrent",
        "pacing",
        "backend",
        "adaptive",
        "from",
    ];
    table(&header, &cells).trim_end().to_owned()
}

/// Returns the limits in force as JSON, for the summary of a run.
pub(crate) fn record(config: &Config) -> serde_json::Value {
    show::limit_rows(config, None)
        .iter()
        .map(|row| row_json(row, config))
        .collect()
}

/// Formats the limits in one line: how many hosts are configured, and the limit of the others.
pub(crate) fn one_line(config: &Config) -> String {
    let of_sites = config.sites.iter().flat_map(|site| &site.hosts);
    let known = config
        .limits
        .hosts
        .keys()
        .chain(of_sites)
        .collect::<HashSet<_>>()
        .len();
    let paces = config
        .limits
        .defaults
        .iter()
        .flat_map(|role| &role.rates.value)
        .filter(|window| window.per <= Duration::from_secs(60));
    let per_second = |window: &Window| f64::from(window.limit.get()) / window.per.as_secs_f64();
    let others = paces.min_by(|a, b| per_second(a).total_cmp(&per_second(b)));
    let others = others.map_or_else(|| "unlimited".to_owned(), short_rate);
    format!("limits: {known} known hosts, others {others}; docstokg limits show")
}

/// Formats a window: `2/s`, `1 per 3 s`.
fn short_rate(window: &Window) -> String {
    match window.per.as_secs() {
        1 => format!("{}/s", window.limit),
        60 => format!("{}/min", window.limit),
        seconds => format!("{} per {seconds} s", window.limit),
    }
}

fn cells(row: &LimitRow, config: &Config) -> Vec<String> {
    let limits = &row.limits;
    vec![
        row.host.clone(),
        row.role.to_string(),
        rates(row, config),
        limits.max_delay.value.as_millis().to_string(),
        limits.count_head.value.to_string(),
        limits
            .max_concurrent
            .value
            .map_or_else(|| "-".to_owned(), |most| most.to_string()),
        pacing(row, config).to_owned(),
        config.limits.backend.kind.value.as_str().to_owned(),
        adaptive(config).to_owned(),
        sources(row),
    ]
}

/// Formats the rates of a row and the common rates of its site: no host of a limited site is
/// unlimited.
fn rates(row: &LimitRow, config: &Config) -> String {
    let host = Host::parse(&row.host).ok();
    let site = host.and_then(|host| config.sites.iter().find(|site| site.hosts.contains(&host)));
    let common: Vec<String> = site
        .iter()
        .flat_map(|site| &site.common)
        .flat_map(|common| &common.rates.value)
        .map(ToString::to_string)
        .collect();
    let own = rates_text(&row.limits);
    match (site, common.is_empty()) {
        (Some(_), false) if own == common.join("+") => own,
        (Some(site), false) if row.limits.rates.value.is_empty() => {
            format!("{} (site {})", common.join("+"), site.name)
        }
        (Some(site), false) => format!("{own}, {} (site {})", common.join("+"), site.name),
        _ => own,
    }
}

/// Returns how requests are spread over the windows of a row.
fn pacing(row: &LimitRow, config: &Config) -> &'static str {
    match (&row.limits.pacing, config.limits.pacing) {
        (Some(set), _) => set.value.as_str(),
        (None, Pacing::Even) => Pacing::Even.as_str(),
        (None, Pacing::Burst) => "even in bulk runs",
    }
}

fn adaptive(config: &Config) -> &'static str {
    if config.limits.adaptive.is_some() {
        "on"
    } else {
        "off"
    }
}

/// Formats the sources of a row: one if all values share it, otherwise each with its keys.
fn sources(row: &LimitRow) -> String {
    let by_key = by_key(row);
    let distinct: BTreeSet<String> = by_key
        .iter()
        .map(|(_, source)| source.to_string())
        .collect();
    if distinct.len() == 1 {
        return distinct.into_iter().collect();
    }
    let mut parts: Vec<String> = Vec::new();
    for source in &distinct {
        let keys: Vec<&str> = by_key
            .iter()
            .filter(|(_, other)| other.to_string() == *source)
            .map(|(key, _)| *key)
            .collect();
        parts.push(format!("{source} ({})", keys.join(", ")));
    }
    parts.join("; ")
}

fn by_key(row: &LimitRow) -> [(&'static str, &Source); 4] {
    let limits = &row.limits;
    [
        ("rates", &limits.rates.source),
        ("max_delay_ms", &limits.max_delay.source),
        ("count_head", &limits.count_head.source),
        ("max_concurrent", &limits.max_concurrent.source),
    ]
}

fn row_json(row: &LimitRow, config: &Config) -> serde_json::Value {
    let limits = &row.limits;
    let sources: serde_json::Map<String, serde_json::Value> = by_key(row)
        .iter()
        .map(|(key, source)| ((*key).to_owned(), json!(source.to_string())))
        .collect();
    json!({
        "host": row.host,
        "role": row.role.as_str(),
        "rates": limits.rates.value.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "max_delay_ms": u64::try_from(limits.max_delay.value.as_millis()).unwrap_or(u64::MAX),
        "count_head": limits.count_head.value,
        "max_concurrent": limits.max_concurrent.value,
        "pacing": pacing(row, config),
        "backend": config.limits.backend.kind.value.as_str(),
        "adaptive": config.limits.adaptive.is_some(),
        "sources": sources,
    })
}
