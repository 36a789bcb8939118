//! The resolved `cache` section: its store, and the lifetimes that the operator adds.

use std::collections::HashMap;
use std::path::PathBuf;

use docstokg_policy::freshness::{CacheMode, FreshnessRules, Overrides};
use docstokg_policy::host::Host;
use docstokg_policy::role::Role;
use url::Url;

use super::values::{LookUp, LookUps};

/// Query parameters that mark a page of a list. The content of pages changes with every new record.
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
    /// The directory of the store, if one is configured.
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

/// The use of the cache by a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheAccess {
    /// Fresh stored responses serve the request, and a new response is stored.
    #[default]
    Normal,
    /// The same as [`CacheAccess::Normal`], but stored errors such as 404 do not serve the request.
    SkipErrors,
    /// The request is sent to the origin, and its response is stored.
    Refresh,
    /// The cache is not used.
    Bypass,
    /// Only the cache is used, stale responses included: nothing is sent.
    Offline,
}

/// The rules that the operator adds to the declarations of an origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheRules {
    /// The [`Overrides`]: added lifetimes, and the choice to bypass the cache.
    pub overrides: Overrides,
    /// The [`LookUps`] that the lifetimes apply to, or `None` for all URLs. Pages of a list are
    /// always excluded.
    pub lookups: Option<LookUps>,
}

impl CacheConfig {
    /// Returns the [`FreshnessRules`] for a URL and role. Files are not cached, because downloads
    /// keep their own validators.
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
    /// Returns whether the lifetimes apply to a URL.
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

/// Returns whether a URL is a page of a list. Page number 1 counts as a look-up instead.
fn is_page(url: &Url) -> bool {
    url.query_pairs().any(|(name, value)| {
        let is_first = name.eq_ignore_ascii_case("page") && value == "1";
        !is_first && PAGE_PARAMETERS.contains(&name.to_ascii_lowercase().as_str())
    })
}
