//! The sections that the programs have, read together: the hub's, telemetry's, content's and
//! ontology's. Both programs read one file, and check all of it.

use std::path::PathBuf;

use docstokg_config::{both, section};
use docstokg_content::config::{self as content, ResolverConfig, ResolverSettings};
use docstokg_hub::config::flags::Flags;
use docstokg_hub::config::load::{self, Problems, Sources};
use docstokg_hub::config::{self as hub, BackendKind, CacheAccess, CacheConfig, Config};
use docstokg_ontology::config::{self as ontology, OntologyConfig, OntologySettings};
use docstokg_telemetry::config::{TelemetryConfig, TelemetrySettings};

use crate::arguments::Global;
use crate::exit::Failure;
use crate::output;

section! {
    /// Everything that can be configured in `docstokg` and `ontofetch`, as written.
    Settings {
        ..hub: hub::settings::Settings,
        +telemetry: TelemetrySettings,
        +resolvers: ResolverSettings,
        +ontology: OntologySettings,
    }
}

/// The configuration that holds, and what it was written as.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The hub's.
    pub(crate) config: Config,
    /// What is recorded.
    pub(crate) telemetry: TelemetryConfig,
    /// Which sources are tried.
    pub(crate) resolvers: ResolverConfig,
    /// Where ontologies are kept, and which sources are asked for them.
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

impl Global {
    /// Reads all layers of the configuration.
    pub(crate) fn load(&self) -> Result<Loaded, Failure> {
        self.load_with(self.config.clone())
    }

    /// Reads all layers of the configuration, with this file.
    pub(crate) fn load_with(&self, file: Option<PathBuf>) -> Result<Loaded, Failure> {
        let environment = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        let mut loaded = resolve(&Sources {
            file,
            environment: environment.collect(),
            flags: self.flags(),
            backend: Some(BackendKind::Sqlite),
            caches: true,
        })?;
        self.set_cache_access(&mut loaded.config.cache);
        if !self.quiet {
            for warning in loaded.settings.hub.warnings.iter() {
                output::note(&format!("warning: {warning}"));
            }
        }
        Ok(loaded)
    }

    fn set_cache_access(&self, cache: &mut CacheConfig) {
        cache.enabled &= !self.cache.no_cache;
        if self.cache.offline {
            cache.access = CacheAccess::Offline;
        } else if self.cache.refresh {
            cache.access = CacheAccess::Refresh;
        }
    }

    fn flags(&self) -> Flags {
        Flags {
            rate: self.rate.clone(),
            rate_backend: self.rate_backend.clone(),
            rate_dsn: self.rate_dsn.clone(),
            max_inflight: self.max_inflight.clone(),
            aimd: self.aimd.clone(),
            breaker: self.breaker.clone(),
            breaker_resolver: self.breaker_resolver.clone(),
            deadline: self.deadline.clone(),
        }
    }
}

/// Reads and resolves every section: the problems of all of them come at once.
fn resolve(sources: &Sources) -> Result<Loaded, Problems> {
    let mut layers = load::layers::<Settings>(sources);
    layers.add(|_, problems| Settings {
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
    Ok(Loaded {
        config,
        telemetry,
        resolvers,
        ontology,
        settings,
    })
}
