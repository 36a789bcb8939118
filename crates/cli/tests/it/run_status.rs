//! How a run stands, as other processes see it: while it works, after a kill, and when it has ended;
//! and what happened to one work.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use docstokg_origin_sim::{OriginScript, ScriptedReply};
use serde_json::Value;

use crate::download_world::{DownloadWorld, pdf, text};
use crate::support::program;

fn slow_world() -> DownloadWorld {
    DownloadWorld::one_by_one(Duration::from_millis(200))
}

fn start(world: &DownloadWorld) -> Child {
    let list = world.path("list.txt").display().to_string();
    world
        .command(&[&list, "--quiet"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program")
}

/// Runs a command of another process, which knows nothing of the state directory of the run.
fn other(arguments: &[&str]) -> Output {
    program().args(arguments).output().expect("the program")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", text(&output.stdout), text(&output.stderr)))
}

/// Reads the status until it is as wanted.
fn status_when(out: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..600 {
        let read = other(&["status", out, "--json"]);
        if read.status.success() {
            let status = json(&read);
            if is_wanted(&status) {
                return status;
            }
        }
        std::thread::park_timeout(Duration::from_millis(50));
    }
    panic!("{}", text(&other(&["status", out]).stdout));
}

fn works(status: &Value, key: &str) -> u64 {
    status["works"][key].as_u64().expect("a count")
}

#[test]
fn another_process_sees_how_a_run_stands_before_and_after_a_kill() {
    let world = slow_world();
    let out = world.path("out").display().to_string();
    let mut child = start(&world);
    let status = status_when(&out, |status| {
        status["state"] == "running"
            && status["works"]["all_read"] == true
            && works(status, "downloaded") >= 3
    });
    assert_eq!(status["run"]["pid"], child.id());
    assert_eq!(works(&status, "all"), 30, "{status}");
    let places = ["downloaded", "without_file", "waiting", "queued", "running"];
    let sum: u64 = places.iter().map(|place| works(&status, place)).sum();
    assert_eq!(sum, 30, "{status}");
    // `summary` shows the works of the first run, and the figures of its requests so far.
    let summary = other(&["summary", &out]);
    let shown = text(&summary.stdout);
    assert!(
        summary.status.success() && shown.contains("running for") && shown.contains("of 30 works"),
        "{shown}{}",
        text(&summary.stderr)
    );
    child.kill().expect("killed");
    child.wait().expect("gone");

    let status = json(&other(&["status", &out, "--json"]));
    assert_eq!(status["state"], "killed", "{status}");
    assert_eq!((works(&status, "all"), works(&status, "running")), (30, 0));
    assert!(works(&status, "downloaded") >= 3, "{status}");
    assert!(status["progress"]["left_s"].is_null(), "{status}");
    let command = status["advice"][0]["command"].as_str().expect("a command");
    assert!(
        command.starts_with("docstokg ") && command.contains("--resume") && command.contains(&out),
        "{command}"
    );
    let killed = text(&other(&["summary", &out]).stdout);
    assert!(killed.contains("killed after"), "{killed}");
    let advised = other(&["limits", "advise", &out]);
    assert!(
        !text(&advised.stderr).contains("cannot be read"),
        "{}",
        text(&advised.stderr)
    );

    assert!(world.run(&["--resume", "--quiet"]).status.success());
    let status = json(&other(&["status", &out, "--json"]));
    assert_eq!(
        (&status["state"], &status["run"]["end"]),
        (&"ended".into(), &"complete".into())
    );
    assert_eq!(works(&status, "downloaded"), 30);
    assert!((3..30).contains(&works(&status, "known")), "{status}");
    assert!(
        !world.path("out/.docstokg").exists(),
        "temporary files are left"
    );
    assert_the_runs_are_listed(&world, &out);
}

/// Without a directory all runs of the state directory are listed, the latest first.
fn assert_the_runs_are_listed(world: &DownloadWorld, out: &str) {
    let of_state = |arguments: &[&str]| {
        let mut command = program();
        command.args(arguments);
        command.env("DOCSTOKG_STATE_DIR", world.path("state"));
        command.output().expect("the program")
    };
    let listed = json(&of_state(&["status", "--json"]));
    let runs = listed["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 2, "{listed}");
    assert_eq!(runs[0]["end"], "complete");
    assert_eq!(runs[0]["status"]["works"]["downloaded"], 30);
    assert_eq!(
        (&runs[1]["end"], &runs[1]["status"]),
        (&Value::Null, &Value::Null)
    );
    let shown = text(&of_state(&["status"]).stdout);
    assert!(
        shown.contains("finished") && shown.contains("killed"),
        "{shown}"
    );
    let table = text(&of_state(&["summary", "--list"]).stdout);
    let lines: Vec<&str> = table.lines().collect();
    assert!(
        lines[0].starts_with("run  ") && lines[1].contains("finished"),
        "{table}"
    );
    assert!(
        lines[1].contains(out) && lines[2].contains("killed"),
        "{table}"
    );
    let compared = of_state(&["summary", "latest", "--compare", out]);
    assert!(compared.status.success(), "{}", text(&compared.stderr));
    // A dry run is a run, and not the one that `latest` means.
    assert!(
        world
            .run(&["http://a.example/99.pdf", "--dry-run", "--quiet"])
            .status
            .success()
    );
    let table = text(&of_state(&["summary", "--list"]).stdout);
    assert!(table.contains("download --dry-run"), "{table}");
    let latest = json(&of_state(&["summary", "--json"]));
    assert_eq!(latest["run"]["command"], "download", "{latest}");
    assert_eq!(latest["run"]["run_id"], runs[0]["run_id"]);
}

#[test]
fn the_status_of_a_killed_run_is_read_in_a_directory_that_cannot_be_written() {
    let world = slow_world();
    let out = world.path("out");
    let mut child = start(&world);
    status_when(&out.display().to_string(), |status| {
        works(status, "downloaded") >= 2
    });
    child.kill().expect("killed");
    child.wait().expect("gone");
    assert!(out.join("manifest.sqlite3-wal").exists());
    // A copy of a disk may lack the index of the log.
    for lacks_index in [false, true] {
        if lacks_index {
            std::fs::remove_file(out.join("manifest.sqlite3-shm")).expect("an index");
        }
        let before = names(&out);
        let script = "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\" && \
                      \"$2\" status \"$1\" --json";
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--map-root-user", "sh", "-c", script, "sh"])
            .arg(&out)
            .arg(program().get_program());
        let read = command.output().expect("unshare");
        let status = json(&read);
        assert_eq!(status["state"], "killed");
        assert!(works(&status, "downloaded") >= 2, "{status}");
        assert_eq!(names(&out), before);
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a directory").flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn a_watched_run_prints_a_line_for_every_change_until_it_ends() {
    let world = slow_world();
    let out = world.path("out").display().to_string();
    let mut child = start(&world);
    status_when(&out, |status| status["state"] == "running");
    let watched = other(&["status", &out, "--watch"]);
    let shown = text(&watched.stdout);
    assert!(watched.status.success(), "{}", text(&watched.stderr));
    assert!(child.wait().expect("an end").success());
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines.len() >= 3, "{shown}");
    assert!(lines[1].contains("of 30 works"), "{shown}");
    assert!(
        lines.iter().any(|line| line.ends_with(" s left")),
        "{shown}"
    );
    let last = lines.last().expect("a line");
    assert!(
        last.contains("downloaded 30 of 30 works") && last.contains("finished at"),
        "{shown}"
    );
    assert!(lines.windows(2).all(|pair| pair[0] != pair[1]), "{shown}");
}

#[test]
fn an_interrupt_ends_the_watching_and_not_the_run() {
    let world = slow_world();
    let out = world.path("out").display().to_string();
    let mut child = start(&world);
    status_when(&out, |status| works(status, "downloaded") >= 1);
    let mut watching = program()
        .args(["status", &out, "--watch"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program");
    let mut first = [0];
    let stdout = watching.stdout.as_mut().expect("output");
    stdout.read_exact(&mut first).expect("a line");
    let pid = watching.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .expect("kill")
            .success()
    );
    let ended = watching.wait_with_output().expect("an end");
    assert_eq!(
        (ended.status.code(), text(&ended.stderr).as_str()),
        (Some(130), "")
    );
    assert!(child.wait().expect("an end").success());
    assert_eq!(
        json(&other(&["status", &out, "--json"]))["works"]["downloaded"],
        30
    );
}

#[test]
fn a_directory_without_a_run_is_refused_in_a_sentence() {
    let empty = tempfile::tempdir().expect("a directory");
    let out = empty.path().display().to_string();
    for arguments in [
        &["status", &out][..],
        &["why", "10.1234/x", &out],
        &["summary", &out],
    ] {
        let refused = other(arguments);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}");
        let printed = text(&refused.stderr);
        assert!(printed.contains("has no run"), "{arguments:?}: {printed}");
    }
    assert!(names(empty.path()).is_empty());
}

/// A world with a file, a dead link, a path that robots.txt forbids, and a host that declares a
/// pause of two hours.
fn world_with_reasons() -> DownloadWorld {
    let site = OriginScript::new("a.example").handler(|arrival, _| match arrival.path.as_str() {
        "/robots.txt" => ScriptedReply::ok("User-agent: *\nDisallow: /private/\n"),
        path if path.starts_with("/missing") => ScriptedReply::status(404),
        path => pdf(path),
    });
    let pausing = OriginScript::new("hours.example").handler(|arrival, _| {
        if arrival.path == "/robots.txt" {
            return ScriptedReply::status(404);
        }
        ScriptedReply::status(503).header("retry-after", "7200")
    });
    let hosts = ["a.example", "hours.example"].map(str::to_owned).to_vec();
    let config =
        "version: 1\nlimits: { defaults: { artifact: { rates: [] }, landing: { rates: [] } } }\n";
    DownloadWorld::start(vec![site, pausing], hosts, config)
}

#[test]
fn the_attempts_of_a_work_are_shown_with_its_reason_and_what_can_be_done() {
    let world = world_with_reasons();
    let out = world.path("out").display().to_string();
    let ran = world.run(&[
        "http://a.example/1.pdf",
        "http://a.example/missing/2.pdf",
        "http://a.example/private/3.pdf",
        "http://hours.example/4.pdf",
        "http://127.0.0.1:1/5.pdf",
        "--untrusted-input",
        "--disable",
        "wayback",
        "--max-wait",
        "0",
    ]);
    assert_eq!(ran.status.code(), Some(3), "{}", text(&ran.stderr));
    let why = |id: &str| text(&other(&["why", id, &out]).stdout);
    let saved = why("HTTP://A.example/1.pdf#page=2");
    assert!(
        saved.contains("its file is there") && saved.contains("a.example sent the file"),
        "{saved}"
    );
    let dead = why("http://a.example/missing/2.pdf");
    assert!(
        dead.contains("no file, failed")
            && dead.contains("reason: the link is dead (404) (http_status)"),
        "{dead}"
    );
    let forbidden = why("http://a.example/private/3.pdf");
    assert!(
        forbidden.contains("no file, blocked")
            && forbidden.contains("--retry-failed --ignore-robots --out"),
        "{forbidden}"
    );
    let waiting = why("http://hours.example/4.pdf");
    assert!(
        waiting.contains("waits for hours.example until") && waiting.contains("for no requests"),
        "{waiting}"
    );
    let internal = json(&other(&["why", "http://127.0.0.1:1/5.pdf", &out, "--json"]));
    assert_eq!(
        internal["decisive"]["reason"], "internal_address",
        "{internal}"
    );
    let missing = std::fs::read_to_string(world.path("out/missing.csv")).expect("a list");
    assert!(
        missing.contains("the address is in a private network"),
        "{missing}"
    );
    let unknown = other(&["why", "http://a.example/privat/3.pdf", &out]);
    assert_eq!(unknown.status.code(), Some(2));
    let printed = text(&unknown.stderr);
    assert!(
        printed.contains("similar: http://a.example/private/3.pdf"),
        "{printed}"
    );
    assert_the_waiting_work_is_in_the_status(&out);
}

/// The status names the host, until when and why, and what can be done, for works that wait.
fn assert_the_waiting_work_is_in_the_status(out: &str) {
    let status = json(&other(&["status", out, "--json"]));
    assert_eq!(status["run"]["end"], "waiting", "{status}");
    let wait = &status["waits"][0];
    assert_eq!(
        (&wait["host"], &wait["works"], &wait["set_by"]),
        (&"hours.example".into(), &1.into(), &"server".into()),
        "{wait}"
    );
    let left = wait["until"].as_f64().expect("a time") - status["at"].as_f64().expect("a time");
    assert!((7_000.0..=7_300.0).contains(&left), "{wait}");
    let command = wait["advice"]["command"].as_str().expect("a command");
    assert!(
        command.contains("--state-dir") && command.ends_with("breaker close hours.example"),
        "{command}"
    );
    let shown = text(&other(&["status", out]).stdout);
    assert!(
        shown.contains("3 without a file: 2 blocked, 1 failed")
            && shown.contains("hours.example until")
            && shown.contains("1 work): the host"),
        "{shown}"
    );
}
