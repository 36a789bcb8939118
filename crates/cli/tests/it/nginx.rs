//! A real nginx over HTTP/2 that ends connections in the ordinary ways: every file comes, and no
//! breaker opens.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use crate::servers::{Server, free_port, nginx, nginx_command, write_files};
use crate::support::sharing;

const FILES: usize = 1_000;

/// A running nginx, with files to serve and a certificate of its own.
struct RealNginx {
    server: Server,
    directory: tempfile::TempDir,
}

impl RealNginx {
    /// Starts it with these lines in its server.
    fn start(lines: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        write_files(directory.path(), FILES);
        let certified = rcgen::generate_simple_self_signed(vec!["h.example".to_owned()])
            .expect("a certificate");
        std::fs::write(at("cert.pem"), certified.cert.pem()).expect("a file");
        std::fs::write(at("key.pem"), certified.signing_key.serialize_pem()).expect("a file");
        let port = free_port();
        let http = "access_log off; limit_conn_zone $binary_remote_addr zone=c:1m;";
        let server = format!(
            "listen 127.0.0.1:{port} ssl http2; ssl_certificate {0}/cert.pem;
             ssl_certificate_key {0}/key.pem; {lines}",
            directory.path().display()
        );
        Self {
            server: nginx(directory.path(), port, http, &server),
            directory,
        }
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
                &format!("h.example:443=127.0.0.1:{}", self.server.port),
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
        let nginx = RealNginx::start(lines);
        let (files, opens) = nginx.download(most, |_| ());
        assert_eq!(files, FILES, "{lines}");
        // On a busy machine some new connections in a row may fail. That pauses the host once, and not
        // again and again.
        assert!(opens <= 1, "{lines} {opens} opens");
    }
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a real server reloads during a real run"
)]
fn a_reload_during_a_run_loses_nothing() {
    let nginx = RealNginx::start("keepalive_requests 100;");
    let reload = |nginx: &RealNginx| {
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(250));
            assert!(
                nginx_command(nginx.directory.path())
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
