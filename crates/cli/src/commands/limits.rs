//! `docstokg limits show`: the limits in force, and the source of each value; `limits forget`.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::process::ExitCode;
use std::time::Duration;

use docstokg_hub::Host;
use docstokg_hub::config::show::{self, LimitRow};
use docstokg_hub::config::{BudgetLimits, Config, LearnSetting, RoleLimits, ValueSource};
use docstokg_hub::policy::pacing::Pacing;
use docstokg_hub::policy::rate::{Window, format_rates, rates_in_words};
use docstokg_hub::stores::StoreError;
use docstokg_telemetry::summary::table;
use serde_json::json;

use super::{advise, doctor};
use crate::arguments::{GlobalArguments, LimitsArguments, LimitsCommand};
use crate::exit::CommandFailure;
use crate::{known, output, program, session, state};

/// The longest window that counts as a pace and not as a quota.
const MAX_PACE_WINDOW: Duration = Duration::from_secs(60);

/// Runs the command.
pub(crate) fn run(
    global: &GlobalArguments,
    arguments: &LimitsArguments,
) -> Result<ExitCode, CommandFailure> {
    let loaded = global.load()?;
    let parse =
        |host: &str| Host::parse(host).map_err(|error| CommandFailure::Usage(error.to_string()));
    match &arguments.command {
        LimitsCommand::Show { host } => {
            let host = host.as_deref().map(parse).transpose()?;
            if let Some(host) = &host {
                known::warn_unless_configured(global, &loaded.config, host);
            }
            Ok(show(global, &loaded.config, host.as_ref()))
        }
        LimitsCommand::Doctor { host } => {
            let host = host.as_deref().map(parse).transpose()?;
            doctor::run(global, loaded, host)
        }
        LimitsCommand::Advise { about } => advise::run(global, &loaded, about.as_deref()),
        LimitsCommand::Forget { host } => forget(global, &loaded.config, &parse(host)?),
    }
}

/// Removes the learned limits of a host.
fn forget(
    global: &GlobalArguments,
    config: &Config,
    host: &Host,
) -> Result<ExitCode, CommandFailure> {
    let store = state::open_strict(global, config)?;
    let key = config.site_key(host);
    let forgotten = session::block_on(async {
        let failed = |error: StoreError| CommandFailure::Failed(error.into());
        // Do not create state for a host that has none.
        if !store.list().await.map_err(failed)?.contains(&key) {
            return Ok(false);
        }
        let forgotten = store.site(&key).forget_learned().await.map_err(failed)?;
        store.flush().await.map_err(failed)?;
        Ok(forgotten)
    })?;
    if global.json {
        output::json(&json!({ "host": key.to_string(), "forgotten": forgotten }));
    } else if !global.quiet {
        output::tell(&if forgotten {
            format!("{key}: what was learned of its limits is forgotten")
        } else {
            format!("{key}: nothing was learned of its limits; nothing was changed")
        });
    }
    Ok(ExitCode::SUCCESS)
}

fn show(global: &GlobalArguments, config: &Config, host: Option<&Host>) -> ExitCode {
    let rows = show::limit_rows(config, host);
    if global.json {
        output::json(
            &json!({ "limits": rows.iter().map(|row| row_json(row, config)).collect::<Vec<_>>() }),
        );
    } else {
        output::line(&text(&rows, config));
        // The services of ontofetch have budgets of their own.
        if program::runs_ontofetch() {
            output::line(&format!("\n{}", services(config)));
        }
    }
    ExitCode::SUCCESS
}

/// Prints the limits in force at the start of a run: of one host, or of all.
pub(crate) fn announce(config: &Config, host: Option<&Host>) {
    output::tell(&text(&show::limit_rows(config, host), config));
}

