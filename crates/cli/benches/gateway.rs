//! The gateway beside nginx: hits of 1 KiB, each on one core, and the peak memory while a body of
//! 1 GiB passes. Needs nginx, wrk and taskset. Exits 1 when a target is missed.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark prints its results"
)]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const ROUNDS: usize = 3;
const LARGE: u64 = 1 << 30;
/// Maximum memory, in KiB.
const MAX_MEMORY: u64 = 64 << 10;

fn main() {
    let directory = tempfile::tempdir().expect("a directory");
    let nginx = BenchNginx::start(directory.path());
    let mut met = true;
    for (what, telemetry, port) in [
        ("neither logs", "enabled: false", nginx.quiet),
        ("both log", "enabled: true", nginx.logged),
    ] {
        let state = directory.path().join(what.replace(' ', "-"));
        let gateway = BenchGateway::start(&state, &nginx.origin, telemetry);
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            theirs.push(load(&format!("http://127.0.0.1:{port}/k.txt")));
            ours.push(load(&format!("http://{}/k.txt", gateway.address)));
        }
        let (ours, theirs) = (median(&mut ours), median(&mut theirs));
        println!("       {what}: nginx {theirs:.0}/s, gateway {ours:.0}/s");
        met &= check(
            &format!("hits of 1 KiB, {what}"),
            ours / theirs,
            "x nginx",
            0.5,
            false,
        );
    }
    let state = directory.path().join("large");
    let gateway = BenchGateway::start(&state, &nginx.origin, "enabled: true");
    for (what, range, pause) in [
        ("stored on its way", "", Duration::ZERO),
        ("from the cache", "", Duration::ZERO),
        (
            "a range of it",
            "Range: bytes=1000000000-\r\n",
            Duration::ZERO,
        ),
        (
            "to a slow client",
            "Cache-Control: no-cache\r\n",
            Duration::from_millis(2),
        ),
    ] {
        let bytes = gateway.read("/large.bin", range, pause);
        let expected = if what == "a range of it" {
            LARGE - 1_000_000_000
        } else {
            LARGE
        };
        assert_eq!(bytes, expected, "{what}");
        let peak = gateway.peak_memory();
        let what = format!("peak memory after 1 GiB {what}");
        met &= check(
            &what,
            peak as f64 / 1024.0,
            "MiB",
            MAX_MEMORY as f64 / 1024.0,
            true,
        );
    }
    drop((gateway, nginx));
    std::process::exit(i32::from(!met));
}

