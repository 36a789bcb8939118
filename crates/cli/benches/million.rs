//! A million lines: how soon the first request leaves, and the peak memory of the run. Three lists:
//! one host, DOIs, and another host in every line. Exits 1 when a target is missed.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark prints its results"
)]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use docstokg_hub::clock::{Clock, SystemClock};
use docstokg_origin_sim::{Listener, OriginScript, ScriptedReply, Security, SimulatedWeb};

const LINES: usize = 1_000_000;
/// The list whose first request is timed.
const ONE_HOST: &str = "one host";
/// Maximum time of a list.
const TIME_LIMIT: Duration = Duration::from_secs(240);
/// Maximum memory, in KiB.
const MAX_MEMORY: u64 = 300 << 10;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let origin =
        OriginScript::new("many.example").handler(|arrival, _| match arrival.path.as_str() {
            "/robots.txt" => ScriptedReply::status(404),
            path => ScriptedReply::ok(path.repeat(50)),
        });
    let web = SimulatedWeb::new([origin], SystemClock.boot());
    let listener = runtime
        .block_on(Listener::start(&web, Security::Plain))
        .expect("a port");
    let address = listener.address.to_string();
    let lists: [(&str, Line); 3] = [
        (ONE_HOST, |n, address| format!("http://{address}/f/{n}.bin")),
        ("DOIs", |n, _| format!("10.{}/work.{n}", 1_000 + n % 3_000)),
        ("a million hosts", |n, _| {
            format!("http://h{n}.invalid/{n}.pdf")
        }),
    ];
    let mut met = true;
    for (name, line) in lists {
        let directory = tempfile::tempdir().expect("a directory");
        let list = directory.path().join("list.txt");
        let mut text = String::new();
        for n in 0..LINES {
            writeln!(text, "{}", line(n, &address)).expect("a text");
        }
        std::fs::write(&list, text).expect("a list");
        met &= check(name, &watch(&list, directory.path(), &web));
    }
    std::process::exit(i32::from(!met));
}

/// What a run of a list showed.
struct Watched {
    /// Time until the first request.
    first: Option<Duration>,
    /// Peak memory, in KiB.
    peak: u64,
    lines_read: usize,
    took: Duration,
}

/// Downloads a list until all its lines are read, and kills the run.
fn watch(list: &Path, directory: &Path, web: &SimulatedWeb) -> Watched {
    let before = web.ledger().arrivals().len();
    let start = Instant::now();
    let mut child = download(list, directory);
    let (mut first, mut peak, mut lines_read) = (None, 0, 0);
    while start.elapsed() < TIME_LIMIT && lines_read < LINES {
        // The first request is expected soon, and is timed exactly.
        let awaits_first = first.is_none() && start.elapsed() < Duration::from_secs(2);
        std::thread::sleep(Duration::from_millis(if awaits_first { 5 } else { 500 }));
        if first.is_none() && web.ledger().arrivals().len() > before {
            first = Some(start.elapsed());
        }
        peak = peak.max(memory(&child));
        if start.elapsed() >= Duration::from_secs(3) {
            lines_read = count_lines_read(directory);
        }
    }
    let took = start.elapsed();
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    Watched {
        first,
        peak,
        lines_read,
        took,
    }
}

/// Prints the figures of a run, and returns whether it meets the targets.
fn check(name: &str, watched: &Watched) -> bool {
    let Watched {
        first,
        peak,
        lines_read,
        took,
    } = watched;
    println!(
        "       {name}: {lines_read} lines read after {:.0} s",
        took.as_secs_f64()
    );
    let mut met = at_most(
        &format!("{name}: the first {LINES} lines, all read"),
        (LINES - lines_read.min(&LINES)) as f64,
        0.0,
        "lines left",
    );
    if name == ONE_HOST {
        let first = first.map_or(f64::INFINITY, |first| first.as_secs_f64());
        met &= at_most(&format!("{name}: first request"), first, 1.0, "s");
    }
    met & at_most(
        &format!("{name}: memory at its peak"),
        *peak as f64 / 1_024.0,
        MAX_MEMORY as f64 / 1_024.0,
        "MiB",
    )
}

fn at_most(what: &str, value: f64, most: f64, unit: &str) -> bool {
    let met = value <= most;
    println!(
        "{} {what}: {value:.2} {unit} (at most {most})",
        if met { "ok    " } else { "MISSED" }
    );
    met
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
    // No request may leave loopback: all other hosts are behind a proxy that does not exist.
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

/// Returns the peak memory of a process so far, in KiB.
fn memory(child: &Child) -> u64 {
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|text| text.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or(0)
}

fn count_lines_read(directory: &Path) -> usize {
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
