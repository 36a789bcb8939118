//! The gateway: a [`Hub`] for programs in any language, by HTTP.
//!
//! [`GatewayServer`] listens where its [`GatewayOptions`] say, and passes every request through the
//! hub of its [`Gateway`]: `docstokg serve` is a command line for it. The hub does everything that
//! is about origins: cache, breaker, limits. Nothing here retries, stores or waits for a limit.
//!
//! One module per hop of a relayed request:
//!
//! 1. `server` accepts the connection, within the connections that its `client` may have.
//! 2. `access` refuses who may not use the gateway, and `target` reads which URL is meant.
//! 3. `headers` removes what is meant for the gateway alone, and `bodies` bounds the memory that
//!    request bodies take.
//! 4. `relay` makes it a request of the hub, and makes the hub's response one for the client.
//! 5. `pipe` takes the body from the origin as fast as it comes, however slowly the client reads.
//!
//! A refusal is a JSON `problem` (RFC 9457). `access`, `target` and `headers` are pure.

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

/// Returns the text of a metrics page, in the format of Prometheus.
pub type MetricsPage = Arc<dyn Fn() -> String + Send + Sync>;

/// How a gateway works.
pub struct GatewayOptions {
    /// The address that it listens on.
    pub address: SocketAddr,
    /// Names by which clients reach it beside that address.
    pub names: Vec<String>,
    /// The only origin, where there is one.
    pub origin: Option<Url>,
    /// Whether plain URLs are fetched by https.
    pub upgrade: bool,
    /// How the hub passes requests on.
    pub relay: RelayMode,
    /// Where bodies lie that their clients read slowly.
    pub spool: PathBuf,
    /// What clients have to send.
    pub token: Option<String>,
    /// The longest request body, in bytes.
    pub max_request_body: usize,
    /// The most connections at once.
    pub max_connections: usize,
    /// The page `/-/metrics`, where metrics are recorded.
    pub metrics: Option<MetricsPage>,
}

/// Adapts a configuration to clients of a gateway, which send lists as fast as they can, like a bulk
/// run.
pub fn adapt_config(config: &mut Config) {
    config.limits.prepare_for_lists();
    // Clients send as many HEAD requests as they like: only the user makes these free.
    config.limits.count_head_unless_set();
}

/// A gateway: what its connections share.
pub struct Gateway {
    hub: RwLock<Hub>,
    metrics: Option<MetricsPage>,
    access: AccessRules,
    targets: TargetReader,
    relay: RelayMode,
    max_request_body: usize,
    /// Bounds what request bodies take.
    request_bodies: Arc<Mutex<BodyMemory>>,
    spool: Arc<SpoolSpace>,
    /// The name in `Via` of requests, by which those that come back are recognised.
    via: String,
    /// The resolvers that clients named.
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

    /// Uses another hub for the requests that come from now on. Those of the one before go on, and
    /// what it has reported reaches the store.
    pub fn replace_hub(&self, hub: Hub) {
        let old = std::mem::replace(&mut *self.hub.write(), hub);
        tokio::spawn(async move {
            let _ = old.close().await;
        });
    }

    /// Returns the hub in use.
    #[must_use]
    pub fn hub(&self) -> Hub {
        self.hub.read().clone()
    }
}
