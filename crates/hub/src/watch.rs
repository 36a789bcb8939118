//! Watching a host: for callers that do not wait in the hub for the end of a block, and want to
//! know when it ends earlier than announced, because an operator closed the breaker or a probe of
//! another process succeeded.

use std::sync::Arc;

use docstokg_policy::host::Host;
use tokio::sync::watch;

use crate::admission::{HeartbeatGuard, SiteAdmission};
use crate::clock::BootInstant;
use crate::hub::Hub;

/// Listens for changes of the breaker of a host or resolver while it lives. One heartbeat serves
/// all watches of a host.
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
    /// Returns until when the host's breaker is open, as far as this process knows; `None` when
    /// requests may be sent.
    #[must_use]
    pub fn open_until(&self) -> Option<BootInstant> {
        self.site.open_until()
    }

    /// Tells whether the host's breaker is closed, as far as this process knows.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.site.health.is_closed_since(BootInstant::FAR)
    }
}

impl Hub {
    /// Watches the breaker of a host. What other processes and operators do to it arrives within
    /// five seconds.
    #[must_use]
    pub fn watch(&self, host: &Host) -> HostWatch {
        let site = self.site(host);
        let listening = site.watch();
        HostWatch {
            site,
            _listening: listening,
        }
    }

    /// Watches the breaker of a resolver.
    #[must_use]
    pub fn watch_resolver(&self, name: &str) -> HostWatch {
        let site = self.resolver_site(name);
        let listening = site.watch();
        HostWatch {
            site,
            _listening: listening,
        }
    }

    /// Returns when the last request of this process was sent to which the host gave a sign of
    /// life: a response that is neither a failure nor a refusal.
    #[must_use]
    pub fn last_served(&self, host: &Host) -> Option<BootInstant> {
        self.site(host).health.last_served()
    }

    /// Returns when the first request of this process was sent that failed since the host last gave
    /// a sign of life; `None` while the host serves.
    #[must_use]
    pub fn silent_since(&self, host: &Host) -> Option<BootInstant> {
        self.site(host).health.silent_since()
    }

    /// Counts the changes of breakers that this process knows of: a caller with watches waits for
    /// the next one here.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.news().changes.subscribe()
    }
}
