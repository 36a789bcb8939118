//! What a download leaves behind and says at its end, as the person at the terminal meets it.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use docstokg_origin_sim::{Arrival, OriginScript, ScriptedReply};
use serde_json::Value;

use crate::download_world::{DownloadWorld, pdf, text};
use crate::support::program;

/// Downloads thirty files one after the other, and sends the run a signal after the first few.
fn signalled(signal: &str) -> (DownloadWorld, Output) {
    let world = DownloadWorld::one_by_one(Duration::from_millis(300));
    let list = world.path("list.txt").display().to_string();
    let child = world
        .command(&[&list])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program");
    while world.web.ledger().len() < 3 {
        std::thread::park_timeout(Duration::from_millis(5));
    }
    assert!(
        Command::new("kill")
            .args([signal, &child.id().to_string()])
            .status()
            .expect("kill")
            .success()
    );
    let ended = child.wait_with_output().expect("an end");
    (world, ended)
}

#[test]
fn an_interrupted_run_finishes_current_downloads_and_prints_how_to_continue() {
    let (world, ended) = signalled("-INT");
    assert_eq!(ended.status.code(), Some(130));
    let printed = text(&ended.stderr);
    assert!(
        printed.contains("finishing current downloads")
            && printed.contains("continue with: docstokg download --resume"),
        "{printed}"
    );
    let fetched = world.manifests().len();
    assert!((1..30).contains(&fetched), "{fetched}");
    assert!(world.run(&["--resume", "--quiet"]).status.success());
    let mut paths: Vec<String> = world
        .web
        .ledger()
        .arrivals()
        .into_iter()
        .map(|arrival| arrival.path)
        .collect();
    paths.sort();
    let all = paths.len();
    paths.dedup();
    // robots.txt is asked for by each run.
    assert_eq!(all - paths.len(), 1, "something was asked for twice");
}

#[test]
fn sigterm_and_sighup_end_a_run_as_ctrl_c_does() {
    for signal in ["-TERM", "-HUP"] {
        let (world, ended) = signalled(signal);
        let printed = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(130), "{signal}: {printed}");
        assert!(
            printed.contains("finishing current downloads") && printed.contains("remaining"),
            "{signal}: {printed}"
        );
        assert!(world.path("out/report.html").exists());
    }
}

#[test]
fn a_run_leaves_a_report_and_a_list_of_missing_works() {
    let world = DownloadWorld::plain();
    let ran = world.run(&[
        "http://a.example/1.pdf",
        "http://a.example/missing/2.pdf",
        "http://a.example/missing/=3.pdf",
        "--disable",
        "wayback",
    ]);
    let printed = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{printed}");
    assert!(
        printed.contains("downloaded 1 of 3 works")
            && printed.contains("2 without a file: 2 failed"),
        "{printed}"
    );
    let missing = std::fs::read_to_string(world.path("out/missing.csv")).expect("a list");
    let lines: Vec<&str> = missing.lines().collect();
    assert_eq!(lines[0], "id,title,reason,link,host,until");
    assert_eq!(
        lines[1],
        "http://a.example/missing/2.pdf,,the link is dead (404),http://a.example/missing/2.pdf,,"
    );
    assert_the_report_has_its_tiles(&world);
    let references: Value = serde_json::from_str(
        &std::fs::read_to_string(world.path("out/downloaded.csl.json")).expect("a file"),
    )
    .expect("CSL-JSON");
    assert_eq!(references.as_array().map(Vec::len), Some(1));
    let path = world
        .manifests()
        .iter()
        .find_map(|line| line["path"].as_str().map(str::to_owned))
        .unwrap_or_default();
    assert!(path.contains("__1__"), "it is named after its URL: {path}");
    assert_the_directory_is_summarised(&world);
}

/// The tiles of the report stand in order, before the table of sources.
fn assert_the_report_has_its_tiles(world: &DownloadWorld) {
    let page = std::fs::read_to_string(world.path("out/report.html")).expect("a report");
    let tiles = [
        "works asked",
        "downloaded",
        "not openly available",
        "failed",
        "waiting",
    ];
    let positions: Vec<usize> = tiles
        .iter()
        .map(|tile| page.find(&format!("<span>{tile}</span>")).expect(tile))
        .collect();
    assert!(
        positions.is_sorted()
            && page
                .find("Requests by source")
                .is_some_and(|at| at > positions[4])
    );
}

