//! Processes of `ontofetch`: sharing the budget of a host with `docstokg`, and being killed.

use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use docstokg_hub::clock::{Clock as _, SystemClock};
use docstokg_origin_sim::{OriginScript, ScriptedReply};
use serde_json::Value;

use crate::download_world::{pdf, sha256};
use crate::ontofetch::{OntofetchWorld, obo};
use crate::ontofetch_files::zipped;
use crate::support::sharing;

/// How long a test waits for anything before it fails: only what hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(120);

/// How many files each process fetches.
const EACH: usize = 6;

/// Starts four processes of one program and two of the other, each with the paths that it asks for.
fn start_six(world: &OntofetchWorld, config: &str) -> Vec<(String, Child)> {
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
    let world = OntofetchWorld::files(works_and_ontologies());
    let config = world.config("4/SECOND", "");
    let mut processes = start_six(&world, &config);
    for (prefix, child) in &mut processes {
        let status = child.wait().expect("an end");
        assert!(status.success(), "{prefix}: {status}");
    }
    let ledger = world.served.web.ledger();
    // What the machine holds up for less than a second comes together with the next second's.
    ledger
        .no_window_exceeded("files.example", 2 * 4, Duration::from_secs(1))
        .expect("the window holds for all of them together");
    let arrivals = ledger.at("files.example");
    assert_eq!(arrivals.len(), 6 * EACH, "every process got all its files");
}

/// An origin with works and ontologies.
fn works_and_ontologies() -> OriginScript {
    OriginScript::new("files.example").handler(|arrival, _| {
        if arrival.path.contains(".pdf") {
            pdf(&arrival.path)
        } else {
            ScriptedReply::ok(obo("1.0", &format!("remark: {}", arrival.path)))
        }
    })
}

/// Four processes of one program and two of the other, half of them with a stricter limit for the
/// host: each gets at least a fifth of its equal share, or is told why not.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "processes are looked at in real time"
)]
fn processes_with_different_limits_are_served_or_told_why_not() {
    let world = OntofetchWorld::files(works_and_ontologies());
    let strict = world.config("2/SECOND", "");
    let strict_copy = world.path("strict.yaml").display().to_string();
    std::fs::copy(&strict, &strict_copy).expect("a copy");
    let wide = world.config("8/SECOND", "");
    let mut processes = Vec::new();
    for process in 0..6 {
        let config = if process % 2 == 0 {
            &wide
        } else {
            &strict_copy
        };
        let log = std::fs::File::create(world.path(&format!("log{process}"))).expect("a file");
        let mut command = if process < 4 {
            start_ontologies(&world, process)
        } else {
            start_works(&world, process)
        };
        command
            .args(["--config", config])
            .stdout(Stdio::null())
            .stderr(log);
        processes.push(command.spawn().expect("a process"));
    }
    // Whether a window is exceeded at one instant is chance, and so is when a process starts: both
    // are looked at over and over.
    let until = SystemClock.boot() + PATIENCE;
    let mut is_told_by_doctor = false;
    while !is_told_by_doctor || !neglected(&world).is_empty() {
        assert!(
            SystemClock.boot() < until,
            "limits doctor says so: {is_told_by_doctor}; {:?}",
            neglected(&world)
        );
        std::thread::sleep(Duration::from_millis(200));
        let doctor = sharing(&world.path("state"))
            .args([
                "limits",
                "doctor",
                "files.example",
                "--config",
                &strict_copy,
            ])
            .output()
            .expect("the program");
        let text = String::from_utf8_lossy(&doctor.stdout).into_owned();
        is_told_by_doctor |= text.contains("other processes send under a larger limit");
    }
    for child in &mut processes {
        child.kill().expect("a kill");
        child.wait().expect("an end");
    }
    let ledger = world.served.web.ledger();
    ledger
        .no_window_exceeded("files.example", 2 * 8, Duration::from_secs(1))
        .expect("the widest window holds for all of them together");
    // Those with the widest window are not told anything.
    for process in [0, 2, 4] {
        let log = log_of(&world, process);
        assert!(!log.contains(OTHERS_SEND_MORE), "{process}: {log}");
    }
}

/// What a process says whose turn hardly ever comes.
const OTHERS_SEND_MORE: &str = "other processes send more than the limits of this run allow";

fn log_of(world: &OntofetchWorld, process: usize) -> String {
    std::fs::read_to_string(world.path(&format!("log{process}"))).expect("a log")
}

