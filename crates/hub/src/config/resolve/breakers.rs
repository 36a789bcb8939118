//! Resolution of the `breakers` section: each host and resolver gets its policy and classifier.

use std::sync::Arc;
use std::time::Duration;

use docstokg_config::{ByName, ConfigProblem, NamedSections, Section, SourcedValue, ValueSource};
use docstokg_policy::breaker::{BreakerPolicy, RollingWindow};
use docstokg_policy::classify::Classifier;

use super::limits::breaker_backend;
use super::seconds;
use crate::config::settings::{
    BreakerSettings, BreakersSettings, ClassifySettings, ResolverOverrideSettings,
    RoleBreakerSettings, RoleBreakersSettings, Settings, TrialSettings,
};
use crate::config::{BreakerConfig, BreakersConfig};

/// Maximum value of `jitter_ms`, in milliseconds. A longer delay is not needed, because it only
/// separates the probes of several processes.
const MAX_JITTER_MS: u64 = 1_000;

/// Resolves the `breakers` section to a [`BreakersConfig`].
pub(super) fn breakers(settings: &Settings, problems: &mut Vec<ConfigProblem>) -> BreakersConfig {
    let written = &settings.breakers;
    let defaults = &written.defaults;
    BreakersConfig {
        defaults: breaker(defaults, "breakers.defaults", problems),
        backend: breaker_backend(settings, problems),
        hosts: written
            .hosts
            .iter()
            .map(|(host, own)| {
                let path = format!("breakers.hosts.{host}");
                let own = own.clone().over(defaults.clone());
                (host.clone(), own_breaker(&own, &path, problems))
            })
            .collect(),
        resolvers: resolvers(written, problems)
            .iter()
            .map(|(name, own)| {
                let path = format!("breakers.resolvers.{name}");
                let own = own.clone().over(defaults.clone());
                let breaker = own_breaker(&own, &path, problems);
                (Arc::from(name.as_str()), breaker)
            })
            .collect(),
    }
}

/// Resolves the breakers of resolvers. A key in a resolver's own entry takes precedence over the
/// same key in the entry of a host, and that over the defaults.
fn resolvers(
    written: &BreakersSettings,
    problems: &mut Vec<ConfigProblem>,
) -> NamedSections<ByName, BreakerSettings> {
    let mut complain = |path: String, set: &ResolverOverrideSettings, message: &str| {
        problems.push(ConfigProblem::new(&set.source(), path, message));
    };
    let mut of_hosts: Vec<(String, BreakerSettings)> = Vec::new();
    for (host, own) in &written.hosts {
        for (name, set) in &own.resolver_overrides {
            if of_hosts.iter().any(|(known, _)| known == name) {
                let path = format!("breakers.hosts.{host}.resolver_overrides.{name}");
                let message = "a resolver has one breaker, and another host sets it already: \
                               write it once, in breakers.resolvers";
                complain(path, set, message);
            } else {
                of_hosts.push((name.clone(), set.breaker()));
            }
        }
    }
    for (resolver, own) in &written.resolvers {
        if let Some((name, set)) = own.resolver_overrides.iter().next() {
            let path = format!("breakers.resolvers.{resolver}.resolver_overrides.{name}");
            complain(path, set, "a resolver has no resolvers: remove this");
        }
    }
    let of_defaults = (written.defaults.resolver_overrides.iter())
        .map(|(name, set)| (name.clone(), set.breaker()))
        .collect();
    let of_hosts: NamedSections<ByName, _> = NamedSections(of_hosts);
    let below = of_hosts.over(NamedSections(of_defaults));
    written.resolvers.clone().over(below)
}

/// Resolves the breaker of a host or resolver: its own keys over the defaults. Problems of the
/// defaults are not reported here again.
fn own_breaker(
    merged: &BreakerSettings,
    path: &str,
    problems: &mut Vec<ConfigProblem>,
) -> BreakerConfig {
    let mut own = Vec::new();
    let config = breaker(merged, path, &mut own);
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
    path: &str,
    problems: &mut Vec<ConfigProblem>,
) -> BreakerConfig {
    let policy = policy(written, path, problems);
    let roles = &written.roles;
    let roles = [
        (&roles.metadata, "metadata"),
        (&roles.landing, "landing"),
        (&roles.artifact, "artifact"),
    ];
    BreakerConfig {
        roles: roles.map(|(role, name)| {
            let path = format!("{path}.roles.{name}");
            role_policy(role, &policy, &path, problems).map(Arc::new)
        }),
        policy: Arc::new(policy),
        classifier: Arc::new(classifier(&written.classify, path, problems)),
    }
}

