//! `docstokg breaker show | open | close`: the breakers of all processes.

mod row;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use docstokg_hub::Host;
use docstokg_hub::config::{BreakerConfig, Config, is_pace, read_network_key, resolver_key};
use docstokg_hub::policy::breaker::{BreakerPolicy, BreakerState, OpenReason};
use docstokg_hub::stores::process::may_run;
use docstokg_hub::stores::{SiteKey, StateStore, StoreError};
use docstokg_telemetry::summary::table;
use serde_json::json;

use crate::arguments::{BreakerArguments, BreakerCommand, GlobalArguments};
use crate::exit::CommandFailure;
use crate::known::{self, Target};
use crate::{output, session, state};
use row::BreakerRow;

/// The longest pause that an operator may set, in seconds: a year.
const MAX_PAUSE_S: f64 = 366.0 * 86_400.0;

/// Runs the command.
pub(crate) fn run(
    global: &GlobalArguments,
    arguments: &BreakerArguments,
) -> Result<ExitCode, CommandFailure> {
    let config = global.load()?.config;
    match &arguments.command {
        BreakerCommand::Show { open_only, host } => {
            let mut rows = read(global, &config, host.as_deref())?;
            if *open_only {
                rows.retain(|row| row.state != BreakerState::Closed);
            }
            show(global, &rows);
            Ok(ExitCode::SUCCESS)
        }
        BreakerCommand::Open {
            host,
            seconds,
            reason,
            resolver,
        } => {
            if !(seconds.is_finite() && *seconds > 0.0 && *seconds <= MAX_PAUSE_S) {
                return Err(CommandFailure::Usage(format!(
                    "--seconds: expected more than 0 and at most {MAX_PAUSE_S}, found {seconds}"
                )));
            }
            let pause = Duration::from_secs_f64(*seconds);
            let reason = OpenReason::Operator(reason.as_str().into());
            let target = if *resolver {
                Target::resolver(host)
            } else {
                Target::host(&config, host)?
            };
            change(
                global,
                &config,
                &target,
                &BreakerChange::Open(pause, reason),
            )
        }
        BreakerCommand::Close { host, resolver } => {
            let target = if *resolver {
                Target::resolver(host)
            } else {
                Target::host(&config, host)?
            };
            change(global, &config, &target, &BreakerChange::Close)
        }
    }
}

/// The change that an operator requests.
enum BreakerChange {
    Open(Duration, OpenReason),
    Close,
}

fn store_failure(error: StoreError) -> CommandFailure {
    CommandFailure::Failed(error.into())
}

fn change(
    global: &GlobalArguments,
    config: &Config,
    target: &Target<'_>,
    change: &BreakerChange,
) -> Result<ExitCode, CommandFailure> {
    let store = state::open_strict(global, config)?;
    let key = &target.key;
    let changed = session::block_on(async {
        if matches!(change, BreakerChange::Close)
            && !store.list().await.map_err(store_failure)?.contains(key)
        {
            return Ok(None);
        }
        if matches!(change, BreakerChange::Open(..)) {
            known::warn(
                global,
                config,
                &store.list().await.map_err(store_failure)?,
                target,
            );
        }
        let site = store.site(key);
        match change {
            BreakerChange::Open(length, reason) => site.block(*length, reason).await,
            BreakerChange::Close => site.unblock().await,
        }
        .map_err(store_failure)?;
        let view = site.view().await.map_err(store_failure)?;
        store.flush().await.map_err(store_failure)?;
        let policy = policy_of(config, key);
        Ok(Some(BreakerRow::new(
            key.to_string(),
            view.site.breaker(),
            &policy,
            &view,
        )))
    })?;
    let Some(row) = changed else {
        return nothing_to_close(global, config, target);
    };
    if global.json {
        output::json(&row.json());
    } else if !global.quiet {
        output::tell(&row.sentence());
    }
    Ok(ExitCode::SUCCESS)
}

