//! `docstokg config import`: the configuration files of `DocsToKG`, the Python program, in our
//! form.
//!
//! Every value is moved to its path in this program, and the sections read it like any other file.
//! Keys without a counterpart are listed with their lines; no key is dropped silently.

mod breakers;
mod cache;
mod limits;
mod ontologies;
mod text;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use docstokg_config::node::{ConfigValue, MappingEntry};
use docstokg_config::{
    ConfigNode, ConfigProblem, ConfigProblems, Section, ValueSource, document, read_file,
};
use serde_json::{Value as Json, json};

use super::config::list;
use crate::arguments::GlobalArguments;
use crate::configuration::Settings;
use crate::exit::CommandFailure;
use crate::output;

/// The name of the configuration file that `--out` writes.
const CONFIG_FILE: &str = "docstokg.yaml";
/// The name of the list of ontologies that `--out` writes.
const ONTOLOGIES_FILE: &str = "sources.yaml";

/// Runs the command.
pub(super) fn run(
    global: &GlobalArguments,
    files: &[PathBuf],
    out: Option<&Path>,
) -> Result<ExitCode, CommandFailure> {
    let mut imported = ImportResult::default();
    let mut problems = Vec::new();
    for file in files {
        if let Some(node) = read_file(file, &mut problems) {
            imported.take(node, &mut problems);
        }
    }
    if !problems.is_empty() {
        return Err(CommandFailure::Config(ConfigProblems(problems)));
    }
    let config = imported.config();
    let ontologies = (!imported.ontologies.is_empty())
        .then(|| json!({ "version": 1, "ontologies": imported.ontologies }));
    if let Some(directory) = out {
        write(directory, CONFIG_FILE, &config)?;
        if let Some(ontologies) = &ontologies {
            write(directory, ONTOLOGIES_FILE, ontologies)?;
        }
    }
    if global.json {
        output::json(&json!({
            "config": config,
            "ontologies": imported.ontologies,
            "left_out": list(&imported.left_out),
        }));
    } else if out.is_none() {
        output::text(&text::yaml(&config));
    }
    if !global.quiet {
        imported.report(out.is_some());
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a new file. An existing file is an error.
fn write(directory: &Path, name: &str, value: &Json) -> Result<(), CommandFailure> {
    let path = directory.join(name);
    if path.exists() {
        return Err(CommandFailure::Usage(format!(
            "{} is there already; name another directory, or remove it",
            path.display()
        )));
    }
    std::fs::create_dir_all(directory)
        .and_then(|()| std::fs::write(&path, text::yaml(value)))
        .with_context(|| format!("{} cannot be written", path.display()))?;
    Ok(())
}

/// The result of importing the files of the other program.
#[derive(Default)]
struct ImportResult {
    settings: Settings,
    /// The ontologies for a list of `ontofetch`.
    ontologies: Vec<Json>,
    /// The keys without a counterpart.
    left_out: Vec<ConfigProblem>,
}

impl ImportResult {
    /// Imports one file.
    fn take(&mut self, node: ConfigNode, problems: &mut Vec<ConfigProblem>) {
        let source = node.source.clone();
        let entries = entries(node);
        match ImportKind::of(&entries) {
            Some(ImportKind::Limits) => limits::import_limits(self, entries),
            Some(ImportKind::Breakers) => breakers::import_breakers(self, entries),
            Some(ImportKind::Cache) => cache::import_cache(self, entries),
            Some(ImportKind::Ontologies) => ontologies::import_ontologies(self, entries),
            None => {
                let message = "it is none of the files of DocsToKG that are read: \
                               ratelimits.yaml, breakers.yaml, cache.yaml and sources.yaml";
                problems.push(ConfigProblem::without_key(&source, message));
            }
        }
    }

    /// Sets a value at its path in this program. Keys that the section does not know are left out.
    fn put(&mut self, path: &[&str], node: ConfigNode) {
        let mut found = Vec::new();
        let read: Settings = document::read(ConfigNode::nested(path, node), &mut found);
        let below = std::mem::take(&mut self.settings);
        self.settings = read.over(below);
        for problem in found {
            let is_unknown = problem.message.starts_with("unknown key");
            let message = if is_unknown {
                NO_COUNTERPART.to_owned()
            } else {
                problem.message
            };
            let problem = ConfigProblem::new(&problem.source, problem.key, message);
            self.left_out.push(problem);
        }
    }

    /// Lists a key without a counterpart, with the reason.
    fn leave_out(&mut self, source: &ValueSource, key: &str, why: &str) {
        self.left_out.push(ConfigProblem::new(source, key, why));
    }

    /// Lists an entry and all entries below it.
    fn leave_out_all(&mut self, path: &str, entry: MappingEntry, why: &str) {
        let path = join(path, &entry.key);
        match entry.node.value {
            ConfigValue::Map(inner) if !inner.is_empty() => {
                for entry in inner {
                    self.leave_out_all(&path, entry, why);
                }
            }
            _ => self.leave_out(&entry.source, &path, why),
        }
    }

    /// Returns the configuration, without empty groups.
    fn config(&self) -> Json {
        let mut shown = document::show(&self.settings);
        drop_empty(&mut shown);
        shown
    }

    fn report(&self, is_written: bool) {
        if !self.left_out.is_empty() {
            output::print_note("without a counterpart, or changed:");
        }
        for problem in &self.left_out {
            output::tell(&format!("  {problem}"));
        }
        let count = self.ontologies.len();
        if count > 0 && !is_written {
            output::hint(&format!(
                "--out DIR also writes {ONTOLOGIES_FILE} with {}, for ontofetch --spec",
                if count == 1 {
                    "the ontology".to_owned()
                } else {
                    format!("the {count} ontologies")
                }
            ));
        }
    }
}

/// The reason for a key that this program does not have.
const NO_COUNTERPART: &str = "no counterpart";

/// The kind of a file of the other program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ImportKind {
    Limits,
    Breakers,
    Cache,
    Ontologies,
}

impl ImportKind {
    /// Recognises a file by its keys.
    fn of(entries: &[MappingEntry]) -> Option<Self> {
        let has = |keys: &[&str]| {
            entries
                .iter()
                .any(|entry| keys.contains(&entry.key.as_str()))
        };
        let in_policies = |keys: &[&str]| {
            let defaults = group(entries, "defaults");
            let hosts = group(entries, "hosts");
            let of_hosts = hosts.iter().flat_map(|host| inner(&host.node));
            let mut policies = defaults.iter().chain(of_hosts);
            policies.any(|entry| keys.contains(&entry.key.as_str()))
        };
        if has(&["ontologies"]) {
            Some(Self::Ontologies)
        } else if has(&["storage", "controller"]) || in_policies(&CACHE_KEYS) {
            Some(Self::Cache)
        } else if has(&["backend", "aimd", "global_max_inflight"]) || in_policies(&LIMITS_KEYS) {
            Some(Self::Limits)
        } else if has(&["advanced", "resolvers"]) || in_policies(&BREAKERS_KEYS) {
            Some(Self::Breakers)
        } else {
            None
        }
    }
}

/// Keys below `defaults`, or below a host, that occur in one kind of file only.
const CACHE_KEYS: [&str; 3] = ["ttl_s", "swrv_s", "role"];
const LIMITS_KEYS: [&str; 3] = ["metadata", "landing", "artifact"];
const BREAKERS_KEYS: [&str; 6] = [
    "fail_max",
    "reset_timeout_s",
    "retry_after_cap_s",
    "classify",
    "half_open",
    "roles",
];

/// Returns the entries below a key.
fn group<'a>(entries: &'a [MappingEntry], key: &str) -> &'a [MappingEntry] {
    let entry = entries.iter().find(|entry| entry.key == key);
    entry.map_or(&[], |entry| inner(&entry.node))
}

fn inner(node: &ConfigNode) -> &[MappingEntry] {
    match &node.value {
        ConfigValue::Map(entries) => entries,
        _ => &[],
    }
}

/// Returns the entries of a mapping; an empty list for any other value.
fn entries(node: ConfigNode) -> Vec<MappingEntry> {
    match node.value {
        ConfigValue::Map(entries) => entries,
        _ => Vec::new(),
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

/// Removes groups without keys.
fn drop_empty(value: &mut Json) {
    if let Json::Object(map) = value {
        map.values_mut().for_each(drop_empty);
        map.retain(|_, value| !value.as_object().is_some_and(serde_json::Map::is_empty));
    }
}
