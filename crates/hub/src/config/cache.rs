//! The resolved `cache` section: the store of the cache, and the lifetimes that the operator adds.

use std::collections::HashMap;
use std::path::PathBuf;

use docstokg_policy::freshness::{CacheMode, FreshnessRules, Overrides};
use docstokg_policy::host::Host;
use docstokg_policy::role::Role;
use url::Url;

use super::values::{LookUp, LookUps};

/// Query parameters that mark a page of a list. Such pages get no added lifetime, because their
/// content changes with every new record.
const PAGE_PARAMETERS: [&str; 9] = [
    "cursor",
    "cursormark",
    "resumptiontoken",
    "continuation-token",
    "continuationtoken",
    "offset",
    "start",
    "page",
    "page_token",
];

/// The resolved `cache` section, as [`CacheSettings`](crate::config::settings::CacheSettings)
/// declares it.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheConfig {
    /// `true` if responses are stored and reused.
    pub enabled: bool,
    /// The directory of the store; `None` if none is configured.
    pub directory: Option<PathBuf>,
    /// Maximum size of all stored responses, in bytes.
    pub max_bytes: u64,
    /// Maximum size of the responses that a process keeps in memory, in bytes.
    pub memory_bytes: u64,
    /// Maximum number of stale responses that are validated in the background at once.
    pub background: usize,
    /// The [`CacheAccess`] of requests that do not choose their own.
    pub access: CacheAccess,
    /// The [`CacheRules`] of hosts without an entry, by role.
    pub defaults: [CacheRules; 3],
    /// The [`CacheRules`] of hosts with an entry, by role.
    pub hosts: HashMap<Host, [CacheRules; 3]>,
}

/// The way in which a request uses the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheAccess {
    /// A fresh stored response is returned if there is one. Otherwise the request is sent, and its
    /// response is stored.
    #[default]
    Normal,
    /// Like [`CacheAccess::Normal`], but a stored error such as 404 is not returned.
    SkipErrors,
    /// The request is sent to the origin, and its response is stored.
    Refresh,
    /// The cache is not used.
    Bypass,
    /// Only a stored response is returned, even a stale one. The request is never sent.
    Offline,
}

/// The rules that the operator adds to those that an origin declares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheRules {
    /// The [`Overrides`]: added lifetimes, or bypassing the cache.
    pub overrides: Overrides,
    /// The [`LookUps`] that the added lifetimes are for; `None` for all URLs. Pages of a list are
    /// always excluded.
    pub lookups: Option<LookUps>,
}

impl CacheConfig {
    /// Returns the [`FreshnessRules`] for a URL and role. Files are not cached, because downloads
    /// keep validators of their own.
    #[must_use]
    pub fn rules(&self, host: &Host, role: Role, url: &Url) -> FreshnessRules {
        let own = self.hosts.get(host).unwrap_or(&self.defaults);
        let own = &own[role.index()];
        let mut rules = FreshnessRules::new(CacheMode::Private);
        rules.overrides = own.overrides;
        rules.overrides.bypass |= role == Role::Artifact;
        let adds_lifetime = own.overrides.ttl.is_some() || own.overrides.negative_ttl.is_some();
        if adds_lifetime && !own.are_for(url) {
            rules.overrides.ttl = None;
            rules.overrides.negative_ttl = None;
        }
        rules
    }
}

impl CacheRules {
    /// Returns whether the added lifetimes are for a URL.
    fn are_for(&self, url: &Url) -> bool {
        let is_named = self
            .lookups
            .as_ref()
            .is_none_or(|lookups| lookups.0.iter().any(|lookup| lookup.names(url)));
        is_named && !is_page(url)
    }
}

impl LookUp {
    fn names(&self, url: &Url) -> bool {
        url.path().starts_with(&self.path)
            && self.parameter.as_ref().is_none_or(|(name, value)| {
                url.query_pairs()
                    .any(|(own, set)| own == name.as_str() && set.starts_with(value.as_str()))
            })
    }
}

/// Returns whether a URL is a page of a list. Page number 1 is not, but counts as a look-up.
fn is_page(url: &Url) -> bool {
    url.query_pairs().any(|(name, value)| {
        let is_first = name.eq_ignore_ascii_case("page") && value == "1";
        !is_first && PAGE_PARAMETERS.contains(&name.to_ascii_lowercase().as_str())
    })
}
