//! Bulk downloads beside `curl --parallel` and `aria2c`, from the same origin on loopback, without
//! limits and without syncing. `small` and `large` choose; `serve` only serves, to profile one
//! program. Exits 1 when a target is missed.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark prints its results"
)]
#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use docstokg_hub::clock::{Clock, SystemClock};
use docstokg_origin_sim::{Listener, OriginScript, Piece, ScriptedReply, Security, SimulatedWeb};

const FILES: usize = 2_000;
const SMALL: usize = 256 << 10;
const LARGE: usize = 2 << 30;
const ROUNDS: usize = 5;
/// Pause between programs: memory that the one before freed goes back to the hypervisor meanwhile,
/// and does not slow the next one.
const SETTLE_TIME: Duration = Duration::from_secs(3);

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let (small, block) = (Bytes::from(content(SMALL)), Bytes::from(content(1 << 20)));
    let origin =
        OriginScript::new("bulk.example").handler(move |arrival, _| match arrival.path.as_str() {
            "/robots.txt" => ScriptedReply::status(404),
            "/large.bin" => ScriptedReply::status(200)
                .pieces((0..LARGE >> 20).map(|_| Piece::Bytes(block.clone()))),
            _ => ScriptedReply::ok(small.clone()),
        });
    let web = SimulatedWeb::new([origin], SystemClock.boot());
    let listener = runtime
        .block_on(Listener::start(&web, Security::Plain))
        .expect("a port");
    let base = format!("http://{}", listener.address);
    let many: Vec<String> = (0..FILES).map(|n| format!("{base}/f/{n}.bin")).collect();
    let one = vec![format!("{base}/large.bin")];
    let mut missed = false;
    let mut check = |what: &str, ratio: f64, target: f64| {
        let met = ratio >= target;
        missed |= !met;
        println!(
            "{} {what}: {ratio:.2} x (at least {target})",
            if met { "ok    " } else { "MISSED" }
        );
    };
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    let is_wanted = |what: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == what);
    if wanted.iter().any(|wanted| wanted == "serve") {
        println!("{base}/f/0.bin {base}/large.bin");
        std::thread::park();
    }
    if is_wanted("small") {
        let times = compare("2000 files of 256 KiB", &many);
        check(
            "2,000 files, speed against the faster of both",
            times[1].min(times[2]) / times[0],
            1.0,
        );
    }
    if is_wanted("large") {
        let times = compare("one file of 2 GiB", &one);
        check(
            "one file of 2 GiB, speed against curl",
            times[1] / times[0],
            0.9,
        );
    }
    std::process::exit(i32::from(missed));
}

fn content(length: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Times each program in turns; the median of each.
fn compare(what: &str, urls: &[String]) -> [f64; 3] {
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (program, times) in [docstokg as fn(&[String], &Path) -> Command, curl, aria2c]
            .into_iter()
            .zip(&mut times)
        {
            let directory = tempfile::tempdir().expect("a directory");
            let mut command = program(urls, directory.path());
            std::thread::sleep(SETTLE_TIME);
            let start = Instant::now();
            let status = command
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .expect("the program");
            times.push(start.elapsed().as_secs_f64());
            assert!(status.success(), "{command:?}");
        }
    }
    let mut medians = [0.0; 3];
    for ((name, median), mut times) in ["docstokg", "curl", "aria2c"]
        .into_iter()
        .zip(&mut medians)
        .zip(times)
    {
        times.sort_by(f64::total_cmp);
        *median = times[times.len() / 2];
        println!(
            "       {what}: {name:<8} {median:.2} s (from {:.2} to {:.2})",
            times[0],
            times[times.len() - 1]
        );
    }
    medians
}

fn docstokg(urls: &[String], directory: &Path) -> Command {
    let list = directory.join("list.txt");
    std::fs::write(&list, urls.join("\n")).expect("a list");
    let config = directory.join("config.yaml");
    let text = "version: 1\ntransport: { durability: none }\nlimits: { defaults: { artifact: \
                { rates: [], max_concurrent: 16 }, landing: { rates: [] } } }\n";
    std::fs::write(&config, text).expect("a configuration");
    let mut command = Command::new(env!("CARGO_BIN_EXE_docstokg"));
    command
        .arg("download")
        .arg(list)
        .arg("--out")
        .arg(directory.join("out"))
        .arg("--config")
        .arg(config)
        .arg("--quiet");
    command.env("DOCSTOKG_STATE_DIR", directory.join("state"));
    command
}

fn curl(urls: &[String], directory: &Path) -> Command {
    let config = directory.join("curl.txt");
    let lines: Vec<String> = urls
        .iter()
        .enumerate()
        .map(|(n, url)| {
            format!(
                "url = \"{url}\"\noutput = \"{}\"",
                directory.join(n.to_string()).display()
            )
        })
        .collect();
    std::fs::write(&config, lines.join("\n")).expect("a configuration");
    let mut command = Command::new("curl");
    command
        .args([
            "--silent",
            "--fail",
            "--parallel",
            "--parallel-max",
            "16",
            "--config",
        ])
        .arg(config);
    command
}

fn aria2c(urls: &[String], directory: &Path) -> Command {
    let list = directory.join("list.txt");
    std::fs::write(&list, urls.join("\n")).expect("a list");
    let mut command = Command::new("aria2c");
    command.args([
        "--quiet",
        "--max-concurrent-downloads=16",
        "--file-allocation=none",
        "--max-connection-per-server=16",
        "--split=1",
    ]);
    command
        .arg("--input-file")
        .arg(list)
        .arg("--dir")
        .arg(directory);
    command
}
