//! A Redis server of our own, on a free loopback port, that ends with the test.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running server.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
    directory: tempfile::TempDir,
    password: Option<String>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with_password(None)
    }

    pub(crate) fn with_password(password: Option<&str>) -> Self {
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("a port")
            .port();
        let directory = tempfile::tempdir().expect("a directory");
        let child = spawn(port, &directory, password);
        let server = Self {
            child,
            port,
            directory,
            password: password.map(str::to_owned),
        };
        server.wait();
        server
    }

    /// The DSN of the server, without its password.
    pub(crate) fn dsn(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// The id of its process.
    #[allow(dead_code, reason = "the storms of the attack suite stop it")]
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the server.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again on the same port.
    pub(crate) fn restart(&mut self) {
        self.kill();
        self.child = spawn(self.port, &self.directory, self.password.as_deref());
        self.wait();
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a real process takes real time to start"
    )]
    fn wait(&self) {
        for _ in 0..500 {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the server does not start");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(port: u16, directory: &tempfile::TempDir, password: Option<&str>) -> Child {
    let program = ["redis-server", "valkey-server"]
        .into_iter()
        .find(|program| Command::new(program).arg("--version").output().is_ok());
    let program = program.expect("redis-server or valkey-server: `cargo xtask test` installs it");
    let mut command = Command::new(program);
    command.args([
        "--port",
        &port.to_string(),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
    ]);
    if let Some(password) = password {
        command.args(["--requirepass", password]);
    }
    command
        .current_dir(directory.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the server")
}
