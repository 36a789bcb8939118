//! A real nginx over HTTP/2 that ends connections in the ordinary ways: every file comes, and no
//! breaker opens.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::sharing;

const FILES: usize = 1_000;

/// A running nginx, with files to serve and a certificate of its own.
struct Nginx {
    child: Child,
    directory: tempfile::TempDir,
    port: u16,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Its workers end with it.
        let _ = Command::new("kill")
            .arg(self.child.id().to_string())
            .status();
        let _ = self.child.wait();
    }
}

impl Nginx {
    /// Starts it with these lines in its server.
    fn start(lines: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        std::fs::create_dir(at("www")).expect("a directory");
        for number in 0..FILES {
            let file = format!("%PDF-1.4\n{}\n{number}\n%%EOF\n", "x".repeat(3_000));
            std::fs::write(at(&format!("www/{number}.pdf")), file).expect("a file");
        }
        let certified = rcgen::generate_simple_self_signed(vec!["h.example".to_owned()])
            .expect("a certificate");
        std::fs::write(at("cert.pem"), certified.cert.pem()).expect("a file");
        std::fs::write(at("key.pem"), certified.signing_key.serialize_pem()).expect("a file");
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|free| free.local_addr())
            .expect("a port")
            .port();
        let place = |kind: &str| format!("{kind}_temp_path {}/{kind};", directory.path().display());
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(place)
            .join("\n");
        let config = format!(
            "daemon off; worker_processes 1; pid {0}/pid; error_log {0}/error.log warn;
             events {{ worker_connections 1024; }}
             http {{ access_log off; {temporary} types {{ application/pdf pdf; }}
               limit_conn_zone $binary_remote_addr zone=c:1m;
               server {{ listen 127.0.0.1:{port} ssl http2; ssl_certificate {0}/cert.pem;
                 ssl_certificate_key {0}/key.pem; root {0}/www; {lines} }} }}",
            directory.path().display()
        );
        std::fs::write(at("nginx.conf"), config).expect("a file");
        let child = command(directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("nginx, which `cargo xtask test` installs");
        let nginx = Self {
            child,
            directory,
            port,
        };
        nginx.wait();
        nginx
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a real server takes real time to start"
    )]
    fn wait(&self) {
        for _ in 0..200 {
            if std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(25));
        }
        panic!(
            "nginx does not start: {}",
            std::fs::read_to_string(self.at("error.log")).unwrap_or_default()
        );
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Downloads all files, up to `most` at a time, and returns how many came and how many breakers
    /// opened.
    fn download(&self, most: u32, meanwhile: impl FnOnce(&Self)) -> (usize, i64) {
        let list = (0..FILES)
            .map(|number| format!("https://h.example/{number}.pdf"))
            .collect::<Vec<_>>()
            .join("\n");
        std::fs::write(self.at("list.txt"), list).expect("a file");
        let (state, out) = (self.at("state"), self.at("out"));
        let run = sharing(&state)
            .args(["--cacert", &self.at("cert.pem").display().to_string()])
            .args([
                "--connect-to",
                &format!("h.example:443=127.0.0.1:{}", self.port),
            ])
            .args([
                "--rate",
                &format!("h.example:artifact=rates:100000/SECOND,max_concurrent:{most}"),
            ])
            .args([
                "--rate",
                "h.example:landing=rates:100000/SECOND",
                "download",
                "--workers",
                "300",
                "--quiet",
                "--out",
            ])
            .arg(&out)
            .arg(self.at("list.txt"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut run = run.expect("the program");
        meanwhile(self);
        let code = run.wait().expect("its end").code();
        let files = std::fs::read_dir(out.join("pdf"))
            .into_iter()
            .flatten()
            .count();
        let telemetry =
            rusqlite::Connection::open(state.join("telemetry.sqlite3")).expect("a database");
        let opens = telemetry
            .query_row(
                "SELECT count(*) FROM breaker_transitions WHERE to_state = 'open'",
                [],
                |row| row.get(0),
            )
            .expect("a count");
        assert_eq!(code, Some(0), "{files} files, {opens} opens");
        (files, opens)
    }
}

fn command(directory: &Path) -> Command {
    let mut command = Command::new("nginx");
    command
        .arg("-p")
        .arg(directory)
        .arg("-c")
        .arg(directory.join("nginx.conf"));
    command
}

#[test]
fn connections_that_end_after_a_few_requests_lose_nothing() {
    for (lines, most) in [
        ("keepalive_requests 1;", 200),
        ("keepalive_requests 10;", 200),
        ("keepalive_requests 50;", 200),
        ("keepalive_requests 1000;", 200),
        ("http2_max_concurrent_streams 4;", 200),
        ("limit_conn c 4;", 4),
    ] {
        let nginx = Nginx::start(lines);
        assert_eq!(nginx.download(most, |_| ()), (FILES, 0), "{lines}");
    }
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a real server reloads during a real run"
)]
fn a_reload_during_a_run_loses_nothing() {
    let nginx = Nginx::start("keepalive_requests 100;");
    let reload = |nginx: &Nginx| {
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(250));
            assert!(
                command(nginx.directory.path())
                    .args(["-s", "reload"])
                    .stderr(Stdio::null())
                    .status()
                    .expect("nginx")
                    .success()
            );
        }
    };
    assert_eq!(nginx.download(50, reload), (FILES, 0));
}
