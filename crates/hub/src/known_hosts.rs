//! What is remembered of hosts by name: which ones the user supplied, and which serve no https.

use std::collections::HashSet;

use docstokg_policy::host::Host;
use parking_lot::RwLock;
use url::Url;

use crate::request::{Provenance, Request};
use crate::transport::AddressReach;

/// How many hosts that users supplied are remembered. Those beyond may lie in the private network
/// only when they are requested directly.
const MAX_USER_SUPPLIED: usize = 65_536;
/// How many hosts are remembered as serving no https.
const MAX_PLAIN_HOSTS: usize = 10_000;

/// The hosts that a hub has met.
#[derive(Default)]
pub(crate) struct KnownHosts {
    user_supplied: RwLock<HashSet<Host>>,
    /// Hosts that a resolver of links leads to by http and that do not serve https.
    plain: RwLock<HashSet<Host>>,
}

impl KnownHosts {
    /// Remembers the host of the first hop of a request if the user supplied it.
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

    /// Says whether a hop to a host may lead into the private network: only if the user supplied
    /// the host, and never for a request of an untrusted list.
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

    /// Returns whether a host is known to serve no https.
    pub(crate) fn is_plain(&self, url: &Url) -> bool {
        Host::of(url).is_ok_and(|host| self.plain.read().contains(&host))
    }

    /// Remembers that a host serves no https.
    pub(crate) fn remember_plain(&self, host: Host) {
        let mut hosts = self.plain.write();
        if hosts.len() < MAX_PLAIN_HOSTS {
            hosts.insert(host);
        }
    }
}
