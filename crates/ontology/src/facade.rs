//! One call before each request, for programs that make their own: [`Facade::acquire`].
//!
//! A budget belongs to a service on a host (`ols:www.ebi.ac.uk`) and has two windows unless the
//! settings say otherwise: 8 in a second and 300 in a minute. With a `shared_dir` all processes
//! share it. The limits, their exact windows and their state are those of the hub; this module
//! adds keys, settings and events, and no second limiter. A pull does not call it: there the hub
//! charges the service's budget and the host's in one step.
//!
//! ```no_run
//! use docstokg_ontology::facade::{Facade, AcquireMode, RateLimits};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let limits = RateLimits::from_text("per_service: ols:4/second", "settings")?;
//! let facade = Facade::builder(limits).build()?;
//! facade.acquire(Some("ols"), Some("www.ebi.ac.uk"), AcquireMode::Block, 1).await?;
//! # Ok(())
//! # }
//! ```

mod builder;
mod diagnosis;
mod entry;
pub mod error;
pub mod event;
pub mod key;
pub mod rate;
mod registry;
pub mod settings;

use std::sync::Arc;
use std::time::Duration;

use docstokg_hub::clock::Runtime;
use docstokg_stores::process::PerProcess;

pub use builder::FacadeBuilder;
pub use diagnosis::KeyDiagnosis;
pub use error::{AcquireError, Hint};
pub use event::{FacadeEvent, FacadeObserver, JsonLines};
pub use key::ServiceKey;
pub use settings::RateLimits;

use event::{AcquireOutcome, EventContext, FacadeEventKind};
use registry::KeyRegistry;

/// The longest cooldown: what is stated beyond a day is taken for a day.
const MAX_COOLDOWN: Duration = Duration::from_secs(86_400);

/// What to do while there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcquireMode {
    /// Wait until there is.
    Block,
    /// Fail at once.
    Fail,
}

impl AcquireMode {
    /// Returns the word used in events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Fail => "fail",
        }
    }
}

/// Permission to send one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcquiredPermit {
    /// How long the caller waited for it.
    pub blocked: Duration,
}

/// The limits of a process's own requests. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Facade(Arc<FacadeState>);

struct FacadeState {
    limits: Arc<RateLimits>,
    runtime: Arc<dyn Runtime>,
    run: EventContext,
    observers: Vec<Arc<dyn FacadeObserver>>,
    /// A child process gets a registry, and with it handles, of its own.
    registry: PerProcess<KeyRegistry>,
}

impl Facade {
    /// Starts to put a facade together.
    #[must_use]
    pub fn builder(limits: RateLimits) -> FacadeBuilder {
        FacadeBuilder::new(limits)
    }

    /// Asks to send one request of a weight to a host on behalf of a service. Either name may be
    /// missing. In [`AcquireMode::Block`] the call returns when the request may be sent; a caller
    /// that is dropped before gives its place back.
    ///
    /// ```
    /// use docstokg_ontology::facade::{AcquireMode, Facade, RateLimits};
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let limits = RateLimits::from_text("per_service: ols:1/minute", "settings")?;
    /// let facade = Facade::builder(limits).build()?;
    /// let acquire = || facade.acquire(Some("ols"), Some("www.ebi.ac.uk"), AcquireMode::Fail, 1);
    /// assert!(acquire().await.is_ok());
    /// assert!(acquire().await.is_err(), "one a minute");
    /// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// In [`AcquireMode::Fail`], that there is no room, or a cooldown; in both, a name that is
    /// none, a weight that never fits, and a store that cannot be reached.
    pub async fn acquire(
        &self,
        service: Option<&str>,
        host: Option<&str>,
        mode: AcquireMode,
        weight: u32,
    ) -> Result<AcquiredPermit, AcquireError> {
        let inner = &*self.0;
        let asked = inner.runtime.boot();
        let entry = inner.registry.get().entry(service, host);
        let result = match &entry {
            Err(error) => Err(error.clone()),
            Ok(entry) => match (entry.check_weight(weight), mode) {
                (Err(error), _) => Err(error),
                (Ok(()), AcquireMode::Fail) => entry.acquire_now(weight, &*inner.runtime).await,
                (Ok(()), AcquireMode::Block) => entry.acquire_later(weight, &*inner.runtime).await,
            },
        };
        let blocked = inner.runtime.boot().since(asked);
        if !inner.observers.is_empty() {
            let entry = entry.as_ref().ok();
            self.note(
                entry.map(|entry| entry.key.clone()),
                FacadeEventKind::Acquire {
                    rates: entry.map_or_else(|| [].into(), |entry| Arc::clone(&entry.rates)),
                    weight,
                    mode,
                    blocked_ms: blocked.as_secs_f64() * 1_000.0,
                    outcome: match &result {
                        Ok(()) => AcquireOutcome::Ok,
                        Err(AcquireError::Exceeded { .. }) => AcquireOutcome::Exceeded,
                        Err(_) => AcquireOutcome::Error,
                    },
                    error: result.as_ref().err().map(ToString::to_string),
                },
            );
        }
        result.map(|()| AcquiredPermit { blocked })
    }

    /// Holds a key (`service:host`) back for a time, as a `Retry-After` asks. Windows are not
    /// touched, and other keys of the host go on. A caller that sleeps for that time itself does
    /// not wait again: the next [`Facade::acquire`] finds the cooldown over.
    ///
    /// Returns the time that the key is held back now: at most a day, and the rest of a cooldown in
    /// force if that ends later; then nothing changes, and there is no event.
    ///
    /// # Errors
    /// The key or the time is none, or the store cannot be reached.
    pub async fn cooldown_for(&self, key: &str, seconds: f64) -> Result<Duration, AcquireError> {
        let key = ServiceKey::parse(key)?;
        if !seconds.is_finite() || seconds < 0.0 {
            return Err(AcquireError::Cooldown(seconds.to_string()));
        }
        let length = Duration::from_secs_f64(seconds.min(MAX_COOLDOWN.as_secs_f64()));
        let entry = self.0.registry.get().entry_of(&key)?;
        if let Some(in_force) = entry.begin_cooldown(length).await? {
            return Ok(in_force);
        }
        if !self.0.observers.is_empty() {
            let seconds = length.as_secs_f64();
            self.note(Some(key), FacadeEventKind::Cooldown { seconds });
        }
        Ok(length)
    }

    /// Returns the settings in force.
    #[must_use]
    pub fn limits(&self) -> &RateLimits {
        &self.0.limits
    }

    /// Returns the keys that are ready: known services from the start, hosts since they were first
    /// asked for.
    ///
    /// # Errors
    /// The store could not be opened.
    pub fn keys(&self) -> Result<Vec<ServiceKey>, AcquireError> {
        self.0.registry.get().keys()
    }

    /// Makes a key ready, so that [`Facade::diagnose`] reports it.
    ///
    /// # Errors
    /// One of the names is none, or the store could not be opened.
    pub fn know(&self, service: &str, host: &str) -> Result<(), AcquireError> {
        self.0.registry.get().entry(Some(service), Some(host))?;
        Ok(())
    }

    fn note(&self, key: Option<ServiceKey>, what: FacadeEventKind) {
        let event = FacadeEvent {
            at: self.0.runtime.wall(),
            run: self.0.run.clone(),
            key,
            what,
        };
        for observer in &self.0.observers {
            observer.note(&event);
        }
    }
}
