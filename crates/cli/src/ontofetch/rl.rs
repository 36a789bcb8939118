//! `ontofetch rl doctor`: the budget of each service, its used part, and the time of the next
//! request.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use docstokg_hub::clock::{Clock, SystemClock};
use docstokg_hub::json::whole_millis;
use docstokg_hub::stores::StoreError;
use docstokg_ontology::facade::rate::{per_second, short};
use docstokg_ontology::facade::{Facade, KeyDiagnosis, RateLimits};
use docstokg_telemetry::sink::sqlite::open_to_read;
use docstokg_telemetry::summary::{self, KeyTally, RecentWait};
use serde_json::{Value, json};

use crate::arguments::GlobalArguments;
use crate::configuration::LoadedConfig;
use crate::exit::CommandFailure;
use crate::view::{clock_time, length};
use crate::{output, session, state, telemetry};

/// Maximum number of recent waits that are shown.
const SHOWN_WAITS: usize = 5;
/// Maximum number of recent waits that are read to find those of the selected keys.
const READ_WAITS: usize = 10_000;

/// Runs the command.
pub(super) fn run(
    global: &GlobalArguments,
    wanted: &[String],
    events: Option<&Path>,
) -> Result<ExitCode, CommandFailure> {
    let loaded = global.load()?;
    let acquired = events.map(acquired).transpose()?.unwrap_or_default();
    let is_wanted = |key: &str| {
        let service = key.split(':').next().unwrap_or_default();
        wanted.is_empty() || wanted.iter().any(|name| name == key || name == service)
    };
    let recorded = RecordedKeys::read(global, &loaded, is_wanted);
    let mut rows: Vec<KeyRow> = keys(global, &loaded)?
        .into_iter()
        .map(|key| (key.key.to_string(), Some(key)))
        .filter(|(key, _)| is_wanted(key))
        .collect();
    // Programs may keep the state of their keys private, and nevertheless report events.
    let known: BTreeSet<String> = rows.iter().map(|(key, _)| key.clone()).collect();
    let reported = acquired.keys().chain(recorded.tallies.keys());
    let reported: BTreeSet<&String> = reported
        .filter(|key| is_wanted(key) && !known.contains(*key))
        .collect();
    rows.extend(reported.into_iter().map(|key| (key.clone(), None)));
    if rows.is_empty() && !wanted.is_empty() {
        return Err(CommandFailure::Usage(format!(
            "there is no service or key {}",
            wanted.join(", ")
        )));
    }
    if global.json {
        let shown: Vec<Value> = rows
            .iter()
            .map(|(key, state)| {
                row_json(
                    key,
                    state.as_ref(),
                    acquired.get(key),
                    recorded.tallies.get(key),
                )
            })
            .collect();
        output::json(&json!({ "keys": shown, "recent_waits": recorded.waits }));
        return Ok(ExitCode::SUCCESS);
    }
    for (key, state) in &rows {
        output::line(&match state {
            Some(state) => text(state),
            None => format!("{key}: no state here; reported by programs or recorded runs"),
        });
        if let Some(acquired) = acquired.get(key) {
            output::line(&acquired.text());
        }
        if let Some(KeyTally { ok, exceeded }) = recorded.tallies.get(key) {
            output::line(&format!(
                "  in recorded runs: {ok} permitted, {exceeded} refused"
            ));
        }
    }
    if !recorded.waits.is_empty() {
        output::line("recent waits for rates:");
        for wait in &recorded.waits {
            output::line(&format!("  {}: {}", wait.key, wait_text(wait.blocked_ms)));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the state of each key in the store.
fn keys(
    global: &GlobalArguments,
    loaded: &LoadedConfig,
) -> Result<Vec<KeyDiagnosis>, CommandFailure> {
    let store = state::open_strict(global, &loaded.config)?;
    let limits = RateLimits {
        per_service: loaded
            .ontology
            .service_windows()
            .into_iter()
            .map(|(service, windows)| (service.into(), windows))
            .collect(),
        ..loaded.ontology.limits.clone()
    };
    let failed = |error: StoreError| CommandFailure::Failed(error.into());
    let facade = Facade::builder(limits)
        .sites(&loaded.config.sites)
        .store(store.clone())
        .build()
        .map_err(failed)?;
    session::block_on(async {
        // Each service with a budget in the store, on every host.
        for site in store.list().await.map_err(failed)? {
            for budget in store.site(&site).view().await.map_err(failed)?.budgets {
                if let Some(service) = budget.strip_prefix("service ") {
                    // The hosts of a joined site share one budget, so only the first host is
                    // listed.
                    let joined = loaded.config.joined_site(&site);
                    let host = joined.and_then(|site| site.hosts.first());
                    let _ = facade.know(service, host.map_or(&*site, |host| host.as_str()));
                }
            }
        }
        let keys = facade.diagnose().await;
        keys.map_err(|error| CommandFailure::Failed(error.into()))
    })
}

/// A key with its state in the store; `None` if only events name the key.
type KeyRow = (String, Option<KeyDiagnosis>);

/// The records of earlier runs about the selected keys.
#[derive(Default)]
struct RecordedKeys {
    tallies: BTreeMap<String, KeyTally>,
    waits: Vec<RecentWait>,
}

impl RecordedKeys {
    /// Reads the recorded runs; empty without records.
    fn read(
        global: &GlobalArguments,
        loaded: &LoadedConfig,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Self {
        let read = || -> Option<Self> {
            let path = telemetry::database(global, &loaded.telemetry).ok()??;
            let database = open_to_read(&path).ok()?;
            let mut tallies = summary::tallies_by_key(&database).ok()?;
            tallies.retain(|key, _| is_wanted(key));
            let waits = summary::recent_waits(&database, READ_WAITS).ok()?;
            let waits = waits.into_iter().filter(|wait| is_wanted(&wait.key));
            Some(Self {
                tallies,
                waits: waits.take(SHOWN_WAITS).collect(),
            })
        };
        read().unwrap_or_default()
    }
}

fn text(key: &KeyDiagnosis) -> String {
    if key.windows.is_empty() {
        return format!("{}: no limit", key.key);
    }
    let windows: Vec<String> = key
        .windows
        .iter()
        .map(|(window, used)| format!("{used} of {} ({:.2}/s)", short(window), per_second(window)))
        .collect();
    let next = if key.eligible_in.is_zero() {
        "now".to_owned()
    } else {
        let at = clock_time(SystemClock.wall() + key.eligible_in);
        format!("at {at} (in {})", length(key.eligible_in))
    };
    let cooldown = key.cooldown.map_or_else(String::new, |left| {
        format!("; cooldown for another {}", length(left))
    });
    format!(
        "{}: {}; next request {next}{cooldown}",
        key.key,
        windows.join(", ")
    )
}

/// Formats a wait: milliseconds below a second, and a duration above.
fn wait_text(milliseconds: f64) -> String {
    if milliseconds < 1_000.0 {
        return format!("{milliseconds:.0} ms");
    }
    length(Duration::try_from_secs_f64(milliseconds / 1_000.0).unwrap_or(Duration::MAX))
}

/// The counts of one key from the events of programs.
#[derive(Clone, Debug, Default)]
struct AcquireCounts {
    permitted: u64,
    refused: u64,
    failed: u64,
    /// The latest waits other than zero, in milliseconds.
    blocked_ms: Vec<f64>,
}

impl AcquireCounts {
    fn text(&self) -> String {
        let waits: Vec<String> = self
            .blocked_ms
            .iter()
            .map(|wait| wait_text(*wait))
            .collect();
        let waits = if waits.is_empty() {
            String::new()
        } else {
            format!("; recent waits: {}", waits.join(", "))
        };
        format!(
            "  by programs: {} permitted, {} refused, {} failed{waits}",
            self.permitted, self.refused, self.failed
        )
    }
}

/// Reads the `ratelimit.acquire` events of a file, by key. Other lines are skipped.
fn acquired(file: &Path) -> Result<BTreeMap<String, AcquireCounts>, CommandFailure> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        CommandFailure::Usage(format!("{} cannot be read: {error}", file.display()))
    })?;
    let mut found: BTreeMap<String, AcquireCounts> = BTreeMap::new();
    for line in text.lines() {
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let (true, Some(key)) = (event["event"] == "ratelimit.acquire", event["key"].as_str())
        else {
            continue;
        };
        let entry = found.entry(key.to_owned()).or_default();
        match event["outcome"].as_str() {
            Some("ok") => entry.permitted += 1,
            Some("exceeded") => entry.refused += 1,
            _ => entry.failed += 1,
        }
        let blocked = event["blocked_ms"].as_f64().filter(|wait| *wait >= 1.0);
        entry.blocked_ms.extend(blocked);
        let more = entry.blocked_ms.len().saturating_sub(SHOWN_WAITS);
        entry.blocked_ms.drain(..more);
    }
    Ok(found)
}

fn row_json(
    key: &str,
    state: Option<&KeyDiagnosis>,
    acquired: Option<&AcquireCounts>,
    recorded: Option<&KeyTally>,
) -> Value {
    let mut row = json!({
        "key": key,
        "windows": [],
        "eligible_in_ms": null,
        "eligible_at": null,
        "cooldown_remaining_ms": null,
        "acquired": acquired.map(|acquired| json!({
            "ok": acquired.permitted,
            "exceeded": acquired.refused,
            "error": acquired.failed,
            "recent_blocked_ms": acquired.blocked_ms,
        })),
        "recorded": recorded,
    });
    if let (Some(state), Value::Object(row)) = (state.map(state_json), &mut row)
        && let Value::Object(state) = state
    {
        row.extend(state);
    }
    row
}

fn state_json(key: &KeyDiagnosis) -> Value {
    let windows = key.windows.iter().map(|(window, used)| {
        json!({
            "window": short(window),
            "limit": window.limit,
            "used": used,
            "per_second": per_second(window),
        })
    });
    json!({
        "windows": windows.collect::<Vec<_>>(),
        "eligible_in_ms": whole_millis(key.eligible_in),
        "eligible_at": (SystemClock.wall() + key.eligible_in).to_string(),
        "cooldown_remaining_ms": key.cooldown.map(whole_millis),
    })
}
