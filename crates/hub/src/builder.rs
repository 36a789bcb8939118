//! The construction of a [`Hub`].

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use docstokg_stores::cache::CacheStore;
use docstokg_stores::fallback::AvailabilityNotice;
use docstokg_stores::{StateStore, StoreError};
use http::HeaderValue;
use tokio::sync::{Semaphore, watch};

use crate::admission::registry::AdmissionRegistry;
use crate::admission::{AdmissionGate, SiteNews};
use crate::cache::{ResponseCache, Sharing, StoredResponses};
use crate::clock::{Random, Runtime, TokioRuntime};
use crate::config::Config;
use crate::download::FileWriter;
use crate::event::Observer;
use crate::exchange::Wire;
use crate::hub::{Hub, HubParts};
use crate::request_headers::DefaultHeaders;
use crate::robots::RobotsGate;
use crate::store;
use crate::transport::wire::WireOptions;
use crate::transport::{Transport, TransportError, WireTransport};

/// Builds a [`Hub`] from a [`Config`]. Every other part has a default.
///
/// ```
/// use docstokg_hub::stores::clock::SystemClock;
/// use docstokg_hub::stores::memory::MemoryStore;
/// use docstokg_hub::{Hub, config};
/// use std::sync::Arc;
///
/// let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
/// let hub = Hub::builder(config::load::shipped()?).store(store).build()?;
/// assert_eq!(hub.sites(), 0, "a hub learns of hosts by requests");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct HubBuilder {
    config: Arc<Config>,
    runtime: Arc<dyn Runtime>,
    random: Random,
    transport: Option<Arc<dyn Transport>>,
    store: Option<Arc<dyn StateStore>>,
    observers: Vec<Arc<dyn Observer>>,
    wire: WireOptions,
    state_dir: Option<PathBuf>,
    notice: AvailabilityNotice,
    cache: Option<CacheStore>,
}

/// The reason why a hub cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The transport cannot be set up, because of an invalid certificate or proxy.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// The store that the configuration names cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl HubBuilder {
    /// Creates a builder for a [`Config`], with defaults for all other parts.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config: Arc::new(config),
            runtime: Arc::new(TokioRuntime::default()),
            random: Random::from_entropy(),
            transport: None,
            store: None,
            observers: Vec::new(),
            wire: WireOptions::default(),
            state_dir: None,
            notice: Arc::new(|_| ()),
            cache: None,
        }
    }

    /// Replaces the clock and executor; the default is [`TokioRuntime`].
    #[must_use]
    pub fn runtime(mut self, runtime: Arc<dyn Runtime>) -> Self {
        self.runtime = runtime;
        self
    }

    /// Replaces the source of random numbers, for example by a seeded [`Random`].
    #[must_use]
    pub fn random(mut self, random: Random) -> Self {
        self.random = random;
        self
    }

    /// Replaces the [`Transport`]; the default is [`WireTransport`].
    #[must_use]
    pub fn transport(mut self, transport: Arc<dyn Transport>) -> Self {
        self.transport = Some(transport);
        self
    }

    /// Keeps state in this [`StateStore`] instead of the configured one.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn StateStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// Stores responses in this [`CacheStore`] instead of the configured one. No other process may
    /// use that store.
    #[must_use]
    pub fn cache(mut self, cache: CacheStore) -> Self {
        self.cache = Some(cache);
        self
    }

    /// Sets the directory of the configured store, which applies unless the DSN of the store names
    /// a path.
    #[must_use]
    pub fn state_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.state_dir = Some(directory.into());
        self
    }

    /// Sets the callback that receives a sentence for the user when the configured store becomes
    /// unavailable, and when it is available again.
    #[must_use]
    pub fn notice(mut self, notice: AvailabilityNotice) -> Self {
        self.notice = notice;
        self
    }

    /// Adds an [`Observer`] that receives all events of the hub.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.push(observer);
        self
    }

    /// Sets the [`WireOptions`] of connections, except the connect timeout, which the configuration
    /// sets.
    #[must_use]
    pub fn wire(mut self, wire: WireOptions) -> Self {
        self.wire = wire;
        self
    }

    /// Builds the [`Hub`]. The configured store is opened unless [`HubBuilder::store`] was called.
    ///
    /// # Errors
    /// Returns a [`BuildError`] if the transport cannot be set up or the store cannot be opened.
    pub fn build(mut self) -> Result<Hub, BuildError> {
        let headers = DefaultHeaders::new(|role| {
            HeaderValue::from_str(&self.config.identity.user_agent(role))
                .map_err(|error| TransportError::Client(error.to_string()))
        })?;
        let headers = Arc::new(headers);
        let stored = self.open_cache(&headers);
        let transport = match self.transport {
            Some(transport) => transport,
            None => Arc::new(WireTransport::new(&WireOptions {
                connect_timeout: self.config.transport.connect_timeout,
                ..self.wire
            })?),
        };
        let clock = Arc::<dyn Runtime>::clone(&self.runtime);
        let store = match self.store {
            Some(store) => store,
            None => store::open_for_library(
                &self.config,
                self.state_dir.as_deref(),
                clock,
                &self.notice,
            )?,
        };
        let observers: Arc<[Arc<dyn Observer>]> = self.observers.into();
        let news = SiteNews {
            observers: Arc::clone(&observers),
            changes: watch::Sender::new(0),
        };
        let cache = ResponseCache::new(stored, &self.config, &self.runtime, &headers);
        let cache = Arc::new(cache);
        let known_hosts = Arc::default();
        let wire = Wire {
            config: Arc::clone(&self.config),
            runtime: Arc::clone(&self.runtime),
            transport,
            headers,
            known_hosts: Arc::clone(&known_hosts),
            cache: Arc::clone(&cache),
            pauses: Arc::default(),
        };
        let max_inflight = self.config.limits.max_inflight.value;
        let process_slots = max_inflight.map_or(Semaphore::MAX_PERMITS, |most| most.get() as usize);
        let admission = AdmissionGate {
            config: Arc::clone(&self.config),
            runtime: Arc::clone(&self.runtime),
            random: self.random.clone(),
            registry: AdmissionRegistry::new(&self.config, store, Arc::clone(&self.runtime), news),
            process_slots: Arc::new(Semaphore::new(process_slots)),
        };
        Ok(Hub(Arc::new(HubParts {
            admission,
            files: FileWriter::new(self.config.transport.durability, self.random.clone()),
            config: self.config,
            runtime: self.runtime,
            random: self.random,
            robots: RobotsGate::default(),
            cache,
            wire,
            known_hosts,
            observers,
            requests: AtomicU64::new(0),
        })))
    }

    /// Returns the cache that was passed to the builder; otherwise opens the configured one.
    /// Returns `None` if there is no cache.
    fn open_cache(&mut self, headers: &DefaultHeaders) -> Option<StoredResponses> {
        let (store, sharing) = match self.cache.take() {
            Some(store) => (store, Sharing::Process),
            None => store::open_cache(
                &self.config.cache,
                self.state_dir.as_deref(),
                Arc::<dyn Runtime>::clone(&self.runtime),
                &self.notice,
            )?,
        };
        let background = self.config.cache.background;
        Some(StoredResponses::new(store, sharing, background, headers))
    }
}
