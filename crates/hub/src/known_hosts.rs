//! Facts about hosts by name: the hosts that users supplied, and those that do not serve https.

use std::collections::HashSet;

use docstokg_policy::host::Host;
use parking_lot::RwLock;
use url::Url;

use crate::request::{Provenance, Request};
use crate::transport::AddressReach;

/// Maximum number of user-supplied hosts that are remembered. Further hosts may have internal
/// addresses only when they are requested directly.
const MAX_USER_SUPPLIED: usize = 65_536;
/// Maximum number of hosts that are remembered as not serving https.
const MAX_PLAIN_HOSTS: usize = 10_000;

/// The hosts that a hub has met.
#[derive(Default)]
pub(crate) struct KnownHosts {
    user_supplied: RwLock<HashSet<Host>>,
    /// Hosts to which a link resolver redirects by http, and that do not serve https.
    plain: RwLock<HashSet<Host>>,
}

impl KnownHosts {
    /// Remembers the host of the first hop of a request, if the user supplied it.
    pub(crate) fn note_requested(&self, host: &Host, request: &Request) {
        if request.provenance == Provenance::UserSupplied
            && !self.user_supplied.read().contains(host)
        {
            let mut hosts = self.user_supplied.write();
            if hosts.len() < MAX_USER_SUPPLIED {
                hosts.insert(host.clone());
            }
        }
    }

    /// Returns the [`AddressReach`] of a hop to a host. Only hosts that the user supplied may have
    /// internal addresses.
    pub(crate) fn reach_of(&self, host: &Host, request: &Request) -> AddressReach {
        let is_requested = || {
            request.provenance == Provenance::UserSupplied
                && Host::of(&request.url).is_ok_and(|requested| requested == *host)
        };
        if self.user_supplied.read().contains(host) || is_requested() {
            AddressReach::Anywhere
        } else {
            AddressReach::PublicOnly
        }
    }

    /// Returns whether a host is known not to serve https.
    pub(crate) fn is_plain(&self, url: &Url) -> bool {
        Host::of(url).is_ok_and(|host| self.plain.read().contains(&host))
    }

    /// Remembers that a host does not serve https.
    pub(crate) fn remember_plain(&self, host: Host) {
        let mut hosts = self.plain.write();
        if hosts.len() < MAX_PLAIN_HOSTS {
            hosts.insert(host);
        }
    }
}
