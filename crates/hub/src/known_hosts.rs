//! Facts about hosts: which of them users supplied, and which do not serve https.

use std::collections::HashSet;

use docstokg_policy::host::Host;
use parking_lot::RwLock;
use url::Url;

use crate::request::{Provenance, Request};
use crate::transport::AddressReach;

/// Maximum number of user-supplied hosts that are remembered. Beyond that number, a redirect to an
/// internal address is refused even if the user supplied its host.
const MAX_USER_SUPPLIED: usize = 65_536;
/// Maximum number of hosts that are remembered as not serving https.
const MAX_PLAIN_HOSTS: usize = 10_000;

/// The facts that a hub remembers about hosts.
#[derive(Default)]
pub(crate) struct KnownHosts {
    user_supplied: RwLock<HashSet<Host>>,
    /// Hosts that do not serve https, although https was tried instead of the http URL of a link
    /// resolver.
    plain: RwLock<HashSet<Host>>,
}

impl KnownHosts {
    /// Remembers the host of a request's first hop, if the user supplied its URL.
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

    /// Returns the [`AddressReach`] of a hop to a host. Only a host that the user supplied may have
    /// an internal address, and only for a request that no untrusted list named.
    pub(crate) fn reach_of(&self, host: &Host, request: &Request) -> AddressReach {
        if request.provenance == Provenance::Untrusted {
            return AddressReach::PublicOnly;
        }
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

    /// Returns whether the host of a URL is remembered as not serving https.
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
