//! Runs that are killed, find the disk full, or meet another run, and are continued.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use docstokg_bulk::digest::Fingerprint;
use docstokg_bulk::staging::staging_file;
use docstokg_hub::clock::{Clock, SystemClock};
use docstokg_origin_sim::scholarly::{LibraryPlan, TruthFileKind, WorkLibrary};
use docstokg_origin_sim::{OriginScript, ScriptedReply};
use serde_json::Value;

use crate::download_world::{DownloadWorld, pdf, sha256, text};

/// Checks manifest and files against the truth.
fn check(world: &DownloadWorld, library: &WorkLibrary) {
    let mut by_work: HashMap<String, Vec<Value>> = HashMap::new();
    for record in world.manifests() {
        if let (Some(path), Some(sum)) = (record["path"].as_str(), record["sha256"].as_str()) {
            assert_eq!(sha256(&world.path("out").join(path)), sum, "{path}");
        }
        by_work
            .entry(record["work_id"].as_str().expect("a work").to_owned())
            .or_default()
            .push(record);
    }
    for truth in library.truth() {
        let records = by_work
            .get(&truth.id)
            .unwrap_or_else(|| panic!("no record of {}", truth.id));
        assert_eq!(records.len(), 1, "{}: {records:?}", truth.id);
        let sum = records[0]["sha256"].as_str();
        assert_eq!(
            sum.is_some(),
            truth.has_pdf(),
            "{}: {}",
            truth.id,
            records[0]
        );
        if let Some(sum) = sum {
            assert!(
                truth
                    .of_kind(TruthFileKind::Pdf)
                    .any(|copy| copy.sha256 == sum),
                "{}",
                truth.id
            );
        }
    }
    assert!(
        !world.path("out/.docstokg").exists(),
        "temporary files are left"
    );
}