/// Formats the rates of services, which apply in addition to those of the queried host.
pub(crate) fn services(config: &Config) -> String {
    let by_name: BTreeMap<_, _> = config.limits.services.iter().collect();
    let rows = by_name.into_iter().map(|(name, limits)| {
        let rates = match limits.rates.value.as_slice() {
            [] => "unlimited".to_owned(),
            windows => format_rates(windows),
        };
        vec![name.to_string(), rates]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    table(&["service", "rates"], &rows).trim_end().to_owned()
}

/// Formats the table of limits, for `limits show` and for the start of a run.
fn text(rows: &[LimitRow], config: &Config) -> String {
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
        "learn",
        "from",
    ];
    let mut text = table(&header, &cells).trim_end().to_owned();
    if rows.iter().any(|row| !row.over_defaults.is_empty()) {
        text = format!("{text}\n{OVER_DEFAULTS_NOTE}");
    }
    text
}

/// Returns the limits in force as JSON, for the summary of a run.
pub(crate) fn record(config: &Config) -> serde_json::Value {
    show::limit_rows(config, None)
        .iter()
        .map(|row| row_json(row, config))
        .collect()
}

/// Formats the limits in one line: those of hosts without an entry, and the number of hosts with an
/// entry.
pub(crate) fn one_line(config: &Config) -> String {
    let of_sites = config.sites.iter().flat_map(|site| &site.hosts);
    let known = config.limits.hosts.keys().chain(of_sites);
    let known = known.collect::<HashSet<_>>().len();
    let others = rates_in_words(strictest(config));
    let program = program::running().name;
    format!("other hosts: {others} ({program} limits show lists the {known} known ones)")
}

/// Returns the default windows of the role with the lowest limits.
fn strictest(config: &Config) -> &[Window] {
    let per_second = |window: &Window| f64::from(window.limit.get()) / window.per.as_secs_f64();
    let rate = |windows: &[Window]| {
        let paces = windows
            .iter()
            .filter(|window| window.per <= MAX_PACE_WINDOW);
        paces.map(per_second).fold(f64::INFINITY, f64::min)
    };
    let defaults = config.limits.defaults.iter();
    let windows = defaults.map(|role| role.rates.value.as_slice());
    windows
        .min_by(|a, b| rate(a).total_cmp(&rate(b)))
        .unwrap_or_default()
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
        pacing(limits, config).to_owned(),
        config.limits.backend.kind.value.as_str().to_owned(),
        if adapts(row, config) { "on" } else { "off" }.to_owned(),
        learn(row, config),
        sources(row),
    ]
}

/// Formats the rates of a row and the common rates of its site, so that no host of a limited site
/// appears unlimited.
fn rates(row: &LimitRow, config: &Config) -> String {
    let host = Host::parse(&row.host).ok();
    let site = host.and_then(|host| config.sites.iter().find(|site| site.hosts.contains(&host)));
    let common: Vec<String> = site
        .iter()
        .flat_map(|site| &site.common)
        .flat_map(|common| &common.rates.value)
        .map(ToString::to_string)
        .collect();
    let own = match windows(row, config).as_slice() {
        [] => "unlimited".to_owned(),
        windows => format_rates(windows),
    };
    let own = match (site, common.is_empty()) {
        (Some(_), false) if own == common.join("+") => own,
        (Some(site), false) if own == "unlimited" => {
            format!("{} (site {})", common.join("+"), site.name)
        }
        (Some(site), false) => format!("{own}, {} (site {})", common.join("+"), site.name),
        _ => own,
    };
    let kinds = row.kinds.iter();
    let kinds = kinds.filter(|(_, kind)| !kind.rates.value.is_empty());
    let kinds =
        kinds.map(|(name, kind)| format!(", {} (kind {name})", format_rates(&kind.rates.value)));
    own + &kinds.collect::<String>()
}

/// Returns the [`Pacing`] of a host and role in words.
pub(super) fn pacing(limits: &RoleLimits, config: &Config) -> &'static str {
    match (&limits.pacing, config.limits.pacing) {
        (Some(set), _) => set.value.as_str(),
        (None, Pacing::Even) => Pacing::Even.as_str(),
        (None, Pacing::Burst) => "even in bulk runs",
    }
}

