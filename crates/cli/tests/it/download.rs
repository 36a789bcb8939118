use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use docstokg_hub::clock::{Clock, SystemClock};
use docstokg_origin_sim::scholarly::{FileKind, Library, Plan};
use docstokg_origin_sim::{Origin, Reply};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::support::program;
use crate::world::{World, pdf, text};

fn sha256(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Sha256::digest(bytes)
        .iter()
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// Checks manifest and files against the truth.
fn check(world: &World, library: &Library) {
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
                truth.of_kind(FileKind::Pdf).any(|copy| copy.sha256 == sum),
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
    let library = Library::generate(&Plan {
        seed: 9,
        works: 500,
        scale: 40,
        file_bytes: 3_000..30_000,
        ..Plan::default()
    });
    let world = World::of(&library);
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
        let until = SystemClock.boot() + Duration::from_millis(100 + seed % 900);
        while SystemClock.boot() < until && child.try_wait().expect("a status").is_none() {
            std::thread::park_timeout(Duration::from_millis(5));
        }
        child.kill().expect("killed");
        child.wait().expect("gone");
        if kill == 0 {
            assert!(world.path("out/manifest.sqlite3").exists());
        }
    }
    let last = world.run(&["--resume", &works, "--json"]);
    assert_eq!(
        last.status.code(),
        Some(1),
        "some works have no file: {}",
        text(&last.stderr)
    );
    check(&world, &library);
    // Nothing that was complete was asked for again.
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
                "{url} was asked for at {at}, and was complete at {saved}"
            );
        }
    }
}

#[test]
fn a_list_becomes_files_a_manifest_and_a_report() {
    let world = World::plain();
    let list = world.path("list.txt");
    std::fs::write(&list, "http://a.example/1.pdf\nnonsense here\nhttp://a.example/2.pdf\nhttp://a.example/1.pdf\nhttp://a.example/missing.pdf\n")
        .expect("a list");
    let ran = world.run(&[
        list.to_str().expect("a path"),
        "--json",
        "--disable",
        "openalex,landing_page,wayback",
    ]);
    assert_eq!(ran.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&ran.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&ran.stdout)));
    for (key, value) in [
        ("saved", 2),
        ("failed", 1),
        ("bad_lines", 1),
        ("skipped", 1),
        ("files", 2),
    ] {
        assert_eq!(report[key], value, "{key}: {report}");
    }
    assert!(
        text(&ran.stderr).contains("line 2: 'nonsense here'"),
        "{}",
        text(&ran.stderr)
    );
    let missing = world
        .manifests()
        .into_iter()
        .find(|record| record["path"].is_null())
        .expect("a record");
    assert_eq!(
        (
            missing["reason"].as_str(),
            missing["classification"].as_str()
        ),
        (Some("http_status"), Some("http_error"))
    );
    let summary: Value = serde_json::from_slice(
        &std::fs::read(world.path("out/manifest.summary.json")).expect("a summary"),
    )
    .expect("JSON");
    assert_eq!(summary["saved"], 2);
    // Again: nothing is fetched, the failed one stays failed until it is tried again.
    let before = world.web.ledger().len();
    assert_eq!(
        world
            .run(&[list.to_str().expect("a path"), "--quiet"])
            .status
            .code(),
        Some(1)
    );
    assert_eq!(world.web.ledger().len(), before);
    let again = world.run(&[
        "--retry-failed",
        "--quiet",
        "--disable",
        "openalex,landing_page,wayback",
    ]);
    assert_eq!(again.status.code(), Some(1));
    assert!(world.web.ledger().len() > before);
}

