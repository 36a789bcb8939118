//! Resolution of the `limits` section, and of the stores of limits and breakers.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use docstokg_config::{Ceiling, ConfigProblem, Section, SourcedValue, ValueSource};
use docstokg_policy::adaptive::AdaptivePolicy;
use docstokg_policy::pacing::Pacing;
use docstokg_policy::rate::Window;
use docstokg_policy::role::Role;
use docstokg_policy::windows::Multiplier;
use docstokg_stores::redis::is_dsn;

use crate::config::settings::{
    AimdSettings, BackendSettings, HeadersSettings, HostSettings, RoleSettings, RolesSettings,
    Settings, SharedSettings,
};
use crate::config::values::RateList;
use crate::config::{
    Backend, BackendKind, BudgetLimits, Concurrency, HostLimitsConfig, LearnSetting, LimitsConfig,
    RateHeadersConfig, RoleLimits,
};

/// Minimum value of `min_multiplier`, as a share of the configured rate.
const LOWEST_MULTIPLIER: f64 = 0.01;

pub(super) fn limits(settings: &Settings, problems: &mut Vec<ConfigProblem>) -> LimitsConfig {
    let written = &settings.limits;
    let adaptive = adaptive(&written.aimd, problems);
    let adapts = written.aimd.enabled().value;
    let defaults = written.defaults.clone().over(RolesSettings::defaults());
    check_learning(settings, adapts, problems);
    LimitsConfig {
        defaults: Role::ALL.map(|role| role_limits(defaults.of(role).clone())),
        hosts: written
            .hosts
            .iter()
            .map(|(host, limits)| {
                let headers = limits.headers.clone().over(written.headers.clone());
                (host.clone(), host_limits(limits, &defaults, &headers))
            })
            .collect(),
        backend: backend(settings, problems),
        services: written
            .services
            .iter()
            .map(|(name, written)| (Arc::from(name.as_str()), budget(written)))
            .collect(),
        adaptive,
        adapts,
        max_inflight: written.global.max_inflight().map(|most| most.0),
        guard: Duration::from_millis(written.global.guard_ms().value),
        pacing: Pacing::Burst,
        learn: written.learn.clone(),
        learn_unless_set: LearnSetting::Off,
        headers: headers(&written.headers),
        slowest_learned: Duration::from_secs(u64::from(
            written.global.slowest_learned_s().value.get(),
        )),
    }
}

/// Reports a [`ConfigProblem`] for each host whose limits are both learned and adaptive, which
/// exclude each other.
fn check_learning(settings: &Settings, adapts: bool, problems: &mut Vec<ConfigProblem>) {
    let written = &settings.limits;
    let of_hosts = written.hosts.iter().map(|(host, limits)| {
        let path = format!("limits.hosts.{host}");
        let adapts = limits.aimd.as_ref().map_or(adapts, |set| set.value);
        (path, limits.learn.as_ref(), adapts)
    });
    let of_all = ("limits".to_owned(), written.learn.as_ref(), adapts);
    for (path, learn, adapts) in of_hosts.chain([of_all]) {
        let Some(learn) = learn.filter(|learn| adapts && learn.value != LearnSetting::Off) else {
            continue;
        };
        let message = "limits are either learned or adaptive: remove this, or set aimd to false for the host, or limits.aimd.enabled to false";
        problems.push(ConfigProblem::new(
            &learn.source,
            format!("{path}.learn"),
            message,
        ));
    }
}

/// Resolves the [`RoleLimits`] of a role from settings with the defaults filled in.
fn role_limits(merged: RoleSettings) -> RoleLimits {
    RoleLimits {
        count_head: merged.count_head(),
        shared_slots: merged.concurrency().value == Concurrency::Shared,
        rates: windows(merged.rates),
        max_delay: unless_set(merged.max_delay_ms, 0).map(Duration::from_millis),
        credits: unless_set(merged.credits, NonZeroU32::MIN).value,
        pacing: merged.pacing.map(|set| set.map(Pacing::from)),
        max_concurrent: most_at_once(merged.max_concurrent),
    }
}

/// Returns the [`Window`]s of a budget; no windows, and thus no limit, without a setting.
fn windows(set: Option<SourcedValue<RateList>>) -> SourcedValue<Vec<Window>> {
    unless_set(set, RateList(Vec::new())).map(|rates| rates.0)
}

/// Returns the maximum number of requests at once of a budget; `None`, and thus no limit, without a
/// setting.
fn most_at_once(set: Option<SourcedValue<Ceiling>>) -> SourcedValue<Option<NonZeroU32>> {
    unless_set(set, Ceiling(None)).map(|most| most.0)
}

