//! The effective configuration as tables and JSON.

use std::collections::BTreeMap;

use docstokg_policy::host::Host;
use docstokg_policy::rate::format_rates;
use docstokg_policy::role::Role;
use serde_json::{Value as Json, json};

use docstokg_stores::redis::without_password;

use super::keys::Described;
use super::settings::{BackendSettings, Settings};
use super::{Config, RoleLimits};

/// One row of the table of limits.
#[derive(Clone, Debug)]
pub struct LimitRow {
    /// The host, or `*` for all others.
    pub host: String,
    /// The role.
    pub role: Role,
    /// Rates, waits and concurrency, each with its source.
    pub limits: RoleLimits,
}

/// Returns the effective limits: the defaults first, then each known host, by name.
#[must_use]
pub fn limit_rows(config: &Config, only: Option<&Host>) -> Vec<LimitRow> {
    let row = |host: &str, role: Role, limits: &RoleLimits| LimitRow {
        host: host.to_owned(),
        role,
        limits: limits.clone(),
    };
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
            says_something(
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

/// Writes rates for a person; none at all is `unlimited`.
#[must_use]
pub fn rates_text(limits: &RoleLimits) -> String {
    if limits.rates.value.is_empty() {
        "unlimited".to_owned()
    } else {
        format_rates(&limits.rates.value)
    }
}

/// Returns the merged settings as JSON, secrets left out.
#[must_use]
pub fn settings_json(settings: &Settings) -> Json {
    let hosts: serde_json::Map<String, Json> = settings
        .hosts
        .iter()
        .map(|(host, limits)| {
            let mut shown = roles_json(&limits.roles);
            let kinds: serde_json::Map<String, Json> = limits
                .kinds
                .iter()
                .map(|(name, kind)| (name.clone(), kind.show()))
                .collect();
            if !kinds.is_empty() {
                shown.insert("kinds".to_owned(), Json::Object(kinds));
            }
            (host.to_string(), Json::Object(shown))
        })
        .collect();
    let named = |list: Vec<(String, Json)>| Json::Object(list.into_iter().collect());
    let backend = store_json(&settings.backend);
    json!({
        "version": 1,
        "limits": {
            "defaults": roles_json(&settings.defaults),
            "hosts": hosts,
            "backend": backend,
            "aimd": settings.aimd.show(),
            "global": settings.global.show(),
            "services": named(settings.services.iter().map(|(name, budget)| (name.clone(), budget.show())).collect()),
        },
        "breakers": {
            "defaults": settings.breaker_defaults.show(),
            "hosts": named(settings.breaker_hosts.iter().map(|(host, breaker)| (host.to_string(), breaker.show())).collect()),
            "resolvers": named(settings.breaker_resolvers.iter().map(|(name, breaker)| (name.clone(), breaker.show())).collect()),
            "cooldown_store": store_json(&settings.cooldown_store),
        },
        "sites": named(settings.sites.iter().map(|(name, site)| (name.clone(), site.show())).collect()),
        "retry": settings.retry.show(),
        "transport": settings.transport.show(),
        "identity": settings.identity.show(),
        "telemetry": settings.telemetry.show(),
        "resolvers": settings.resolvers.show(),
    })
}

fn store_json(store: &BackendSettings) -> Json {
    let mut shown = store.show();
    if let Some(dsn) = shown.get_mut("dsn") {
        *dsn = json!(without_password(dsn.as_str().unwrap_or_default()));
    }
    shown
}

fn roles_json(roles: &[super::settings::RoleSettings; 3]) -> serde_json::Map<String, Json> {
    let shown = Role::ALL
        .into_iter()
        .map(|role| (role.as_str().to_owned(), roles[role.index()].show()));
    shown
        .filter(|(_, json)| json.as_object().is_some_and(|map| !map.is_empty()))
        .collect()
}
