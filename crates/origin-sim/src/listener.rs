//! Origins on loopback: real sockets with HTTP/1.1, and with HTTP/2 if client and server agree.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::origin::SimulatedWeb;

mod http1;
#[cfg(feature = "test-util")]
mod multiplexed;
#[cfg(feature = "test-util")]
pub(crate) mod served;
#[cfg(feature = "test-util")]
mod tls;

/// The security of the connections of a [`Listener`].
#[derive(Clone)]
pub enum Security {
    /// Connections without TLS.
    Plain,
    /// Connections with TLS, and HTTP/2 if client and configuration agree.
    #[cfg(feature = "test-util")]
    Tls {
        /// The configuration of TLS.
        config: Arc<rustls::ServerConfig>,
        /// Number of requests after which an HTTP/2 connection is shut down, as front ends do.
        requests_per_connection: u32,
    },
}

/// A [`SimulatedWeb`] on one loopback port. Requests name their origin in the `Host` header. Stops
/// when dropped.
///
/// ```
/// use docstokg_hub::{Hub, Request, config};
/// use docstokg_origin_sim::{Listener, OriginScript, Security, SimulatedWeb};
/// use docstokg_policy::time::BootInstant;
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let web = SimulatedWeb::new([OriginScript::new("a.example")], BootInstant::from_micros(0));
/// let listener = Listener::start(&web, Security::Plain).await?;
/// let hub = Hub::builder(config::load::shipped()?).build()?;
/// let url = format!("http://{}/work", listener.address).parse()?;
/// assert_eq!(hub.fetch(Request::get(url)).await?.body, "{}");
/// assert_eq!(web.ledger().len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Listener {
    /// The address of the listening socket.
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
    /// The [`io::Error`] if no port is available.
    pub async fn start(web: &SimulatedWeb, security: Security) -> io::Result<Self> {
        Self::start_on(web, security, "127.0.0.1:0").await
    }

    /// Listens on a given address.
    ///
    /// # Errors
    /// The [`io::Error`] if the address is not available.
    #[expect(
        clippy::disallowed_methods,
        reason = "a server on real sockets has real tasks"
    )]
    pub async fn start_on(
        web: &SimulatedWeb,
        security: Security,
        address: &str,
    ) -> io::Result<Self> {
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
                    // The client sees a broken connection; the ledger has the arrival.
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

    /// Returns the number of connections so far.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

async fn serve(
    stream: TcpStream,
    web: SimulatedWeb,
    security: Security,
    address: SocketAddr,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    match security {
        Security::Plain => http1::serve_connection(stream, web, address).await,
        #[cfg(feature = "test-util")]
        Security::Tls {
            config,
            requests_per_connection,
        } => tls::serve(stream, web, config, requests_per_connection, address).await,
    }
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
        // Without the option, the close is an ordinary close, which is a fault as well.
        let _ = socket2::SockRef::from(self).set_linger(Some(Duration::ZERO));
    }
}
