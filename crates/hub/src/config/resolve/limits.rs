//! The `limits` section, and the stores of limits and breakers.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use docstokg_config::{Problem, Section, Source, Sourced};
use docstokg_policy::adaptive::AdaptivePolicy;
use docstokg_policy::pacing::Pacing;
use docstokg_policy::role::Role;
use docstokg_policy::windows::Multiplier;
use docstokg_stores::redis::is_dsn;

use super::value;
use crate::config::settings::{
    AimdSettings, BackendSettings, HeadersSettings, HostSettings, RoleSettings, RolesSettings,
    Settings, SharedSettings,
};
use crate::config::values::Rates;
use crate::config::{
    Backend, BackendKind, BudgetLimits, Concurrency, Headers, HostLimits, Learn, Limits,
    OnStoreFailure, RoleLimits,
};

/// The lowest share of a rate that an adaptive multiplier can have.
const LOWEST_MULTIPLIER: f64 = 0.01;

pub(super) fn limits(settings: &Settings, problems: &mut Vec<Problem>) -> Limits {
    let written = &settings.limits;
    let adaptive = adaptive(&written.aimd, problems);
    let max_inflight = written.global.max_inflight.clone();
    let adapts = value(&written.aimd.enabled, false);
    check_learning(settings, adapts, problems);
    Limits {
        defaults: Role::ALL
            .map(|role| role_limits(written.defaults.of(role), &RoleSettings::default())),
        hosts: written
            .hosts
            .iter()
            .map(|(host, limits)| (host.clone(), host_limits(limits, &written.defaults)))
            .collect(),
        backend: backend(settings, problems),
        services: written
            .services
            .iter()
            .map(|(name, written)| (Arc::from(name.as_str()), budget(written)))
            .collect(),
        adaptive,
        adapts,
        max_inflight: max_inflight
            .map_or(Sourced::new(NonZeroU32::new(500), Source::Default), |set| {
                set.map(|most| most.0)
            }),
        guard: Duration::from_millis(value(&written.global.guard_ms, 10)),
        pacing: Pacing::Burst,
        learn: written.learn.clone(),
        learn_unless_set: Learn::Off,
        headers: headers(&written.headers),
        slowest_learned: Duration::from_secs(u64::from(
            written
                .global
                .slowest_learned_s
                .as_ref()
                .map_or(60, |set| set.value.get()),
        )),
    }
}

/// Reports hosts for which limits are to be learned while rates adapt to throttling.
fn check_learning(settings: &Settings, adapts: bool, problems: &mut Vec<Problem>) {
    let written = &settings.limits;
    let of_hosts = written.hosts.iter().map(|(host, limits)| {
        let path = format!("limits.hosts.{host}");
        (path, limits.learn.as_ref(), value(&limits.aimd, adapts))
    });
    let of_all = ("limits".to_owned(), written.learn.as_ref(), adapts);
    for (path, learn, adapts) in of_hosts.chain([of_all]) {
        let Some(learn) = learn.filter(|learn| adapts && learn.value != Learn::Off) else {
            continue;
        };
        let message = "limits are either learned or adaptive: remove this, or set aimd to false for the host, or limits.aimd.enabled to false";
        problems.push(Problem::new(
            &learn.source,
            format!("{path}.learn"),
            message,
        ));
    }
}

fn role_limits(written: &RoleSettings, defaults: &RoleSettings) -> RoleLimits {
    let merged = written.clone().over(defaults.clone());
    let unset = Source::Default;
    RoleLimits {
        rates: merged
            .rates
            .map_or(Sourced::new(Vec::new(), unset.clone()), |set| {
                set.map(|rates| rates.0)
            }),
        max_delay: merged
            .max_delay_ms
            .map_or(Sourced::new(Duration::ZERO, unset.clone()), |set| {
                set.map(Duration::from_millis)
            }),
        count_head: merged
            .count_head
            .unwrap_or(Sourced::new(false, unset.clone())),
        credits: value(&merged.credits, NonZeroU32::MIN),
        shared_slots: value(&merged.concurrency, Concurrency::Local) == Concurrency::Shared,
        pacing: merged.pacing.map(|set| set.map(Pacing::from)),
        max_concurrent: merged
            .max_concurrent
            .map_or(Sourced::new(None, unset), |set| set.map(|most| most.0)),
    }
}

