//! `docstokg limits doctor [HOST]`: the used part of each budget, the time of the next request, and
//! the reason.

use std::process::ExitCode;
use std::time::Duration;

use docstokg_hub::clock::{Clock, SystemClock, Timestamp};
use docstokg_hub::config::show::change_hint;
use docstokg_hub::config::{Config, read_network_key};
use docstokg_hub::diagnosis::{
    BudgetReport, Diagnosis, LearnedReport, LimitSource, Obstacle, is_exceeded,
};
use docstokg_hub::json::whole_millis;
use docstokg_hub::policy::pacing::Pacing;
use docstokg_hub::policy::rate::window_in_words;
use docstokg_hub::{Host, Hub, Role};
use docstokg_telemetry::sink::sqlite::open_to_read;
use docstokg_telemetry::summary::{LatestRobots, latest_robots};
use serde_json::{Value, json};

use super::advise::limit_json;
use super::limits::pacing;
use crate::arguments::GlobalArguments;
use crate::configuration::LoadedConfig;
use crate::exit::CommandFailure;
use crate::known::{self, Target};
use crate::{output, session, state, stated, telemetry};

/// Runs the command.
pub(crate) fn run(
    global: &GlobalArguments,
    loaded: LoadedConfig,
    host: Option<Host>,
) -> Result<ExitCode, CommandFailure> {
    let database = telemetry::database(global, &loaded.telemetry)?;
    let database = database.and_then(|path| open_to_read(&path).ok());
    let mut config = loaded.config;
    // The next request is treated as that of a bulk run: evenly paced, and subject to learned
    // limits.
    config.limits.prepare_for_lists();
    let store = state::open_strict(global, &config)?;
    session::block_on(async {
        let store_error =
            |error: docstokg_hub::stores::StoreError| CommandFailure::Failed(error.into());
        let is_named = host.is_some();
        let recorded = store.list().await.map_err(store_error)?;
        let hosts = match host {
            Some(host) => {
                known::warn(global, &config, &recorded, &Target::of(&config, &host));
                vec![host]
            }
            None => hosts(&config, &recorded),
        };
        let hub = Hub::builder(config.clone())
            .store(store)
            .build()
            .map_err(|error| CommandFailure::Failed(error.into()))?;
        let mut found = Vec::new();
        for host in hosts {
            let mut roles = hub.diagnose(&host).await.map_err(store_error)?;
            roles.retain(|role| is_named || is_used(role));
            let robots = database
                .as_ref()
                .map(|database| latest_robots(database, &host));
            let robots = robots.and_then(Result::ok).flatten();
            found.push(HostReport {
                host,
                robots,
                roles,
            });
        }
        found.retain(|report| !report.roles.is_empty());
        if global.json {
            let budgets: Vec<Value> = found
                .iter()
                .flat_map(|report| report.json(&config))
                .collect();
            output::json(&json!({ "budgets": budgets }));
        } else if found.is_empty() {
            output::line("no requests are recorded yet: nothing waits");
        } else {
            let texts: Vec<String> = found.iter().map(|report| report.text(&config)).collect();
            output::line(&texts.join("\n\n"));
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// The state of a host.
struct HostReport {
    host: Host,
    /// The latest robots.txt that a recorded run read.
    robots: Option<LatestRobots>,
    roles: Vec<Diagnosis>,
}

impl HostReport {
    fn text(&self, config: &Config) -> String {
        let robots: Vec<String> = self.robots_line().into_iter().collect();
        let roles = self
            .roles
            .iter()
            .map(|diagnosis| text(&self.host, diagnosis, config));
        [robots, roles.collect()].concat().join("\n\n")
    }

    /// Describes the robots.txt of the host, which applies to all roles.
    fn robots_line(&self) -> Option<String> {
        let host = &self.host;
        let mut budgets = self.roles.iter().flat_map(|role| &role.budgets);
        let crawl_delay = budgets.find(|budget| budget.source == LimitSource::RobotsTxt);
        let mut parts = Vec::new();
        if let Some(robots) = &self.robots {
            let at = Timestamp::from_secs_f64(robots.at);
            parts.push(match robots.state.as_str() {
                "forbids" => format!("it forbade a request at {at}"),
                "unread" => format!("it could not be read at {at}; without it no request is sent"),
                _ => format!("it allowed what was asked for at {at}"),
            });
        }
        let delay = self.robots.as_ref().and_then(|robots| robots.crawl_delay_s);
        if let Some(seconds) = delay {
            parts.push(format!("crawl delay of {seconds} s"));
        } else if crawl_delay.is_some() {
            parts.push("crawl delay".to_owned());
        }
        if let Some(budget) = crawl_delay {
            if budget.waiting > 0 {
                parts.push(waiting(budget.waiting));
            }
            parts.extend(recent_waits(budget));
        }
        (!parts.is_empty()).then(|| format!("{host} robots.txt: {}", parts.join("; ")))
    }

    fn json<'a>(&'a self, config: &'a Config) -> impl Iterator<Item = Value> + 'a {
        self.roles.iter().map(move |diagnosis| {
            let limits = config.limits.of(&self.host, diagnosis.role);
            let mut row = diagnosis_json(&self.host, diagnosis);
            row["robots"] = json!(self.robots);
            row["pacing"] = json!(pacing(limits, config));
            row
        })
    }
}

/// Returns the hosts with state in the store.
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

fn text(host: &Host, diagnosis: &Diagnosis, config: &Config) -> String {
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
    if diagnosis
        .because
        .as_ref()
        .is_some_and(Obstacle::is_configured)
    {
        lines.push(format!("  {}", change_hint(host.as_str(), diagnosis.role)));
    }
    for process in &diagnosis.unreachable {
        let (who, reason, retry) = (&process.who, &process.reason, seconds(process.retry_in));
        lines.push(format!(
            "  {who} cannot reach {host} from its network ({reason}), and tries again in {retry}"
        ));
    }
    lines.extend(diagnosis.learned.iter().flat_map(learned_lines));
    lines.push(pacing_line(host, diagnosis.role, config));
    let budgets = diagnosis.budgets.iter();
    let budgets = budgets.filter(|budget| budget.source == LimitSource::Configuration);
    lines.extend(budgets.flat_map(budget_lines));
    for (lane, reading) in &diagnosis.stated {
        lines.push(format!(
            "  rate headers ({lane}): {}",
            stated::text(reading)
        ));
    }
    lines.join("\n")
}

/// Describes the learned limits.
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
        .map(|(window, used)| format!("{used} of {}", window_in_words(window)))
        .collect();
    let mut line = if windows.is_empty() {
        format!("  budget {}: no windows", budget.name)
    } else {
        format!("  budget {}: {}", budget.name, windows.join(", "))
    };
    if budget.waiting > 0 {
        line += &format!("; {}", waiting(budget.waiting));
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
            "    {used} in {}: other processes send under a larger limit than this \
             configuration has; while they do, requests under this one hardly get a turn \
             (give all processes the same limits)",
            window_in_words(window)
        )
    }));
    lines.extend(recent_waits(budget).map(|waits| format!("    {waits}")));
    lines
}

