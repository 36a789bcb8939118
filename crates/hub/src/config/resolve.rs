//! From what was written to what holds: defaults filled in, contradictions found.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::adaptive::AdaptivePolicy;
use docstokg_policy::breaker::{BreakerPolicy, RollingWindow};
use docstokg_policy::classify::Classifier;
use docstokg_policy::host::Host;
use docstokg_policy::retry::RetryPolicy;
use docstokg_policy::windows::Multiplier;

use super::problem::{Problem, Source, Sourced};
use super::settings::{
    AimdSettings, BackendSettings, BreakerSettings, HostSettings, Layer, RoleBreakerSettings,
    RoleSettings, Settings, SharedSettings, TelemetrySettings, TransportSettings,
};
use super::{
    Backend, BackendKind, BreakerConfig, Breakers, BudgetLimits, Concurrency, Config, Contact,
    Durability, HostLimits, Identity, Limits, OnStoreFailure, Place, RoleLimits, SiteConfig,
    TelemetryConfig, TransportConfig,
};

/// The longest time that any setting may name, in seconds: a year.
const LONGEST_S: f64 = 366.0 * 86_400.0;

/// Turns settings into a configuration. What is wrong is added to the problems, and stands in by
/// its default.
pub(crate) fn resolve(settings: &Settings, problems: &mut Vec<Problem>) -> Config {
    let adaptive = adaptive(&settings.aimd, problems);
    let limits = Limits {
        defaults: settings
            .defaults
            .clone()
            .map(|role| role_limits(&role, &RoleSettings::default())),
        hosts: settings
            .hosts
            .iter()
            .map(|(host, limits)| (host.clone(), host_limits(limits, settings)))
            .collect(),
        backend: backend(settings, problems),
        services: settings
            .services
            .iter()
            .map(|(name, written)| (Arc::from(name.as_str()), budget(written)))
            .collect(),
        adaptive,
        max_inflight: settings
            .global
            .max_inflight
            .clone()
            .map_or(Sourced::new(NonZeroU32::new(500), Source::Default), |set| {
                set.map(|most| most.0)
            }),
        guard: Duration::from_millis(value(&settings.global.guard_ms, 10)),
    };
    let breakers = Breakers {
        defaults: breaker(
            &settings.breaker_defaults,
            adaptive.is_some(),
            "breakers.defaults",
            problems,
        ),
        backend: breaker_backend(settings, problems),
        hosts: settings
            .breaker_hosts
            .iter()
            .map(|(host, written)| {
                (
                    host.clone(),
                    own_breaker(
                        written,
                        settings,
                        adaptive.is_some(),
                        &format!("breakers.hosts.{host}"),
                        problems,
                    ),
                )
            })
            .collect(),
        resolver_defaults: breaker(
            &settings.breaker_defaults,
            false,
            "breakers.defaults",
            &mut Vec::new(),
        ),
        resolvers: settings
            .breaker_resolvers
            .iter()
            .map(|(name, written)| {
                (
                    Arc::from(name.as_str()),
                    own_breaker(
                        written,
                        settings,
                        false,
                        &format!("breakers.resolvers.{name}"),
                        problems,
                    ),
                )
            })
            .collect(),
    };
    let retry = RetryPolicy {
        attempts: settings
            .retry
            .attempts
            .as_ref()
            .map_or(NonZeroU32::MIN, |set| set.value),
        transient_base: Duration::from_millis(value(&settings.retry.transient_base_ms, 200)),
        throttled_base: Duration::from_millis(value(&settings.retry.throttled_base_ms, 1_000)),
        ceiling: Duration::from_millis(value(&settings.retry.ceiling_ms, 30_000)),
    };
    Config {
        limits,
        breakers,
        sites: sites(settings, problems),
        retry,
        transport: transport(&settings.transport, problems),
        identity: identity(settings, problems),
        telemetry: telemetry(&settings.telemetry),
    }
}

fn value<T: Clone>(set: &Option<Sourced<T>>, otherwise: T) -> T {
    set.as_ref().map_or(otherwise, |set| set.value.clone())
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
        shared_slots: value(&merged.concurrency, Concurrency::Local) == Concurrency::Shared,
        max_concurrent: merged
            .max_concurrent
            .map_or(Sourced::new(None, unset), |set| set.map(|most| most.0)),
    }
}

