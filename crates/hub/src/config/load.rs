//! Loads the configuration from its layers. From lowest to highest precedence, these are the
//! defaults, the shipped values, the file, the environment and the command line.

use std::path::{Path, PathBuf};

pub use docstokg_config::ConfigProblems;
use docstokg_config::{
    ConfigNode, ConfigProblem, Layers, Section, SourcedValue, UnreadSection, ValueSource, document,
    read_file, read_text, section,
};

use super::environment;
use super::flags::{self, CommandLineFlags};
use super::section_file::SectionFile;
use super::settings::{ConfigWarnings, Settings};
use super::{BackendKind, Config};

const SHIPPED: &str = include_str!("../../data/shipped.yaml");

/// The sources from which a configuration is loaded.
#[derive(Clone, Debug, Default)]
pub struct ConfigSources {
    /// The path of the configuration file, if one is given.
    pub file: Option<PathBuf>,
    /// The environment variables, as names and values.
    pub environment: Vec<(String, String)>,
    /// The values of the command line, as [`CommandLineFlags`].
    pub flags: CommandLineFlags,
    /// The [`BackendKind`] that applies unless the user sets another; `None` for the library's
    /// default, which is memory.
    pub backend: Option<BackendKind>,
    /// `true` if responses are stored unless the user decides otherwise.
    pub caches: bool,
}

section! {
    /// The hub's sections, for a program without other sections. The other sections of a shared
    /// file are accepted, but not read.
    HubAlone {
        ..hub: Settings,
        @telemetry: UnreadSection,
        @resolvers: UnreadSection,
        @ontology: UnreadSection,
    }
}

impl From<Settings> for HubAlone {
    fn from(hub: Settings) -> Self {
        Self {
            hub,
            ..Self::default()
        }
    }
}

impl AsRef<Settings> for HubAlone {
    fn as_ref(&self) -> &Settings {
        &self.hub
    }
}

/// Returns the [`Config`] of the shipped values alone, without those of a user.
///
/// # Errors
/// Returns [`ConfigProblems`] only if the shipped file is invalid, which the tests exclude.
pub fn shipped() -> Result<Config, ConfigProblems> {
    load(&ConfigSources::default()).map(|(config, _)| config)
}

/// Loads the hub's sections from all layers. Returns them resolved and as written. Sections of
/// other crates are not read.
///
/// ```
/// use docstokg_hub::config::flags::CommandLineFlags;
/// use docstokg_hub::config::load::{ConfigSources, load};
/// use docstokg_hub::policy::rate::rates_in_words;
/// use docstokg_hub::{Host, Role};
///
/// let rate = vec!["api.example:metadata=rates:5/SECOND".to_owned()];
/// let flags = CommandLineFlags { rate, ..CommandLineFlags::default() };
/// let (config, _) = load(&ConfigSources { flags, ..ConfigSources::default() })?;
/// let windows = config.limits.windows_of(&Host::parse("api.example")?, Role::Metadata);
/// assert_eq!(rates_in_words(&windows), "5 a second");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns every problem in every layer, each with its position.
pub fn load(sources: &ConfigSources) -> Result<(Config, Settings), ConfigProblems> {
    let (config, read) = layers::<HubAlone>(sources).resolve(|read| read.hub.resolve())?;
    Ok((config, read.hub))
}

/// Returns the paths of the configuration files that [`layers`] reads.
#[must_use]
pub fn files(sources: &ConfigSources) -> Vec<PathBuf> {
    let environment = environment::split(&sources.environment);
    let whole = sources.file.clone().or(environment.config);
    let files = [whole, environment.limits, environment.breakers];
    files.into_iter().flatten().collect()
}

/// Reads all [`Layers`] for a program that has the hub's sections and others. The program adds the
/// variables and options of its own sections, and then resolves the result.
#[must_use]
pub fn layers<T: Section + From<Settings> + AsRef<Settings>>(sources: &ConfigSources) -> Layers<T> {
    let mut layers = Layers::<T>::default();
    layers.add(|_, problems| shipped_settings(sources, problems).into());
    let environment = environment::split(&sources.environment);
    if let Some(path) = sources.file.as_ref().or(environment.config.as_ref()) {
        layers.add(|_, problems| whole_or_section(path, problems));
    }
    for (section, path) in [
        ("limits", &environment.limits),
        ("breakers", &environment.breakers),
    ] {
        if let Some(path) = path {
            layers.add(|_, problems| section_alone(section, path, problems));
        }
    }
    layers.add(|below, problems| environment.settings(below.as_ref(), problems).into());
    layers.add(|_, problems| flags::settings(&sources.flags, problems).into());
    layers
}

/// Reads a configuration file. If its keys are those of a single section, the file is read as that
/// section, with a warning.
fn whole_or_section<T: Section + From<Settings>>(
    path: &Path,
    problems: &mut Vec<ConfigProblem>,
) -> T {
    let Some(node) = read_file(path, problems) else {
        return T::default();
    };
    let Some(section) = SectionFile::of::<T>(&node) else {
        return document::read(node, problems);
    };
    let message = format!(
        "{} holds the keys of one section and was read as `{}:`",
        path.display(),
        section.name()
    );
    let warning = Settings {
        warnings: ConfigWarnings(vec![ConfigProblem::without_key(&node.source, message)]),
        ..Settings::default()
    };
    let read: T = document::read(ConfigNode::nested(&[section.name()], node), problems);
    T::from(warning).over(read)
}

/// Reads a file that consists of one section without its name.
fn section_alone<T: Section>(name: &str, path: &Path, problems: &mut Vec<ConfigProblem>) -> T {
    match read_file(path, problems) {
        Some(node) => document::read(ConfigNode::nested(&[name], node), problems),
        None => T::default(),
    }
}

/// Reads the shipped values of known hosts, and adds the defaults of the program.
fn shipped_settings(sources: &ConfigSources, problems: &mut Vec<ConfigProblem>) -> Settings {
    let Some(mut node) = read_text(SHIPPED, "shipped.yaml", problems) else {
        return Settings::default();
    };
    node.mark(&ValueSource::Shipped);
    let mut settings: Settings = document::read(node, problems);
    settings.cache.enabled = Some(SourcedValue::new(sources.caches, ValueSource::Default));
    if let Some(kind) = sources.backend {
        settings.limits.backend.kind = Some(SourcedValue::new(kind, ValueSource::Default));
    }
    settings
}
