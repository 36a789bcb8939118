//! A running gateway, and a client as plain as possible.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::support::sharing;

/// How long a test waits for anything before it fails: only what hangs takes so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A gateway in a process of its own. Dropped, it is asked to end, and waited for.
pub(crate) struct Gateway {
    child: Child,
    pub(crate) address: String,
}

impl Gateway {
    /// Starts a gateway on a free port, with state that processes share.
    pub(crate) fn start(state: &Path, arguments: &[&str]) -> Self {
        Self::start_at(state, "127.0.0.1:0", arguments)
    }

    /// Starts a gateway on an address.
    pub(crate) fn start_at(state: &Path, listen: &str, arguments: &[&str]) -> Self {
        let child = sharing(state)
            .args(["serve", "--json", "--quiet", "--listen", listen])
            .args(arguments)
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()
            .expect("the program");
        let mut gateway = Self {
            child,
            address: String::new(),
        };
        let mut line = String::new();
        let out = gateway.child.stdout.take().expect("its output");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let said: Value = serde_json::from_str(&line).expect("JSON");
        let address = said["listening"].as_str().expect("an address");
        gateway.address = address.replace("0.0.0.0", "127.0.0.1");
        gateway
    }

    /// Sends the process a signal.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args(["-s", name, &self.child.id().to_string()])
            .status();
        assert!(sent.expect("kill").success());
    }

    /// Waits for the end of the process, and returns its exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.child.wait().expect("its end").code()
    }

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

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = Command::new("kill")
            .arg(self.child.id().to_string())
            .status();
        let _ = self.child.wait();
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

/// Runs curl.
pub(crate) fn curl(arguments: &[&str]) -> Output {
    Command::new("curl")
        .args(["--silent", "--max-time", "60", "--noproxy", ""])
        .args(arguments)
        .env_remove("http_proxy")
        .output()
        .expect("curl")
}
