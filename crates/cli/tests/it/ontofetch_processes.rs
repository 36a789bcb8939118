//! Processes of `ontofetch`: sharing the budget of a host with `docstokg`, and being killed.

use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use docstokg_origin_sim::{Origin, Reply};
use serde_json::Value;

use crate::ontofetch::{World, obo};
use crate::support::sharing;
use crate::world::{pdf, sha256};

/// How many files each process fetches.
const EACH: usize = 6;

/// Starts four processes of one program and two of the other, each with the paths that it asks for.
fn start_six(world: &World, config: &str) -> Vec<(String, Child)> {
    let mut processes: Vec<(String, Child)> = Vec::new();
    for process in 0..4 {
        let entries: Vec<String> = (0..EACH)
            .map(|number| {
                format!("  - {{ id: o{number}, url: \"http://files.example/p{process}/{number}.obo\" }}\n")
            })
            .collect();
        let spec = world.write(
            &format!("spec{process}.yaml"),
            &format!("ontologies:\n{}", entries.concat()),
        );
        let child = world
            .command(&["pull", "--spec", &spec, "--json", "--quiet"])
            .env(
                "ONTOFETCH_LIBRARY",
                world.path(&format!("library{process}")),
            )
            .stdout(Stdio::piped())
            .spawn()
            .expect("ontofetch");
        processes.push((format!("/p{process}/"), child));
    }
    for process in 4..6 {
        let urls: Vec<String> = (0..EACH)
            .map(|number| format!("http://files.example/p{process}/{number}.pdf"))
            .collect();
        let child = sharing(&world.path("state"))
            .arg("download")
            .args(&urls)
            .args([
                "--config",
                config,
                "--ignore-robots",
                "--quiet",
                "--min-pdf-bytes",
                "10",
            ])
            .args([
                "--connect-to",
                &format!("files.example:80={}", world.served.address),
            ])
            .arg("--out")
            .arg(world.path(&format!("papers{process}")))
            .stdout(Stdio::null())
            .spawn()
            .expect("docstokg");
        processes.push((format!("/p{process}/"), child));
    }
    processes
}

/// Four processes of one program and two of the other, on a host that allows four requests a
/// second: more processes than the window has room for.
#[test]
fn six_processes_of_two_programs_share_the_budget_of_a_host() {
    let origin = Origin::new("files.example")
        .limit("4/SECOND")
        .handler(|arrival, _| {
            if arrival.path.contains(".pdf") {
                pdf(&arrival.path)
            } else {
                Reply::ok(obo("1.0", &format!("remark: {}", arrival.path)))
            }
        });
    let world = World::files(origin);
    let config = world.config("4/SECOND", "");
    let mut processes = start_six(&world, &config);
    for (prefix, child) in &mut processes {
        let status = child.wait().expect("an end");
        assert!(status.success(), "{prefix}: {status}");
    }
    let ledger = world.served.web.ledger();
    ledger
        .no_window_exceeded("files.example", 4, Duration::from_secs(1))
        .expect("the window holds at every offset");
    assert_eq!(ledger.statuses().get(&429), None);
    let arrivals = ledger.at("files.example");
    assert_eq!(arrivals.len(), 6 * EACH);
    // Every process is served: by the time that the first process is done, each of the others got a share.
    let nth = |prefix: &str| {
        let mut own = arrivals
            .iter()
            .filter(|arrival| arrival.path.starts_with(prefix));
        own.nth(EACH - 1).expect("all requests").at
    };
    let first_done = processes
        .iter()
        .map(|(prefix, _)| nth(prefix))
        .min()
        .expect("one");
    for (prefix, _) in &processes {
        let by_then = arrivals
            .iter()
            .filter(|arrival| arrival.path.starts_with(prefix.as_str()) && arrival.at <= first_done)
            .count();
        assert!(
            by_then >= 1,
            "{prefix} got nothing while another process got {EACH}"
        );
    }
}