#[test]
fn verify_fetches_anew_what_is_not_as_it_was() {
    let world = World::plain();
    assert!(
        world
            .run(&["http://a.example/1.pdf", "http://a.example/2.pdf"])
            .status
            .success()
    );
    let files: Vec<PathBuf> = world
        .manifests()
        .iter()
        .map(|record| {
            world
                .path("out")
                .join(record["path"].as_str().expect("a path"))
        })
        .collect();
    std::fs::write(&files[0], "spoilt").expect("written");
    let ran = world.run(&["--verify"]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    assert!(
        text(&ran.stderr).contains("2 files checked, 1 changed or missing"),
        "{}",
        text(&ran.stderr)
    );
    for record in world.manifests() {
        let path = world
            .path("out")
            .join(record["path"].as_str().expect("a path"));
        assert_eq!(sha256(&path), record["sha256"].as_str().expect("a sum"));
    }
}

#[test]
fn two_runs_on_one_directory_do_not_meet() {
    let origin = Origin::new("a.example").handler(|arrival, _| {
        if arrival.path == "/robots.txt" {
            Reply::status(404)
        } else {
            pdf("x").after(Duration::from_secs(60))
        }
    });
    let world = World::start(vec![origin], vec!["a.example".to_owned()], "version: 1\n");
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
    let told = text(&second.stderr);
    assert!(
        told.contains("another run (process") && told.contains("choose another --out"),
        "{told}"
    );
    first.kill().expect("killed");
    first.wait().expect("gone");
}

#[test]
fn wrong_usage_and_places_are_told_in_sentences() {
    let world = World::plain();
    std::fs::write(world.path("file"), "").expect("a file");
    let file = world.path("file/out").display().to_string();
    for (arguments, code, sentence) in [
        (&[][..], 2, "nothing to download"),
        (&["--dry-run", "--resume"][..], 2, "leave out --resume"),
        (
            &["--topic", "x", "--year-start", "2025", "--year-end", "2020"][..],
            2,
            "no work is from a year between",
        ),
        (&["--resume"][..], 2, "holds no earlier run"),
        (
            &["http://a.example/1.pdf", "--kinds", "pdf,doc"][..],
            2,
            "'doc' is not pdf, xml or html",
        ),
        (
            &["http://a.example/1.pdf", "--enable", "opnalex"][..],
            2,
            "is 'openalex' meant?",
        ),
        (
            &["http://a.example/1.pdf", "--format", "xls"][..],
            2,
            "'xls' is not auto",
        ),
        (&["12345"][..], 2, "pmid:12345"),
        (
            &["http://a.example/1.pdf", "--max", "3"][..],
            2,
            "belong to a query",
        ),
        (
            &["http://a.example/1.pdf", "--out", &file][..],
            1,
            "cannot be written",
        ),
    ] {
        let ran = world.run(arguments);
        assert_eq!(
            ran.status.code(),
            Some(code),
            "{arguments:?}: {}",
            text(&ran.stderr)
        );
        assert!(
            text(&ran.stderr).contains(sentence),
            "{arguments:?}: {}",
            text(&ran.stderr)
        );
        assert!(
            text(&ran.stderr).matches("os error").count() <= 1,
            "a cause is told once: {}",
            text(&ran.stderr)
        );
    }
    assert!(world.web.ledger().is_empty());
}

#[test]
fn explain_shows_no_key_of_a_url() {
    for form in [&[][..], &["--json"]] {
        let ran = program()
            .args(["explain", "http://a.example/x?api_key=PLANTEDKEY"])
            .args(form)
            .output()
            .expect("the program");
        assert!(ran.status.success(), "{}", text(&ran.stderr));
        assert!(
            text(&ran.stdout).contains("http://a.example/x?api_key=***"),
            "{}",
            text(&ran.stdout)
        );
        assert!(
            !text(&ran.stdout).contains("PLANTEDKEY") && !text(&ran.stderr).contains("PLANTEDKEY")
        );
    }
}

#[test]
fn a_demonstration_does_not_count_the_files_of_an_earlier_run() {
    let world = World::plain();
    assert!(
        world
            .run(&["http://a.example/1.pdf", "--quiet"])
            .status
            .success()
    );
    let ran = program()
        .args(["demo", "--quiet", "--out"])
        .arg(world.path("out"))
        .output()
        .expect("the program");
    assert_eq!(ran.status.code(), Some(2));
    assert!(
        text(&ran.stderr).contains("choose another --out"),
        "{}",
        text(&ran.stderr)
    );
}

#[test]
fn odd_names_and_long_titles_become_plain_files() {
    let world = World::plain();
    let title = "A title of \u{1d4d0} \"odd\" / \\ characters: ".to_owned() + &"very ".repeat(100);
    let row = serde_json::json!({ "url": "http://a.example/a%20b%2Fc;d=e?x=%22", "title": title, "year": 2020 });
    std::fs::write(world.path("list.jsonl"), format!("{row}\n")).expect("a list");
    let out = world.path("an out \"directory\" with \u{e4} name");
    let ran = world.run(&[
        world.path("list.jsonl").to_str().expect("a path"),
        "--out",
        out.to_str().expect("a path"),
    ]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let names: Vec<String> = std::fs::read_dir(out.join("pdf"))
        .expect("files")
        .map(|entry| {
            entry
                .expect("a file")
                .file_name()
                .into_string()
                .expect("plain")
        })
        .collect();
    assert_eq!(names.len(), 1);
    assert!(
        names[0].len() < 210 && names[0].starts_with("2020__a-title-of") && names[0].is_ascii(),
        "{names:?}"
    );
}

#[test]
fn a_full_disk_stops_the_run_in_a_sentence_and_it_is_resumed() {
    let world = World::plain();
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
    let script = "mount -t tmpfs -o size=900k tmpfs \"$1\" && out=\"$1\" && shift && \"$@\"; code=$?; cp -r \"$out\" \"$out.kept\"; exit $code";
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--map-root-user", "sh", "-c", script, "sh"])
        .arg(&out)
        .arg(program.get_program())
        .args(arguments);
    command.env("DOCSTOKG_STATE_DIR", world.path("state"));
    let ran = command.output().expect("unshare");
    let told = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{told}");
    assert!(
        told.contains("no room left")
            || told.contains("disk is full")
            || told.contains("cannot be written"),
        "{told}"
    );
    assert!(told.contains("--resume"), "{told}");
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
fn keys_in_urls_are_written_down_nowhere() {
    let world = World::plain();
    let url = "http://a.example/f.pdf?api_key=PLANTEDKEY";
    std::fs::write(world.path("list.txt"), format!("{url}\nhttp://a.example/token/PLANTEDKEY/g.pdf\nhttp://a.example/missing?token=PLANTEDKEY\n"))
        .expect("a list");
    let ran = world.run(&[
        world.path("list.txt").to_str().expect("a path"),
        "--disable",
        "openalex,wayback",
    ]);
    assert_eq!(ran.status.code(), Some(1), "{}", text(&ran.stderr));
    assert!(
        world
            .web
            .ledger()
            .arrivals()
            .iter()
            .any(|arrival| arrival.path.contains("PLANTEDKEY")),
        "it was sent"
    );
    assert_eq!(
        world
            .manifests()
            .iter()
            .filter(|record| record["path"].is_string())
            .count(),
        2
    );
    let mut places = vec![world.path("out"), world.path("state")];
    let mut seen = 0;
    while let Some(place) = places.pop() {
        for entry in std::fs::read_dir(&place).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                places.push(path);
                continue;
            }
            seen += 1;
            let bytes = std::fs::read(&path).expect("a file");
            // The file itself repeats its own path: that is the origin's doing.
            let is_file_of_the_run = path.extension().is_some_and(|ending| ending == "pdf");
            assert!(
                is_file_of_the_run
                    || !bytes
                        .windows(10)
                        .any(|window| window.eq_ignore_ascii_case(b"PLANTEDKEY")),
                "{}",
                path.display()
            );
            assert!(
                !path
                    .display()
                    .to_string()
                    .to_ascii_uppercase()
                    .contains("PLANTEDKEY"),
                "{}",
                path.display()
            );
        }
    }
    assert!(seen >= 5);
    assert!(!text(&ran.stderr).contains("PLANTEDKEY") && !text(&ran.stdout).contains("PLANTEDKEY"));
}

#[test]
fn a_query_is_paged_through_and_goes_on_where_it_stood() {
    let library = Library::generate(&Plan {
        seed: 5,
        works: 300,
        scale: 1000,
        file_bytes: 3_000..5_000,
        ..Plan::default()
    });
    let world = World::of(&library);
    let ran = world.run(&[
        "--filter",
        "publication_year:2015-2026",
        "--max",
        "150",
        "--list-only",
        "--json",
    ]);
    let report: Value = serde_json::from_slice(&ran.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&ran.stderr)));
    assert!(
        report["listed"]
            .as_array()
            .is_some_and(|listed| listed.len() > 60),
        "{report}"
    );
    let pages = |world: &World| {
        world
            .web
            .ledger()
            .at("api.openalex.org")
            .iter()
            .filter(|arrival| arrival.path.contains("cursor="))
            .count()
    };
    assert_eq!(pages(&world), 2);
}