fn unless_set<T>(set: Option<SourcedValue<T>>, absent: T) -> SourcedValue<T> {
    set.unwrap_or(SourcedValue::new(absent, ValueSource::Default))
}

/// Drops the shipped values of a host and role that do not fit the user's settings.
///
/// A shipped value belongs to the shipped rate. If the user sets a rate for the host and role, the
/// shipped values of keys that the user's defaults also set are dropped. Without such a rate, the
/// host keeps its shipped limits, because its operator published them.
fn without_replaced(written: &RoleSettings, defaults: &RoleSettings) -> RoleSettings {
    fn kept<T: Clone>(
        of_host: &Option<SourcedValue<T>>,
        of_all: &Option<SourcedValue<T>>,
    ) -> Option<SourcedValue<T>> {
        let is_replaced = of_all.as_ref().is_some_and(|set| set.source.is_written());
        let is_shipped = |set: &SourcedValue<T>| set.source == ValueSource::Shipped;
        of_host
            .clone()
            .filter(|set| !(is_replaced && is_shipped(set)))
    }
    if !written
        .rates
        .as_ref()
        .is_some_and(|set| set.source.is_written())
    {
        return written.clone();
    }
    RoleSettings {
        rates: written.rates.clone(),
        max_delay_ms: kept(&written.max_delay_ms, &defaults.max_delay_ms),
        count_head: kept(&written.count_head, &defaults.count_head),
        credits: kept(&written.credits, &defaults.credits),
        max_concurrent: kept(&written.max_concurrent, &defaults.max_concurrent),
        concurrency: kept(&written.concurrency, &defaults.concurrency),
        pacing: kept(&written.pacing, &defaults.pacing),
    }
}

fn host_limits(
    written: &HostSettings,
    defaults: &RolesSettings,
    headers: &HeadersSettings,
) -> HostLimitsConfig {
    HostLimitsConfig {
        roles: Role::ALL.map(|role| {
            let own = without_replaced(written.roles.of(role), defaults.of(role));
            role_limits(own.over(defaults.of(role).clone()))
        }),
        kinds: written
            .kinds
            .iter()
            .filter_map(|(name, kind)| {
                let limits = kind_beside(&kind.shared, written)?;
                Some((Arc::from(name.as_str()), budget(&limits)))
            })
            .collect(),
        kind_credits: written
            .kinds
            .iter()
            .filter_map(|(name, kind)| {
                let credits = kind.credits.as_ref()?.value;
                Some((Arc::from(name.as_str()), credits))
            })
            .collect(),
        learn: written.learn.clone(),
        adapts: written.aimd.clone(),
        headers: self::headers(headers),
    }
}

/// Returns the limits of a kind of metadata request; `None` if none are left.
///
/// If the user sets a rate for all metadata requests of the host, the shipped rate of a kind is
/// dropped, because it belongs to the shipped rate of all.
fn kind_beside(kind: &SharedSettings, host: &HostSettings) -> Option<SharedSettings> {
    let is_shipped = |rates: &SourcedValue<RateList>| rates.source == ValueSource::Shipped;
    let own = host.roles.of(Role::Metadata).rates.as_ref();
    let is_replaced = kind.rates.as_ref().is_some_and(is_shipped)
        && own.is_some_and(|set| set.source.is_written());
    if !is_replaced {
        return Some(kind.clone());
    }
    let has_other_values = is_written(&kind.max_concurrent)
        || is_written(&kind.concurrency)
        || is_written(&kind.pacing);
    has_other_values.then(|| SharedSettings {
        rates: None,
        ..kind.clone()
    })
}

fn is_written<T>(set: &Option<SourcedValue<T>>) -> bool {
    set.as_ref().is_some_and(|set| set.source.is_written())
}

fn headers(written: &HeadersSettings) -> RateHeadersConfig {
    RateHeadersConfig {
        trust: written.trust().value,
        reset: written.reset().value,
    }
}

pub(super) fn budget(written: &SharedSettings) -> BudgetLimits {
    BudgetLimits {
        rates: windows(written.rates.clone()),
        shared_slots: written.concurrency().value == Concurrency::Shared,
        pacing: written.pacing.clone().map(|set| set.map(Pacing::from)),
        max_concurrent: most_at_once(written.max_concurrent.clone()),
    }
}