/// Describes the latest waits for a budget.
fn recent_waits(budget: &BudgetReport) -> Option<String> {
    let waits = budget.waits.iter();
    let waits: Vec<String> = waits
        .map(|(ago, length)| format!("{} ({} ago)", seconds(*length), seconds(*ago)))
        .collect();
    (!waits.is_empty()).then(|| format!("recent waits: {}", waits.join(", ")))
}

/// Describes the number of waiting processes. Each process has one position in the queue, whatever
/// the number of its requests.
fn waiting(processes: usize) -> String {
    match processes {
        1 => "1 process waits (its own output counts the works)".to_owned(),
        several => format!("{several} processes wait (their own output counts the works)"),
    }
}

/// Describes the pacing of a role, including the windows of its site.
fn pacing_line(host: &Host, role: Role, config: &Config) -> String {
    let budgets = config.budgets(host, role, None);
    let windows = budgets.iter().flat_map(|(_, windows)| *windows);
    let short = windows.filter(|window| window.per <= Duration::from_secs(60));
    let distance = short.map(|window| window.per / window.limit.get()).max();
    let word = pacing(config.limits.of(host, role), config);
    match distance.filter(|_| word != Pacing::Burst.as_str()) {
        Some(distance) => format!("  pacing: {word}, one request every {}", seconds(distance)),
        None => format!("  pacing: {word}"),
    }
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
            "retry_in_ms": whole_millis(process.retry_in),
        })
    });
    json!({
        "host": host.as_str(),
        "role": diagnosis.role.as_str(),
        "breaker": diagnosis.state.as_str(),
        "eligible_at": (SystemClock.wall() + diagnosis.eligible_in).to_string(),
        "eligible_in_ms": whole_millis(diagnosis.eligible_in),
        "because": diagnosis.because.as_ref().map(ToString::to_string),
        "window": diagnosis.because.as_ref().and_then(Obstacle::limit).map(ToString::to_string),
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
        "paused_for_ms": whole_millis(learned.pause),
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
            "ended_ms_ago": whole_millis(*ago),
            "waited_ms": whole_millis(*length),
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
