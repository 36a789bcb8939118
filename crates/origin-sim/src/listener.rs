//! Origins on loopback: real sockets, hand-written HTTP/1.1 so that every fault can be made, and
//! HTTP/2 where it is agreed on.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use docstokg_hub::clock::{Clock, SystemClock};
use docstokg_policy::retry_after::format_http_date;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::ledger::Arrival;
use crate::origin::Web;
use crate::reply::{Framing, Piece, Reply};

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
        /// After so many requests a connection is shut down, as front ends do.
        requests_per_connection: u32,
    },
}

impl Security {
    /// Makes TLS with a certificate for `name`, and returns the certificate as PEM for those who
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

/// The largest request head that is read.
const HEAD_LIMIT: usize = 64 << 10;
/// From which size on a piece of a body is sent by itself.
const LARGE: usize = 1 << 20;

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
                    // A broken connection is the client's business; the ledger has what arrived.
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
        Security::Plain => converse(stream, web, address).await,
        Security::Tls(config) => {
            converse(shake_hands(stream, &web, config).await?, web, address).await
        }
        Security::Http2 {
            config,
            requests_per_connection,
        } => {
            let stream = shake_hands(stream, &web, config).await?;
            if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                multiplexed::converse(stream, web, address, requests_per_connection).await
            } else {
                converse(stream, web, address).await
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

/// What the conversation needs of a stream beside reading and writing.
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

async fn converse(mut stream: impl Connection, web: Web, address: SocketAddr) -> io::Result<()> {
    let clock = SystemClock;
    let mut buffer = Vec::new();
    while let Some(request) = read_request(&mut stream, &mut buffer).await? {
        let named = request.header("host").unwrap_or_default().to_owned();
        let host = web.host_for(&named).unwrap_or_else(|| address.to_string());
        let arrival = Arrival {
            host,
            at: clock.boot(),
            ..request
        };
        let is_head = arrival.method == "HEAD";
        let closes = arrival
            .header("connection")
            .is_some_and(|value| value.eq_ignore_ascii_case("close"));
        let Some(served) = web.serve(arrival, clock.wall()) else {
            stream
                .write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
                .await?;
            continue;
        };
        pause(served.latency).await;
        let finished = write_reply(&mut stream, &served.reply, is_head, clock).await;
        web.ledger().ended(served.number, clock.boot());
        if !finished? || closes {
            return Ok(());
        }
    }
    Ok(())
}

/// Reads a request head and its body; `None` when the client has closed.
async fn read_request(
    stream: &mut impl Connection,
    buffer: &mut Vec<u8>,
) -> io::Result<Option<Arrival>> {
    let end = loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if buffer.len() > HEAD_LIMIT {
            return Err(io::Error::other("the request head is too large"));
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let mut first = lines.next().unwrap_or_default().split(' ');
    let (method, path) = (
        first.next().unwrap_or_default().to_owned(),
        first.next().unwrap_or_default().to_owned(),
    );
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length: usize = headers
        .iter()
        .find(|(name, _)| name == "content-length")
        .and_then(|(_, value)| value.parse().ok())
        .unwrap_or(0);
    buffer.drain(..end);
    while buffer.len() < length {
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
    buffer.drain(..length);
    Ok(Some(Arrival {
        host: String::new(),
        method,
        path,
        headers,
        at: docstokg_policy::time::BootInstant::ZERO,
        status: 0,
        ended: None,
        retry_not_before: None,
    }))
}

/// Writes an answer; returns whether the connection can be reused.
async fn write_reply(
    stream: &mut impl Connection,
    reply: &Reply,
    is_head: bool,
    clock: SystemClock,
) -> io::Result<bool> {
    if let Some(how) = &reply.dead {
        return end_badly(stream, how).await;
    }
    let mut out = if reply.framing == Framing::Verbatim {
        Vec::new()
    } else {
        head_of(reply, clock)
    };
    for piece in reply.pieces.iter().filter(|_| !is_head) {
        match piece {
            Piece::Bytes(bytes) if reply.framing == Framing::Chunked => chunk(bytes, &mut out),
            // A large one is sent as it is: a body of gigabytes is not copied first.
            Piece::Bytes(bytes) if bytes.len() >= LARGE => {
                stream.write_all(&std::mem::take(&mut out)).await?;
                stream.write_all(bytes).await?;
            }
            Piece::Bytes(bytes) => out.extend_from_slice(bytes),
            Piece::Pause(length) => {
                stream.write_all(&std::mem::take(&mut out)).await?;
                stream.flush().await?;
                pause(*length).await;
            }
            Piece::Endless(bytes, length) => {
                stream.write_all(&std::mem::take(&mut out)).await?;
                let mut again = Vec::new();
                if reply.framing == Framing::Chunked {
                    chunk(bytes, &mut again);
                } else {
                    again.extend_from_slice(bytes);
                }
                // A client that hangs up ends it.
                loop {
                    stream.write_all(&again).await?;
                    stream.flush().await?;
                    pause(*length).await;
                }
            }
            Piece::Cut | Piece::Reset => {
                stream.write_all(&std::mem::take(&mut out)).await?;
                return end_badly(stream, piece).await;
            }
        }
    }
    if reply.framing == Framing::Chunked && !is_head {
        out.extend_from_slice(b"0\r\n\r\n");
    }
    stream.write_all(&out).await?;
    stream.flush().await?;
    // After a false length the connection cannot be reused.
    Ok(match reply.framing {
        Framing::Claimed(length) => length == reply.length(),
        Framing::Verbatim => false,
        Framing::Length | Framing::Chunked => true,
    })
}

fn chunk(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Writes the status line and the headers.
fn head_of(reply: &Reply, clock: SystemClock) -> Vec<u8> {
    let reason = http::StatusCode::from_u16(reply.status)
        .ok()
        .and_then(|status| status.canonical_reason())
        .unwrap_or("Status");
    let mut head = format!("HTTP/1.1 {} {reason}\r\n", reply.status);
    if !reply.headers.iter().any(|(name, _)| name == "date") {
        head.push_str(&format!("date: {}\r\n", format_http_date(clock.wall())));
    }
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    match reply.content_length() {
        Some(length) => head.push_str(&format!("content-length: {length}\r\n\r\n")),
        None => head.push_str("transfer-encoding: chunked\r\n\r\n"),
    }
    head.into_bytes()
}

async fn end_badly(stream: &mut impl Connection, how: &Piece) -> io::Result<bool> {
    if *how == Piece::Reset {
        stream.arm_reset();
    } else {
        // Closed without a TLS alert, as most connections are.
        stream.flush().await?;
    }
    Ok(false)
}
