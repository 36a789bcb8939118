//! Watching a host: for callers that do not wait in the hub for the end of a block, and want to
//! hear when it ends earlier than they were told, because an operator closed the breaker or a probe
//! of another process succeeded.

use std::sync::Arc;

use docstokg_policy::host::Host;
use docstokg_policy::role::Role;
use tokio::sync::watch;

use crate::clock::BootInstant;
use crate::gate::{Gate, Listening};
use crate::hub::{Hub, lane_key};

/// Listens for changes of the breaker of a host or resolver while it lives. One heartbeat serves
/// all watches of a host.
pub struct HostWatch {
    gate: Arc<Gate>,
    _listening: Listening,
}

impl HostWatch {
    /// Returns until when the host's breaker is open, as this process last heard; `None` when
    /// requests may be sent.
    #[must_use]
    pub fn open_until(&self) -> Option<BootInstant> {
        self.gate.open_until()
    }
}

impl Hub {
    /// Watches the breaker of a host. What other processes and operators do to it is heard within
    /// five seconds.
    #[must_use]
    pub fn watch(&self, host: &Host) -> HostWatch {
        let (gate, _) = self.lane(&lane_key(host, Role::Metadata));
        let listening = gate.watch();
        HostWatch {
            gate,
            _listening: listening,
        }
    }

    /// Watches the breaker of a resolver.
    #[must_use]
    pub fn watch_resolver(&self, name: &str) -> HostWatch {
        let gate = self.resolver_gate(&name.into());
        let listening = gate.watch();
        HostWatch {
            gate,
            _listening: listening,
        }
    }

    /// Counts the changes of breakers that were heard of: a caller with watches waits for the next
    /// one here.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.news().changes.subscribe()
    }
}
