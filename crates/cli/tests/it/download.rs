//! Works in, files out.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use docstokg_origin_sim::{OriginScript, ScriptedReply};
use serde_json::Value;

use crate::download_world::{DownloadWorld, pdf, sha256, text};
use crate::support::program;

#[test]
fn a_list_becomes_files_a_manifest_and_a_report() {
    let world = DownloadWorld::plain();
    let list = world.path("list.txt");
    let lines = "http://a.example/1.pdf\nnonsense here\nhttp://a.example/2.pdf\n\
                 http://a.example/1.pdf\nhttp://a.example/missing.pdf\n";
    std::fs::write(&list, lines).expect("a list");
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
        text(&ran.stderr).contains("line 2: not recognised: nonsense here"),
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
    assert_a_second_run_downloads_nothing(&world, list.to_str().expect("a path"));
}

/// The failed work is retried only with `--retry-failed`.
fn assert_a_second_run_downloads_nothing(world: &DownloadWorld, list: &str) {
    let before = world.web.ledger().len();
    assert_eq!(world.run(&[list, "--quiet"]).status.code(), Some(1));
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
fn verify_downloads_changed_files_again() {
    let world = DownloadWorld::plain();
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
    std::fs::write(&files[0], "changed").expect("written");
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

/// What was changed and is whole stays, as does the record of a file that was moved away.
#[test]
fn resume_downloads_damaged_files_again() {
    let world = DownloadWorld::plain();
    let urls: Vec<String> = (1..=4)
        .map(|number| format!("http://a.example/{number}.pdf"))
        .collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    assert!(world.run(&urls).status.success());
    let files: Vec<PathBuf> = urls.iter().map(|url| file_of(&world, url)).collect();
    let whole = std::fs::read(&files[0]).expect("a file");
    std::fs::write(&files[0], &whole[..whole.len() / 2]).expect("a cut file");
    let mut holed = std::fs::read(&files[1]).expect("a file");
    let middle = holed.len() / 2;
    holed[middle - 256..middle + 256].fill(0);
    std::fs::write(&files[1], holed).expect("a file with a hole");
    let mut longer = std::fs::read(&files[2]).expect("a file");
    longer.extend(b"\n\n");
    std::fs::write(&files[2], &longer).expect("a changed file");
    std::fs::remove_file(&files[3]).expect("a file is moved away");
    let before = world.web.ledger().at("a.example").len();
    let ran = world.run(&["--resume"]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let arrivals = world.web.ledger().at("a.example");
    let mut paths: Vec<&str> = arrivals[before..]
        .iter()
        .map(|arrival| arrival.path.as_str())
        .filter(|path| *path != "/robots.txt")
        .collect();
    paths.sort_unstable();
    assert_eq!(paths, ["/1.pdf", "/2.pdf"], "{}", text(&ran.stderr));
    assert_eq!(std::fs::read(&files[0]).expect("a file"), whole);
    assert_eq!(std::fs::read(&files[2]).expect("a file"), longer);
    assert!(!files[3].exists());
    assert_eq!(text(&ran.stderr).matches("; downloading again").count(), 2);
}

/// Returns where the file of a URL is.
fn file_of(world: &DownloadWorld, url: &str) -> PathBuf {
    let records = world.manifests();
    let record = records.iter().find(|record| record["url"] == url);
    let path = record.and_then(|record| record["path"].as_str());
    world.path("out").join(path.expect("a path"))
}

#[test]
fn wrong_arguments_and_directories_are_reported_in_sentences() {
    let world = DownloadWorld::plain();
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
            "a cause is reported once: {}",
            text(&ran.stderr)
        );
    }
    assert!(world.web.ledger().is_empty());
}

#[test]
fn explain_shows_no_credentials_of_a_url() {
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
    let world = DownloadWorld::plain();
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
    let world = DownloadWorld::plain();
    let title = "A title of \u{1d4d0} \"odd\" / \\ characters: ".to_owned() + &"very ".repeat(100);
    let url = "http://a.example/a%20b%2Fc;d=e?x=%22";
    let row = serde_json::json!({ "url": url, "title": title, "year": 2020 });
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

/// Checks every file of the directories, and returns how many there are.
fn assert_nothing_contains_the_key(mut directories: Vec<PathBuf>) -> usize {
    let mut checked = 0;
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(&directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                directories.push(path);
                continue;
            }
            checked += 1;
            let name = path.display().to_string();
            assert!(!name.to_ascii_uppercase().contains("PLANTEDKEY"), "{name}");
            // A downloaded file repeats its own path, as the origin sent it.
            let is_download = path.extension().is_some_and(|ending| ending == "pdf");
            let bytes = std::fs::read(&path).expect("a file");
            let mut windows = bytes.windows(10);
            assert!(
                is_download || !windows.any(|window| window.eq_ignore_ascii_case(b"PLANTEDKEY")),
                "{name}"
            );
        }
    }
    checked
}

