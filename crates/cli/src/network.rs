//! Local connectivity: the checks that names have addresses, and that there is a route to them.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use docstokg_bulk::connectivity::Reachability;
use docstokg_bulk::job::BoxFuture;
use docstokg_hub::clock::{Clock, TokioRuntime, before};
use docstokg_hub::transport::{ConnectTo, environment_proxies};

/// Maximum time of a name resolution before the host counts as unreachable.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// Checks connectivity with the resolver and the routing table of the system.
struct SystemNetwork {
    /// Hosts whose connections go to another address.
    mapped: Vec<String>,
    runtime: TokioRuntime,
}

/// Returns the check of local connectivity; `None` behind a proxy.
pub(crate) fn reachability(mappings: &[ConnectTo]) -> Option<Arc<dyn Reachability>> {
    // Behind a proxy, the proxy decides which hosts are reachable.
    if environment_proxies().next().is_some() {
        return None;
    }
    let mapped = mappings
        .iter()
        .map(|mapping| mapping.name.clone())
        .collect();
    Some(Arc::new(SystemNetwork {
        mapped,
        runtime: TokioRuntime::default(),
    }))
}

impl Reachability for SystemNetwork {
    fn is_reachable<'a>(&'a self, host: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let literal = host.trim_matches(['[', ']']).parse::<IpAddr>();
            if host.eq_ignore_ascii_case("localhost")
                || self.mapped.iter().any(|mapped| mapped == host)
            {
                return true;
            }
            if let Ok(address) = literal {
                return has_route(SocketAddr::new(address, 443));
            }
            let until = self.runtime.boot() + LOOKUP_TIMEOUT;
            match before(&self.runtime, until, tokio::net::lookup_host((host, 443))).await {
                Some(Ok(mut addresses)) => addresses.any(has_route),
                Some(Err(_)) | None => false,
            }
        })
    }
}

/// Tells whether the system has a route: connecting a datagram socket sends nothing.
fn has_route(address: SocketAddr) -> bool {
    let any = if address.is_ipv4() {
        "0.0.0.0:0"
    } else {
        "[::]:0"
    };
    UdpSocket::bind(any)
        .and_then(|socket| socket.connect(address))
        .is_ok()
}
