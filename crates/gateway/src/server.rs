//! The connections of the gateway: accepted up to a limit, closed if idle or stuck, and ended
//! gracefully.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use docstokg_hub::Hub;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep};

use crate::client::{ClientAddress, ClientConnection, ClientConnections};
use crate::{Gateway, GatewayOptions};

/// Maximum time until a client has sent the head of its next request, idle time included.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum time for which the gateway waits until its client reads more of a response.
const WRITE_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum size of the head of a request, in bytes.
const MAX_HEAD: usize = 64 << 10;
/// The wait after a failure to accept a connection, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A [`Gateway`] that listens on an address.
pub struct GatewayServer {
    gateway: Arc<Gateway>,
    listener: TcpListener,
    connections: Arc<Semaphore>,
    of_clients: Arc<ClientConnections>,
}

/// An accepted connection. It counts against the limits on connections until dropped.
struct AcceptedConnection {
    stream: TcpStream,
    client: ClientAddress,
    _places: (OwnedSemaphorePermit, ClientConnection),
}

impl GatewayServer {
    /// Listens on the address of the [`GatewayOptions`].
    ///
    /// # Errors
    /// Returns an [`io::Error`] if the address cannot be listened on.
    pub async fn bind(mut options: GatewayOptions, hub: Hub) -> io::Result<Self> {
        let listener = TcpListener::bind(options.address).await?;
        options.address = listener.local_addr()?;
        let connections = Arc::new(Semaphore::new(options.max_connections));
        let of_clients = Arc::new(ClientConnections::new(options.max_connections));
        Ok(Self {
            gateway: Arc::new(Gateway::new(options, hub)),
            listener,
            connections,
            of_clients,
        })
    }

    /// Returns the address on which the server listens, with the port that the system has chosen.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.gateway.access.address
    }

    /// Returns the [`Gateway`], the state that all connections share.
    #[must_use]
    pub fn gateway(&self) -> Arc<Gateway> {
        Arc::clone(&self.gateway)
    }

    /// Serves until `stop` becomes `true`. The server then accepts no more connections, and waits
    /// up to `grace` for active requests to finish.
    pub async fn run(self, mut stop: watch::Receiver<bool>, grace: Duration) {
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.accept() => accepted,
                Some(_) = connections.join_next() => continue,
                _ = stop.wait_for(|stop| *stop) => break,
            };
            match accepted {
                Ok(Some(accepted)) => {
                    let (gateway, stop) = (Arc::clone(&self.gateway), stop.clone());
                    connections.spawn(serve(gateway, accepted, stop));
                }
                Ok(None) => {}
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
        }
        drop(self.listener);
        let finished = async { while connections.join_next().await.is_some() {} };
        // Requests that take longer than `grace` are cut off.
        let _ = tokio::time::timeout(grace, finished).await;
    }

    /// Returns the next [`AcceptedConnection`], after waiting until the gateway has fewer than its
    /// maximum number. Returns `None` after closing a connection whose client has too many.
    async fn accept(&self) -> io::Result<Option<AcceptedConnection>> {
        let permit = Arc::clone(&self.connections).acquire_owned().await;
        let permit = permit.map_err(io::Error::other)?;
        let (stream, peer) = self.listener.accept().await?;
        let client = ClientAddress::of(peer.ip());
        let Some(connection) = self.of_clients.open(client) else {
            return Ok(None);
        };
        // Small responses are sent without delay. If the option cannot be set, they are only
        // slower.
        let _ = stream.set_nodelay(true);
        Ok(Some(AcceptedConnection {
            stream,
            client,
            _places: (permit, connection),
        }))
    }
}

/// Serves a connection to its end.
async fn serve(
    gateway: Arc<Gateway>,
    accepted: AcceptedConnection,
    mut stop: watch::Receiver<bool>,
) {
    let AcceptedConnection {
        stream,
        client,
        _places,
    } = accepted;
    let service = service_fn(move |request| {
        let gateway = Arc::clone(&gateway);
        async move { Ok::<_, io::Error>(gateway.answer(request, client).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD)
        .half_close(false)
        .serve_connection(TokioIo::new(WatchedConnection::new(stream)), service);
    let mut connection = std::pin::pin!(connection);
    let stopped = tokio::select! {
        // An error of the connection means that the client has gone, so there is no reader for a
        // report.
        _ = connection.as_mut() => false,
        _ = stop.wait_for(|stop| *stop) => true,
    };
    if stopped {
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}

/// A connection whose writes fail if the client does not read for too long.
struct WatchedConnection {
    stream: TcpStream,
    stuck: Option<Pin<Box<Sleep>>>,
}

impl WatchedConnection {
    fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            stuck: None,
        }
    }

    /// Returns `written` unless it is pending; if writes are pending for longer than
    /// [`WRITE_TIMEOUT`], returns an error.
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stuck = None;
            return written;
        }
        let stuck = self.stuck.get_or_insert_with(|| {
            Box::pin(tokio::time::sleep_until(Instant::now() + WRITE_TIMEOUT))
        });
        ready!(stuck.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for WatchedConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for WatchedConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.watch(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
