//! The facade: limits for programs with requests of their own, by a call before each request.
//!
//! [`Facade::acquire`] takes a permit from a budget. A budget belongs to a service on a host
//! (`ols:www.ebi.ac.uk`). Its default windows are 8 in a second and 300 in a minute. With a
//! `shared_dir` all processes share the budget.
//!
//! Limits, windows and state are those of the hub; this module adds keys, settings and events. A
//! pull does not call the facade: there the hub uses the service's budget and the host's in one
//! step.
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

/// Maximum length of a cooldown: a longer one is shortened to a day.
const MAX_COOLDOWN: Duration = Duration::from_secs(86_400);

/// The reaction of [`Facade::acquire`] to a limit that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcquireMode {
    /// Wait for a permit.
    Block,
    /// Fail without a wait.
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

/// Permission to send one request, from [`Facade::acquire`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcquiredPermit {
    /// The wait of the caller for this permit.
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
    /// The keys. A child process gets its own registry, with its own handles.
    registry: PerProcess<KeyRegistry>,
}

impl Facade {
    /// Returns a [`FacadeBuilder`] with these limits.
    #[must_use]
    pub fn builder(limits: RateLimits) -> FacadeBuilder {
        FacadeBuilder::new(limits)
    }

    /// Acquires a permit for one request of a weight to a host on behalf of a service. Either name
    /// may be missing. In [`AcquireMode::Block`] the call returns when the request may be sent; a
    /// caller that is dropped before releases its position.
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
    /// In [`AcquireMode::Fail`], [`AcquireError::Exceeded`] for a limit or a cooldown. In both
    /// modes, another [`AcquireError`] if a name is invalid, a weight never fits, or the store
    /// cannot be reached.
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

    /// Delays a key (`service:host`) for a time, as a `Retry-After` requires. Windows and other
    /// keys of the host are not affected. A caller that sleeps for that time does not wait twice:
    /// the next [`Facade::acquire`] finds the cooldown over.
    ///
    /// Returns the time until the cooldown ends, at most a day. If a cooldown in force ends later,
    /// nothing changes: its remaining time is returned, without an event.
    ///
    /// # Errors
    /// An [`AcquireError`] if the key or the time is invalid, or the store cannot be reached.
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

    /// Returns the [`RateLimits`] in force.
    #[must_use]
    pub fn limits(&self) -> &RateLimits {
        &self.0.limits
    }

    /// Returns the keys that are ready: known services from the start, hosts since their first use.
    ///
    /// # Errors
    /// An [`AcquireError`] if the store could not be opened.
    pub fn keys(&self) -> Result<Vec<ServiceKey>, AcquireError> {
        self.0.registry.get().keys()
    }

    /// Prepares a key, so that [`Facade::diagnose`] reports it.
    ///
    /// # Errors
    /// An [`AcquireError`] if one of the names is invalid, or the store could not be opened.
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
