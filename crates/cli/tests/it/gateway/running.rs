//! A running gateway.

use std::io::{BufRead as _, BufReader};
use std::ops::Deref;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use super::client::GatewayClient;
use crate::support::sharing;

pub(crate) use super::client::PATIENCE;

/// A gateway in a process of its own. Dropped, it is asked to end, and waited for.
pub(crate) struct GatewayProcess {
    child: Child,
    client: GatewayClient,
}

impl Deref for GatewayProcess {
    type Target = GatewayClient;

    fn deref(&self) -> &GatewayClient {
        &self.client
    }
}

impl GatewayProcess {
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
            client: GatewayClient {
                address: String::new(),
            },
        };
        let mut line = String::new();
        let out = gateway.child.stdout.take().expect("its output");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let said: Value = serde_json::from_str(&line).expect("JSON");
        let address = said["listening"].as_str().expect("an address");
        gateway.client.address = address.replace("0.0.0.0", "127.0.0.1");
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
}

impl Drop for GatewayProcess {
    fn drop(&mut self) {
        let _ = Command::new("kill")
            .arg(self.child.id().to_string())
            .status();
        let _ = self.child.wait();
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