/// Drops what is shipped for a host and role that the user gives a rate, where the user's defaults
/// say something else: the shipped values belong to the shipped rate. A host that the user does not
/// name keeps its shipped limits whatever the defaults are, since its operator published them.
fn without_replaced(written: &RoleSettings, defaults: &RoleSettings) -> RoleSettings {
    fn kept<T: Clone>(
        of_host: &Option<Sourced<T>>,
        of_all: &Option<Sourced<T>>,
    ) -> Option<Sourced<T>> {
        let is_replaced = of_all.as_ref().is_some_and(|set| set.source.is_written());
        let is_shipped = |set: &Sourced<T>| set.source == Source::Shipped;
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

fn host_limits(written: &HostSettings, defaults: &RolesSettings) -> HostLimits {
    HostLimits {
        roles: Role::ALL.map(|role| {
            let own = without_replaced(written.roles.of(role), defaults.of(role));
            role_limits(&own, defaults.of(role))
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
        headers: headers(&written.headers),
    }
}

/// Returns what holds for a kind of metadata requests. The user's rates for all of them replace the
/// shipped ones of a kind, since both belong together; nothing else may be left of it.
fn kind_beside(kind: &SharedSettings, host: &HostSettings) -> Option<SharedSettings> {
    let is_shipped = |rates: &Sourced<Rates>| rates.source == Source::Shipped;
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

fn is_written<T>(set: &Option<Sourced<T>>) -> bool {
    set.as_ref().is_some_and(|set| set.source.is_written())
}

fn headers(written: &HeadersSettings) -> Headers {
    Headers {
        trust: written.trust.clone(),
        reset: written.reset.clone(),
    }
}

pub(super) fn budget(written: &SharedSettings) -> BudgetLimits {
    BudgetLimits {
        rates: written
            .rates
            .clone()
            .map_or(Sourced::new(Vec::new(), Source::Default), |set| {
                set.map(|rates| rates.0)
            }),
        shared_slots: value(&written.concurrency, Concurrency::Local) == Concurrency::Shared,
        pacing: written.pacing.clone().map(|set| set.map(Pacing::from)),
        max_concurrent: written
            .max_concurrent
            .clone()
            .map_or(Sourced::new(None, Source::Default), |set| {
                set.map(|most| most.0)
            }),
    }
}

/// Returns where the limiter's state lives. Where only one of the two stores is given it serves
/// both.
fn backend(settings: &Settings, problems: &mut Vec<Problem>) -> Backend {
    let written = &settings.limits.backend;
    let is_given = written
        .kind
        .as_ref()
        .is_some_and(|kind| kind.source != Source::Default);
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

/// Returns where the breakers' state lives, where that is another store than the limiter's.
pub(super) fn breaker_backend(settings: &Settings, problems: &mut Vec<Problem>) -> Option<Backend> {
    let own = &settings.breakers.cooldown_store;
    let (breakers, limits) = (own.kind.as_ref()?, settings.limits.backend.kind.as_ref()?);
    if limits.source == Source::Default || (limits.value == breakers.value && own.dsn.is_none()) {
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
    problems: &mut Vec<Problem>,
) -> Backend {
    let kind = written
        .kind
        .clone()
        .unwrap_or(Sourced::new(BackendKind::Memory, Source::Default));
    let dsn = written.dsn.as_ref().filter(|dsn| !dsn.value.0.is_empty());
    match (kind.value, dsn) {
        (BackendKind::Redis, None) => {
            let message = format!("redis needs a place: {remedy}, e.g. redis://127.0.0.1:6379/0");
            problems.push(Problem::new(&kind.source, format!("{path}.dsn"), message));
        }
        // The DSN may hold a password: it is not repeated.
        (BackendKind::Redis, Some(dsn)) if !is_dsn(&dsn.value.0) => {
            let message = "this is not redis://[USER:PASSWORD@]HOST[:PORT][/DB] or rediss://";
            problems.push(Problem::new(&dsn.source, format!("{path}.dsn"), message));
        }
        (BackendKind::Sqlite | BackendKind::Multiprocess, Some(dsn))
            if dsn.value.0.starts_with("redis://") || dsn.value.0.starts_with("rediss://") =>
        {
            let message = format!(
                "this is a redis server, and the store is {}; set {path}.kind to redis",
                kind.value.as_str()
            );
            problems.push(Problem::new(&dsn.source, format!("{path}.dsn"), message));
        }
        _ => {}
    }
    Backend {
        kind,
        dsn: dsn.map_or_else(String::new, |dsn| dsn.value.0.clone()),
        on_failure: value(&written.on_store_failure, OnStoreFailure::Local),
        assumed_peers: written
            .assumed_peers
            .as_ref()
            .map_or(4, |set| set.value.get()),
        group: written.group.as_ref().map(|set| set.value.clone()),
    }
}

fn adaptive(written: &AimdSettings, problems: &mut Vec<Problem>) -> AdaptivePolicy {
    let mut share = |set: &Option<Sourced<f64>>, key: &str, scale: f64, otherwise: f64| {
        let Some(set) = set else { return otherwise };
        if set.value > scale {
            let message = format!("{} is more than {scale}", set.value);
            problems.push(Problem::new(
                &set.source,
                format!("limits.aimd.{key}"),
                message,
            ));
        }
        set.value / scale
    };
    let policy = AdaptivePolicy {
        window: Duration::from_secs(u64::from(
            written.window_s.as_ref().map_or(60, |set| set.value.get()),
        )),
        high_ratio: share(&written.high_429_ratio, "high_429_ratio", 1.0, 0.05),
        increase: share(&written.increase_step_pct, "increase_step_pct", 100.0, 0.05),
        decrease: share(&written.decrease_step_pct, "decrease_step_pct", 100.0, 0.20),
        lowest: Multiplier::from_share(share(&written.min_multiplier, "min_multiplier", 1.0, 0.3)),
        highest: Multiplier::from_share(share(&written.max_multiplier, "max_multiplier", 1.0, 1.0)),
    };
    let lowest = written.min_multiplier.as_ref();
    let objection = if policy.lowest > policy.highest {
        Some("min_multiplier is above max_multiplier")
    } else if lowest.is_some_and(|set| set.value < LOWEST_MULTIPLIER) {
        Some("the lowest share of a rate is 0.01: a smaller one would stop requests for good")
    } else {
        None
    };
    if let Some(message) = objection {
        let source = lowest.map_or(Source::Default, |set| set.source.clone());
        problems.push(Problem::new(&source, "limits.aimd.min_multiplier", message));
    }
    policy
}
