//! The gateway: a [`Hub`] for programs in any language, over HTTP.
//!
//! [`GatewayServer`] listens on the address of its [`GatewayOptions`], and sends every request
//! through the hub of its [`Gateway`]. `docstokg serve` is its command line. Retries, the cache and
//! the waits for limits are the work of the hub, not of the gateway.
//!
//! A relayed request passes these modules:
//!
//! 1. `server` accepts the connection, unless its `client` has too many.
//! 2. `access` refuses requests without permission, and `target` reads the wanted URL.
//! 3. `headers` removes the fields that are meant for the gateway, and `bodies` limits the memory
//!    of
//!    request bodies.
//! 4. `relay` converts the request for the hub, and the hub's response for the client.
//! 5. `pipe` reads the body as fast as the origin sends it, even if the client reads slowly.
//!
//! A refusal is a JSON `problem` (RFC 9457). `access`, `target` and `headers` do no I/O.

#![expect(
    clippy::disallowed_methods,
    reason = "a server has real sockets and the real clock; all that can be simulated is in the hub"
)]

mod access;
mod bodies;
mod client;
mod headers;
mod pipe;
mod problem;
mod relay;
mod server;
mod target;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use docstokg_hub::config::Config;
use docstokg_hub::{Hub, RelayMode};
use parking_lot::{Mutex, RwLock};
use url::Url;

use self::access::{AccessRules, TokenHash};
use self::bodies::BodyMemory;
use self::pipe::SpoolSpace;
use self::target::TargetReader;

pub use self::server::GatewayServer;

/// The name of the gateway in `Via`, `Cache-Status` and `Proxy-Status`, so that other
/// intermediaries and people recognise it.
const NAME: &str = "docstokg";

/// A function that returns the metrics as text in the format of Prometheus, for `/-/metrics`.
pub type MetricsPage = Arc<dyn Fn() -> String + Send + Sync>;

/// The options of a [`Gateway`].
pub struct GatewayOptions {
    /// The address on which the gateway listens.
    pub address: SocketAddr,
    /// Further names by which clients reach the gateway, accepted in `Host`.
    pub names: Vec<String>,
    /// The only origin that the gateway serves; `None` if clients name the origin in each request.
    pub origin: Option<Url>,
    /// `true` if http URLs in the requests of proxy clients are fetched by https.
    pub upgrade: bool,
    /// The way in which the hub relays requests, see [`RelayMode`].
    pub relay: RelayMode,
    /// The directory for the parts of response bodies that wait on disk for slow clients.
    pub spool: PathBuf,
    /// The token that clients have to send; `None` if clients need no token.
    pub token: Option<String>,
    /// Maximum size of a request body, in bytes.
    pub max_request_body: usize,
    /// Maximum number of open connections.
    pub max_connections: usize,
    /// Returns the content of the page `/-/metrics`; `None` if metrics are not recorded.
    pub metrics: Option<MetricsPage>,
}

/// Adapts a [`Config`] to a gateway. Its clients send many requests as fast as they can, so it gets
/// the limits of a bulk run.
pub fn adapt_config(config: &mut Config) {
    config.limits.prepare_for_lists();
    // Clients may send any number of HEAD requests, so HEAD requests spend tokens unless the user's
    // configuration says otherwise.
    config.limits.count_head_unless_set();
}

/// The state that all connections of a gateway share.
pub struct Gateway {
    hub: RwLock<Hub>,
    metrics: Option<MetricsPage>,
    access: AccessRules,
    targets: TargetReader,
    relay: RelayMode,
    max_request_body: usize,
    /// The [`BodyMemory`] that all request bodies share.
    request_bodies: Arc<Mutex<BodyMemory>>,
    spool: Arc<SpoolSpace>,
    /// The name of this gateway in the `Via` of requests. A request that comes back has this name.
    via: String,
    /// The names of resolvers that clients have used, to limit their number.
    resolvers: Mutex<HashSet<String>>,
}

impl Gateway {
    fn new(options: GatewayOptions, hub: Hub) -> Self {
        Self {
            hub: RwLock::new(hub),
            metrics: options.metrics,
            access: AccessRules {
                address: options.address,
                names: options.names,
                token: options.token.as_deref().map(TokenHash::new),
            },
            targets: TargetReader {
                origin: options.origin,
                upgrade: options.upgrade,
            },
            relay: options.relay,
            max_request_body: options.max_request_body,
            request_bodies: Arc::default(),
            spool: Arc::new(SpoolSpace::new(options.spool)),
            via: format!("{NAME}-{:08x}", fastrand::u32(..)),
            resolvers: Mutex::default(),
        }
    }

    /// Replaces the [`Hub`] for new requests. Requests in the old hub continue. It is closed when
    /// they have ended, so that their results reach the store.
    pub fn replace_hub(&self, hub: Hub) {
        let old = std::mem::replace(&mut *self.hub.write(), hub);
        tokio::spawn(async move {
            let _ = old.close().await;
        });
    }

    /// Returns the [`Hub`] that new requests use.
    #[must_use]
    pub fn hub(&self) -> Hub {
        self.hub.read().clone()
    }
}
