//! The gateway: the hub for programs in any language, by HTTP.
//!
//! A request comes in (`server`, within the connections that its `client` may have), may be refused
//! (`access`), names a target (`target`), loses what is meant for the gateway alone (`headers`), is
//! read with its body (`bodies` bounds what all of them take), goes through the hub (`relay`), and
//! its answer flows back through a `pipe`, which takes it from the origin as fast as it comes,
//! however slowly the client reads. Refusals are JSON problems (`problem`, RFC 9457). The hub does
//! everything else: cache, breaker, limits.

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

use docstokg_hub::{Hub, Relay};
use docstokg_telemetry::sink::metrics::Metrics;
use parking_lot::{Mutex, RwLock};
use url::Url;

use self::access::{Access, Token};
use self::bodies::BodyMemory;
use self::pipe::SpoolSpace;
use self::target::Targets;

pub(crate) use self::server::Server;

/// The name of the gateway in `Via`, `Cache-Status` and `Proxy-Status`.
const NAME: &str = "docstokg";

/// How a gateway works.
pub(crate) struct Options {
    /// The address that it listens on.
    pub(crate) address: SocketAddr,
    /// Names by which clients reach it beside that address.
    pub(crate) names: Vec<String>,
    /// The only origin, where there is one.
    pub(crate) origin: Option<Url>,
    /// Whether plain URLs are fetched by https.
    pub(crate) upgrade: bool,
    /// How the hub passes requests on.
    pub(crate) relay: Relay,
    /// Where bodies lie that their clients read slowly.
    pub(crate) spool: PathBuf,
    /// What clients have to send.
    pub(crate) token: Option<String>,
    /// The longest request body, in bytes.
    pub(crate) max_request_body: usize,
    /// The most connections at once.
    pub(crate) max_connections: usize,
}

/// A gateway: what its connections share.
pub(crate) struct Gateway {
    hub: RwLock<Hub>,
    metrics: Option<Arc<Mutex<Metrics>>>,
    access: Access,
    targets: Targets,
    relay: Relay,
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
    fn new(options: Options, hub: Hub, metrics: Option<Arc<Mutex<Metrics>>>) -> Self {
        Self {
            hub: RwLock::new(hub),
            metrics,
            access: Access {
                address: options.address,
                names: options.names,
                token: options.token.as_deref().map(Token::new),
            },
            targets: Targets {
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
    pub(crate) fn replace_hub(&self, hub: Hub) {
        let old = std::mem::replace(&mut *self.hub.write(), hub);
        tokio::spawn(async move {
            let _ = old.close().await;
        });
    }

    /// Returns the hub in use.
    pub(crate) fn hub(&self) -> Hub {
        self.hub.read().clone()
    }
}