/// `summary` accepts the directory of a run.
fn assert_the_directory_is_summarised(world: &DownloadWorld) {
    let out = world.path("out").display().to_string();
    let summary = program()
        .args(["summary", &out])
        .env("DOCSTOKG_STATE_DIR", world.path("state"))
        .output()
        .expect("the program");
    let shown = text(&summary.stdout);
    assert!(
        summary.status.success()
            && shown.contains("downloaded 1 of 3 works")
            && shown.contains("http_404"),
        "{shown}{}",
        text(&summary.stderr)
    );
    assert!(!shown.contains("waited for rates"), "{shown}");
    // Three files and a robots.txt were requested; a site without one is not a failure.
    assert!(
        shown.contains("4 requests in") && shown.contains("2 answered, 2 failed"),
        "{shown}"
    );
}

#[test]
fn a_dry_run_prints_how_many_works_are_known_and_how_many_are_to_download() {
    let world = DownloadWorld::plain();
    assert!(
        world
            .run(&["http://a.example/1.pdf", "--quiet"])
            .status
            .success()
    );
    let asked = world.web.ledger().len();
    let ran = world.run(&[
        "http://a.example/1.pdf",
        "http://a.example/2.pdf",
        "--dry-run",
    ]);
    let printed = text(&ran.stderr);
    assert!(
        printed.contains("dry run: 2 works, 1 known from an earlier run; 1 to download"),
        "{printed}"
    );
    assert!(
        text(&ran.stdout).contains("2.pdf") && !text(&ran.stdout).contains("1.pdf"),
        "{}",
        text(&ran.stdout)
    );
    assert_eq!(
        (world.web.ledger().len(), world.manifests().len()),
        (asked, 1)
    );
}