/// A 429 with Retry-After: 1 costs one second, and the limiter adds nothing to it.
#[test]
fn a_retry_after_is_waited_for_once() {
    let origin = Origin::new("files.example").route(
        "/a.obo",
        [
            Reply::status(429).header("retry-after", "1"),
            Reply::ok(obo("1", "")),
        ],
    );
    let world = World::files(origin);
    world.config("8/SECOND", "");
    let spec = world.spec(&["a"]);
    let ran = world.run(&["pull", "--spec", &spec, "--quiet"]);
    assert_eq!(ran.code, 0, "{} {}", ran.out, ran.err);
    let ledger = world.served.web.ledger();
    ledger
        .nothing_before_retry_after("files.example")
        .expect("the second was waited for");
    let arrivals = ledger.at("files.example");
    assert_eq!(arrivals.len(), 2);
    let between = arrivals[1].at.since(arrivals[0].at);
    // The backoff of the hub after a 429 is one to two seconds, and a probe comes up to 150 ms later;
    // the rest is for a busy machine.
    assert!(
        between < Duration::from_millis(2_900),
        "waited twice: {between:?}"
    );
    let database =
        rusqlite::Connection::open(world.path("state/telemetry.sqlite3")).expect("a database");
    let longest: f64 = database
        .query_row(
            "SELECT coalesce(max(delay_ms), 0) FROM rate_events",
            [],
            |row| row.get(0),
        )
        .expect("a figure");
    assert!(
        longest < 50.0,
        "blocked for {longest} ms beside the Retry-After"
    );
}

/// Checks that every `latest` leads to a complete version.
fn check_library(library: &Path) -> usize {
    let mut complete = 0;
    let Ok(ontologies) = std::fs::read_dir(library) else {
        return 0;
    };
    for ontology in ontologies {
        let latest = ontology.expect("an entry").path().join("latest");
        if !latest.is_symlink() {
            continue;
        }
        let manifest = std::fs::read_to_string(latest.join("manifest.json"))
            .unwrap_or_else(|error| panic!("{}: {error}", latest.display()));
        let manifest: Value = serde_json::from_str(&manifest).expect("a whole manifest");
        for file in manifest["artifacts"].as_array().expect("files") {
            let path = latest.join(file["path"].as_str().expect("a path"));
            assert_eq!(
                Some(sha256(&path).as_str()),
                file["sha256"].as_str(),
                "{}",
                path.display()
            );
        }
        complete += 1;
    }
    complete
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "processes are killed in real time"
)]
fn killed_at_random_points_latest_is_always_complete() {
    let kills: u32 = std::env::var("DOCSTOKG_TEST_KILLS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(15);
    let versions = AtomicUsize::new(0);
    let origin = Origin::new("files.example").handler(move |arrival, _| {
        // Each answer is a new version, in pieces, so that kills hit every stage.
        let version = versions.fetch_add(1, Ordering::Relaxed);
        let body = obo(
            &format!("1.{version}"),
            &format!("remark: {}", arrival.path),
        ) + &"! padding\n".repeat(3_000);
        Reply::ok("").drip(body.as_bytes(), 4_000, Duration::from_millis(2))
    });
    let world = World::files(origin);
    world.config("500/SECOND", "");
    let names = ["a", "b", "c", "d", "e", "f"];
    let spec = world.spec(&names);
    let library = world.path("library");
    let mut seen = 0;
    for kill in 0..kills {
        let mut child = world
            .command(&["pull", "--spec", &spec, "--quiet"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("ontofetch");
        // Not random instants, but ones that differ each time; what the victim does then is random
        // enough.
        std::thread::sleep(Duration::from_millis(u64::from(20 + (kill * 37) % 400)));
        child.kill().expect("a kill");
        child.wait().expect("an end");
        let complete = check_library(&library);
        assert!(complete >= seen, "a latest is gone after kill {kill}");
        seen = complete;
    }
    let ran = world.run(&["pull", "--spec", &spec, "--quiet"]);
    assert_eq!(ran.code, 0, "{} {}", ran.out, ran.err);
    assert_eq!(check_library(&library), names.len());
    let leftovers: Vec<_> = names
        .iter()
        .flat_map(|name| std::fs::read_dir(library.join(name)).expect("a directory"))
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with(".new-"))
        .collect();
    assert!(leftovers.is_empty(), "{leftovers:?}");
}
