//! The limits that are in force, as a table.

use std::collections::BTreeMap;
use std::sync::Arc;

use docstokg_config::ValueSource;
use docstokg_policy::host::Host;
use docstokg_policy::rate::format_rates;
use docstokg_policy::role::Role;

use super::{BudgetLimits, Config, RoleLimits};

/// Returns a sentence that tells the user how to change the limits of a host and role.
#[must_use]
pub fn change_hint(host: &str, role: Role) -> String {
    format!("to change it: --rate {host}:{role}=rates:RATES, or limits.hosts in the configuration")
}

/// A row of the table of limits, for one host and role.
#[derive(Clone, Debug)]
pub struct LimitRow {
    /// The host, or `*` for all hosts without an entry.
    pub host: String,
    /// The role that the limits apply to.
    pub role: Role,
    /// The [`RoleLimits`]: rates, waits and concurrency, each with its source.
    pub limits: RoleLimits,
    /// The [`BudgetLimits`] of kinds of requests, by the name of the kind. Only rows of the
    /// metadata role have kinds.
    pub kinds: Vec<(Arc<str>, BudgetLimits)>,
    /// Keys whose shipped value for this host applies, although the user's `limits.defaults` set
    /// another value.
    pub over_defaults: Vec<&'static str>,
}

impl LimitRow {
    fn new(host: &str, role: Role, limits: &RoleLimits, config: &Config) -> Self {
        let defaults = by_key(&config.limits.defaults[role.index()]);
        let over_defaults = by_key(limits)
            .into_iter()
            .zip(defaults)
            .filter(|((_, own), (_, of_all))| **own == ValueSource::Shipped && of_all.is_written())
            .map(|((key, _), _)| key)
            .collect();
        Self {
            host: host.to_owned(),
            role,
            limits: limits.clone(),
            kinds: kinds_of(host, role, config),
            over_defaults,
        }
    }

    /// Returns the keys of the row, each with the [`ValueSource`] of its value.
    #[must_use]
    pub fn sources(&self) -> [(&'static str, &ValueSource); 4] {
        by_key(&self.limits)
    }
}

fn kinds_of(host: &str, role: Role, config: &Config) -> Vec<(Arc<str>, BudgetLimits)> {
    let host = Host::parse(host).ok().filter(|_| role == Role::Metadata);
    let limits = host.and_then(|host| config.limits.hosts.get(&host));
    let kinds = limits.into_iter().flat_map(|limits| &limits.kinds);
    let mut kinds: Vec<_> = kinds
        .map(|(name, kind)| (Arc::clone(name), kind.clone()))
        .collect();
    kinds.sort_by(|a, b| a.0.cmp(&b.0));
    kinds
}

fn by_key(limits: &RoleLimits) -> [(&'static str, &ValueSource); 4] {
    [
        ("rates", &limits.rates.source),
        ("max_delay_ms", &limits.max_delay.source),
        ("count_head", &limits.count_head.source),
        ("max_concurrent", &limits.max_concurrent.source),
    ]
}

/// Returns the limits of a [`Config`] that are in force: first the defaults, then those of each
/// known host, sorted by name. If `only` is given, returns the rows of that host alone.
#[must_use]
pub fn limit_rows(config: &Config, only: Option<&Host>) -> Vec<LimitRow> {
    let row = |host: &str, role, limits: &RoleLimits| LimitRow::new(host, role, limits, config);
    if let Some(host) = only {
        return Role::ALL
            .into_iter()
            .map(|role| row(host.as_str(), role, config.limits.of(host, role)))
            .collect();
    }
    let defaults = Role::ALL
        .into_iter()
        .map(|role| row("*", role, &config.limits.defaults[role.index()]));
    let by_name: BTreeMap<_, _> = config.limits.hosts.iter().collect();
    let hosts = by_name.into_iter().flat_map(|(host, limits)| {
        let said = Role::ALL.into_iter().filter(|role| {
            let has_kinds = *role == Role::Metadata && !limits.kinds.is_empty();
            has_kinds
                || says_something(
                    &limits.roles[role.index()],
                    &config.limits.defaults[role.index()],
                )
        });
        said.map(|role| row(host.as_str(), role, &limits.roles[role.index()]))
            .collect::<Vec<_>>()
    });
    defaults.chain(hosts).collect()
}

fn says_something(limits: &RoleLimits, defaults: &RoleLimits) -> bool {
    limits != defaults
}

/// Formats the rates of [`RoleLimits`] for people. An empty list becomes `unlimited`.
#[must_use]
pub fn rates_text(limits: &RoleLimits) -> String {
    if limits.rates.value.is_empty() {
        "unlimited".to_owned()
    } else {
        format_rates(&limits.rates.value)
    }
}
