//! Bringing the layers together: shipped < file < environment < flags.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::environment;
use super::flags::{self, Flags};
use super::node::{self, Node, Value};
use super::problem::{Problem, Source, Sourced};
use super::reader::{Section, read};
use super::resolve::resolve;
use super::section_file::SectionFile;
use super::settings::{BreakersPart, Layer, LimitsPart, Settings, SloSettings};
use super::{BackendKind, Config};

const SHIPPED: &str = include_str!("../../data/shipped.yaml");

/// Where configuration comes from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The configuration file, if one is named.
    pub file: Option<PathBuf>,
    /// The environment.
    pub environment: Vec<(String, String)>,
    /// What the command line says.
    pub flags: Flags,
    /// Where the program keeps state if nothing is said; `None` for the library's default, memory.
    pub backend: Option<BackendKind>,
}

/// What is wrong with the configuration: every problem at once.
#[derive(Debug, thiserror::Error)]
#[error("{}", lines(.0))]
pub struct Problems(pub Vec<Problem>);

fn lines(problems: &[Problem]) -> String {
    problems
        .iter()
        .map(Problem::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}

/// Returns the configuration that the program ships with.
///
/// # Errors
/// None in a build that passed its tests.
pub fn shipped() -> Result<Config, Problems> {
    load(&Sources::default()).map(|(config, _)| config)
}

/// Reads all layers.
///
/// # Errors
/// Every problem in every layer, each with its place.
pub fn load(sources: &Sources) -> Result<(Config, Settings), Problems> {
    let mut problems = Vec::new();
    let mut shipped = shipped_settings(&mut problems);
    if let Some(kind) = sources.backend {
        shipped.backend.kind = Some(Sourced::new(kind, Source::Default));
    }
    let environment = environment::split(&sources.environment);
    let file = sources.file.clone().or_else(|| environment.config.clone());
    let mut written = Settings::default();
    if let Some(path) = &file
        && let Some(node) = read_file(path, &mut problems)
    {
        written = read_whole_or_section(node, path, &mut problems);
    }
    if let Some(path) = &environment.limits {
        written = part::<LimitsPart>(path, &mut problems, "limits")
            .0
            .over(written);
    }
    if let Some(path) = &environment.breakers {
        written = part::<BreakersPart>(path, &mut problems, "breakers")
            .0
            .over(written);
    }
    let below = written.over(shipped);
    let from_environment = environment.settings(&below, &mut problems);
    let from_flags = flags::settings(&sources.flags, &mut problems);
    let settings = from_flags.over(from_environment).over(below);
    let config = resolve(&settings, &mut problems);
    if problems.is_empty() {
        return Ok((config, settings));
    }
    problems.sort_by_key(|problem| problem.source.line());
    Err(Problems(problems))
}

/// Reads a configuration file. One that holds a single section without its name is read as that,
/// and says so.
fn read_whole_or_section(node: Node, path: &Path, problems: &mut Vec<Problem>) -> Settings {
    let Some(section) = SectionFile::of(&node) else {
        return read("", node, &[], problems);
    };
    let source = node.source.clone();
    let mut settings = match section {
        SectionFile::Limits => read::<LimitsPart>("limits", node, &[], problems).0,
        SectionFile::Breakers => read::<BreakersPart>("breakers", node, &[], problems).0,
    };
    let message = format!(
        "{} holds the keys of one section and was read as `{}:`",
        path.display(),
        section.name()
    );
    settings.warnings.push(Problem {
        source,
        key: String::new(),
        message,
        suggestion: None,
    });
    settings
}

/// Reads targets from a file of their own, over those of the configuration.
///
/// # Errors
/// Every problem, with its place.
pub fn slo(path: &Path, below: &SloSettings) -> Result<SloSettings, Problems> {
    let mut problems = Vec::new();
    let read: SloSettings = part(path, &mut problems, "slo");
    if problems.is_empty() {
        Ok(read.over(below.clone()))
    } else {
        Err(Problems(problems))
    }
}

fn part<T: Section>(path: &Path, problems: &mut Vec<Problem>, name: &str) -> T {
    let Some(node) = read_file(path, problems) else {
        return T::default();
    };
    read(name, node, &[], problems)
}

fn read_file(path: &Path, problems: &mut Vec<Problem>) -> Option<Node> {
    let shown = path.display().to_string();
    match std::fs::read_to_string(path) {
        Ok(text) => node::parse(&text, &shown, problems),
        Err(error) => {
            let source = Source::File {
                path: Arc::from(shown.as_str()),
                line: 1,
            };
            problems.push(Problem {
                source,
                key: String::new(),
                message: format!("the file cannot be read: {error}"),
                suggestion: None,
            });
            None
        }
    }
}

/// Reads what is built in. Values for known hosts are marked as shipped, the rest as defaults.
fn shipped_settings(problems: &mut Vec<Problem>) -> Settings {
    let Some(mut node) = node::parse(SHIPPED, "shipped.yaml", problems) else {
        return Settings::default();
    };
    mark(&mut node, &Source::Default);
    read("", node, &[], problems)
}

fn mark(node: &mut Node, source: &Source) {
    node.source = source.clone();
    match &mut node.value {
        Value::List(items) => items.iter_mut().for_each(|item| mark(item, source)),
        Value::Map(entries) => {
            for entry in entries {
                entry.source = source.clone();
                let known = matches!(entry.key.as_str(), "hosts" | "sites");
                mark(
                    &mut entry.node,
                    if known { &Source::Shipped } else { source },
                );
            }
        }
        _ => {}
    }
}
