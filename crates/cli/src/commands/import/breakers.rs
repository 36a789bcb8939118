//! `breakers.yaml`: the policies of hosts and resolvers, with other names for some keys.

use docstokg_config::node::{ConfigValue, MappingEntry};
use docstokg_config::{ConfigNode, ValueSource};

use super::{ImportResult, entries};

/// The status of too many requests. In the other program its Retry-After is obeyed in any case; in
/// this program only if the list of failures contains the status.
const THROTTLED: i128 = 429;

/// Imports the file into an [`ImportResult`].
pub(super) fn import_breakers(imported: &mut ImportResult, file: Vec<MappingEntry>) {
    for entry in file {
        match entry.key.as_str() {
            "version" => {}
            "defaults" => policy(imported, &["breakers", "defaults"], entries(entry.node)),
            group @ ("hosts" | "resolvers") => {
                for named in entries(entry.node) {
                    let path = ["breakers", group, named.key.as_str()];
                    policy(imported, &path, entries(named.node));
                }
            }
            "advanced" => advanced(imported, entries(entry.node)),
            key => imported.put(&["breakers", key], entry.node),
        }
    }
}

/// Imports the policy of one host or resolver, or the default policy.
fn policy(imported: &mut ImportResult, path: &[&str], policy: Vec<MappingEntry>) {
    if policy.is_empty() {
        let (source, value) = (ValueSource::Program, ConfigValue::Null);
        return imported.put(path, ConfigNode { source, value });
    }
    for entry in policy {
        match entry.key.as_str() {
            "classify" => classify(imported, path, entries(entry.node)),
            "half_open" => {
                for entry in entries(entry.node) {
                    imported.put(&[path, &[entry.key.as_str()]].concat(), entry.node);
                }
            }
            "roles" => roles(imported, path, entries(entry.node)),
            key => imported.put(&[path, &[key]].concat(), entry.node),
        }
    }
}

fn classify(imported: &mut ImportResult, path: &[&str], lists: Vec<MappingEntry>) {
    for mut entry in lists {
        let key = match entry.key.as_str() {
            "failure_statuses" => "failure",
            "neutral_statuses" => "neutral",
            other => other,
        };
        if let (true, ConfigValue::List(items)) = (key == "failure", &mut entry.node.value)
            && !items.iter().any(is_throttled)
        {
            let source = entry.source.clone();
            let value = ConfigValue::Int(THROTTLED);
            let key = format!("{}.classify.failure_statuses", path[1..].join("."));
            let why = "429 is added: only a listed status makes a host pause";
            imported.leave_out(&source, &key, why);
            items.push(ConfigNode { source, value });
        }
        imported.put(&[path, &["classify", key]].concat(), entry.node);
    }
}

fn is_throttled(status: &ConfigNode) -> bool {
    matches!(status.value, ConfigValue::Int(THROTTLED))
}

fn roles(imported: &mut ImportResult, path: &[&str], roles: Vec<MappingEntry>) {
    for role in roles {
        for entry in entries(role.node) {
            if entry.key == "success_threshold" {
                let key = format!("{}.roles.{}.{}", path[1..].join("."), role.key, entry.key);
                let why = "the first success of a probe closes the breaker";
                imported.leave_out(&entry.source, &key, why);
            } else {
                let path = [path, &["roles", role.key.as_str(), entry.key.as_str()]].concat();
                imported.put(&path, entry.node);
            }
        }
    }
}

/// Imports the rolling window, which applies to all hosts, if enabled.
fn advanced(imported: &mut ImportResult, groups: Vec<MappingEntry>) {
    for group in groups {
        if group.key != "rolling" {
            imported.leave_out_all("advanced", group, super::NO_COUNTERPART);
            continue;
        }
        let rolling = entries(group.node);
        let is_off = rolling.iter().any(|entry| {
            entry.key == "enabled" && matches!(entry.node.value, ConfigValue::Bool(false))
        });
        for entry in rolling.into_iter().filter(|entry| entry.key != "enabled") {
            if is_off {
                let key = format!("advanced.rolling.{}", entry.key);
                imported.leave_out(&entry.source, &key, "the rolling window is switched off");
            } else {
                let path = ["breakers", "defaults", "window", entry.key.as_str()];
                imported.put(&path, entry.node);
            }
        }
    }
}
