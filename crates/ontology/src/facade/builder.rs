//! Builds a [`Facade`]: everything but the settings has a default.

use std::path::Path;
use std::sync::Arc;

use docstokg_hub::clock::{Clock, Runtime, TokioRuntime};
use docstokg_hub::config::{
    Backend, BackendKind, OnStoreFailure, SiteConfig, SourcedValue, ValueSource,
};
use docstokg_stores::fallback::AvailabilityNotice;
use docstokg_stores::memory::MemoryStore;
use docstokg_stores::private;
use docstokg_stores::process::PerProcess;
use docstokg_stores::{StateStore, StoreError};
use docstokg_telemetry::RunIdentity;

use super::event::EventContext;
use super::registry::{JoinedHosts, KeyRegistry, OpenStore};
use super::settings::RateLimits;
use super::{Facade, FacadeObserver, FacadeState};

/// Builder of a [`Facade`], from [`Facade::builder`].
pub struct FacadeBuilder {
    limits: RateLimits,
    runtime: Arc<dyn Runtime>,
    store: Option<Arc<dyn StateStore>>,
    observers: Vec<Arc<dyn FacadeObserver>>,
    run_id: Option<Arc<str>>,
    notice: AvailabilityNotice,
    sites: Option<Vec<SiteConfig>>,
}

impl FacadeBuilder {
    pub(super) fn new(limits: RateLimits) -> Self {
        Self {
            limits,
            runtime: Arc::new(TokioRuntime::default()),
            store: None,
            observers: Vec::new(),
            run_id: None,
            notice: Arc::new(|_| ()),
            sites: None,
        }
    }

    /// Replaces the clock and tasks of the machine with another [`Runtime`].
    #[must_use]
    pub fn runtime(mut self, runtime: Arc<dyn Runtime>) -> Self {
        self.runtime = runtime;
        self
    }

    /// Keeps state in this [`StateStore`] instead of the store that the settings name.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn StateStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// Adds a [`FacadeObserver`], which receives every event.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn FacadeObserver>) -> Self {
        self.observers.push(observer);
        self
    }

    /// Sets the id of the run in events. The default is a new id.
    #[must_use]
    pub fn run_id(mut self, id: &str) -> Self {
        self.run_id = Some(id.into());
        self
    }

    /// Sets the function that receives a message when the shared store becomes unavailable, and
    /// when it is available again.
    #[must_use]
    pub fn notice(mut self, notice: AvailabilityNotice) -> Self {
        self.notice = notice;
        self
    }

    /// Replaces the built-in groups of hosts that share the limit of one operator. The hub and the
    /// facade keep the budgets of all hosts of a group together.
    #[must_use]
    pub fn sites(mut self, sites: &[SiteConfig]) -> Self {
        self.sites = Some(sites.to_vec());
        self
    }

    /// Builds the [`Facade`]. Every service that the settings name is ready to use.
    ///
    /// # Errors
    /// A [`StoreError`] if the shared directory cannot be used.
    pub fn build(self) -> Result<Facade, StoreError> {
        let limits = Arc::new(self.limits);
        let settings = limits.to_settings();
        let run = RunIdentity::begin("facade", &settings, &*self.runtime);
        let open = open_store(&limits, &self.runtime, self.store, self.notice);
        let joined = joined_hosts(self.sites);
        let first = KeyRegistry::new(open(), Arc::clone(&limits), Arc::clone(&joined));
        if let Some(error) = first.store_error() {
            return Err(error);
        }
        let of_child = Arc::clone(&limits);
        Ok(Facade(Arc::new(FacadeState {
            registry: PerProcess::new(first, move || {
                KeyRegistry::new(open(), Arc::clone(&of_child), Arc::clone(&joined))
            }),
            limits,
            runtime: self.runtime,
            run: EventContext {
                run_id: self.run_id.unwrap_or_else(|| run.id.into()),
                config_hash: run.config_hash.into(),
            },
            observers: self.observers,
        })))
    }
}

/// Returns the hosts that share a limit with other hosts, each with the site that has the limit.
fn joined_hosts(sites: Option<Vec<SiteConfig>>) -> JoinedHosts {
    let shipped = || docstokg_hub::config::load::shipped().map(|config| config.sites);
    let sites = sites.unwrap_or_else(|| shipped().unwrap_or_default());
    let hosts = sites.iter().flat_map(|site| {
        let hosts = site.hosts.iter();
        hosts.map(|host| (host.as_str().to_owned(), site.key()))
    });
    Arc::new(hosts.collect())
}

/// Returns the function that opens the store of the settings. The function is called in each
/// process that uses the facade, because a child process needs its own connection.
fn open_store(
    limits: &Arc<RateLimits>,
    runtime: &Arc<dyn Runtime>,
    given: Option<Arc<dyn StateStore>>,
    notice: AvailabilityNotice,
) -> OpenStore {
    let (limits, runtime) = (Arc::clone(limits), Arc::clone(runtime));
    Box::new(move || {
        if let Some(store) = &given {
            return Ok(Arc::clone(store));
        }
        let clock: Arc<dyn Clock> = Arc::<dyn Runtime>::clone(&runtime);
        match &limits.shared_dir {
            None => Ok(Arc::new(MemoryStore::new(clock))),
            Some(directory) => shared(directory, clock, Arc::clone(&notice)),
        }
    })
}

/// Opens the state in the directory that processes share.
fn shared(
    directory: &Path,
    clock: Arc<dyn Clock>,
    notice: AvailabilityNotice,
) -> Result<Arc<dyn StateStore>, StoreError> {
    private::make_directory(directory).map_err(|error| StoreError::Unusable {
        store: format!("the shared directory {}", directory.display()),
        why: error.to_string(),
        remedy: "name a directory that this user may write to as ratelimit.shared_dir".to_owned(),
    })?;
    let backend = Backend {
        kind: SourcedValue::new(BackendKind::Sqlite, ValueSource::Program),
        dsn: String::new(),
        on_failure: OnStoreFailure::Local,
        assumed_peers: 4,
        group: None,
    };
    docstokg_hub::store::open(&backend, directory, clock, notice)
}