#[test]
fn killed_at_random_points_a_run_is_resumed_to_its_end() {
    let kills: u32 = std::env::var("DOCSTOKG_TEST_KILLS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(10);
    let library = WorkLibrary::generate(&LibraryPlan {
        seed: 9,
        works: 500,
        scale: 40,
        file_bytes: 3_000..30_000,
        ..LibraryPlan::default()
    });
    let world = DownloadWorld::of(&library);
    let works = world.path("works.txt").display().to_string();
    let mut seed = 88_172_645_463_325_252_u64;
    for kill in 0..kills {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let mut child = world
            .command(&[&works, "--quiet"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program");
        while kill == 0 && !world.path("out/manifest.sqlite3").exists() {
            assert_eq!(child.try_wait().expect("a status"), None, "it ended early");
            std::thread::park_timeout(Duration::from_millis(5));
        }
        let until = SystemClock.boot() + Duration::from_millis(100 + seed % 900);
        while SystemClock.boot() < until && child.try_wait().expect("a status").is_none() {
            std::thread::park_timeout(Duration::from_millis(5));
        }
        child.kill().expect("killed");
        child.wait().expect("gone");
    }
    let last = world.run(&["--resume", &works, "--json"]);
    assert_eq!(
        last.status.code(),
        Some(1),
        "some works have no file: {}",
        text(&last.stderr)
    );
    check(&world, &library);
    assert_no_file_was_requested_again(&world);
}

/// Nothing is requested after it was saved.
fn assert_no_file_was_requested_again(world: &DownloadWorld) {
    let (boot, wall) = (SystemClock.boot(), SystemClock.wall());
    let arrivals = world.web.ledger().arrivals();
    for record in world
        .manifests()
        .iter()
        .filter(|record| record["path"].is_string())
    {
        let url: url::Url = record["original_url"]
            .as_str()
            .expect("a URL")
            .parse()
            .expect("a URL");
        let saved = record["timestamp"].as_str().expect("a time");
        for arrival in arrivals.iter().filter(|arrival| {
            Some(arrival.host.as_str()) == url.host_str() && arrival.path == url.path()
        }) {
            let ago = boot.since(arrival.at);
            let at = docstokg_hub::clock::Timestamp::from_micros(
                wall.as_micros() - i64::try_from(ago.as_micros()).expect("a time"),
            )
            .to_string();
            assert!(
                at.as_str() <= saved || at[..22] == saved[..22],
                "{url} was requested at {at}, and was complete at {saved}"
            );
        }
    }
}

#[test]
fn a_full_disk_stops_the_run_in_a_sentence_and_it_is_resumed() {
    let world = DownloadWorld::plain();
    let out = world.path("small");
    std::fs::create_dir_all(&out).expect("a directory");
    let urls: Vec<String> = (0..400)
        .map(|n| format!("http://a.example/{n}.pdf"))
        .collect();
    std::fs::write(world.path("list.txt"), urls.join("\n")).expect("a list");
    let list = world.path("list.txt").display().to_string();
    let program = world.command(&[
        &list,
        "--out",
        out.to_str().expect("a path"),
        "--min-free",
        "0",
    ]);
    let arguments: Vec<String> = program
        .get_args()
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    let script = "mount -t tmpfs -o size=900k tmpfs \"$1\" && out=\"$1\" && shift && \"$@\"; \
                  code=$?; cp -r \"$out\" \"$out.kept\"; exit $code";
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--map-root-user", "sh", "-c", script, "sh"])
        .arg(&out)
        .arg(program.get_program())
        .args(arguments);
    command.env("DOCSTOKG_STATE_DIR", world.path("state"));
    let ran = command.output().expect("unshare");
    let printed = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{printed}");
    assert!(
        printed.contains("no room left")
            || printed.contains("disk is full")
            || printed.contains("cannot be written"),
        "{printed}"
    );
    assert!(printed.contains("--resume"), "{printed}");
    let (error, hint) = (
        printed.find("have their files"),
        printed.find("hint: finished"),
    );
    assert!(
        error.is_some() && error < hint,
        "the error comes first: {printed}"
    );
    // With room again, everything is there in the end.
    let kept = world.path("small.kept").display().to_string();
    let ran = world.run(&["--resume", "--out", &kept, "--quiet", &list]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    assert_eq!(
        std::fs::read_dir(world.path("small.kept/pdf"))
            .expect("files")
            .count(),
        400
    );
}

#[test]
fn works_with_credentials_in_their_urls_continue_when_the_input_is_given_again() {
    let origin = OriginScript::new("a.example").handler(|arrival, _| match arrival.path.as_str() {
        "/robots.txt" => ScriptedReply::status(404),
        path => pdf(path.split('?').next().unwrap_or_default()).after(Duration::from_millis(40)),
    });
    let config = "version: 1\nlimits: { defaults: { artifact: { rates: [], max_concurrent: 4 }, \
                  landing: { rates: [] } } }\n";
    let world = DownloadWorld::start(vec![origin], vec!["a.example".to_owned()], config);
    let urls: Vec<String> = (0..300)
        .map(|n| format!("http://a.example/{n}.pdf?token=PLANTEDKEY"))
        .collect();
    std::fs::write(world.path("list.txt"), urls.join("\n")).expect("a list");
    let list = world.path("list.txt").display().to_string();
    let mut child = world
        .command(&[&list, "--quiet"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program");
    while world.web.ledger().len() < 40 {
        std::thread::park_timeout(Duration::from_millis(5));
    }
    child.kill().expect("killed");
    child.wait().expect("gone");
    let ran = world.run(&["--resume", &list]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    assert_eq!(
        world
            .manifests()
            .iter()
            .filter(|record| record["path"].is_string())
            .count(),
        300
    );
}

/// An origin that sends a large file slowly, and the rest of it at once.
fn origin_with_ranges(all: bytes::Bytes) -> OriginScript {
    OriginScript::new("a.example").handler(move |arrival, _| {
        if arrival.path == "/robots.txt" {
            return ScriptedReply::status(404);
        }
        let from = arrival.header("range").and_then(|range| {
            range
                .strip_prefix("bytes=")?
                .strip_suffix('-')?
                .parse::<usize>()
                .ok()
        });
        let rest = all.slice(from.unwrap_or(0)..);
        let reply = if let Some(from) = from {
            ScriptedReply::status(206)
                .header(
                    "content-range",
                    &format!("bytes {from}-{}/{}", all.len() - 1, all.len()),
                )
                .body(rest)
        } else {
            ScriptedReply::ok("").drip(&rest, 256 << 10, Duration::from_millis(30))
        };
        reply
            .header("etag", "\"v1\"")
            .header("accept-ranges", "bytes")
    })
}

#[test]
fn a_killed_download_of_a_large_file_continues_with_the_rest() {
    let body: bytes::Bytes = (0..8_u32 << 20)
        .map(|n| u8::try_from(n % 253).expect("a byte"))
        .collect::<Vec<_>>()
        .into();
    let origin = origin_with_ranges(body.clone());
    let world = DownloadWorld::start(vec![origin], vec!["a.example".to_owned()], "version: 1\n");
    let mut child = world
        .command(&["http://a.example/large.bin", "--quiet"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program");
    let entries = |directory: &Path| std::fs::read_dir(directory).into_iter().flatten().flatten();
    let part = || {
        let mut unfinished =
            entries(&world.path("out/.docstokg")).flat_map(|shard| entries(&shard.path()));
        unfinished.find(|entry| entry.file_name().to_string_lossy().ends_with(".part"))
    };
    while part()
        .and_then(|entry| entry.metadata().ok())
        .is_none_or(|meta| meta.len() < 2 << 20)
    {
        assert_eq!(
            child.try_wait().expect("a process"),
            None,
            "the run ended before it could be killed"
        );
        std::thread::park_timeout(Duration::from_millis(5));
    }
    child.kill().expect("killed");
    child.wait().expect("gone");
    assert!(world.run(&["--resume", "--quiet"]).status.success());
    let ranges: Vec<String> = world
        .web
        .ledger()
        .arrivals()
        .iter()
        .filter_map(|arrival| arrival.header("range").map(str::to_owned))
        .collect();
    assert_eq!(ranges.len(), 1, "the rest was requested");
    let record = &world.manifests()[0];
    assert_eq!(
        std::fs::read(
            world
                .path("out")
                .join(record["path"].as_str().expect("a path"))
        )
        .expect("a file"),
        body
    );
}
#[test]
fn a_second_run_on_the_same_directory_is_refused() {
    let origin = OriginScript::new("a.example").handler(|arrival, _| {
        if arrival.path == "/robots.txt" {
            ScriptedReply::status(404)
        } else {
            pdf("x").after(Duration::from_secs(60))
        }
    });
    let world = DownloadWorld::start(vec![origin], vec!["a.example".to_owned()], "version: 1\n");
    let mut first = world
        .command(&["http://a.example/1.pdf", "--quiet"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program");
    while world.web.ledger().len() < 2 {
        std::thread::park_timeout(Duration::from_millis(5));
    }
    let second = world.run(&["http://a.example/2.pdf"]);
    assert_eq!(second.status.code(), Some(1));
    let printed = text(&second.stderr);
    assert!(
        printed.contains("another run (process") && printed.contains("choose another --out"),
        "{printed}"
    );
    first.kill().expect("killed");
    first.wait().expect("gone");
}

/// A process that is killed between the end of a 202 and its judgement leaves an empty file.
#[test]
fn an_empty_file_that_a_killed_run_left_is_downloaded_again() {
    let world = DownloadWorld::plain();
    let url = "http://a.example/1.pdf";
    let staged = staging_file(&world.path("out"), 1, Fingerprint::of(url));
    std::fs::create_dir_all(staged.parent().expect("a directory")).expect("a directory");
    std::fs::write(&staged, b"").expect("an empty file");
    let ran = world.run(&[url]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    assert!(world.manifests()[0]["path"].is_string());
}
