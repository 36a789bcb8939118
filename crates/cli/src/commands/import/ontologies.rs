//! `sources.yaml`: settings for all ontologies become configuration, and the ontologies become a
//! separate list.

use docstokg_config::ConfigNode;
use docstokg_config::node::{ConfigValue, MappingEntry};
use docstokg_ontology::source::check_name;
use serde_json::{Map, Value as Json, json};

use super::{ImportResult, NO_COUNTERPART, entries, text};

/// The paths in this program's configuration of the keys of `defaults.http`.
const OF_HTTP: [(&str, &[&str]); 6] = [
    ("timeout_sec", &["transport", "header_timeout_s"]),
    ("connect_timeout_sec", &["transport", "connect_timeout_s"]),
    ("per_host_rate_limit", &["ontology", "ratelimit", "default"]),
    ("rate_limits", &["ontology", "ratelimit", "per_service"]),
    (
        "shared_rate_limit_dir",
        &["ontology", "ratelimit", "shared_dir"],
    ),
    ("allowed_hosts", &["ontology", "allowed_hosts"]),
];

/// The keys of an ontology that lists of this program have, too.
const OF_ONTOLOGY: [&str; 9] = [
    "id",
    "resolver",
    "url",
    "version",
    "license",
    "checksum",
    "checksum_url",
    "target_formats",
    "extras",
];

/// Imports the file into an [`ImportResult`].
pub(super) fn import_ontologies(imported: &mut ImportResult, file: Vec<MappingEntry>) {
    for entry in file {
        match entry.key.as_str() {
            "version" => {}
            "defaults" => defaults(imported, entries(entry.node)),
            "ontologies" => {
                let ConfigValue::List(items) = entry.node.value else {
                    imported.leave_out(&entry.source, "ontologies", "it is not a list");
                    continue;
                };
                for item in items {
                    ontology(imported, item);
                }
            }
            _ => imported.leave_out_all("", entry, NO_COUNTERPART),
        }
    }
}

fn defaults(imported: &mut ImportResult, defaults: Vec<MappingEntry>) {
    for entry in defaults {
        match entry.key.as_str() {
            "accept_licenses" => imported.put(&["ontology", "accept_licenses"], entry.node),
            "normalize_to" => imported.put(&["ontology", "target_formats"], entry.node),
            "prefer_source" => prefer_source(imported, entry),
            "http" => http(imported, entries(entry.node)),
            "planner" => {
                let why = "plan has the flag --no-planner-probes";
                imported.leave_out_all("defaults", entry, why);
            }
            "continue_on_error" => {
                let why = "a failed ontology never ends a run";
                imported.leave_out_all("defaults", entry, why);
            }
            _ => imported.leave_out_all("defaults", entry, NO_COUNTERPART),
        }
    }
}

/// Imports the sources that this program knows.
fn prefer_source(imported: &mut ImportResult, entry: MappingEntry) {
    let ConfigValue::List(items) = entry.node.value else {
        return imported.put(&["ontology", "prefer_source"], entry.node);
    };
    let mut known = Vec::new();
    for item in items {
        let name = word(&item);
        match check_name(&name) {
            Ok(_) => known.push(item),
            Err(why) => imported.leave_out(&item.source, "defaults.prefer_source", &why),
        }
    }
    let list = ConfigNode {
        source: entry.node.source,
        value: ConfigValue::List(known),
    };
    imported.put(&["ontology", "prefer_source"], list);
}

fn http(imported: &mut ImportResult, http: Vec<MappingEntry>) {
    for entry in http {
        let key = entry.key.as_str();
        if matches!(entry.node.value, ConfigValue::Null) {
            continue;
        }
        if let Some((_, path)) = OF_HTTP.iter().find(|(name, _)| *name == key) {
            imported.put(path, entry.node);
            continue;
        }
        match (key, &entry.node.value) {
            // The other program counts further attempts, this program all attempts.
            ("max_retries", ConfigValue::Int(retries)) => {
                let value = ConfigValue::Int(retries.saturating_add(1));
                let source = entry.source;
                imported.put(&["retry", "attempts"], ConfigNode { source, value });
            }
            _ => imported.leave_out_all("defaults.http", entry, NO_COUNTERPART),
        }
    }
}

fn ontology(imported: &mut ImportResult, item: ConfigNode) {
    let source = item.source.clone();
    let mut row = Map::new();
    let mut formats = None;
    for entry in entries(item) {
        match entry.key.as_str() {
            "normalize_to" => formats = Some(text::json(&entry.node)),
            "resolver" => {
                let name = word(&entry.node);
                match check_name(&name) {
                    Ok(name) => {
                        row.insert("resolver".to_owned(), json!(name));
                    }
                    Err(why) => imported.leave_out(&entry.source, "ontologies.resolver", &why),
                }
            }
            key if OF_ONTOLOGY.contains(&key) => {
                row.insert(key.to_owned(), text::json(&entry.node));
            }
            _ => imported.leave_out_all("ontologies", entry, NO_COUNTERPART),
        }
    }
    if let Some(formats) = formats {
        row.entry("target_formats").or_insert(formats);
    }
    if !row.contains_key("id") {
        return imported.leave_out(&source, "ontologies", "it has no id");
    }
    let has_url = row.contains_key("url") || row.get("extras").is_some_and(has_url);
    if has_url {
        row.entry("resolver").or_insert_with(|| json!("direct"));
    }
    imported.ontologies.push(Json::Object(row));
}

fn has_url(extras: &Json) -> bool {
    extras.get("url").is_some()
}

fn word(node: &ConfigNode) -> String {
    match &node.value {
        ConfigValue::Text(text) => text.trim().to_owned(),
        _ => node.describe(),
    }
}
