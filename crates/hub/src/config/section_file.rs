//! Recognition of files with a single section, such as `ratelimits.yaml` and `breakers.yaml`.

use docstokg_config::node::ConfigValue;
use docstokg_config::{ConfigNode, Section};
use serde_json::Value as Json;

use super::settings::{BreakerSettings, BreakersSettings, HostSettings, LimitsSettings};

/// A section that may be the whole content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SectionFile {
    Limits,
    Breakers,
}

impl SectionFile {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Limits => "limits",
            Self::Breakers => "breakers",
        }
    }

    /// Returns the section that a file contains without its name, or `None` for a whole
    /// configuration with the sections `T`.
    pub(super) fn of<T: Section>(node: &ConfigNode) -> Option<Self> {
        let sections = declared::<T>();
        let limits = declared::<LimitsSettings>();
        let breakers = declared::<BreakersSettings>();
        let keys = keys(node);
        // `resolvers` is both a section and a key of `breakers`, so it does not show which of the
        // two the file is.
        let any = |own: &Json, others: [&Json; 2]| {
            let is_own = |key: &&str| has(own, key) && !others.iter().any(|other| has(other, key));
            keys.iter().any(is_own)
        };
        if any(&sections, [&limits, &breakers]) {
            return None;
        }
        let hosts = value(node, "hosts").map(values).unwrap_or_default();
        let of_hosts = hosts.into_iter().flat_map(self::keys);
        let of_defaults = value(node, "defaults").into_iter().flat_map(self::keys);
        let below: Vec<&str> = of_hosts.chain(of_defaults).collect();
        let (of_limits, of_breakers) = (declared::<HostSettings>(), declared::<BreakerSettings>());
        let is_limits =
            any(&limits, [&sections, &breakers]) || below.iter().any(|key| has(&of_limits, key));
        let is_breakers =
            any(&breakers, [&sections, &limits]) || below.iter().any(|key| has(&of_breakers, key));
        match (is_limits, is_breakers) {
            (true, false) => Some(Self::Limits),
            (false, true) => Some(Self::Breakers),
            _ => None,
        }
    }
}

/// Returns the keys that a section declares, with their JSON schemas.
fn declared<T: Section>() -> Json {
    T::schema()["properties"].take()
}

fn has(declared: &Json, key: &str) -> bool {
    declared.get(key).is_some()
}

fn keys(node: &ConfigNode) -> Vec<&str> {
    match &node.value {
        ConfigValue::Map(entries) => entries.iter().map(|entry| entry.key.as_str()).collect(),
        _ => Vec::new(),
    }
}

fn values(node: &ConfigNode) -> Vec<&ConfigNode> {
    match &node.value {
        ConfigValue::Map(entries) => entries.iter().map(|entry| &entry.node).collect(),
        _ => Vec::new(),
    }
}

fn value<'a>(node: &'a ConfigNode, key: &str) -> Option<&'a ConfigNode> {
    match &node.value {
        ConfigValue::Map(entries) => entries
            .iter()
            .find(|entry| entry.key == key)
            .map(|entry| &entry.node),
        _ => None,
    }
}
