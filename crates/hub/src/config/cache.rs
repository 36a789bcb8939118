//! The `cache` section, resolved: what is stored, where, and which lifetimes the operator adds.

use std::collections::HashMap;
use std::path::PathBuf;

use docstokg_policy::freshness::{CacheMode, FreshnessRules, Overrides};
use docstokg_policy::host::Host;
use docstokg_policy::role::Role;
use url::Url;

use super::values::{LookUp, LookUps};

/// Parameters that mark a page of a list. What is on a page changes with every new record.
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

/// The `cache` section.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheConfig {
    /// Whether answers are stored and reused.
    pub enabled: bool,
    /// Where, if that is set.
    pub directory: Option<PathBuf>,
    /// The most bytes that stored answers take.
    pub max_bytes: u64,
    /// The most bytes of them that a process keeps in memory.
    pub memory_bytes: u64,
    /// How many stale answers are validated in the background at once.
    pub background: usize,
    /// How requests use the cache, unless they say otherwise.
    pub access: CacheAccess,
    /// What holds for hosts without an entry, by role.
    pub defaults: [CacheRules; 3],
    /// What holds for known hosts, by role.
    pub hosts: HashMap<Host, [CacheRules; 3]>,
}

/// How a request uses the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheAccess {
    /// Stored answers that are fresh answer it, and its answer is stored.
    #[default]
    Normal,
    /// As that, but stored errors (404 and the like) do not answer it.
    SkipErrors,
    /// The origin is asked, and its answer is stored.
    Refresh,
    /// The cache is not used.
    Bypass,
    /// Only the cache is used, stale answers included: nothing is sent.
    Offline,
}

/// What the operator adds to what an origin states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheRules {
    /// Lifetimes, and whether the cache is used.
    pub overrides: Overrides,
    /// The look-ups that the lifetimes hold for; `None` for all but pages of a list.
    pub lookups: Option<LookUps>,
}

impl CacheConfig {
    /// Returns the rules for a URL and role. Files are not cached: their downloads keep validators
    /// of their own.
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
    /// Says whether the lifetimes hold for a URL.
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

/// Says whether a URL is a page of a list. The first page by number is not distinguished from a look-up.
fn is_page(url: &Url) -> bool {
    url.query_pairs().any(|(name, value)| {
        let is_first = name.eq_ignore_ascii_case("page") && value == "1";
        !is_first && PAGE_PARAMETERS.contains(&name.to_ascii_lowercase().as_str())
    })
}
