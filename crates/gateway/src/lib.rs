//! The gateway: a [`Hub`] for programs in any language, over HTTP.
//!
//! [`GatewayServer`] listens on the address of its [`GatewayOptions`], and sends every request
//! through the hub of its [`Gateway`]. `docstokg serve` is its command line. The hub has the cache,
//! the breakers and the limits: the gateway itself does not retry, store or wait for limits.
//!
//! A relayed request passes these modules:
//!
//! 1. `server` accepts the connection, within the limits of its `client`.
//! 2. `access` refuses requests without permission, and `target` reads the wanted URL.
//! 3. `headers` removes the fields for the gateway, and `bodies` limits the memory of request
//!    bodies.
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

/// The name of the gateway in `Via`, `Cache-Status` and `Proxy-Status`.
const NAME: &str = "docstokg";

/// A function that returns the text of a metrics page, in the format of Prometheus.
pub type MetricsPage = Arc<dyn Fn() -> String + Send + Sync>;

/// The options of a [`Gateway`].
pub struct GatewayOptions {
    /// The address on which the gateway listens.
    pub address: SocketAddr,
    /// Further names by which clients reach the gateway.
    pub names: Vec<String>,
    /// The only origin, if the gateway serves a single one.
    pub origin: Option<Url>,
    /// `true` if http URLs of proxy clients are fetched by https.
    pub upgrade: bool,
    /// The [`RelayMode`] of all requests.
    pub relay: RelayMode,
    /// The directory for bodies that their clients read slowly.
    pub spool: PathBuf,
    /// The token that clients have to send, if any.
    pub token: Option<String>,
    /// Maximum size of a request body, in bytes.
    pub max_request_body: usize,
    /// Maximum number of connections at once.
    pub max_connections: usize,
    /// The page `/-/metrics`, if metrics are recorded.
    pub metrics: Option<MetricsPage>,
}

/// Adapts a [`Config`] to clients of a gateway, which send many requests as fast as they can, like
/// a bulk run.
pub fn adapt_config(config: &mut Config) {
    config.limits.prepare_for_lists();
    // Clients send any number of HEAD requests, so that only the user's setting makes these free.
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
    /// The name in the `Via` of requests, by which requests that come back are recognised.
    via: String,
    /// The names of resolvers that clients have used.
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

    /// Replaces the [`Hub`] for new requests. Requests of the old hub continue, and its reports
    /// reach the store.
    pub fn replace_hub(&self, hub: Hub) {
        let old = std::mem::replace(&mut *self.hub.write(), hub);
        tokio::spawn(async move {
            let _ = old.close().await;
        });
    }

    /// Returns the [`Hub`] in use.
    #[must_use]
    pub fn hub(&self) -> Hub {
        self.hub.read().clone()
    }
}
