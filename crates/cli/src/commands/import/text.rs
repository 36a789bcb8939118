//! Conversion of values to JSON, and of JSON to readable YAML.

use docstokg_config::ConfigNode;
use docstokg_config::node::ConfigValue;
use serde_json::{Map, Value as Json, json};

/// Returns a value as JSON.
pub(super) fn json(node: &ConfigNode) -> Json {
    match &node.value {
        ConfigValue::Null => Json::Null,
        ConfigValue::Bool(value) => json!(value),
        ConfigValue::Int(value) => json!(i64::try_from(*value).unwrap_or(i64::MAX)),
        ConfigValue::Float(value) => json!(value),
        ConfigValue::Text(text) => json!(text),
        ConfigValue::List(items) => items.iter().map(json).collect(),
        ConfigValue::Map(entries) => {
            let entry = |entry: &docstokg_config::node::MappingEntry| {
                (entry.key.clone(), json(&entry.node))
            };
            Json::Object(entries.iter().map(entry).collect())
        }
    }
}

/// Writes a mapping as YAML: nested groups of keys are indented, with one key per line and values
/// as in JSON.
pub(super) fn yaml(value: &Json) -> String {
    let mut text = String::new();
    if let Json::Object(map) = value {
        write_map(map, 0, &mut text);
    }
    text
}

fn write_map(map: &Map<String, Json>, depth: usize, text: &mut String) {
    for (name, value) in map {
        text.push_str(&"  ".repeat(depth));
        text.push_str(&key(name));
        text.push(':');
        write_value(value, depth, text);
    }
}

/// Writes the value after a key or a dash.
fn write_value(value: &Json, depth: usize, text: &mut String) {
    match value {
        Json::Object(inner) if !inner.is_empty() => {
            text.push('\n');
            write_map(inner, depth + 1, text);
        }
        Json::Array(items) if items.iter().any(Json::is_object) => {
            text.push('\n');
            for item in items {
                // A mapping on one line is also valid YAML.
                text.push_str(&format!("{}- {item}\n", "  ".repeat(depth + 1)));
            }
        }
        value => text.push_str(&format!(" {value}\n")),
    }
}

/// Writes a key, in quotes if YAML could read it as another type.
fn key(name: &str) -> String {
    let is_plain = name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
        && !["null", "true", "false", "yes", "no", "on", "off", "y", "n"]
            .contains(&name.to_ascii_lowercase().as_str());
    if is_plain {
        name.to_owned()
    } else {
        json!(name).to_string()
    }
}
