//! Real servers of the system's packages, each in a directory of its own: nginx and `HAProxy`, which
//! `cargo xtask test` installs.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A running server.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its workers end with it.
        let _ = Command::new("kill")
            .arg(self.child.id().to_string())
            .status();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts a server and waits until it accepts connections. Its output goes to `log`.
    pub(crate) fn start(mut command: Command, port: u16, log: &Path) -> Self {
        let output = std::fs::File::create(log).expect("a file");
        let child = command
            .stdout(output.try_clone().expect("a file"))
            .stderr(output)
            .stdin(Stdio::null())
            .spawn()
            .expect("a server that `cargo xtask test` installs");
        let server = Self { child, port };
        server.wait(log);
        server
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a real server takes real time to start"
    )]
    fn wait(&self, log: &Path) {
        for _ in 0..200 {
            if std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(25));
        }
        let why = std::fs::read_to_string(log).unwrap_or_default();
        panic!("the server does not start: {why}");
    }
}

/// Returns a port that is free now.
pub(crate) fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|free| free.local_addr())
        .expect("a port")
        .port()
}

/// Writes so many PDFs, all of them different, to `www` in a directory.
pub(crate) fn write_files(directory: &Path, count: usize) {
    std::fs::create_dir(directory.join("www")).expect("a directory");
    for number in 0..count {
        let noted = format!("{}\n{number}", "x".repeat(3_000));
        let file = docstokg_origin_sim::pdf::carrying(noted.as_bytes());
        std::fs::write(directory.join(format!("www/{number}.pdf")), file).expect("a file");
    }
}

/// Starts nginx with these lines in its `http` and `server` blocks.
pub(crate) fn nginx(directory: &Path, port: u16, http: &str, server: &str) -> Server {
    let place = |kind: &str| format!("{kind}_temp_path {}/{kind};", directory.display());
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(place)
        .join("\n");
    let config = format!(
        "daemon off; worker_processes 1; pid {0}/pid; error_log {0}/error.log warn;
         events {{ worker_connections 1024; }}
         http {{ {temporary} types {{ application/pdf pdf; }} {http}
           server {{ root {0}/www; {server} }} }}",
        directory.display()
    );
    std::fs::write(directory.join("nginx.conf"), config).expect("a file");
    Server::start(
        nginx_command(directory),
        port,
        &directory.join("nginx.output"),
    )
}

/// Returns the command that starts or signals the nginx of a directory.
pub(crate) fn nginx_command(directory: &Path) -> Command {
    let mut command = Command::new("nginx");
    command
        .arg("-p")
        .arg(directory)
        .arg("-c")
        .arg(directory.join("nginx.conf"));
    command
}
