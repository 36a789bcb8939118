//! `docstokg breaker show | open | close`: the breakers of all processes, from any terminal.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use docstokg_hub::Host;
use docstokg_hub::clock::{Clock, SystemClock};
use docstokg_hub::config::{BreakerConfig, Config, is_pace, read_network_key, resolver_key};
use docstokg_hub::policy::breaker::{Breaker as BreakerState, BreakerPolicy, OpenReason, State};
use docstokg_hub::policy::role::Role;
use docstokg_hub::stores::{SiteKey, SiteView, StateStore, StoreError};
use docstokg_telemetry::summary::table;
use serde_json::{Value, json};

use crate::arguments::{Breaker, BreakerCommand, Global};
use crate::exit::Failure;
use crate::{output, state};

/// The longest that an operator may close a host off, in seconds: a year.
const LONGEST_S: f64 = 366.0 * 86_400.0;

/// Runs the command.
pub(crate) fn run(global: &Global, arguments: &Breaker) -> Result<ExitCode, Failure> {
    let (config, _) = global.load()?;
    match &arguments.command {
        BreakerCommand::Show { open_only, host } => {
            show(global, &config, *open_only, host.as_deref())
        }
        BreakerCommand::Open {
            host,
            seconds,
            reason,
            resolver,
        } => {
            if !(seconds.is_finite() && *seconds > 0.0 && *seconds <= LONGEST_S) {
                return Err(Failure::Usage(format!(
                    "--seconds: expected more than 0 and at most {LONGEST_S}, found {seconds}"
                )));
            }
            let length = Duration::from_secs_f64(*seconds);
            say(
                global,
                &config,
                host,
                *resolver,
                Word::Open(length, OpenReason::Operator(reason.as_str().into())),
            )
        }
        BreakerCommand::Close { host, resolver } => {
            say(global, &config, host, *resolver, Word::Close)
        }
    }
}

/// An operator's word.
enum Word {
    Open(Duration, OpenReason),
    Close,
}

fn away(error: StoreError) -> Failure {
    Failure::Failed(error.into())
}

fn key_of(config: &Config, name: &str, resolver: bool) -> Result<SiteKey, Failure> {
    if resolver {
        return Ok(resolver_key(name));
    }
    let host = Host::parse(name).map_err(|error| Failure::Usage(error.to_string()))?;
    Ok(config.site_key(&host))
}

