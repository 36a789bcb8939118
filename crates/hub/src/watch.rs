//! Watching the breaker of a host, for callers that wait for the end of a block outside of the hub.
//!
//! A block may end earlier than announced, because an operator closed the breaker or a probe of
//! another process succeeded. A watch reports such changes.

use std::sync::Arc;

use docstokg_policy::host::Host;
use tokio::sync::watch;

use crate::admission::{HeartbeatGuard, SiteAdmission};
use crate::clock::BootInstant;
use crate::hub::Hub;

/// A watch that learns of changes of the breaker of a host or resolver until it is dropped. All
/// watches of a host share one heartbeat.
///
/// ```
/// use docstokg_hub::{Host, Request};
/// # use docstokg_origin_sim::{OriginScript, ScriptedReply, Simulation};
/// # let simulation = Simulation::exact();
/// # let busy = ScriptedReply::status(429).header("retry-after", "600");
/// # let (hub, _web) = simulation.hub([OriginScript::new("a.example").route("/", [busy])]);
/// # simulation.block_on(async move {
/// let watch = hub.watch(&Host::parse("a.example")?);
/// assert!(watch.is_closed());
/// // The response is a 429 with `Retry-After: 600`.
/// let _ = hub.fetch(Request::get("http://a.example/".parse()?)).await;
/// assert!(watch.open_until().is_some());
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub struct HostWatch {
    site: Arc<SiteAdmission>,
    _listening: HeartbeatGuard,
}

impl HostWatch {
    /// Returns the instant until which the breaker is open, as far as this process knows; `None` if
    /// requests may be sent.
    #[must_use]
    pub fn open_until(&self) -> Option<BootInstant> {
        self.site.open_until()
    }

    /// Returns whether the breaker is closed, as far as this process knows.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.site.health.is_closed_since(BootInstant::FAR)
    }
}

impl Hub {
    /// Returns a [`HostWatch`] for the breaker of a host. It learns of changes by other processes
    /// and operators within five seconds.
    #[must_use]
    pub fn watch(&self, host: &Host) -> HostWatch {
        let site = self.site(host);
        let listening = site.watch();
        HostWatch {
            site,
            _listening: listening,
        }
    }

    /// Returns a [`HostWatch`] for the breaker of a resolver.
    #[must_use]
    pub fn watch_resolver(&self, name: &str) -> HostWatch {
        let site = self.resolver_site(name);
        let listening = site.watch();
        HostWatch {
            site,
            _listening: listening,
        }
    }

    /// Returns the send time of the last request of this process that the host served, that is,
    /// with a response that is neither a failure nor a refusal. Returns `None` before the first.
    #[must_use]
    pub fn last_served(&self, host: &Host) -> Option<BootInstant> {
        self.site(host).health.last_served()
    }

    /// Returns the send time of the first request of this process that failed since the host last
    /// served one; `None` while the host serves.
    #[must_use]
    pub fn silent_since(&self, host: &Host) -> Option<BootInstant> {
        self.site(host).health.silent_since()
    }

    /// Returns a counter of the breaker changes that this process knows. A caller with a
    /// [`HostWatch`] waits until the counter changes.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.news().changes.subscribe()
    }
}
