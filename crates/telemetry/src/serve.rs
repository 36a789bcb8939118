//! The endpoint that a Prometheus server pulls metrics from.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use docstokg_hub::clock::{BootInstant, Clock, SystemClock};
use parking_lot::Mutex;

use crate::sink::metrics::Metrics;

/// The longest that one scrape may take, from its connection to the last byte.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many scrapes are answered at once. More are turned away, so that slow clients keep no others
/// waiting.
const MOST_AT_ONCE: usize = 32;
/// The most bytes that a scrape may say.
const LONGEST: u64 = 16 << 10;

/// Serves the metrics on an address until the program ends, and returns the address in use.
///
/// # Errors
/// The address cannot be listened on.
pub fn serve(address: SocketAddr, metrics: Arc<Mutex<Metrics>>) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let bound = listener.local_addr()?;
    std::thread::Builder::new()
        .name("metrics".to_owned())
        .spawn(move || {
            let active = Arc::new(AtomicUsize::new(0));
            for stream in listener.incoming().flatten() {
                if active.load(Ordering::Acquire) >= MOST_AT_ONCE {
                    continue;
                }
                let served = Served::begin(&active);
                let metrics = Arc::clone(&metrics);
                // A client that hangs up early has missed something, and no other has. Without a
                // thread it is turned away.
                let _ = std::thread::Builder::new()
                    .name("metrics-client".to_owned())
                    .spawn(move || {
                        let _served = served;
                        let _ = answer(stream, &metrics);
                    });
            }
        })?;
    Ok(bound)
}

/// Counts a client as served while it lives.
struct Served(Arc<AtomicUsize>);

impl Served {
    fn begin(active: &Arc<AtomicUsize>) -> Self {
        active.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(active))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A connection whose reads and writes end together at one instant, however slowly the other side
/// goes on.
struct Timed {
    stream: TcpStream,
    until: BootInstant,
}

impl Timed {
    fn left(&self) -> std::io::Result<Duration> {
        let left = self.until.since(SystemClock.boot());
        if left.is_zero() {
            Err(std::io::ErrorKind::TimedOut.into())
        } else {
            Ok(left)
        }
    }
}

impl Read for Timed {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(buffer)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush()
    }
}

fn answer(stream: TcpStream, metrics: &Mutex<Metrics>) -> std::io::Result<()> {
    let until = SystemClock.boot() + PATIENCE;
    let mut asked = BufReader::new(Timed {
        stream: stream.try_clone()?,
        until,
    })
    .take(LONGEST);
    let mut line = String::new();
    asked.read_line(&mut line)?;
    let mut header = String::new();
    while asked.read_line(&mut header)? > 2 {
        header.clear();
    }
    let mut words = line.split_ascii_whitespace();
    let (method, path) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
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
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let mut stream = Timed { stream, until };
    stream.write_all(head.as_bytes())?;
    if method != "HEAD" {
        stream.write_all(body.as_bytes())?;
    }
    stream.flush()
}