#[test]
fn credentials_in_urls_are_persisted_nowhere() {
    let world = DownloadWorld::plain();
    let url = "http://a.example/f.pdf?api_key=PLANTEDKEY";
    let lines = format!(
        "{url}\nhttp://a.example/token/PLANTEDKEY/g.pdf\n\
         http://a.example/missing?token=PLANTEDKEY\n"
    );
    std::fs::write(world.path("list.txt"), lines).expect("a list");
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
    let checked = assert_nothing_contains_the_key(vec![world.path("out"), world.path("state")]);
    assert!(checked >= 5);
    assert!(!text(&ran.stderr).contains("PLANTEDKEY") && !text(&ran.stdout).contains("PLANTEDKEY"));
}

#[test]
fn no_more_requests_are_sent_at_once_than_there_are_workers() {
    // A host that lets sixteen through together.
    let origin = OriginScript::new("a.example")
        .latency(Duration::from_millis(40))
        .handler(|arrival, _| pdf(&arrival.path));
    let config = "version: 1\nlimits: { defaults: { artifact: { rates: [\"16/SECOND\"], \
                  max_concurrent: 16 }, landing: { rates: [] } } }\n";
    let world = DownloadWorld::start(vec![origin], vec!["a.example".to_owned()], config);
    let urls: Vec<String> = (0..40)
        .map(|n| format!("http://a.example/{n}.pdf"))
        .collect();
    std::fs::write(world.path("list.txt"), urls.join("\n")).expect("a file");
    let list = world.path("list.txt").display().to_string();
    let ran = world.run(&[&list, "--workers", "2", "--ignore-robots"]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    assert_eq!(world.web.ledger().len(), 40);
    world
        .web
        .ledger()
        .at_most_in_flight("a.example", 2)
        .expect("two at once");
}

#[test]
fn a_dry_run_sends_no_request() {
    let world = DownloadWorld::plain();
    let ran = world.run(&["10.1234/abc", "http://a.example/1.pdf", "--dry-run"]);
    assert!(ran.status.code().is_some());
    assert!(world.web.ledger().is_empty());
}

#[test]
fn runs_side_by_side_and_one_after_the_other_share_a_crawl_delay() {
    let delay = Duration::from_millis(700);
    let origin = OriginScript::new("a.example").handler(|arrival, _| match arrival.path.as_str() {
        "/robots.txt" => ScriptedReply::ok("User-agent: *\nCrawl-delay: 0.7\n")
            .header("content-type", "text/plain"),
        path => pdf(path),
    });
    let world = DownloadWorld::start(
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
    // They are counted when they leave. What the machine holds up for less than the delay comes
    // together with the next one; runs that share nothing send twice as many.
    for some in files.windows(4) {
        let apart = some[3].at.since(some[0].at);
        assert!(
            apart >= 2 * delay,
            "{} came {apart:?} after {}",
            some[3].path,
            some[0].path
        );
    }
}
