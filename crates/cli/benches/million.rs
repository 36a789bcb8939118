//! A million lines: how soon the first request leaves, and how much memory the run takes at most.
//! Every line is a work of another kind of list: one host, DOIs, and a host of its own for every
//! line. Exits 1 when a target is missed.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark talks to whoever runs it"
)]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use docstokg_hub::clock::{Clock, SystemClock};
use docstokg_origin_sim::{Listener, Origin, Reply, Security, Web};

const LINES: usize = 1_000_000;
/// The longest that a list is watched.
const LONGEST: Duration = Duration::from_secs(240);
/// The most memory, in KiB.
const MOST: u64 = 300 << 10;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let origin = Origin::new("many.example").handler(|arrival, _| match arrival.path.as_str() {
        "/robots.txt" => Reply::status(404),
        path => Reply::ok(path.repeat(50)),
    });
    let web = Web::new([origin], SystemClock.boot());
    let listener = runtime
        .block_on(Listener::start(&web, Security::Plain))
        .expect("a port");
    let address = listener.address.to_string();
    let mut missed = false;
    let mut check = |what: &str, value: f64, most: f64, unit: &str| {
        let met = value <= most;
        missed |= !met;
        println!(
            "{} {what}: {value:.2} {unit} (at most {most})",
            if met { "ok    " } else { "MISSED" }
        );
    };
    let lists: [(&str, Line); 3] = [
        ("one host", |n, address| {
            format!("http://{address}/f/{n}.bin")
        }),
        ("DOIs", |n, _| format!("10.{}/work.{n}", 1_000 + n % 3_000)),
        ("a million hosts", |n, _| {
            format!("http://h{n}.invalid/{n}.pdf")
        }),
    ];
    for (name, line) in lists {
        let directory = tempfile::tempdir().expect("a directory");
        let list = directory.path().join("list.txt");
        let mut text = String::new();
        for n in 0..LINES {
            writeln!(text, "{}", line(n, &address)).expect("a text");
        }
        std::fs::write(&list, text).expect("a list");
        let before = web.ledger().arrivals().len();
        let start = Instant::now();
        let mut child = download(&list, directory.path());
        let (mut first, mut most, mut read) = (None, 0, 0);
        while start.elapsed() < LONGEST && read < LINES {
            std::thread::sleep(Duration::from_millis(
                if first.is_none() && start.elapsed() < Duration::from_secs(2) {
                    5
                } else {
                    500
                },
            ));
            if first.is_none() && web.ledger().arrivals().len() > before {
                first = Some(start.elapsed());
            }
            most = most.max(memory(&child));
            read = if start.elapsed() < Duration::from_secs(3) {
                0
            } else {
                lines_read(directory.path())
            };
        }
        let took = start.elapsed().as_secs_f64();
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        println!("       {name}: {read} lines read after {took:.0} s");
        check(
            &format!("{name}: the first {LINES} lines, all read"),
            (LINES - read.min(LINES)) as f64,
            0.0,
            "lines left",
        );
        if name == "one host" {
            check(
                &format!("{name}: first request"),
                first.map_or(f64::INFINITY, |first| first.as_secs_f64()),
                1.0,
                "s",
            );
        }
        check(
            &format!("{name}: memory at its peak"),
            most as f64 / 1_024.0,
            MOST as f64 / 1_024.0,
            "MiB",
        );
    }
    std::process::exit(i32::from(missed));
}

/// Writes a line of a list, given the address of the origin.
type Line = fn(usize, &str) -> String;

fn download(list: &Path, directory: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_docstokg"));
    command
        .arg("download")
        .arg(list)
        .arg("--out")
        .arg(directory.join("out"))
        .args(["--quiet", "--mailto", "bench@example.org"]);
    // Nothing but loopback may be asked: whoever is not there is behind a proxy that is not there
    // either.
    command
        .env("DOCSTOKG_STATE_DIR", directory.join("state"))
        .env("NO_PROXY", "127.0.0.1");
    for name in ["HTTP_PROXY", "HTTPS_PROXY"] {
        command.env(name, "http://127.0.0.1:9");
    }
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program")
}

/// Returns the most memory that a process has had so far, in KiB.
fn memory(child: &Child) -> u64 {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|text| text.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or(0)
}

fn lines_read(directory: &Path) -> usize {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let read = || {
        rusqlite::Connection::open_with_flags(directory.join("out/manifest.sqlite3"), flags)?
            .query_row("SELECT max(id) FROM items", [], |row| {
                row.get::<_, Option<i64>>(0)
            })
    };
    read()
        .ok()
        .flatten()
        .and_then(|read| usize::try_from(read).ok())
        .unwrap_or(0)
}
