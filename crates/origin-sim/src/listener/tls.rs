//! TLS, and HTTP/2 on top of it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::{Connection, Security, http1, multiplexed, pause};
use crate::origin::SimulatedWeb;

impl Security {
    /// Creates TLS with a self-signed certificate for `name`. Also returns the certificate as PEM,
    /// which clients must trust.
    ///
    /// # Panics
    /// If no certificate can be created.
    #[must_use]
    pub fn self_signed(name: &str) -> (Self, String) {
        Self::certified(name, &[], u32::MAX)
    }

    /// Creates TLS with HTTP/2, otherwise like [`Security::self_signed`]. A connection accepts
    /// `requests_per_connection` requests.
    #[must_use]
    pub fn self_signed_http2(name: &str, requests_per_connection: u32) -> (Self, String) {
        Self::certified(name, &[b"h2", b"http/1.1"], requests_per_connection)
    }

    #[expect(
        clippy::expect_used,
        reason = "an origin without a certificate is a failed test"
    )]
    fn certified(name: &str, protocols: &[&[u8]], requests_per_connection: u32) -> (Self, String) {
        let certified =
            rcgen::generate_simple_self_signed(vec![name.to_owned()]).expect("a certificate");
        let key = rustls::pki_types::PrivateKeyDer::try_from(certified.signing_key.serialize_der())
            .expect("a key");
        let mut config = rustls::ServerConfig::builder_with_provider(Arc::new(
            rustls::crypto::ring::default_provider(),
        ))
        .with_safe_default_protocol_versions()
        .expect("protocol versions")
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .expect("a key that fits its certificate");
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let tls = Self::Tls {
            config: Arc::new(config),
            requests_per_connection,
        };
        (tls, certified.cert.pem())
    }
}

/// Serves a connection that begins with a TLS handshake, in the protocol that the handshake
/// selects.
pub(super) async fn serve(
    stream: TcpStream,
    web: SimulatedWeb,
    config: Arc<rustls::ServerConfig>,
    requests_per_connection: u32,
    address: SocketAddr,
) -> io::Result<()> {
    let stream = shake_hands(stream, &web, config).await?;
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        multiplexed::serve_connection(stream, web, address, requests_per_connection).await
    } else {
        http1::serve_connection(stream, web, address).await
    }
}

async fn shake_hands(
    stream: TcpStream,
    web: &SimulatedWeb,
    config: Arc<rustls::ServerConfig>,
) -> io::Result<TlsStream<TcpStream>> {
    let delay = web
        .origins
        .values()
        .map(|origin| origin.lock().dial_delay)
        .max()
        .unwrap_or_default();
    pause(delay).await;
    tokio_rustls::TlsAcceptor::from(config).accept(stream).await
}

impl Connection for TlsStream<TcpStream> {
    fn arm_reset(&self) {
        self.get_ref().0.arm_reset();
    }
}