/// Reports that there is no breaker to close. No state is created.
fn nothing_to_close(
    global: &GlobalArguments,
    config: &Config,
    target: &Target<'_>,
) -> Result<ExitCode, CommandFailure> {
    let (name, key) = (target.name, &target.key);
    let is_configured = known::is_configured(config, key);
    if !is_configured {
        return Err(CommandFailure::Failed(anyhow::anyhow!(
            "{name} is not known: no run with this state directory has sent it a request, \
             and no configuration names it; nothing was changed"
        )));
    }
    let row = BreakerRow::untouched(key.to_string(), &policy_of(config, key));
    if global.json {
        output::json(&row.json());
    } else if !global.quiet {
        output::tell(&format!(
            "{}: already closed; nothing was changed",
            row.name
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn show(global: &GlobalArguments, rows: &[BreakerRow]) {
    if global.json {
        output::json(&json!({ "breakers": rows.iter().map(BreakerRow::json).collect::<Vec<_>>() }));
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
        let cells: Vec<Vec<String>> = rows.iter().map(BreakerRow::cells).collect();
        output::text(&table(&header, &cells));
    }
}

/// Reads the breakers of all hosts and resolvers, or of one host.
fn read(
    global: &GlobalArguments,
    config: &Config,
    host: Option<&str>,
) -> Result<Vec<BreakerRow>, CommandFailure> {
    let only = host.map(|host| Target::host(config, host)).transpose()?;
    let only = only.map(|target| target.key);
    let store = state::open_strict(global, config)?;
    session::block_on(async {
        let keys = keys(&*store, config, only).await.map_err(store_failure)?;
        let mut rows = Vec::new();
        for (key, recorded) in keys {
            let found = rows_of(&*store, config, &key, recorded).await;
            rows.extend(found.map_err(store_failure)?);
        }
        Ok(rows)
    })
}

/// The origin of a row: recorded state, or only the configuration.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RecordedState {
    Yes,
    No,
}

/// Returns the keys of configured breakers and of those in the store.
async fn keys(
    store: &dyn StateStore,
    config: &Config,
    only: Option<SiteKey>,
) -> Result<BTreeMap<SiteKey, RecordedState>, StoreError> {
    let hosts = config.breakers.hosts.keys();
    let resolvers = config.breakers.resolvers.keys();
    let mut keys: BTreeMap<SiteKey, RecordedState> = hosts
        .map(|host| config.site_key(host))
        .chain(resolvers.map(|name| resolver_key(name)))
        .map(|key| (key, RecordedState::No))
        .collect();
    let recorded = store.list().await?;
    keys.extend(
        recorded
            .into_iter()
            .filter(|key| !is_pace(key))
            .map(|key| (key, RecordedState::Yes)),
    );
    if let Some(only) = only {
        let recorded = keys.get(&only).copied().unwrap_or(RecordedState::No);
        keys.retain(|key, _| {
            read_network_key(key).is_some_and(|(host, _)| config.site_key(&host) == only)
        });
        keys.insert(only, recorded);
    }
    Ok(keys)
}

/// Reads the rows of one key: its breaker, and the separate breakers of roles.
async fn rows_of(
    store: &dyn StateStore,
    config: &Config,
    key: &SiteKey,
    recorded: RecordedState,
) -> Result<Vec<BreakerRow>, StoreError> {
    if let Some((host, process)) = read_network_key(key) {
        if !may_run(process) {
            return Ok(Vec::new());
        }
        let row = unreachable(store, config, key, &host, process).await?;
        return Ok(row.into_iter().collect());
    }
    let config = config_of(config, key);
    if recorded == RecordedState::No {
        return Ok(vec![BreakerRow::untouched(key.to_string(), &config.policy)]);
    }
    let view = store.site(key).view().await?;
    let breaker = view.site.breaker();
    let mut rows = vec![BreakerRow::new(
        key.to_string(),
        breaker,
        &config.policy,
        &view,
    )];
    for (role, breaker) in view.site.breakers().1 {
        let policy = config.roles[role.index()]
            .as_ref()
            .unwrap_or(&config.policy);
        let name = format!("{key} ({role} alone)");
        rows.push(BreakerRow::new(name, breaker, policy, &view));
    }
    Ok(rows)
}

/// Reads the breaker of the local connectivity of a process to a host, if open.
async fn unreachable(
    store: &dyn StateStore,
    config: &Config,
    key: &SiteKey,
    host: &Host,
    process: &str,
) -> Result<Option<BreakerRow>, StoreError> {
    let view = store.site(key).view().await?;
    let mut row = BreakerRow::new(
        format!("network:{host}"),
        view.site.breaker(),
        &config.breakers.of(host).policy,
        &view,
    );
    row.opened_by = Some(process.to_owned());
    Ok(Some(row).filter(|row| row.state == BreakerState::Open))
}

/// Returns the [`BreakerConfig`] of a breaker: of its host, of the first host of its site, or of
/// the resolver.
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
