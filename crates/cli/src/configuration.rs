//! The configuration sections of both programs, read together: the hub's, telemetry's, content's
//! and ontology's. Both programs read the same file, and check all of it.

use std::path::PathBuf;

use docstokg_config::{ConfigProblem, SourcedValue, ValueSource, both, section};
use docstokg_content::config::{self as content, ResolverConfig, ResolverSettings};
use docstokg_hub::config::flags::CommandLineFlags;
use docstokg_hub::config::load::{self, ConfigProblems, ConfigSources};
use docstokg_hub::config::settings::ConfigWarnings;
use docstokg_hub::config::{self as hub, BackendKind, CacheAccess, CacheConfig, Config};
use docstokg_hub::store::SQLITE_FILE;
use docstokg_ontology::config::{self as ontology, OntologyConfig, OntologySettings};
use docstokg_telemetry::config::{TelemetryConfig, TelemetrySettings};

use crate::arguments::GlobalArguments;
use crate::exit::CommandFailure;
use crate::{output, program, quantity};

section! {
    /// Everything that can be configured in `docstokg` and `ontofetch`, as written.
    Settings {
        ..hub: hub::settings::Settings,
        +telemetry: TelemetrySettings,
        +resolvers: ResolverSettings,
        +ontology: OntologySettings,
    }
}

/// The validated configuration, and its sections as written.
#[derive(Debug)]
pub(crate) struct LoadedConfig {
    /// The configuration of the hub.
    pub(crate) config: Config,
    /// The configuration of telemetry.
    pub(crate) telemetry: TelemetryConfig,
    /// The sources for works, with their credentials.
    pub(crate) resolvers: ResolverConfig,
    /// The library of ontologies, and the sources for them.
    pub(crate) ontology: OntologyConfig,
    /// All sections as written.
    pub(crate) settings: Settings,
}

impl From<hub::settings::Settings> for Settings {
    fn from(hub: hub::settings::Settings) -> Self {
        Self {
            hub,
            ..Self::default()
        }
    }
}

impl AsRef<hub::settings::Settings> for Settings {
    fn as_ref(&self) -> &hub::settings::Settings {
        &self.hub
    }
}

impl GlobalArguments {
    /// Reads all layers of the configuration.
    pub(crate) fn load(&self) -> Result<LoadedConfig, CommandFailure> {
        self.load_with(self.config.clone())
    }

    /// Reads all layers of the configuration, with this file.
    pub(crate) fn load_with(&self, file: Option<PathBuf>) -> Result<LoadedConfig, CommandFailure> {
        let mut loaded = resolve(&self.sources(file))?;
        if program::runs_ontofetch() {
            share_state(&loaded.settings, &mut loaded.config)?;
            loaded.ontology.apply_to(&mut loaded.config);
        }
        self.set_cache_access(&mut loaded.config.cache);
        if !self.quiet {
            for warning in loaded.settings.hub.warnings.iter() {
                output::print_note(&format!("warning: {warning}"));
            }
        }
        Ok(loaded)
    }

    fn sources(&self, file: Option<PathBuf>) -> ConfigSources {
        let environment = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        ConfigSources {
            file,
            environment: environment.collect(),
            flags: self.flags(),
            backend: Some(BackendKind::Sqlite),
            caches: true,
        }
    }

    /// Checks that the configuration can be reloaded from its files: a pipe would wait for a
    /// writer, or be empty.
    ///
    /// # Errors
    /// A file is not an ordinary file.
    pub(crate) fn check_files(&self) -> Result<(), CommandFailure> {
        let mut files = load::files(&self.sources(self.config.clone()));
        files.extend(self.cacert.iter().cloned());
        // A missing file is reported when it is read.
        let is_odd = |path: &&PathBuf| path.metadata().is_ok_and(|found| !found.is_file());
        match files.iter().find(is_odd) {
            None => Ok(()),
            Some(path) => Err(CommandFailure::Usage(format!(
                "{} is not an ordinary file, and is not read again; name a file",
                path.display()
            ))),
        }
    }

    fn set_cache_access(&self, cache: &mut CacheConfig) {
        cache.enabled &= !self.cache.no_cache;
        if self.cache.offline {
            cache.access = CacheAccess::Offline;
        } else if self.cache.refresh {
            cache.access = CacheAccess::Refresh;
        }
    }

    fn flags(&self) -> CommandLineFlags {
        let with_seconds = |text: &String| quantity::breaker_pairs(text);
        CommandLineFlags {
            rate: self.rate.clone(),
            rate_backend: self.rate_backend.clone(),
            rate_dsn: self.rate_dsn.clone(),
            max_inflight: self.max_inflight.clone(),
            aimd: self.aimd.clone(),
            breaker: self.breaker.iter().map(with_seconds).collect(),
            breaker_resolver: self.breaker_resolver.iter().map(with_seconds).collect(),
            deadline: self.deadline.clone(),
        }
    }
}

/// Moves the state of limits to the directory of `ontology.ratelimit.shared_dir`, which programs
/// with the library use.
fn share_state(settings: &Settings, config: &mut Config) -> Result<(), ConfigProblems> {
    let Some(directory) = &settings.ontology.ratelimit.shared_dir else {
        return Ok(());
    };
    let backend = &mut config.limits.backend;
    let is_elsewhere = backend.kind.value != BackendKind::Sqlite || !backend.dsn.is_empty();
    if let Some((section, source)) = written_backend(settings).filter(|_| is_elsewhere) {
        let message = format!(
            "{section} ({source}) names another place for the state of limits; remove one of the two"
        );
        let key = "ontology.ratelimit.shared_dir";
        return Err(ConfigProblems(vec![ConfigProblem::new(
            &directory.source,
            key,
            message,
        )]));
    }
    let file = PathBuf::from(&directory.value).join(SQLITE_FILE);
    backend.kind = SourcedValue::new(BackendKind::Sqlite, directory.source.clone());
    backend.dsn = file.display().to_string();
    Ok(())
}

/// Returns the section that sets the store of limits, with its source, if any section does.
fn written_backend(settings: &Settings) -> Option<(&'static str, &ValueSource)> {
    let sections = [
        ("limits.backend", &settings.hub.limits.backend),
        (
            "breakers.cooldown_store",
            &settings.hub.breakers.cooldown_store,
        ),
    ];
    sections.into_iter().find_map(|(name, backend)| {
        let kind = backend.kind.as_ref().map(|set| &set.source);
        let dsn = backend.dsn.as_ref().map(|set| &set.source);
        let mut written = kind.into_iter().chain(dsn);
        Some((name, written.find(|source| source.is_written())?))
    })
}

/// Reads and resolves every section, so that the problems of all sections are reported together.
fn resolve(sources: &ConfigSources) -> Result<LoadedConfig, ConfigProblems> {
    let mut layers = load::layers::<Settings>(sources);
    layers.add(|_, problems| Settings {
        hub: hub::settings::Settings {
            warnings: ConfigWarnings(ontology::unknown_variables(&sources.environment)),
            ..hub::settings::Settings::default()
        },
        resolvers: content::environment(&sources.environment, problems),
        ontology: ontology::environment(&sources.environment, problems),
        ..Settings::default()
    });
    let resolved = layers.resolve(|settings| {
        let jobs = both(settings.resolvers.resolve(), settings.ontology.resolve());
        let others = both(settings.telemetry.resolve(), jobs);
        both(settings.hub.resolve(), others)
    });
    let ((config, (telemetry, (resolvers, ontology))), settings) = resolved?;
    Ok(LoadedConfig {
        config,
        telemetry,
        resolvers,
        ontology,
        settings,
    })
}