#[test]
fn a_query_that_broke_off_is_not_taken_for_complete() {
    let broken = Arc::new(AtomicBool::new(true));
    let breaks = Arc::clone(&broken);
    let works = |from: u32| {
        let work = |n: u32| {
            format!(
                r#"{{"id":"https://openalex.org/W{n}","best_oa_location":{{"pdf_url":"http://a.example/files/{n}.pdf"}}}}"#
            )
        };
        (from..from + 3).map(work).collect::<Vec<_>>().join(",")
    };
    let origin = Origin::new("a.example").handler(move |arrival, _| match arrival.path.as_str() {
        "/robots.txt" => Reply::status(404),
        path if path.contains("cursor=*") || path.contains("cursor=%2A") => Reply::ok(format!(
            r#"{{"meta":{{"next_cursor":"second"}},"results":[{}]}}"#,
            works(1)
        )),
        path if path.contains("cursor=second") && breaks.load(Ordering::Relaxed) => {
            Reply::ok(r#"{"error":"temporarily broken"}"#)
        }
        path if path.contains("cursor=second") => Reply::ok(format!(
            r#"{{"meta":{{"next_cursor":null}},"results":[{}]}}"#,
            works(4)
        )),
        path if path.starts_with("/files/") => pdf(path),
        _ => Reply::status(404),
    });
    let config = "version: 1\nresolvers: { endpoints: { openalex: \"http://a.example\" } }\n\
                  limits: { defaults: { artifact: { rates: [] }, landing: { rates: [] }, metadata: { rates: [] } } }\n";
    let world = World::start(vec![origin], vec!["a.example".to_owned()], config);
    let query = &[
        "--filter",
        "type:article",
        "--resolver-preset",
        "fast",
        "--disable",
        "unpaywall,crossref,arxiv,pmc",
    ][..];
    let first = world.run(query);
    let told = text(&first.stderr);
    assert_eq!(first.status.code(), Some(1), "{told}");
    assert!(
        told.contains("without the 'results'") && told.contains("not read to their end"),
        "{told}"
    );
    let resumed = world.run(&["--resume"]);
    assert_eq!(
        resumed.status.code(),
        Some(1),
        "what was not read is forgotten: {}",
        text(&resumed.stderr)
    );
    assert!(
        text(&resumed.stderr).contains("give them again"),
        "{}",
        text(&resumed.stderr)
    );
    broken.store(false, Ordering::Relaxed);
    let again = world.run(query);
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
    assert_eq!(world.run(&["--resume", "--quiet"]).status.code(), Some(0));
    assert_eq!(
        world
            .manifests()
            .iter()
            .filter(|record| record["path"].is_string())
            .count(),
        6
    );
    let asked = world
        .web
        .ledger()
        .arrivals()
        .into_iter()
        .map(|arrival| arrival.path);
    let look_ups: Vec<String> = asked
        .filter(|path| path.starts_with("/works") && !path.contains("cursor="))
        .collect();
    assert!(
        look_ups.is_empty(),
        "a page of the query says all that a look-up says: {look_ups:?}"
    );
}

#[test]
fn runs_side_by_side_and_one_after_the_other_share_a_crawl_delay() {
    let delay = Duration::from_millis(700);
    let origin = Origin::new("a.example").handler(|arrival, _| match arrival.path.as_str() {
        "/robots.txt" => {
            Reply::ok("User-agent: *\nCrawl-delay: 0.7\n").header("content-type", "text/plain")
        }
        path => pdf(path),
    });
    let world = World::start(
        vec![origin],
        vec!["a.example".to_owned()],
        "version: 1\nlimits: { hosts: { a.example: { artifact: { rates: [] } } } }\n",
    );
    let start = |name: &str| {
        let urls: Vec<String> = (0..3)
            .map(|n| format!("http://a.example/{name}/{n}.pdf"))
            .collect();
        let (list, out) = (world.path(&format!("{name}.txt")), world.path(name));
        std::fs::write(&list, urls.join("\n")).expect("a list");
        let (list, out) = (list.display().to_string(), out.display().to_string());
        world
            .command(&[&list, "--out", &out, "--quiet"])
            .stdout(Stdio::null())
            .spawn()
            .expect("the program")
    };
    let (mut first, mut second) = (start("first"), start("second"));
    assert!(first.wait().expect("an end").success() && second.wait().expect("an end").success());
    assert!(start("third").wait().expect("an end").success());
    let arrivals = world.web.ledger().arrivals();
    let files: Vec<_> = arrivals
        .iter()
        .filter(|arrival| arrival.path != "/robots.txt")
        .collect();
    assert_eq!(files.len(), 9);
    for pair in files.windows(2) {
        let apart = pair[1].at.since(pair[0].at);
        // They are counted when they leave; a busy machine may bring them a little closer together.
        assert!(
            apart + Duration::from_millis(150) >= delay,
            "{} came {apart:?} after {}",
            pair[1].path,
            pair[0].path
        );
    }
}

#[test]
fn a_dry_run_asks_nobody() {
    let world = World::plain();
    let ran = world.run(&["10.1234/abc", "http://a.example/1.pdf", "--dry-run"]);
    assert!(ran.status.code().is_some());
    assert!(world.web.ledger().is_empty());
}

#[test]
fn works_whose_urls_carry_keys_go_on_when_their_input_is_given_again() {
    let origin = Origin::new("a.example").handler(|arrival, _| match arrival.path.as_str() {
        "/robots.txt" => Reply::status(404),
        path => pdf(path.split('?').next().unwrap_or_default()).after(Duration::from_millis(40)),
    });
    let config = "version: 1\nlimits: { defaults: { artifact: { rates: [], max_concurrent: 4 }, landing: { rates: [] } } }\n";
    let world = World::start(vec![origin], vec!["a.example".to_owned()], config);
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

#[test]
fn a_killed_download_of_a_large_file_goes_on_with_the_rest() {
    let body: bytes::Bytes = (0..8_u32 << 20)
        .map(|n| u8::try_from(n % 253).expect("a byte"))
        .collect::<Vec<_>>()
        .into();
    let all = body.clone();
    let origin = Origin::new("a.example").handler(move |arrival, _| {
        if arrival.path == "/robots.txt" {
            return Reply::status(404);
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
            Reply::status(206)
                .header(
                    "content-range",
                    &format!("bytes {from}-{}/{}", all.len() - 1, all.len()),
                )
                .body(rest)
        } else {
            Reply::ok("").drip(&rest, 256 << 10, Duration::from_millis(30))
        };
        reply
            .header("etag", "\"v1\"")
            .header("accept-ranges", "bytes")
    });
    let world = World::start(vec![origin], vec!["a.example".to_owned()], "version: 1\n");
    let mut child = world
        .command(&["http://a.example/large.bin", "--quiet"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program");
    let entries = |directory: &Path| std::fs::read_dir(directory).into_iter().flatten().flatten();
    let part = || {
        let mut unfinished =
            entries(&world.path("out/.docstokg")).flat_map(|drawer| entries(&drawer.path()));
        unfinished.find(|entry| entry.file_name().to_string_lossy().ends_with(".part"))
    };
    while part()
        .and_then(|entry| entry.metadata().ok())
        .is_none_or(|meta| meta.len() < 2 << 20)
    {
        assert_eq!(
            child.try_wait().expect("a process"),
            None,
            "it ended before it could be killed"
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
    assert_eq!(ranges.len(), 1, "the rest was asked for");
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