fn say(
    global: &Global,
    config: &Config,
    name: &str,
    resolver: bool,
    word: Word,
) -> Result<ExitCode, Failure> {
    let key = key_of(config, name, resolver)?;
    let store = state::reach(global, config)?;
    state::block_on(async {
        if matches!(word, Word::Close) && !store.list().await.map_err(away)?.contains(&key) {
            return nothing_to_close(global, config, name, &key);
        }
        let site = store.site(&key);
        match word {
            Word::Open(length, reason) => site.block(length, &reason).await.map_err(away)?,
            Word::Close => site.unblock().await.map_err(away)?,
        };
        let view = site.view().await.map_err(away)?;
        store.flush().await.map_err(away)?;
        let row = Row::new(
            key.to_string(),
            view.site.breaker(),
            &policy_of(config, &key),
            &view,
        );
        if global.json {
            output::json(&row.json());
        } else if !global.quiet {
            output::tell(&row.sentence());
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Says that there is no breaker to close, and makes none.
fn nothing_to_close(
    global: &Global,
    config: &Config,
    name: &str,
    key: &SiteKey,
) -> Result<ExitCode, Failure> {
    let is_configured = config
        .breakers
        .hosts
        .keys()
        .chain(config.limits.hosts.keys())
        .any(|host| config.site_key(host) == *key)
        || config
            .breakers
            .resolvers
            .keys()
            .any(|resolver| resolver_key(resolver) == *key);
    if !is_configured {
        return Err(Failure::Failed(anyhow::anyhow!(
            "{name} is not known here: no run with this state has asked it, and no configuration names it; nothing was changed"
        )));
    }
    let row = Row::untouched(key.to_string(), &policy_of(config, key));
    if global.json {
        output::json(&row.json());
    } else if !global.quiet {
        output::tell(&format!(
            "{}: closed, and was so before; nothing was changed",
            row.name
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn show(
    global: &Global,
    config: &Config,
    open_only: bool,
    host: Option<&str>,
) -> Result<ExitCode, Failure> {
    let only = host.map(|host| key_of(config, host, false)).transpose()?;
    let store = state::reach(global, config)?;
    let rows = state::block_on(async { rows(&*store, config, only).await.map_err(away) })?;
    let rows: Vec<Row> = rows
        .into_iter()
        .filter(|row| !open_only || row.state != State::Closed)
        .collect();
    if global.json {
        output::json(&json!({ "breakers": rows.iter().map(Row::json).collect::<Vec<_>>() }));
    } else if rows.is_empty() {
        output::line("every breaker is closed");
    } else {
        let header = [
            "host",
            "state",
            "reason",
            "until",
            "left_s",
            "reset_s",
            "failures",
            "probes (metadata / landing / artifact)",
            "opened by",
        ];
        output::text(&table(
            &header,
            &rows.iter().map(Row::cells).collect::<Vec<_>>(),
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads the breakers of the configured and seen hosts and resolvers.
async fn rows(
    store: &dyn StateStore,
    config: &Config,
    only: Option<SiteKey>,
) -> Result<Vec<Row>, StoreError> {
    let seen = store.list().await?;
    let configured = config
        .breakers
        .hosts
        .keys()
        .map(|host| config.site_key(host));
    let resolvers = config
        .breakers
        .resolvers
        .keys()
        .map(|name| resolver_key(name));
    let mut keys: BTreeMap<SiteKey, bool> = configured
        .chain(resolvers)
        .map(|key| (key, false))
        .collect();
    keys.extend(
        seen.into_iter()
            .filter(|key| !is_pace(key))
            .map(|key| (key, true)),
    );
    if let Some(only) = only {
        let known = keys.get(&only).copied().unwrap_or(false);
        keys.retain(|key, _| {
            read_network_key(key).is_some_and(|(host, _)| config.site_key(&host) == only)
        });
        keys.insert(only, known);
    }
    let mut rows = Vec::new();
    for (key, seen) in keys {
        if let Some((host, who)) = read_network_key(&key) {
            rows.extend(unreachable(store, config, &key, &host, who).await?);
            continue;
        }
        let config = config_of(config, &key);
        if !seen {
            rows.push(Row::untouched(key.to_string(), &config.policy));
            continue;
        }
        let view = store.site(&key).view().await?;
        rows.push(Row::new(
            key.to_string(),
            view.site.breaker(),
            &config.policy,
            &view,
        ));
        for (role, breaker) in view.site.breakers().1 {
            let policy = config.roles[role.index()]
                .as_ref()
                .unwrap_or(&config.policy);
            rows.push(Row::new(
                format!("{key} ({role} alone)"),
                breaker,
                policy,
                &view,
            ));
        }
    }
    Ok(rows)
}

/// Reads the breaker of a process's own connectivity to a host, if it is open: the others are its
/// own business.
async fn unreachable(
    store: &dyn StateStore,
    config: &Config,
    key: &SiteKey,
    host: &Host,
    who: &str,
) -> Result<Option<Row>, StoreError> {
    let view = store.site(key).view().await?;
    let row = Row::new(
        format!("network:{host}"),
        view.site.breaker(),
        &config.breakers.of(host).policy,
        &view,
    );
    Ok((row.state == State::Open).then(|| Row {
        opened_by: Some(who.to_owned()),
        ..row
    }))
}

/// Finds the breaker's configuration of a site: of its host, of the first of its hosts, or of the
/// resolver.
fn config_of<'a>(config: &'a Config, key: &str) -> &'a BreakerConfig {
    if let Some(name) = key.strip_prefix("resolver:") {
        return config.breakers.of_resolver(name);
    }
    let joined = config
        .sites
        .iter()
        .find(|site| *site.key() == *key)
        .and_then(|site| site.hosts.first().cloned());
    match joined.or_else(|| Host::parse(key).ok()) {
        Some(host) => config.breakers.of(&host),
        None => &config.breakers.defaults,
    }
}

fn policy_of(config: &Config, key: &str) -> Arc<BreakerPolicy> {
    Arc::clone(&config_of(config, key).policy)
}

/// A breaker as people see it.
struct Row {
    name: String,
    state: State,
    reason: Option<String>,
    left: Duration,
    reset: Duration,
    failures: u32,
    recent: usize,
    probes: [(usize, u32); 3],
    opened_by: Option<String>,
}

impl Row {
    fn new(name: String, breaker: &BreakerState, policy: &BreakerPolicy, view: &SiteView) -> Self {
        let open = breaker.open_until(view.now);
        Self {
            name,
            state: breaker.state(view.now),
            reason: open.map(|(_, reason)| reason.to_string()),
            left: open.map_or(Duration::ZERO, |(until, _)| until.since(view.now)),
            reset: policy.reset,
            failures: breaker.failures(),
            recent: policy
                .window
                .map_or(0, |window| breaker.recent_failures(window.within, view.now)),
            probes: Role::ALL.map(|role| {
                (
                    breaker.leases(role, view.now),
                    policy.trial_calls[role.index()],
                )
            }),
            opened_by: breaker.opened_by().map(ToString::to_string),
        }
    }

    /// A breaker that nobody has needed yet.
    fn untouched(name: String, policy: &BreakerPolicy) -> Self {
        let probes = Role::ALL.map(|role| (0, policy.trial_calls[role.index()]));
        let (reason, opened_by) = (None, None);
        Self {
            name,
            state: State::Closed,
            reason,
            left: Duration::ZERO,
            reset: policy.reset,
            failures: 0,
            recent: 0,
            probes,
            opened_by,
        }
    }

    fn until(&self) -> Option<String> {
        self.reason
            .as_ref()
            .map(|_| (SystemClock.wall() + self.left).to_string())
    }

    fn cells(&self) -> Vec<String> {
        let dash = || "-".to_owned();
        let failures = if self.recent > 0 {
            format!("{} ({} recent)", self.failures, self.recent)
        } else {
            self.failures.to_string()
        };
        vec![
            self.name.clone(),
            self.state.as_str().to_owned(),
            self.reason.clone().unwrap_or_else(dash),
            self.until().unwrap_or_else(dash),
            self.reason
                .as_ref()
                .map_or_else(dash, |_| format!("{:.0}", self.left.as_secs_f64().ceil())),
            format!("{}", self.reset.as_secs_f64()),
            failures,
            self.probes
                .map(|(out, most)| format!("{out}/{most}"))
                .join(" "),
            self.opened_by.clone().unwrap_or_else(dash),
        ]
    }

    fn sentence(&self) -> String {
        match (&self.reason, self.until()) {
            (Some(reason), Some(until)) => format!(
                "{}: open ({reason}) until {until}, for {:.0} s",
                self.name,
                self.left.as_secs_f64().ceil()
            ),
            _ => format!("{}: {}", self.name, self.state.as_str()),
        }
    }

    fn json(&self) -> Value {
        let probes: serde_json::Map<String, Value> = Role::ALL
            .into_iter()
            .map(|role| (role.as_str().to_owned(), json!({ "out": self.probes[role.index()].0, "most": self.probes[role.index()].1 })))
            .collect();
        json!({
            "host": self.name,
            "state": self.state.as_str(),
            "reason": self.reason,
            "until": self.until(),
            "cooldown_remaining_ms": self.reason.as_ref().map(|_| output::millis(self.left)),
            "reset_timeout_s": self.reset.as_secs_f64(),
            "failures": self.failures,
            "failures_in_window": self.recent,
            "probes": probes,
            "opened_by": self.opened_by,
        })
    }
}
