//! Origins on loopback: real sockets, with HTTP/1.1, and HTTP/2 where client and server agree on
//! it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::origin::Web;

mod http1;
mod multiplexed;

/// Whether the listener speaks TLS.
#[derive(Clone)]
pub enum Security {
    /// Plain http.
    Plain,
    /// TLS with this configuration.
    Tls(Arc<rustls::ServerConfig>),
    /// TLS, and HTTP/2 for clients that offer it.
    Http2 {
        /// The configuration of TLS.
        config: Arc<rustls::ServerConfig>,
        /// After this many requests a connection is shut down, as front ends do.
        requests_per_connection: u32,
    },
}

impl Security {
    /// Makes TLS with a certificate for `name`, and returns the certificate as PEM for clients that
    /// are to trust it.
    ///
    /// # Panics
    /// When no certificate can be made.
    #[must_use]
    pub fn self_signed(name: &str) -> (Self, String) {
        let (config, pem) = Self::certified(name);
        (Self::Tls(Arc::new(config)), pem)
    }

    /// Makes TLS as [`Security::self_signed`] does, with HTTP/2.
    #[must_use]
    pub fn self_signed_http2(name: &str, requests_per_connection: u32) -> (Self, String) {
        let (mut config, pem) = Self::certified(name);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        (
            Self::Http2 {
                config: Arc::new(config),
                requests_per_connection,
            },
            pem,
        )
    }

    #[expect(
        clippy::expect_used,
        reason = "an origin without a certificate is a failed test"
    )]
    fn certified(name: &str) -> (rustls::ServerConfig, String) {
        let certified =
            rcgen::generate_simple_self_signed(vec![name.to_owned()]).expect("a certificate");
        let key = rustls::pki_types::PrivateKeyDer::try_from(certified.signing_key.serialize_der())
            .expect("a key");
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(
            rustls::crypto::ring::default_provider(),
        ))
        .with_safe_default_protocol_versions()
        .expect("protocol versions")
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .expect("a key that fits its certificate");
        (config, certified.cert.pem())
    }
}

/// A web on one loopback port: requests name their origin in the `Host` header. Stops when dropped.
pub struct Listener {
    /// Where it listens.
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Listener {
    /// Listens on a free loopback port.
    ///
    /// # Errors
    /// No port can be had.
    pub async fn start(web: &Web, security: Security) -> io::Result<Self> {
        Self::start_on(web, security, "127.0.0.1:0").await
    }

    /// Listens on a given address.
    ///
    /// # Errors
    /// The address cannot be had.
    #[expect(
        clippy::disallowed_methods,
        reason = "a server on real sockets has real tasks"
    )]
    pub async fn start_on(web: &Web, security: Security, address: &str) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let web = web.clone();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                let (web, security) = (web.clone(), security.clone());
                tokio::spawn(async move {
                    // The client sees a broken connection; the ledger has what arrived.
                    let _ = serve(stream, web, security, address).await;
                });
            }
        });
        Ok(Self {
            address,
            connections,
            accepting,
        })
    }

    /// Returns how many connections have been made so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

async fn serve(
    stream: TcpStream,
    web: Web,
    security: Security,
    address: SocketAddr,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    match security {
        Security::Plain => http1::converse(stream, web, address).await,
        Security::Tls(config) => {
            let stream = shake_hands(stream, &web, config).await?;
            http1::converse(stream, web, address).await
        }
        Security::Http2 {
            config,
            requests_per_connection,
        } => {
            let stream = shake_hands(stream, &web, config).await?;
            if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                multiplexed::converse(stream, web, address, requests_per_connection).await
            } else {
                http1::converse(stream, web, address).await
            }
        }
    }
}

async fn shake_hands(
    stream: TcpStream,
    web: &Web,
    config: Arc<rustls::ServerConfig>,
) -> io::Result<tokio_rustls::server::TlsStream<TcpStream>> {
    let delay = web
        .origins
        .values()
        .map(|origin| origin.lock().dial_delay)
        .max()
        .unwrap_or_default();
    pause(delay).await;
    tokio_rustls::TlsAcceptor::from(config).accept(stream).await
}

#[expect(
    clippy::disallowed_methods,
    reason = "a server on real sockets runs in real time"
)]
async fn pause(length: Duration) {
    if !length.is_zero() {
        tokio::time::sleep(length).await;
    }
}

/// A connection that can be reset.
trait Connection: AsyncRead + AsyncWrite + Unpin {
    /// Makes the next close a reset.
    fn arm_reset(&self);
}

impl Connection for TcpStream {
    fn arm_reset(&self) {
        // If it cannot be armed the close is an ordinary one, which is a fault all the same.
        let _ = socket2::SockRef::from(self).set_linger(Some(Duration::ZERO));
    }
}

impl Connection for tokio_rustls::server::TlsStream<TcpStream> {
    fn arm_reset(&self) {
        self.get_ref().0.arm_reset();
    }
}
