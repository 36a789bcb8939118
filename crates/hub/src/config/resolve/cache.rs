//! Resolution of the `cache` section.

use std::time::Duration;

use docstokg_config::{ConfigProblem, Section, SourcedValue};
use docstokg_policy::freshness::Overrides;
use docstokg_policy::role::Role;

use super::seconds;
use crate::config::settings::{CacheHostSettings, CacheRuleSettings, CacheSettings};
use crate::config::{CacheAccess, CacheConfig, CacheRules};

pub(super) fn cache(written: &CacheSettings, problems: &mut Vec<ConfigProblem>) -> CacheConfig {
    let defaults = by_role(&written.defaults, "cache.defaults", problems);
    let mut host = |(name, own): &(docstokg_policy::host::Host, CacheHostSettings)| {
        let own = own.clone().over(written.defaults.clone());
        let rules = by_role(&own, &format!("cache.hosts.{name}"), problems);
        (name.clone(), rules)
    };
    CacheConfig {
        hosts: written.hosts.iter().map(&mut host).collect(),
        enabled: written.enabled().value,
        directory: written
            .directory
            .as_ref()
            .map(|set| set.value.clone().into()),
        max_bytes: written.max_bytes().value,
        memory_bytes: written.memory_bytes().value,
        background: written.background().value.get() as usize,
        access: CacheAccess::Normal,
        defaults,
    }
}

/// Returns the [`CacheRules`] of each role: its own keys take precedence over those of all roles.
fn by_role(
    written: &CacheHostSettings,
    key: &str,
    problems: &mut Vec<ConfigProblem>,
) -> [CacheRules; 3] {
    Role::ALL.map(|role| {
        let own = match role {
            Role::Metadata => &written.metadata,
            Role::Landing => &written.landing,
            // Files are not cached.
            Role::Artifact => return CacheRules::default(),
        };
        rules(&own.clone().over(written.all.clone()), key, problems)
    })
}

fn rules(written: &CacheRuleSettings, key: &str, problems: &mut Vec<ConfigProblem>) -> CacheRules {
    let mut length = |set: &Option<SourcedValue<f64>>, name: &str| -> Option<Duration> {
        Some(seconds(set.as_ref()?, &format!("{key}.{name}"), problems))
    };
    CacheRules {
        overrides: Overrides {
            ttl: length(&written.ttl_s, "ttl_s"),
            negative_ttl: length(&written.negative_ttl_s, "negative_ttl_s"),
            stale_if_error: length(&written.stale_if_error_s, "stale_if_error_s"),
            bypass: written.bypass.as_ref().is_some_and(|set| set.value),
        },
        lookups: written.lookups.as_ref().map(|set| set.value.clone()),
    }
}