#[test]
fn an_invalid_address_is_refused_and_reference_files_are_read() {
    let world = DownloadWorld::plain();
    for mailto in ["you", "you@", "@host.org", "a b@host.org", "you@host"] {
        let ran = world.run(&["http://a.example/1.pdf", "--mailto", mailto]);
        assert!(
            ran.status.code() == Some(2) && text(&ran.stderr).contains("is not an e-mail address"),
            "{mailto}: {}",
            text(&ran.stderr)
        );
    }
    std::fs::write(
        world.path("refs.bib"),
        "@misc{a,\n  url = {http://a.example/7.pdf},\n}\n@comment{nothing}\n",
    )
    .expect("a file");
    let file = world.path("refs.bib").display().to_string();
    let ran = world.run(&[&file, "--mailto", "me@library.edu"]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    assert_eq!(world.manifests()[0]["work_id"], "http://a.example/7.pdf");
}

#[test]
fn limits_are_one_line_and_the_full_table_with_verbose() {
    let world = DownloadWorld::plain();
    let printed = text(&world.run(&["http://a.example/1.pdf"]).stderr);
    let first = printed.lines().next().unwrap_or_default();
    assert!(
        first
            .starts_with("other hosts: 10 a second, 5000 an hour (docstokg limits show lists the ")
            && first.ends_with(" known ones)"),
        "{printed}"
    );
    assert!(!printed.contains("max_delay_ms"), "{printed}");
    let printed = text(&world.run(&["http://a.example/2.pdf", "--verbose"]).stderr);
    assert!(printed.contains("max_delay_ms"), "{printed}");
    let summary: Value = serde_json::from_str(
        &std::fs::read_to_string(world.path("out/manifest.summary.json")).expect("a summary"),
    )
    .expect("JSON");
    assert!(
        summary["limits"]
            .as_array()
            .is_some_and(|rows| rows.iter().any(|row| row["host"] == "api.crossref.org")),
        "{summary}"
    );
}

/// A publisher whose article needs a cookie of its identity host.
fn publisher() -> DownloadWorld {
    let has = |arrival: &Arrival, cookie: &str| {
        arrival
            .header("cookie")
            .is_some_and(|sent| sent.contains(cookie))
    };
    let article = OriginScript::new("www.pub.example").handler(move |arrival, _| {
        match arrival.path.as_str() {
            "/robots.txt" => ScriptedReply::status(404),
            _ if !has(arrival, "seen=1") => {
                ScriptedReply::redirect(302, &arrival.path).header("set-cookie", "seen=1; Path=/")
            }
            _ if !has(arrival, "ticket=ok") => {
                ScriptedReply::redirect(303, "http://idp.pub.example/authorize")
            }
            path => pdf(path),
        }
    });
    let identity = OriginScript::new("idp.pub.example").handler(move |arrival, _| {
        match arrival.path.as_str() {
            "/robots.txt" => ScriptedReply::status(404),
            "/authorize" => ScriptedReply::redirect(302, "http://idp.pub.example/transit")
                .header("set-cookie", "session=7; HttpOnly"),
            _ if !has(arrival, "session=7") => {
                ScriptedReply::status(403).body("please enable cookies")
            }
            _ => ScriptedReply::redirect(302, "http://www.pub.example/article.pdf")
                .header("set-cookie", "ticket=ok; Domain=pub.example; Path=/"),
        }
    });
    let config =
        "version: 1\nlimits: { defaults: { artifact: { rates: [] }, landing: { rates: [] } } }\n";
    DownloadWorld::start(
        vec![article, identity],
        vec!["www.pub.example".to_owned(), "idp.pub.example".to_owned()],
        config,
    )
}

/// The requests of a chain, with their cookies.
fn hops(world: &DownloadWorld) -> Vec<String> {
    let arrivals = world.web.ledger().arrivals().into_iter();
    arrivals
        .filter(|arrival| arrival.path != "/robots.txt")
        .map(|arrival| {
            format!(
                "{}{} {:?}",
                arrival.host,
                arrival.path,
                arrival.header("cookie")
            )
        })
        .collect()
}

#[test]
fn chain_with_cookies_takes_the_same_hops_as_curl() {
    let url = "http://www.pub.example/article.pdf";
    let ours = publisher();
    let ran = ours.run(&[url]);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    assert_eq!(ours.manifests()[0]["classification"], "pdf");
    assert_eq!(hops(&ours).len(), 5);
    for file in [
        "out/manifest.jsonl",
        "out/manifest.sqlite3",
        "state/telemetry.sqlite3",
    ] {
        let bytes = std::fs::read(ours.path(file)).expect("a file");
        assert!(
            !bytes.windows(9).any(|window| window == b"ticket=ok"),
            "a cookie was recorded in {file}"
        );
    }
    // The same with curl, where there is one.
    let theirs = publisher();
    let mut curl = Command::new("curl");
    curl.args(["-sS", "-L", "-b", "", "-o"])
        .arg(theirs.path("file"))
        .arg(url);
    for host in ["www.pub.example", "idp.pub.example"] {
        curl.args(["--connect-to", &format!("{host}:80:{}", theirs.address)]);
    }
    let Ok(status) = curl.status() else { return };
    assert!(status.success());
    let without_cookies = |hops: Vec<String>| {
        hops.into_iter()
            .map(|hop| hop.split(' ').next().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(without_cookies(hops(&ours)), without_cookies(hops(&theirs)));
    let path = ours.manifests()[0]["path"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    assert_eq!(
        std::fs::read(ours.path("out").join(path)).expect("a file"),
        std::fs::read(theirs.path("file")).expect("a file")
    );
}

#[test]
fn a_host_that_stays_down_leaves_its_works_waiting_and_prints_how_to_continue() {
    // Nothing listens on port 1; the other host serves.
    let world = DownloadWorld::plain();
    let ran = world.run(&[
        "http://down.example/1.pdf",
        "http://down.example/2.pdf",
        "http://a.example/3.pdf",
        "--connect-to",
        "down.example:80=127.0.0.1:1",
        "--disable",
        "wayback",
        "--max-wait",
        "2",
    ]);
    let printed = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(3), "{printed}");
    for part in [
        "downloaded 1 of 3 works",
        "2 waiting",
        "down.example: ",
        "continue with: docstokg download --resume",
    ] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    assert!(
        !printed.contains("1.pdf --"),
        "known inputs are not said again: {printed}"
    );
    let counts = world.run(&[
        "--resume",
        "--json",
        "--max-wait",
        "0",
        "--connect-to",
        "down.example:80=127.0.0.1:1",
    ]);
    let report: Value = serde_json::from_slice(&counts.stdout).expect("JSON");
    assert_eq!(counts.status.code(), Some(3), "{report}");
    assert_eq!(
        (&report["left"], &report["failed"]),
        (&2.into(), &0.into()),
        "{report}"
    );
    let command = report["continue_with"].as_str().expect("a command");
    assert!(
        command.starts_with("docstokg download --resume"),
        "{command}"
    );
}