/// Lists the processes that got less than a fifth of their equal share, and are not told why.
fn neglected(world: &OntofetchWorld) -> Vec<String> {
    let arrivals = world.served.web.ledger().at("files.example");
    let fifth = arrivals.len() / 6 / 5;
    let processes = (0..6).filter_map(|process| {
        let prefix = format!("/p{process}/");
        let of_process = |path: &str| path.starts_with(&prefix);
        let got = arrivals.iter().filter(|one| of_process(&one.path)).count();
        let log = log_of(world, process);
        let is_neglected = got < fifth.max(1) && !log.contains(OTHERS_SEND_MORE);
        is_neglected.then(|| format!("{prefix} got {got} of {}: {log}", arrivals.len()))
    });
    processes.collect()
}

/// A pull of many ontologies.
fn start_ontologies(world: &OntofetchWorld, process: usize) -> std::process::Command {
    let entries: Vec<String> = (0..80)
        .map(|number| {
            format!(
                "  - {{ id: o{number}, url: \"http://files.example/p{process}/{number}.obo\" }}\n"
            )
        })
        .collect();
    let spec = world.write(
        &format!("many{process}.yaml"),
        &format!("ontologies:\n{}", entries.concat()),
    );
    let mut command = crate::support::ontofetch();
    command
        .env_remove("DOCSTOKG_RLIMIT_BACKEND")
        .env("DOCSTOKG_STATE_DIR", world.path("state"))
        .args(["pull", "--spec", &spec, "--library"])
        .arg(world.path(&format!("library{process}")))
        .args([
            "--connect-to",
            &format!("files.example:80={}", world.served.address),
        ]);
    command
}

/// A download of many works.
fn start_works(world: &OntofetchWorld, process: usize) -> std::process::Command {
    let urls: Vec<String> = (0..80)
        .map(|number| format!("http://files.example/p{process}/{number}.pdf"))
        .collect();
    let mut command = sharing(&world.path("state"));
    command
        .arg("download")
        .args(&urls)
        .args(["--ignore-robots", "--min-pdf-bytes", "10", "--out"])
        .arg(world.path(&format!("papers{process}")))
        .args([
            "--connect-to",
            &format!("files.example:80={}", world.served.address),
        ]);
    command
}

/// A 429 with Retry-After: 1 is waited for, and costs one request.
#[test]
fn a_retry_after_is_waited_for() {
    let origin = OriginScript::new("files.example").route(
        "/a.obo",
        [
            ScriptedReply::status(429).header("retry-after", "1"),
            ScriptedReply::ok(obo("1", "")),
        ],
    );
    let world = OntofetchWorld::files(origin);
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

/// Writes statements that take a while to read and to sort.
fn statements(version: usize) -> String {
    let head = format!(
        "<http://x.org/o> <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> \
         <http://www.w3.org/2002/07/owl#Ontology> .\n<http://x.org/o> \
         <http://www.w3.org/2002/07/owl#versionInfo> \"1.{version}\" .\n"
    );
    let lines: Vec<String> = (0..8_000)
        .map(|number| format!("<http://x.org/{number}> <http://x.org/p> \"{number}\" .\n"))
        .collect();
    head + &lines.concat()
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
    let origin = OriginScript::new("files.example").handler(move |arrival, _| {
        // Each answer is a new version, in pieces, so that kills hit every stage: the download,
        // unpacking, reading, and normalising.
        let version = versions.fetch_add(1, Ordering::Relaxed);
        let text = obo(
            &format!("1.{version}"),
            &format!("remark: {}", arrival.path),
        ) + &"! padding\n".repeat(3_000);
        let body = match arrival.path.as_bytes().get(1) {
            Some(b'c' | b'd') => statements(version).into_bytes(),
            Some(b'e' | b'f') => zipped(&[
                ("notes.txt", "words ".repeat(20_000).as_bytes()),
                ("dir/statements.nt", statements(version).as_bytes()),
                ("dir/terms.obo", text.as_bytes()),
            ]),
            _ => text.into_bytes(),
        };
        ScriptedReply::ok("").drip(&body, 16_000, Duration::from_millis(1))
    });
    let world = OntofetchWorld::files(origin);
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
        std::thread::sleep(Duration::from_millis(u64::from(20 + (kill * 137) % 900)));
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
