//! `docstokg limits doctor [HOST]`: how much of each budget is used, when the next request may go,
//! and why.

use std::process::ExitCode;
use std::time::Duration;

use docstokg_hub::clock::{Clock, SystemClock};
use docstokg_hub::config::{Config, Learn, read_network_key};
use docstokg_hub::doctor::{BudgetReport, Diagnosis, LearnedReport, LimitSource, is_exceeded};
use docstokg_hub::{Host, Hub};
use serde_json::{Value, json};

use super::advise::limit_json;
use super::stated;
use crate::arguments::Global;
use crate::exit::Failure;
use crate::{output, state};

/// Runs the command.
pub(crate) fn run(
    global: &Global,
    mut config: Config,
    host: Option<Host>,
) -> Result<ExitCode, Failure> {
    // What a bulk run has learned holds back the requests of bulk runs.
    config.limits.learn_unless_set = Learn::Tighten;
    let store = state::reach(global, &config)?;
    state::block_on(async {
        let store_error = |error: docstokg_hub::stores::StoreError| Failure::Failed(error.into());
        let is_named = host.is_some();
        let hosts = match host {
            Some(host) => vec![host],
            None => hosts(&config, &store.list().await.map_err(store_error)?),
        };
        let hub = Hub::builder(config)
            .store(store)
            .build()
            .map_err(|error| Failure::Failed(error.into()))?;
        let mut found = Vec::new();
        for host in hosts {
            for diagnosis in hub.diagnose(&host).await.map_err(store_error)? {
                if is_named || is_used(&diagnosis) {
                    found.push((host.clone(), diagnosis));
                }
            }
        }
        if global.json {
            let budgets: Vec<Value> = found
                .iter()
                .map(|(host, diagnosis)| diagnosis_json(host, diagnosis))
                .collect();
            output::json(&json!({ "budgets": budgets }));
        } else if found.is_empty() {
            output::line("no requests are recorded yet: nothing waits");
        } else {
            output::line(
                &found
                    .iter()
                    .map(|(host, diagnosis)| text(host, diagnosis))
                    .collect::<Vec<_>>()
                    .join("\n\n"),
            );
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Returns the hosts that the store has state of.
fn hosts(config: &Config, keys: &[docstokg_hub::stores::SiteKey]) -> Vec<Host> {
    let mut hosts = Vec::new();
    for key in keys {
        match config.sites.iter().find(|site| site.key() == *key) {
            Some(site) => hosts.extend(site.hosts.iter().cloned()),
            None => hosts.extend(
                read_network_key(key)
                    .map(|(host, _)| host)
                    .or_else(|| Host::parse(key).ok()),
            ),
        }
    }
    hosts.sort();
    hosts.dedup();
    hosts
}

fn is_used(diagnosis: &Diagnosis) -> bool {
    let used = |budget: &BudgetReport| {
        budget.waiting > 0
            || !budget.waits.is_empty()
            || budget.windows.iter().any(|(_, used)| *used > 0)
    };
    diagnosis.because.is_some()
        || !diagnosis.unreachable.is_empty()
        || diagnosis.learned.is_some()
        || !diagnosis.stated.is_empty()
        || diagnosis.budgets.iter().any(used)
}

fn text(host: &Host, diagnosis: &Diagnosis) -> String {
    let next = match &diagnosis.because {
        None => "now".to_owned(),
        Some(because) => {
            let at = SystemClock.wall() + diagnosis.eligible_in;
            let remaining = seconds(diagnosis.eligible_in);
            format!("{at} (in {remaining}), because: {because}")
        }
    };
    let mut lines = vec![
        format!(
            "{host} {} (breaker {})",
            diagnosis.role,
            diagnosis.state.as_str()
        ),
        format!("  next request: {next}"),
    ];
    for process in &diagnosis.unreachable {
        let (who, reason, retry) = (&process.who, &process.reason, seconds(process.retry_in));
        lines.push(format!(
            "  {who} cannot reach {host} from its network ({reason}), and tries again in {retry}"
        ));
    }
    lines.extend(diagnosis.learned.iter().flat_map(learned_lines));
    lines.extend(diagnosis.budgets.iter().flat_map(budget_lines));
    for (lane, reading) in &diagnosis.stated {
        lines.push(format!(
            "  rate headers ({lane}): {}",
            stated::text(reading)
        ));
    }
    lines.join("\n")
}

/// Describes what was learned.
fn learned_lines(learned: &LearnedReport) -> Vec<String> {
    let limits = learned.limits.iter();
    let mut lines: Vec<String> = limits.map(|limit| format!("  learned: {limit}")).collect();
    if learned.searching {
        lines.push("  a search for its limit is under way".to_owned());
    }
    if !learned.pause.is_zero() {
        let (until, left) = (SystemClock.wall() + learned.pause, seconds(learned.pause));
        lines.push(format!(
            "  after refusals nothing is sent until {until} (in {left})"
        ));
    }
    lines
}

/// Describes a budget: its windows, and what is unusual about it.
fn budget_lines(budget: &BudgetReport) -> Vec<String> {
    let windows: Vec<String> = budget
        .windows
        .iter()
        .map(|(window, used)| format!("{used} of {window}"))
        .collect();
    let mut line = match budget.source {
        LimitSource::RobotsTxt => {
            format!("  crawl delay of robots.txt: {} waiting", budget.waiting)
        }
        LimitSource::Configuration if windows.is_empty() => {
            format!("  budget {}: no windows", budget.name)
        }
        LimitSource::Configuration => format!("  budget {}: {}", budget.name, windows.join(", ")),
    };
    if budget.source == LimitSource::Configuration && budget.waiting > 0 {
        line += &format!("; {} waiting", budget.waiting);
    }
    if let Some((held, most)) = budget.slots {
        line += &format!("; shared slots {held} of {most}");
    }
    if budget.multiplier < 1.0 {
        line += &format!("; adaptive rate at {:.0} %", budget.multiplier * 100.0);
    }
    let mut lines = vec![line];
    lines.extend(budget.exceeded().map(|(window, used)| {
        format!(
            "    {used} in {window}: other processes send under a larger limit than this \
             configuration has; while they do, requests under this one hardly get a turn \
             (give all processes the same limits)"
        )
    }));
    if !budget.waits.is_empty() {
        let waits: Vec<String> = budget
            .waits
            .iter()
            .map(|(ago, length)| format!("{} ({} ago)", seconds(*length), seconds(*ago)))
            .collect();
        lines.push(format!("    recent waits: {}", waits.join(", ")));
    }
    lines
}

fn seconds(length: Duration) -> String {
    if length < Duration::from_secs(10) {
        format!("{:.3} s", length.as_secs_f64())
    } else {
        format!("{:.0} s", length.as_secs_f64())
    }
}

fn diagnosis_json(host: &Host, diagnosis: &Diagnosis) -> Value {
    let unreachable = diagnosis.unreachable.iter().map(|process| {
        json!({
            "process": process.who,
            "reason": process.reason,
            "retry_in_ms": output::millis(process.retry_in),
        })
    });
    json!({
        "host": host.as_str(),
        "role": diagnosis.role.as_str(),
        "breaker": diagnosis.state.as_str(),
        "eligible_at": (SystemClock.wall() + diagnosis.eligible_in).to_string(),
        "eligible_in_ms": output::millis(diagnosis.eligible_in),
        "because": diagnosis.because.as_ref().map(ToString::to_string),
        "unreachable_from": unreachable.collect::<Vec<_>>(),
        "learned": diagnosis.learned.as_ref().map(learned_json),
        "stated": diagnosis.stated.iter().map(stated::json).collect::<Vec<_>>(),
        "budgets": diagnosis.budgets.iter().map(budget_json).collect::<Vec<_>>(),
    })
}

fn learned_json(learned: &LearnedReport) -> Value {
    json!({
        "limits": learned.limits.iter().map(limit_json).collect::<Vec<_>>(),
        "searching": learned.searching,
        "paused_for_ms": output::millis(learned.pause),
    })
}

fn budget_json(budget: &BudgetReport) -> Value {
    let windows = budget.windows.iter().map(|(window, used)| {
        json!({
            "window": window.to_string(),
            "limit": window.limit,
            "used": used,
            "exceeded": is_exceeded(window, *used),
        })
    });
    let waits = budget.waits.iter().map(|(ago, length)| {
        json!({
            "ended_ms_ago": output::millis(*ago),
            "waited_ms": output::millis(*length),
        })
    });
    let slots = budget
        .slots
        .map(|(held, most)| json!({ "held": held, "most": most }));
    json!({
        "budget": budget.name,
        "windows": windows.collect::<Vec<_>>(),
        "waiting": budget.waiting,
        "shared_slots": slots,
        "multiplier": budget.multiplier,
        "recent_waits": waits.collect::<Vec<_>>(),
    })
}
