//! The connection to the server: opened at its first use, shared by all callers, and opened again
//! after a loss.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{
    AsyncConnectionConfig, Cmd, ConnectionAddr, ConnectionInfo, Pipeline, RedisError, RedisFuture,
    Value,
};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::bounded_connection::BoundedConnection;
use super::runtime::pause;

/// The longest time to establish a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest wait for a reply. The wait is longer than the short pauses of a server, so that
/// these are not taken for a failure.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);
/// The delays before further attempts at a connection.
const RETRY_DELAYS: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(200)];

type ConnectOutcome = Result<MultiplexedConnection, RedisError>;
type ConnectAttempt = watch::Receiver<Option<ConnectOutcome>>;

/// The connection to one server, for any number of callers.
#[derive(Clone)]
pub(super) struct ServerLink {
    info: Arc<ConnectionInfo>,
    runtime: Handle,
    current: Arc<Mutex<Option<ConnectAttempt>>>,
}

impl ServerLink {
    /// Creates a link without a connection. Background tasks run in `runtime`.
    pub(super) fn new(info: ConnectionInfo, runtime: Handle) -> Self {
        Self {
            info: Arc::new(info),
            runtime,
            current: Arc::default(),
        }
    }

    /// Sends a command on the current connection.
    pub(super) async fn send(&self, command: &Cmd) -> Result<Value, RedisError> {
        let attempt = self.attempt();
        let sent = match ready(attempt.clone()).await {
            Ok(mut connection) => connection.send_packed_command(command).await,
            Err(error) => Err(error),
        };
        self.forget_if_lost(&attempt, sent)
    }

    /// Returns the connection or the current [`ConnectAttempt`], or begins an attempt.
    fn attempt(&self) -> ConnectAttempt {
        self.current
            .lock()
            .get_or_insert_with(|| {
                let (sender, attempt) = watch::channel(None);
                let (info, runtime) = (Arc::clone(&self.info), self.runtime.clone());
                // A separate task: if a caller stops waiting, the attempt continues for the others.
                #[expect(
                    clippy::disallowed_methods,
                    reason = "the store's own background work, in the runtime it was opened in"
                )]
                self.runtime.spawn(async move {
                    sender.send_replace(Some(connect(&info, &runtime).await))
                });
                attempt
            })
            .clone()
    }

    /// Drops a connection that was lost, unless another one was opened already.
    fn forget_if_lost<T>(
        &self,
        attempt: &ConnectAttempt,
        sent: Result<T, RedisError>,
    ) -> Result<T, RedisError> {
        let is_lost = |error: &RedisError| {
            error.is_unrecoverable_error() || matches!(&*attempt.borrow(), Some(Err(_)))
        };
        if sent.as_ref().is_err_and(is_lost) {
            let mut current = self.current.lock();
            if current
                .as_ref()
                .is_some_and(|now| now.same_channel(attempt))
            {
                *current = None;
            }
        }
        sent
    }
}

impl ConnectionLike for ServerLink {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        Box::pin(self.send(command))
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        commands: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        Box::pin(async move {
            let attempt = self.attempt();
            let sent = match ready(attempt.clone()).await {
                Ok(mut connection) => {
                    connection
                        .send_packed_commands(commands, offset, count)
                        .await
                }
                Err(error) => Err(error),
            };
            self.forget_if_lost(&attempt, sent)
        })
    }

    fn get_db(&self) -> i64 {
        self.info.redis_settings().db()
    }
}

/// Waits for the end of a [`ConnectAttempt`].
async fn ready(mut attempt: ConnectAttempt) -> ConnectOutcome {
    let ended = |outcome: &Option<ConnectOutcome>| outcome.is_some();
    match attempt
        .wait_for(ended)
        .await
        .ok()
        .and_then(|outcome| outcome.clone())
    {
        Some(outcome) => outcome,
        // The runtime ended during the attempt.
        None => Err(io::Error::from(io::ErrorKind::ConnectionAborted).into()),
    }
}

/// Connects, with a few attempts.
async fn connect(info: &ConnectionInfo, runtime: &Handle) -> ConnectOutcome {
    let mut again = RETRY_DELAYS.into_iter();
    loop {
        let outcome = connect_once(info, runtime).await;
        let (Err(error), Some(wait)) = (&outcome, again.next()) else {
            return outcome;
        };
        if !error.is_io_error() {
            return outcome;
        }
        pause(wait).await;
    }
}

async fn connect_once(info: &ConnectionInfo, runtime: &Handle) -> ConnectOutcome {
    #[expect(
        clippy::disallowed_methods,
        reason = "the server is real, and so is the time it takes to answer"
    )]
    let connected = tokio::time::timeout(CONNECT_TIMEOUT, async {
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(RESPONSE_TIMEOUT));
        MultiplexedConnection::new_with_config(
            info.redis_settings(),
            dial(info.addr()).await?,
            config,
        )
        .await
    });
    let (connection, driver) = connected
        .await
        .unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))?;
    // The driver ends with the last copy of the connection.
    #[expect(
        clippy::disallowed_methods,
        reason = "the store's own background work, in the runtime it was opened in"
    )]
    runtime.spawn(driver);
    Ok(connection)
}

/// Opens a socket to the server.
async fn dial(address: &ConnectionAddr) -> Result<BoundedConnection, RedisError> {
    let tcp = async |host: &str, port| {
        let stream = TcpStream::connect((host, port)).await?;
        stream.set_nodelay(true)?;
        io::Result::Ok(stream)
    };
    match address {
        ConnectionAddr::Tcp(host, port) => Ok(BoundedConnection::new(tcp(host, *port).await?)),
        ConnectionAddr::TcpTls {
            host,
            port,
            insecure: false,
            ..
        } => {
            let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
            let connector = tokio_rustls::TlsConnector::from(Arc::new(trust()?));
            Ok(BoundedConnection::new(
                connector.connect(name, tcp(host, *port).await?).await?,
            ))
        }
        #[cfg(unix)]
        ConnectionAddr::Unix(path) => Ok(BoundedConnection::new(
            tokio::net::UnixStream::connect(path).await?,
        )),
        _ => Err(io::Error::other(
            "a server is connected to by TCP, by TLS with a valid certificate, or by a socket file",
        )
        .into()),
    }
}

/// Returns a TLS configuration with the root certificates of the system.
fn trust() -> io::Result<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(
        rustls::crypto::ring::default_provider(),
    ));
    Ok(config
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth())
}
