//! `ratelimits.yaml`: the same keys, except for the limit of all requests together.

use docstokg_config::node::{ConfigValue, MappingEntry};

use super::{ImportResult, entries};

/// The reasons for keys without a counterpart.
const NO_POSTGRES: &str = "limits live in memory, multiprocess, sqlite or redis";
const PASSWORD: &str = "it carries credentials, which are not copied; set DOCSTOKG_RLIMIT_DSN";

/// Imports the file into an [`ImportResult`].
pub(super) fn import_limits(imported: &mut ImportResult, file: Vec<MappingEntry>) {
    for entry in file {
        match entry.key.as_str() {
            "version" => {}
            "global_max_inflight" => {
                imported.put(&["limits", "global", "max_inflight"], entry.node);
            }
            "backend" => backend(imported, entries(entry.node)),
            key => imported.put(&["limits", key], entry.node),
        }
    }
}

fn backend(imported: &mut ImportResult, backend: Vec<MappingEntry>) {
    for entry in backend {
        let text = match &entry.node.value {
            ConfigValue::Text(text) => text.trim(),
            _ => "",
        };
        match entry.key.as_str() {
            "kind" if text == "postgres" => {
                imported.leave_out(&entry.source, "backend.kind", NO_POSTGRES);
            }
            "dsn" if text.starts_with("postgres") => {
                imported.leave_out(&entry.source, "backend.dsn", NO_POSTGRES);
            }
            "dsn" if text.contains('@') => {
                imported.leave_out(&entry.source, "backend.dsn", PASSWORD);
            }
            "dsn" if text.is_empty() => {}
            key => imported.put(&["limits", "backend", key], entry.node),
        }
    }
}
