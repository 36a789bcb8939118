//! A running gateway, and an origin for it.

use std::net::TcpListener;
use std::ops::Deref;
use std::time::Duration;

use docstokg_gateway::{GatewayOptions, GatewayServer, adapt_config};
use docstokg_hub::config::flags::CommandLineFlags;
use docstokg_hub::config::{Config, load};
use docstokg_hub::policy::freshness::CacheMode;
use docstokg_hub::transport::ConnectTo;
use docstokg_hub::transport::wire::WireOptions;
use docstokg_hub::{Hub, RelayMode};
use docstokg_origin_sim::{OriginScript, ScriptedReply, ServedWeb};
use http::HeaderName;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::client::GatewayClient;

/// What a test says about its gateway.
pub(crate) struct GatewaySetup<'a> {
    pub(crate) listen: &'a str,
    pub(crate) origin: Option<&'a str>,
    pub(crate) rates: &'a [&'a str],
    pub(crate) caches: bool,
    pub(crate) mode: CacheMode,
    pub(crate) ignored_fields: &'a [&'static str],
    pub(crate) max_request_body: usize,
}

impl Default for GatewaySetup<'_> {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:0",
            origin: None,
            rates: &[],
            caches: true,
            mode: CacheMode::Private,
            ignored_fields: &[],
            max_request_body: 16 << 20,
        }
    }
}

impl GatewaySetup<'_> {
    fn config(&self) -> Config {
        let sources = load::ConfigSources {
            flags: CommandLineFlags {
                rate: self.rates.iter().map(ToString::to_string).collect(),
                ..CommandLineFlags::default()
            },
            caches: self.caches,
            ..load::ConfigSources::default()
        };
        let (mut config, _) = load::load(&sources).expect("a configuration");
        adapt_config(&mut config);
        config
    }

    fn options(&self, directory: &TempDir) -> GatewayOptions {
        let ignored_fields = self.ignored_fields.iter();
        GatewayOptions {
            address: self.listen.parse().expect("an address"),
            names: Vec::new(),
            origin: self.origin.map(|url| url.parse().expect("a URL")),
            upgrade: false,
            relay: RelayMode {
                mode: self.mode,
                hold: Duration::from_secs(4),
                heuristic: None,
                ignored_fields: ignored_fields
                    .map(|name| HeaderName::from_static(name))
                    .collect(),
            },
            spool: directory.path().to_owned(),
            token: None,
            max_request_body: self.max_request_body,
            max_connections: 512,
            metrics: None,
        }
    }
}

/// A gateway in a runtime of its own.
pub(crate) struct RunningGateway {
    client: GatewayClient,
    _runtime: Runtime,
    _directory: TempDir,
}

impl Deref for RunningGateway {
    type Target = GatewayClient;

    fn deref(&self) -> &GatewayClient {
        &self.client
    }
}

impl RunningGateway {
    /// Starts a gateway before a served host.
    pub(crate) fn before(origin: &ServedWeb, setup: &GatewaySetup<'_>) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let runtime = Runtime::new().expect("a runtime");
        let mapping = format!("a.example:80={}", origin.address);
        let wire = WireOptions {
            connect_to: vec![mapping.parse::<ConnectTo>().expect("a mapping")],
            ..WireOptions::default()
        };
        let _entered = runtime.enter();
        let builder = Hub::builder(setup.config()).state_dir(directory.path());
        let hub = builder.wire(wire).build().expect("a hub");
        let bound = GatewayServer::bind(setup.options(&directory), hub);
        let server = runtime.block_on(bound).expect("an address");
        let address = server.address().to_string();
        let (stop, stopped) = tokio::sync::watch::channel(false);
        runtime.spawn(async move {
            server.run(stopped, Duration::ZERO).await;
            drop(stop);
        });
        Self {
            client: GatewayClient { address },
            _runtime: runtime,
            _directory: directory,
        }
    }
}

/// An origin that answers every request.
pub(crate) fn fine() -> ServedWeb {
    ServedWeb::start(OriginScript::new("a.example").route("/", [ScriptedReply::ok("fine")]))
}

/// Returns an address that is free now.
pub(crate) fn free_address() -> String {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    free.expect("a port").to_string()
}