fn check(what: &str, value: f64, unit: &str, target: f64, at_most: bool) -> bool {
    let met = if at_most {
        value <= target
    } else {
        value >= target
    };
    let (word, bound) = (
        if met { "ok    " } else { "MISSED" },
        if at_most { "at most" } else { "at least" },
    );
    println!("{word} {what}: {value:.2} {unit} ({bound} {target})");
    met
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Requests one URL over 32 kept connections from the second core; returns requests per second.
fn load(url: &str) -> f64 {
    let output = Command::new("taskset")
        .args(["-c", "1", "wrk", "-t1", "-c32", "-d3s", url])
        .output()
        .expect("wrk");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = text.lines().find(|line| line.contains("Non-2xx"));
    assert!(errors.is_none(), "{text}");
    let rate = text
        .lines()
        .find_map(|line| line.strip_prefix("Requests/sec:"));
    rate.and_then(|rate| rate.trim().parse().ok())
        .unwrap_or_else(|| panic!("{text}"))
}

/// A process on the first core, ended with this value.
struct Pinned(Child);

impl Pinned {
    fn start(program: &str, arguments: &[&str]) -> Self {
        let child = Command::new("taskset")
            .args(["-c", "0", program])
            .args(arguments)
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .spawn();
        Self(child.expect("taskset"))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

/// An nginx that serves files, and caches them on two ports.
struct BenchNginx {
    _process: Pinned,
    origin: String,
    quiet: u16,
    logged: u16,
}

impl BenchNginx {
    fn start(directory: &Path) -> Self {
        let www = directory.join("www");
        std::fs::create_dir(&www).expect("a directory");
        std::fs::write(www.join("k.txt"), vec![b'x'; 1024]).expect("a file");
        let large = std::fs::File::create(www.join("large.bin")).expect("a file");
        large.set_len(LARGE).expect("a large file");
        let [origin, quiet, logged] = [free_port(), free_port(), free_port()];
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {}/{kind};", directory.display()))
            .join("\n");
        let config = format!(
            "daemon off; worker_processes 1; pid {0}/pid; error_log {0}/error.log warn;
             events {{ worker_connections 1024; }}
             http {{ {temporary} access_log off; keepalive_requests 1000000000;
               proxy_cache_path {0}/nginx-cache keys_zone=z:10m;
               server {{ listen 127.0.0.1:{origin}; root {0}/www;
                 add_header Cache-Control max-age=3600; }}
               server {{ listen 127.0.0.1:{quiet};
                 location / {{ proxy_cache z; proxy_pass http://127.0.0.1:{origin}; }} }}
               server {{ listen 127.0.0.1:{logged}; access_log {0}/access.log;
                 location / {{ proxy_cache z; proxy_pass http://127.0.0.1:{origin}; }} }} }}",
            directory.display()
        );
        let path = directory.join("nginx.conf");
        std::fs::write(&path, config).expect("a file");
        let (prefix, path) = (directory.display().to_string(), path.display().to_string());
        let process = Pinned::start("nginx", &["-p", &prefix, "-c", &path]);
        wait_for(logged);
        Self {
            _process: process,
            origin: format!("http://127.0.0.1:{origin}"),
            quiet,
            logged,
        }
    }
}

struct BenchGateway {
    process: Pinned,
    address: String,
}

impl BenchGateway {
    fn start(state: &Path, origin: &str, telemetry: &str) -> Self {
        std::fs::create_dir_all(state).expect("a directory");
        let config = state.join("config.yaml");
        let text = format!(
            "version: 1\ntelemetry: {{ {telemetry} }}\ncache: {{ max_bytes: 17179869184 }}\n"
        );
        std::fs::write(&config, text).expect("a file");
        let (state, config) = (state.display().to_string(), config.display().to_string());
        let program = env!("CARGO_BIN_EXE_docstokg");
        let mut process = Pinned::start(
            program,
            &[
                "serve",
                "--json",
                "--quiet",
                "--listen",
                "127.0.0.1:0",
                "--origin",
                origin,
                "--state-dir",
                &state,
                "--config",
                &config,
            ],
        );
        let mut line = String::new();
        let out = process.0.stdout.take().expect("its output");
        BufReader::new(out).read_line(&mut line).expect("a line");
        let said: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        let address = said["listening"].as_str().expect("an address").to_owned();
        Self { process, address }
    }

    /// Reads an answer to its end, with a pause after every megabyte; returns the bytes of its body.
    fn read(&self, path: &str, field: &str, pause: Duration) -> u64 {
        let mut stream = TcpStream::connect(&self.address).expect("a connection");
        let host = &self.address;
        let head =
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{field}Connection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).expect("a request");
        let mut reader = BufReader::with_capacity(1 << 20, stream);
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            assert!(
                reader.read_line(&mut line).expect("a head") > 0,
                "no answer"
            );
        }
        let (mut bytes, mut piece) = (0, vec![0; 1 << 20]);
        loop {
            match reader.read(&mut piece).expect("a body") {
                0 => return bytes,
                length => bytes += length as u64,
            }
            std::thread::sleep(pause);
        }
    }

    /// Returns the peak memory of the process, in KiB.
    fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.0.id()));
        let status = status.expect("a process");
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|text| text.trim().strip_suffix(" kB"));
        peak.and_then(|kib| kib.trim().parse().ok())
            .expect("its peak memory")
    }
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

fn wait_for(port: u16) {
    for _ in 0..200 {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    panic!("nothing listens on {port}");
}
