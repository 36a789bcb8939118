//! `cache.yaml`: lifetimes by host and role. This program decides by RFC 9111 which responses are
//! stored and fresh.

use docstokg_config::node::{ConfigValue, MappingEntry};

use super::{ImportResult, entries};

/// The reasons for keys without a counterpart.
const BY_STANDARD: &str = "answers are stored and reused as RFC 9111 says";
const BY_SIZE: &str = "answers leave the cache by its size (cache.max_bytes)";
const IN_FILES: &str = "answers are stored in files (cache.directory)";
const NO_VARIABLES: &str = "it names a variable; set cache.directory to the path";
const NO_FILES: &str = "files (role artifact) are not cached";
const NO_STALE: &str = "a stale answer is served during validation only if the origin allows it";
const IN_METRICS: &str = "docstokg cache stats, and --metrics ADDR, have the figures";

/// Imports the file into an [`ImportResult`].
pub(super) fn import_cache(imported: &mut ImportResult, file: Vec<MappingEntry>) {
    for entry in file {
        match entry.key.as_str() {
            "version" => {}
            "storage" => storage(imported, entries(entry.node)),
            "hosts" => {
                for host in entries(entry.node) {
                    rules(
                        imported,
                        &["cache", "hosts", host.key.as_str()],
                        entries(host.node),
                    );
                }
            }
            "defaults" => rules(imported, &["cache", "defaults"], entries(entry.node)),
            "controller" => imported.leave_out_all("", entry, BY_STANDARD),
            "statistics" => imported.leave_out_all("", entry, IN_METRICS),
            _ => imported.leave_out_all("", entry, super::NO_COUNTERPART),
        }
    }
}

fn storage(imported: &mut ImportResult, storage: Vec<MappingEntry>) {
    for entry in storage {
        let text = match &entry.node.value {
            ConfigValue::Text(text) => text.clone(),
            _ => String::new(),
        };
        match entry.key.as_str() {
            "kind" if text == "file" => {}
            "kind" => imported.leave_out(&entry.source, "storage.kind", IN_FILES),
            "path" if text.contains('$') => {
                imported.leave_out(&entry.source, "storage.path", NO_VARIABLES);
            }
            "path" => imported.put(&["cache", "directory"], entry.node),
            "ttl" | "check_ttl_every" => imported.leave_out_all("storage", entry, BY_SIZE),
            _ => imported.leave_out_all("storage", entry, IN_FILES),
        }
    }
}

/// Imports the lifetimes of one host, or the default lifetimes.
fn rules(imported: &mut ImportResult, path: &[&str], rules: Vec<MappingEntry>) {
    for entry in rules {
        if entry.key != "role" {
            rule(imported, path, entry);
            continue;
        }
        for role in entries(entry.node) {
            if role.key == "artifact" {
                imported.leave_out_all(&path[1..].join("."), role, NO_FILES);
                continue;
            }
            let path = [path, &[role.key.as_str()]].concat();
            for entry in entries(role.node) {
                rule(imported, &path, entry);
            }
        }
    }
}

fn rule(imported: &mut ImportResult, path: &[&str], entry: MappingEntry) {
    if entry.key == "swrv_s" {
        imported.leave_out_all(&path[1..].join("."), entry, NO_STALE);
    } else {
        let path = [path, &[entry.key.as_str()]].concat();
        imported.put(&path, entry.node);
    }
}