/// Returns the [`Backend`] of the limiter. If only one of the two stores is configured, limiter and
/// breakers share it.
fn backend(settings: &Settings, problems: &mut Vec<ConfigProblem>) -> Backend {
    let written = &settings.limits.backend;
    let is_given = written
        .kind
        .as_ref()
        .is_some_and(|kind| kind.source != ValueSource::Default);
    let chosen = if is_given {
        written.clone()
    } else {
        settings
            .breakers
            .cooldown_store
            .clone()
            .over(written.clone())
    };
    store_of(
        &chosen,
        "limits.backend",
        "set limits.backend.dsn, DOCSTOKG_RLIMIT_DSN or --rate-dsn",
        problems,
    )
}

/// Returns the store of the breakers; `None` if they share the limiter's store.
pub(super) fn breaker_backend(
    settings: &Settings,
    problems: &mut Vec<ConfigProblem>,
) -> Option<Backend> {
    let own = &settings.breakers.cooldown_store;
    let (breakers, limits) = (own.kind.as_ref()?, settings.limits.backend.kind.as_ref()?);
    if limits.source == ValueSource::Default
        || (limits.value == breakers.value && own.dsn.is_none())
    {
        return None;
    }
    let is_same_store = own.dsn.as_ref().map(|dsn| &dsn.value)
        == settings.limits.backend.dsn.as_ref().map(|dsn| &dsn.value);
    if limits.value == breakers.value && is_same_store {
        return None;
    }
    Some(store_of(
        own,
        "breakers.cooldown_store",
        "set breakers.cooldown_store.dsn",
        problems,
    ))
}

fn store_of(
    written: &BackendSettings,
    path: &str,
    remedy: &str,
    problems: &mut Vec<ConfigProblem>,
) -> Backend {
    let kind = written.kind();
    let dsn = written.dsn.as_ref().filter(|dsn| !dsn.value.0.is_empty());
    match (kind.value, dsn) {
        (BackendKind::Redis, None) => {
            let message = format!("redis needs a place: {remedy}, e.g. redis://127.0.0.1:6379/0");
            problems.push(ConfigProblem::new(
                &kind.source,
                format!("{path}.dsn"),
                message,
            ));
        }
        // The message does not quote the DSN, which may contain a password.
        (BackendKind::Redis, Some(dsn)) if !is_dsn(&dsn.value.0) => {
            let message = "this is not redis://[USER:PASSWORD@]HOST[:PORT][/DB] or rediss://";
            problems.push(ConfigProblem::new(
                &dsn.source,
                format!("{path}.dsn"),
                message,
            ));
        }
        (BackendKind::Sqlite | BackendKind::Multiprocess, Some(dsn))
            if dsn.value.0.starts_with("redis://") || dsn.value.0.starts_with("rediss://") =>
        {
            let message = format!(
                "this is a redis server, and the store is {}; set {path}.kind to redis",
                kind.value.as_str()
            );
            problems.push(ConfigProblem::new(
                &dsn.source,
                format!("{path}.dsn"),
                message,
            ));
        }
        _ => {}
    }
    Backend {
        kind,
        dsn: dsn.map_or_else(String::new, |dsn| dsn.value.0.clone()),
        on_failure: written.on_store_failure().value,
        assumed_peers: written.assumed_peers().value.get(),
        group: written.group.as_ref().map(|set| set.value.clone()),
    }
}

fn adaptive(written: &AimdSettings, problems: &mut Vec<ConfigProblem>) -> AdaptivePolicy {
    let mut share = |set: &SourcedValue<f64>, key: &str, scale: f64| {
        if set.value > scale {
            let message = format!("{} is more than {scale}", set.value);
            problems.push(ConfigProblem::new(
                &set.source,
                format!("limits.aimd.{key}"),
                message,
            ));
        }
        set.value / scale
    };
    let lowest = written.min_multiplier();
    let policy = AdaptivePolicy {
        window: Duration::from_secs(u64::from(written.window_s().value.get())),
        high_ratio: share(&written.high_429_ratio(), "high_429_ratio", 1.0),
        increase: share(&written.increase_step_pct(), "increase_step_pct", 100.0),
        decrease: share(&written.decrease_step_pct(), "decrease_step_pct", 100.0),
        lowest: Multiplier::from_share(share(&lowest, "min_multiplier", 1.0)),
        highest: Multiplier::from_share(share(&written.max_multiplier(), "max_multiplier", 1.0)),
    };
    let objection = if policy.lowest > policy.highest {
        Some("min_multiplier is above max_multiplier")
    } else if lowest.value < LOWEST_MULTIPLIER {
        Some("the lowest share of a rate is 0.01: a smaller one would stop requests for good")
    } else {
        None
    };
    if let Some(message) = objection {
        let key = "limits.aimd.min_multiplier";
        problems.push(ConfigProblem::new(&lowest.source, key, message));
    }
    policy
}
