//! Clients of the gateway, as its limits on connections and memory distinguish them. This module
//! does no I/O.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;

/// The prefix of an IPv6 address that a network assigns to one machine or household. The machine
/// chooses the lower 64 bits itself.
const IPV6_PREFIX: u128 = !0 << 64;

/// A client, identified by its IPv4 address (also in IPv6 notation), or by the first 64 bits of its
/// IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClientAddress(IpAddr);

impl ClientAddress {
    /// Returns the client that connects from `address`.
    pub(crate) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V6(address) if !address.is_loopback() => {
                let network = u128::from(address) & IPV6_PREFIX;
                Self(Ipv6Addr::from(network).into())
            }
            other => Self(other),
        }
    }

    /// Returns whether the client runs on this machine. Such clients have no limit of their own,
    /// because all programs of the machine belong to one user and share one address.
    pub(crate) fn is_local(self) -> bool {
        self.0.is_loopback()
    }
}

/// The number of open connections by client. A client of another machine may open at most half of
/// all connections, so that others can connect as well.
#[derive(Debug)]
pub(crate) struct ClientConnections {
    max_of_client: usize,
    of_clients: Mutex<HashMap<ClientAddress, usize>>,
}

impl ClientConnections {
    /// Creates the limits by client for a gateway with at most `max_connections` connections.
    pub(crate) fn new(max_connections: usize) -> Self {
        Self {
            max_of_client: max_connections.div_ceil(2),
            of_clients: Mutex::default(),
        }
    }

    /// Counts a connection as open until the returned guard is dropped. Returns `None` if the
    /// client has too many connections.
    pub(crate) fn open(self: &Arc<Self>, client: ClientAddress) -> Option<ClientConnection> {
        let mut of_clients = self.of_clients.lock();
        let own = of_clients.entry(client).or_default();
        if !client.is_local() && *own >= self.max_of_client {
            return None;
        }
        *own += 1;
        Some(ClientConnection {
            account: Arc::clone(self),
            client,
        })
    }
}

/// A guard that counts a connection of a client as open until dropped.
#[derive(Debug)]
pub(crate) struct ClientConnection {
    account: Arc<ClientConnections>,
    client: ClientAddress,
}

impl Drop for ClientConnection {
    fn drop(&mut self) {
        let mut of_clients = self.account.of_clients.lock();
        if let Some(own) = of_clients.get_mut(&self.client) {
            *own -= 1;
            if *own == 0 {
                of_clients.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(address: &str) -> ClientAddress {
        ClientAddress::of(address.parse().unwrap())
    }

    #[test]
    fn client_is_one_however_its_address_is_written() {
        assert_eq!(client("::ffff:10.0.0.1"), client("10.0.0.1"));
        assert_eq!(client("2001:db8:1:2::1"), client("2001:db8:1:2:ffff::9"));
        assert_ne!(client("2001:db8:1:2::1"), client("2001:db8:1:3::1"));
        assert_ne!(client("10.0.0.1"), client("10.0.0.2"));
        for local in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert!(client(local).is_local(), "{local}");
        }
        for other in ["::", "::2", "10.0.0.1", "::ffff:10.0.0.1"] {
            assert!(!client(other).is_local(), "{other}");
        }
    }

    #[test]
    fn one_client_leaves_connections_for_others() {
        for (max, of_one) in [(1, 1), (2, 1), (3, 2), (512, 256)] {
            let account = Arc::new(ClientConnections::new(max));
            let hosts = (1..=max).map(|host| client(&format!("2001:db8::{host:x}")));
            let mut open: Vec<_> = hosts.map_while(|own| account.open(own)).collect();
            assert_eq!(open.len(), of_one, "{max}");
            assert!(account.open(client("10.0.0.1")).is_some());
            open.pop();
            assert!(account.open(client("2001:db8::1")).is_some());
            open.clear();
            assert!(account.of_clients.lock().is_empty());
        }
    }

    #[test]
    fn programs_of_this_machine_share_all_connections() {
        let account = Arc::new(ClientConnections::new(4));
        let open: Vec<_> = (0..4).map_while(|_| account.open(client("::1"))).collect();
        assert_eq!(open.len(), 4);
    }
}
