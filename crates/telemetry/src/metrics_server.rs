//! The endpoint from which a Prometheus server fetches metrics.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use docstokg_hub::clock::{BootInstant, Clock, SystemClock};
use parking_lot::Mutex;

use crate::sink::metrics::Metrics;

/// Timeout of one scrape, from its connection to the last byte.
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of scrapes at once. Further ones are refused, so that slow clients do not use up
/// threads.
const MAX_SCRAPES: usize = 32;
/// Maximum length of a request, in bytes.
const MAX_REQUEST_BYTES: u64 = 16 << 10;

/// Serves the [`Metrics`] on an address until the program ends, and returns the address in use.
///
/// # Errors
/// The I/O error if the address is not available.
pub fn serve(address: SocketAddr, metrics: Arc<Mutex<Metrics>>) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let bound = listener.local_addr()?;
    std::thread::Builder::new()
        .name("metrics".to_owned())
        .spawn(move || {
            let active = Arc::new(AtomicUsize::new(0));
            for stream in listener.incoming().flatten() {
                if active.load(Ordering::Acquire) >= MAX_SCRAPES {
                    continue;
                }
                let scrape = ActiveScrape::begin(&active);
                let metrics = Arc::clone(&metrics);
                // A client that disconnects early does not affect other clients. If no thread can
                // be started, the client is refused.
                let _ = std::thread::Builder::new()
                    .name("metrics-client".to_owned())
                    .spawn(move || {
                        let _served = scrape;
                        let _ = answer(stream, &metrics);
                    });
            }
        })?;
    Ok(bound)
}

/// A guard that counts a scrape as active until dropped, see [`MAX_SCRAPES`].
struct ActiveScrape(Arc<AtomicUsize>);

impl ActiveScrape {
    fn begin(active: &Arc<AtomicUsize>) -> Self {
        active.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(active))
    }
}

impl Drop for ActiveScrape {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A connection with one deadline for all its reads and writes. A client that sends a byte now and
/// then does not extend the deadline.
struct DeadlineStream {
    stream: TcpStream,
    deadline: BootInstant,
}

impl DeadlineStream {
    fn remaining(&self) -> std::io::Result<Duration> {
        let remaining = self.deadline.since(SystemClock.boot());
        if remaining.is_zero() {
            Err(std::io::ErrorKind::TimedOut.into())
        } else {
            Ok(remaining)
        }
    }
}

impl Read for DeadlineStream {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.stream.set_read_timeout(Some(self.remaining()?))?;
        self.stream.read(buffer)
    }
}

impl Write for DeadlineStream {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.stream.set_write_timeout(Some(self.remaining()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush()
    }
}

fn answer(stream: TcpStream, metrics: &Mutex<Metrics>) -> std::io::Result<()> {
    let deadline = SystemClock.boot() + SCRAPE_TIMEOUT;
    let mut request = BufReader::new(DeadlineStream {
        stream: stream.try_clone()?,
        deadline,
    })
    .take(MAX_REQUEST_BYTES);
    let mut line = String::new();
    request.read_line(&mut line)?;
    let mut header = String::new();
    while request.read_line(&mut header)? > 2 {
        header.clear();
    }
    let mut parts = line.split_ascii_whitespace();
    let (method, path) = (
        parts.next().unwrap_or_default(),
        parts.next().unwrap_or_default(),
    );
    let path = path.split('?').next().unwrap_or_default();
    let (status, kind, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics" | "/") => (
            "200 OK",
            "text/plain; version=0.0.4; charset=utf-8",
            metrics.lock().text(),
        ),
        ("GET" | "HEAD", _) => (
            "404 Not Found",
            "text/plain",
            "metrics are at /metrics\n".to_owned(),
        ),
        _ => (
            "405 Method Not Allowed",
            "text/plain",
            "metrics are read with GET\n".to_owned(),
        ),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    let mut stream = DeadlineStream { stream, deadline };
    stream.write_all(head.as_bytes())?;
    if method != "HEAD" {
        stream.write_all(body.as_bytes())?;
    }
    stream.flush()
}
