//! A file that holds a single section, as `ratelimits.yaml` and `breakers.yaml` do: which one it
//! is.

use docstokg_config::Node;
use docstokg_config::node::Value;

/// A section that may stand in a file of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SectionFile {
    Limits,
    Breakers,
}

/// The keys of a whole configuration: a file with one of them is one.
const WHOLE: [&str; 8] = [
    "limits",
    "breakers",
    "sites",
    "retry",
    "transport",
    "identity",
    "telemetry",
    "cache",
];
/// Keys that only a `limits` section has, and keys that only a `breakers` section has.
const OF_LIMITS: [&str; 3] = ["backend", "aimd", "global"];
const OF_BREAKERS: [&str; 2] = ["resolver_overrides", "cooldown_store"];
/// The same, one level deeper: below `defaults`, and below each host.
const ROLES: [&str; 3] = ["metadata", "landing", "artifact"];
const OF_BREAKER: [&str; 11] = [
    "fail_max",
    "reset_timeout_s",
    "reset_ceiling_s",
    "retry_after_cap_s",
    "window",
    "trial_calls",
    "jitter_ms",
    "classify",
    "shadow",
    "roles",
    "resolver_overrides",
];

impl SectionFile {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Limits => "limits",
            Self::Breakers => "breakers",
        }
    }

    /// Recognises the section that a file holds without its name; `None` for a whole configuration.
    pub(super) fn of(node: &Node) -> Option<Self> {
        let keys = keys(node);
        if keys.iter().any(|key| WHOLE.contains(key)) {
            return None;
        }
        let below: Vec<&str> = value(node, "defaults").map(self::keys).unwrap_or_default();
        let hosts = value(node, "hosts").map(values).unwrap_or_default();
        let of_hosts: Vec<&str> = hosts.into_iter().flat_map(self::keys).collect();
        let has = |keys: &[&str], own: &[&str]| keys.iter().any(|key| own.contains(key));
        let limits = has(&keys, &OF_LIMITS) || has(&below, &ROLES) || has(&of_hosts, &ROLES);
        let breakers =
            has(&keys, &OF_BREAKERS) || has(&below, &OF_BREAKER) || has(&of_hosts, &OF_BREAKER);
        match (limits, breakers) {
            (true, false) => Some(Self::Limits),
            (false, true) => Some(Self::Breakers),
            _ => None,
        }
    }
}

fn keys(node: &Node) -> Vec<&str> {
    match &node.value {
        Value::Map(entries) => entries.iter().map(|entry| entry.key.as_str()).collect(),
        _ => Vec::new(),
    }
}

fn values(node: &Node) -> Vec<&Node> {
    match &node.value {
        Value::Map(entries) => entries.iter().map(|entry| &entry.node).collect(),
        _ => Vec::new(),
    }
}

fn value<'a>(node: &'a Node, key: &str) -> Option<&'a Node> {
    match &node.value {
        Value::Map(entries) => entries
            .iter()
            .find(|entry| entry.key == key)
            .map(|entry| &entry.node),
        _ => None,
    }
}
