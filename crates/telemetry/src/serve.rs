//! The endpoint that a Prometheus server pulls metrics from.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::sink::metrics::Metrics;

/// The longest that one scrape may take to ask or to read.
const PATIENCE: Duration = Duration::from_secs(2);
/// The most bytes that a scrape may say.
const LONGEST: u64 = 16 << 10;

/// Serves the metrics on an address until the program ends, and returns the address in use.
///
/// # Errors
/// The address cannot be listened on.
pub fn serve(address: SocketAddr, metrics: Arc<Mutex<Metrics>>) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let bound = listener.local_addr()?;
    std::thread::Builder::new().name("metrics".to_owned()).spawn(move || {
        for stream in listener.incoming().flatten() {
            // Whoever hangs up early has missed something, and nobody else has.
            let _ = answer(stream, &metrics);
        }
    })?;
    Ok(bound)
}

fn answer(stream: TcpStream, metrics: &Mutex<Metrics>) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut asked = BufReader::new(stream.try_clone()?).take(LONGEST);
    let mut line = String::new();
    asked.read_line(&mut line)?;
    let mut header = String::new();
    while asked.read_line(&mut header)? > 2 {
        header.clear();
    }
    let mut words = line.split_ascii_whitespace();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default();
    let (status, kind, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics" | "/") => ("200 OK", "text/plain; version=0.0.4; charset=utf-8", metrics.lock().text()),
        ("GET" | "HEAD", _) => ("404 Not Found", "text/plain", "metrics are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "text/plain", "metrics are read with GET\n".to_owned()),
    };
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    let mut stream = stream;
    stream.write_all(head.as_bytes())?;
    if method != "HEAD" {
        stream.write_all(body.as_bytes())?;
    }
    stream.flush()
}