/// Returns the learning of limits for the host of a row, if it does not depend on the run.
fn learn_of(row: &LimitRow, config: &Config) -> Option<LearnSetting> {
    let host = Host::parse(&row.host).ok();
    config.limits.learn_in_every_run(host.as_ref())
}

fn learn(row: &LimitRow, config: &Config) -> String {
    match learn_of(row, config) {
        None if config.limits.learn_unless_set == LearnSetting::Tighten => "tighten".to_owned(),
        None => "tighten in bulk runs".to_owned(),
        Some(LearnSetting::Off) => "off".to_owned(),
        Some(LearnSetting::Tighten) => "tighten".to_owned(),
        Some(LearnSetting::UpTo(window)) => format!("up_to {window}"),
    }
}

/// Returns the windows in force: the search for a higher limit replaces default windows.
fn windows(row: &LimitRow, config: &Config) -> Vec<Window> {
    let rates = &row.limits.rates;
    match learn_of(row, config) {
        Some(LearnSetting::UpTo(ceiling)) if rates.source == ValueSource::Default => vec![ceiling],
        _ => rates.value.clone(),
    }
}

/// Tells whether the rates of a row adapt to throttling.
fn adapts(row: &LimitRow, config: &Config) -> bool {
    let host = Host::parse(&row.host).ok();
    config.limits.adaptive_of(host.as_ref()).is_some()
}

/// Formats the sources of a row: one source if all values share it, or else each source with its
/// keys.
fn sources(row: &LimitRow) -> String {
    let by_key = row.sources().map(|(key, source)| {
        let is_over = row.over_defaults.contains(&key);
        let note = if is_over { OVER_DEFAULTS } else { "" };
        (key, format!("{source}{note}"))
    });
    let distinct: BTreeSet<&String> = by_key.iter().map(|(_, source)| source).collect();
    if distinct.len() == 1 {
        return by_key[0].1.clone();
    }
    let mut parts: Vec<String> = Vec::new();
    for source in distinct {
        let keys: Vec<&str> = by_key
            .iter()
            .filter(|(_, other)| other == source)
            .map(|(key, _)| *key)
            .collect();
        parts.push(format!("{source} ({})", keys.join(", ")));
    }
    parts.join("; ")
}

/// The mark of shipped values that `limits.defaults` does not replace.
const OVER_DEFAULTS: &str = " [1]";

/// The explanation of [`OVER_DEFAULTS`].
const OVER_DEFAULTS_NOTE: &str = "[1] published by the operator of this host, and not replaced \
    by limits.defaults; to change it, set limits.hosts.HOST.ROLE";

fn kind_json(kind: &BudgetLimits) -> serde_json::Value {
    json!({
        "rates": kind.rates.value.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "max_concurrent": kind.max_concurrent.value,
        "source": kind.rates.source.to_string(),
    })
}

fn row_json(row: &LimitRow, config: &Config) -> serde_json::Value {
    let limits = &row.limits;
    let sources: serde_json::Map<String, serde_json::Value> = row
        .sources()
        .iter()
        .map(|(key, source)| ((*key).to_owned(), json!(source.to_string())))
        .collect();
    let kinds: serde_json::Map<String, serde_json::Value> = row
        .kinds
        .iter()
        .map(|(name, kind)| (name.to_string(), kind_json(kind)))
        .collect();
    json!({
        "host": row.host,
        "role": row.role.as_str(),
        "kinds": kinds,
        "rates": windows(row, config).iter().map(ToString::to_string).collect::<Vec<_>>(),
        "max_delay_ms": u64::try_from(limits.max_delay.value.as_millis()).unwrap_or(u64::MAX),
        "count_head": limits.count_head.value,
        "max_concurrent": limits.max_concurrent.value,
        "pacing": pacing(limits, config),
        "backend": config.limits.backend.kind.value.as_str(),
        "adaptive": adapts(row, config),
        "learn": learn(row, config),
        "sources": sources,
        "over_defaults": row.over_defaults,
    })
}
