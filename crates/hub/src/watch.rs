//! Watching the breaker of a host, for callers that do not wait in the hub for the end of a block.
//!
//! A block may end earlier than announced, because an operator closed the breaker or a probe of
//! another process succeeded. A watch reports such changes.

use std::sync::Arc;

use docstokg_policy::host::Host;
use tokio::sync::watch;

use crate::admission::{HeartbeatGuard, SiteAdmission};
use crate::clock::BootInstant;
use crate::hub::Hub;

/// A watch for changes of the breaker of a host or resolver, until dropped. One heartbeat serves
/// all watches of a host.
pub struct HostWatch {
    site: Arc<SiteAdmission>,
    _listening: HeartbeatGuard,
}

impl HostWatch {
    /// Returns the instant until which the host's breaker is open, or `None` if requests may be
    /// sent, as far as this process knows.
    #[must_use]
    pub fn open_until(&self) -> Option<BootInstant> {
        self.site.open_until()
    }

    /// Returns whether the host's breaker is closed, as far as this process knows.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.site.health.is_closed_since(BootInstant::FAR)
    }
}

impl Hub {
    /// Returns a [`HostWatch`] for the breaker of a host. Changes by other processes and operators
    /// arrive within five seconds.
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

    /// Returns the send time of the last request of this process that the host served: with a
    /// response that is neither a failure nor a refusal.
    #[must_use]
    pub fn last_served(&self, host: &Host) -> Option<BootInstant> {
        self.site(host).health.last_served()
    }

    /// Returns the send time of the first request of this process that failed since the host last
    /// served one, or `None` while the host serves.
    #[must_use]
    pub fn silent_since(&self, host: &Host) -> Option<BootInstant> {
        self.site(host).health.silent_since()
    }

    /// Returns a counter of the breaker changes that this process knows. A caller with watches
    /// waits for its next value.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.news().changes.subscribe()
    }
}
