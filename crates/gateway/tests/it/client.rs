//! A client of a gateway, as plain as possible.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

/// How long a test waits for anything before it fails: only what hangs takes so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A client of the gateway at an address.
pub(crate) struct GatewayClient {
    pub(crate) address: String,
}

impl GatewayClient {
    /// Opens a connection and sends bytes.
    pub(crate) fn send(&self, bytes: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        // A request that is refused early may not be read to its end.
        let _ = stream.write_all(bytes.as_bytes());
        stream
    }

    /// Sends a request as it stands, and reads its answer to the end of the connection.
    pub(crate) fn ask(&self, head: &str) -> Answer {
        let mut stream = self.send(&format!("{head}\r\nConnection: close\r\n\r\n"));
        Answer::read(&mut stream)
    }

    /// Requests a URL as programs request it of their proxy.
    pub(crate) fn get(&self, url: &str) -> Answer {
        let host = url.split('/').nth(2).expect("a host");
        self.ask(&format!("GET {url} HTTP/1.1\r\nHost: {host}"))
    }

    /// Requests a path of the gateway itself.
    pub(crate) fn page(&self, path: &str) -> Answer {
        let host = &self.address;
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: {host}"))
    }
}

/// An answer as its bytes say.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Reads an answer to the end of its connection.
    pub(crate) fn read(stream: &mut TcpStream) -> Self {
        let mut all = Vec::new();
        // An answer that breaks off ends with an error, and is judged by what came.
        let _ = stream.read_to_end(&mut all);
        let end = all.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no head in {all:?}"));
        let headers = String::from_utf8_lossy(&all[..end]).into_owned();
        let status = headers[9..12].parse().expect("a status");
        let body = all[end + 4..].to_vec();
        Self {
            status,
            headers,
            body,
        }
    }

    /// Returns the value of a header field.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.headers.lines().skip(1);
        lines.find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// Reads the body as a JSON problem.
    pub(crate) fn problem(&self) -> Value {
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json")
        );
        serde_json::from_slice(&self.body).expect("JSON")
    }
}