fn policy(
    written: &BreakerSettings,
    path: &str,
    problems: &mut Vec<ConfigProblem>,
) -> BreakerPolicy {
    let jitter_ms = written.jitter_ms();
    if jitter_ms.value > MAX_JITTER_MS {
        let message = format!(
            "{} is more than {MAX_JITTER_MS}; it only keeps probes of several processes \
             apart, and reset_timeout_s says how long a host is left alone",
            jitter_ms.value
        );
        problems.push(ConfigProblem::new(
            &jitter_ms.source,
            format!("{path}.jitter_ms"),
            message,
        ));
    }
    let mut length =
        |set: &SourcedValue<f64>, key: &str| seconds(set, &format!("{path}.{key}"), problems);
    let policy = BreakerPolicy {
        fail_max: written.fail_max().value,
        reset: length(&written.reset_timeout_s(), "reset_timeout_s"),
        reset_ceiling: length(&written.reset_ceiling_s(), "reset_ceiling_s"),
        retry_after_cap: length(&written.retry_after_cap_s(), "retry_after_cap_s"),
        window: None,
        trial_calls: trial_calls(&written.trial_calls, &written.roles),
        jitter: Duration::from_millis(jitter_ms.value),
        throttle_block: (written.throttle_block_s.as_ref())
            .map(|set| length(set, "throttle_block_s")),
        one_failure_per_epoch: BreakerPolicy::default().one_failure_per_epoch,
        early_probes: written.early_probes().value,
        shadow: written.shadow().value,
    };
    BreakerPolicy {
        window: rolling(written, policy.reset, path, problems),
        ..policy
    }
}

/// Returns for each role the maximum number of probes at once. A role's own number takes precedence
/// over the common one.
fn trial_calls(common: &TrialSettings, roles: &RoleBreakersSettings) -> [u32; 3] {
    [
        (&roles.metadata, common.metadata()),
        (&roles.landing, common.landing()),
        (&roles.artifact, common.artifact()),
    ]
    .map(|(own, common)| own.trial_calls.as_ref().unwrap_or(&common).value.get())
}

/// Returns the [`BreakerPolicy`] of a role that counts its own failures; `None` if no key demands
/// that.
fn role_policy(
    role: &RoleBreakerSettings,
    policy: &BreakerPolicy,
    path: &str,
    problems: &mut Vec<ConfigProblem>,
) -> Option<BreakerPolicy> {
    if role.fail_max.is_none() && role.reset_timeout_s.is_none() {
        return None;
    }
    let key = format!("{path}.reset_timeout_s");
    let reset = role.reset_timeout_s.as_ref();
    Some(BreakerPolicy {
        fail_max: (role.fail_max.as_ref()).map_or(policy.fail_max, |set| set.value),
        reset: reset.map_or(policy.reset, |set| seconds(set, &key, problems)),
        ..policy.clone()
    })
}

fn classifier(
    written: &ClassifySettings,
    path: &str,
    problems: &mut Vec<ConfigProblem>,
) -> Classifier {
    Classifier {
        failure: written.failure.clone().map(|set| set.value.0),
        neutral: neutral(written, path, problems),
        count_408: written.count_408().value,
        throttled: written
            .throttled
            .clone()
            .map_or_else(Vec::new, |set| set.value.0),
        slow_call: written
            .slow_call_ms
            .as_ref()
            .map(|set| Duration::from_millis(set.value)),
    }
}

/// Returns the neutral statuses. A default one that the user lists as a failure is left out. A
/// status that the user lists as both is a problem.
fn neutral(written: &ClassifySettings, path: &str, problems: &mut Vec<ConfigProblem>) -> Vec<u16> {
    let neutral = written.neutral();
    let mut statuses = neutral.value.0;
    let Some(failure) = &written.failure else {
        return statuses;
    };
    let is_failure = |status: &u16| failure.value.0.contains(status);
    let both: Vec<String> = statuses
        .iter()
        .filter(|status| is_failure(status))
        .map(ToString::to_string)
        .collect();
    if neutral.source.is_written() && !both.is_empty() {
        let message = format!(
            "{} is in classify.failure, too ({}); remove it from one",
            both.join(", "),
            failure.source
        );
        let key = format!("{path}.classify.neutral");
        problems.push(ConfigProblem::new(&neutral.source, key, message));
    } else {
        statuses.retain(|status| !is_failure(status));
    }
    statuses
}

fn rolling(
    written: &BreakerSettings,
    reset: Duration,
    path: &str,
    problems: &mut Vec<ConfigProblem>,
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
                .map_or(ValueSource::Default, |set| set.source.clone());
            let message = "threshold_failures and window_s belong together: give both";
            problems.push(ConfigProblem::new(
                &source,
                format!("{path}.window"),
                message,
            ));
            None
        }
    }
}