fn host_limits(written: &HostSettings, settings: &Settings) -> HostLimits {
    let [metadata, landing, artifact] = &written.roles;
    let [d, l, a] = &settings.defaults;
    HostLimits {
        roles: [
            role_limits(metadata, d),
            role_limits(landing, l),
            role_limits(artifact, a),
        ],
        kinds: written
            .kinds
            .iter()
            .map(|(name, kind)| (Arc::from(name.as_str()), budget(kind)))
            .collect(),
    }
}

fn budget(written: &SharedSettings) -> BudgetLimits {
    BudgetLimits {
        rates: written
            .rates
            .clone()
            .map_or(Sourced::new(Vec::new(), Source::Default), |set| {
                set.map(|rates| rates.0)
            }),
        shared_slots: value(&written.concurrency, Concurrency::Local) == Concurrency::Shared,
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
    let written = &settings.backend;
    let is_given = written
        .kind
        .as_ref()
        .is_some_and(|kind| kind.source != Source::Default);
    let chosen = if is_given {
        written.clone()
    } else {
        settings.cooldown_store.clone().over(written.clone())
    };
    store_of(
        &chosen,
        "limits.backend",
        "set limits.backend.dsn, DOCSTOKG_RLIMIT_DSN or --rate-dsn",
        problems,
    )
}

/// Returns where the breakers' state lives, where that is another store than the limiter's.
fn breaker_backend(settings: &Settings, problems: &mut Vec<Problem>) -> Option<Backend> {
    let own = &settings.cooldown_store;
    let (breakers, limits) = (own.kind.as_ref()?, settings.backend.kind.as_ref()?);
    if limits.source == Source::Default || (limits.value == breakers.value && own.dsn.is_none()) {
        return None;
    }
    let same_place = own.dsn.as_ref().map(|dsn| &dsn.value)
        == settings.backend.dsn.as_ref().map(|dsn| &dsn.value);
    if limits.value == breakers.value && same_place {
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
    if kind.value == BackendKind::Redis && written.dsn.is_none() {
        let message = format!("redis needs a place: {remedy}, e.g. redis://127.0.0.1:6379/0");
        problems.push(Problem {
            source: kind.source.clone(),
            key: format!("{path}.dsn"),
            message,
            suggestion: None,
        });
    }
    Backend {
        kind,
        dsn: written
            .dsn
            .as_ref()
            .map_or_else(String::new, |dsn| dsn.value.clone()),
        on_failure: value(&written.on_store_failure, OnStoreFailure::Local),
        assumed_peers: written
            .assumed_peers
            .as_ref()
            .map_or(4, |set| set.value.get()),
        group: written.group.as_ref().map(|set| set.value.clone()),
    }
}

fn adaptive(written: &AimdSettings, problems: &mut Vec<Problem>) -> Option<AdaptivePolicy> {
    let mut share = |set: &Option<Sourced<f64>>, key: &str, scale: f64, otherwise: f64| {
        let Some(set) = set else { return otherwise };
        if set.value > scale {
            let message = format!("{} is more than {scale}", set.value);
            problems.push(Problem {
                source: set.source.clone(),
                key: format!("limits.aimd.{key}"),
                message,
                suggestion: None,
            });
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
    if policy.lowest > policy.highest {
        let source = written
            .min_multiplier
            .as_ref()
            .map_or(Source::Default, |set| set.source.clone());
        let message = "min_multiplier is above max_multiplier".to_owned();
        problems.push(Problem {
            source,
            key: "limits.aimd.min_multiplier".to_owned(),
            message,
            suggestion: None,
        });
        return None;
    }
    value(&written.enabled, false).then_some(policy)
}

/// Reads a length in seconds, at most a year.
fn seconds(
    set: &Option<Sourced<f64>>,
    key: &str,
    otherwise: f64,
    problems: &mut Vec<Problem>,
) -> Duration {
    let Some(set) = set else {
        return Duration::from_secs_f64(otherwise);
    };
    if set.value > LONGEST_S {
        let message = format!("{} seconds is longer than a year", set.value);
        problems.push(Problem {
            source: set.source.clone(),
            key: key.to_owned(),
            message,
            suggestion: None,
        });
        return Duration::from_secs_f64(otherwise);
    }
    Duration::from_secs_f64(set.value)
}

/// Resolves the breaker of a host or resolver over the defaults, whose problems have been told
/// already.
fn own_breaker(
    written: &BreakerSettings,
    settings: &Settings,
    adaptive: bool,
    path: &str,
    problems: &mut Vec<Problem>,
) -> BreakerConfig {
    let mut own = Vec::new();
    let config = breaker(
        &written.clone().over(settings.breaker_defaults.clone()),
        adaptive,
        path,
        &mut own,
    );
    own.retain(|new| {
        !problems
            .iter()
            .any(|known| known.source == new.source && known.message == new.message)
    });
    problems.append(&mut own);
    config
}

fn breaker(
    written: &BreakerSettings,
    adaptive: bool,
    path: &str,
    problems: &mut Vec<Problem>,
) -> BreakerConfig {
    let base = BreakerPolicy::default();
    let mut length = |set, key: &str, otherwise: Duration| {
        seconds(
            set,
            &format!("{path}.{key}"),
            otherwise.as_secs_f64(),
            problems,
        )
    };
    let policy = BreakerPolicy {
        fail_max: value(&written.fail_max, base.fail_max),
        reset: length(&written.reset_timeout_s, "reset_timeout_s", base.reset),
        reset_ceiling: length(
            &written.reset_ceiling_s,
            "reset_ceiling_s",
            base.reset_ceiling,
        ),
        retry_after_cap: length(
            &written.retry_after_cap_s,
            "retry_after_cap_s",
            base.retry_after_cap,
        ),
        window: None,
        trial_calls: [
            value(&written.trial_calls.metadata, 1),
            value(&written.trial_calls.landing, 1),
            value(&written.trial_calls.artifact, 2),
        ],
        jitter: Duration::from_millis(value(&written.jitter_ms, 150)),
        throttle_block: written.throttle_block_s.is_some().then(|| {
            length(
                &written.throttle_block_s,
                "throttle_block_s",
                Duration::ZERO,
            )
        }),
        one_failure_per_epoch: adaptive,
        shadow: value(&written.shadow, false),
    };
    let own_trials = [
        &written.roles.metadata,
        &written.roles.landing,
        &written.roles.artifact,
    ];
    let mut trial_calls = policy.trial_calls;
    for (trials, own) in trial_calls.iter_mut().zip(own_trials) {
        *trials = value(&own.trial_calls, *trials);
    }
    let policy = BreakerPolicy {
        window: rolling(written, policy.reset, path, problems),
        trial_calls,
        ..policy
    };
    let own = |role: &RoleBreakerSettings, name: &str, problems: &mut Vec<Problem>| {
        (role.fail_max.is_some() || role.reset_timeout_s.is_some()).then(|| {
            let reset = seconds(
                &role.reset_timeout_s,
                &format!("{path}.roles.{name}.reset_timeout_s"),
                policy.reset.as_secs_f64(),
                problems,
            );
            Arc::new(BreakerPolicy {
                fail_max: value(&role.fail_max, policy.fail_max),
                reset,
                ..policy.clone()
            })
        })
    };
    let roles = [
        own(&written.roles.metadata, "metadata", problems),
        own(&written.roles.landing, "landing", problems),
        own(&written.roles.artifact, "artifact", problems),
    ];
    let defaults = Classifier::default();
    let classifier = Classifier {
        failure: written.classify.failure.clone().map(|set| set.value.0),
        neutral: written
            .classify
            .neutral
            .clone()
            .map_or(defaults.neutral, |set| set.value.0),
        count_408: value(&written.classify.count_408, false),
    };
    BreakerConfig {
        policy: Arc::new(policy),
        roles,
        classifier: Arc::new(classifier),
    }
}

fn rolling(
    written: &BreakerSettings,
    reset: Duration,
    path: &str,
    problems: &mut Vec<Problem>,
) -> Option<RollingWindow> {
    let window = &written.window;
    match (
        &window.threshold_failures,
        &window.window_s,
        &window.cooldown_s,
    ) {
        (None, None, None) => None,
        (Some(threshold), Some(within), cooldown) => Some(RollingWindow {
            threshold_failures: threshold.value,
            within: Duration::from_secs(within.value.get().into()),
            cooldown: cooldown.as_ref().map_or(reset, |cooldown| {
                Duration::from_secs(cooldown.value.get().into())
            }),
        }),
        (threshold, within, cooldown) => {
            let source = [threshold, within, cooldown]
                .into_iter()
                .flatten()
                .next()
                .map_or(Source::Default, |set| set.source.clone());
            let message = "threshold_failures and window_s belong together: give both".to_owned();
            problems.push(Problem {
                source,
                key: format!("{path}.window"),
                message,
                suggestion: None,
            });
            None
        }
    }
}

fn sites(settings: &Settings, problems: &mut Vec<Problem>) -> Vec<SiteConfig> {
    let mut owner: HashMap<Host, String> = HashMap::new();
    let mut sites = Vec::new();
    for (name, site) in &settings.sites {
        let Some(hosts) = &site.hosts else { continue };
        for host in &hosts.value.0 {
            if let Some(other) = owner.insert(host.clone(), name.clone()) {
                let message =
                    format!("{host} belongs to the site {other} already; a host has one site");
                problems.push(Problem {
                    source: hosts.source.clone(),
                    key: format!("sites.{name}.hosts"),
                    message,
                    suggestion: None,
                });
            }
        }
        let common = (site.common.rates.is_some() || site.common.max_concurrent.is_some())
            .then(|| budget(&site.common));
        sites.push(SiteConfig {
            name: Arc::from(name.as_str()),
            hosts: hosts.value.0.clone(),
            common,
        });
    }
    sites
}

fn transport(written: &TransportSettings, problems: &mut Vec<Problem>) -> TransportConfig {
    let mut length =
        |set, key: &str, otherwise| seconds(set, &format!("transport.{key}"), otherwise, problems);
    let deadline = length(&written.deadline_s, "deadline_s", 120.0);
    TransportConfig {
        connect_timeout: length(&written.connect_timeout_s, "connect_timeout_s", 10.0),
        header_timeout: length(&written.header_timeout_s, "header_timeout_s", 30.0),
        idle_timeout: length(&written.idle_timeout_s, "idle_timeout_s", 30.0),
        min_throughput: value(&written.min_throughput_bytes_s, 64),
        throughput_window: length(&written.throughput_window_s, "throughput_window_s", 30.0),
        consumer_timeout: length(&written.consumer_timeout_s, "consumer_timeout_s", 60.0),
        max_body: value(&written.max_body_bytes, 64 << 20),
        max_file: value(&written.max_file_bytes, 16 << 30),
        max_decode_ratio: u64::from(
            written
                .max_decode_ratio
                .as_ref()
                .map_or(200, |set| set.value.get()),
        ),
        max_redirects: value(&written.max_redirects, 10),
        allow_downgrade: value(&written.allow_downgrade, false),
        allow_internal: value(&written.allow_internal, false),
        deadline: (!deadline.is_zero()).then_some(deadline),
        durability: value(&written.durability, Durability::Batched),
    }
}

fn telemetry(written: &TelemetrySettings) -> TelemetryConfig {
    let file = |set: &Option<Sourced<String>>| set.as_ref().map(|set| PathBuf::from(&set.value));
    let days = value(&written.keep_days, 30);
    TelemetryConfig {
        enabled: value(&written.enabled, true),
        sqlite: match &written.sqlite {
            None => Place::Usual,
            Some(set) if set.value.eq_ignore_ascii_case("off") => Place::Off,
            Some(set) => Place::File(PathBuf::from(&set.value)),
        },
        jsonl: file(&written.jsonl),
        jsonl_rotate: u64::from(
            written
                .jsonl_rotate_mb
                .as_ref()
                .map_or(64, |set| set.value.get()),
        ) << 20,
        jsonl_keep: value(&written.jsonl_keep, 5),
        textfile: file(&written.prometheus_textfile),
        keep: (days > 0).then(|| Duration::from_secs(u64::from(days) * 86_400)),
        queue: written
            .queue
            .as_ref()
            .map_or(262_144, |set| set.value.get()) as usize,
    }
}

fn identity(settings: &Settings, problems: &mut Vec<Problem>) -> Identity {
    let mut text =
        |set: &Option<Sourced<String>>, key: &str, right: fn(&str) -> bool, form: &str| {
            let set = set.as_ref()?;
            if !right(&set.value)
                || set
                    .value
                    .chars()
                    .any(|c| c.is_control() || matches!(c, '(' | ')' | ';'))
            {
                let message = format!("'{}' is not {form}", set.value);
                problems.push(Problem {
                    source: set.source.clone(),
                    key: format!("identity.{key}"),
                    message,
                    suggestion: None,
                });
            }
            Some(set.value.clone())
        };
    Identity {
        mailto: text(
            &settings.identity.mailto,
            "mailto",
            |text| {
                text.is_ascii()
                    && text
                        .split_once('@')
                        .is_some_and(|(user, host)| !user.is_empty() && host.contains('.'))
            },
            "an e-mail address",
        ),
        url: text(
            &settings.identity.url,
            "url",
            |text| text.is_ascii() && (text.starts_with("https://") || text.starts_with("http://")),
            "an http or https URL",
        ),
        contact: match text(
            &settings.identity.contact,
            "contact",
            |text| matches!(text, "services" | "everywhere"),
            "services or everywhere",
        )
        .as_deref()
        {
            Some("everywhere") => Contact::Everywhere,
            _ => Contact::Services,
        },
    }
}
