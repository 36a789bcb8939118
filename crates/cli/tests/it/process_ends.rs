//! How processes end: output that cannot be written, signals, and places where nothing may be
//! written.

use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

use crate::download_world::text;
use crate::support::{ontofetch, program, run};

/// Runs a command of a shell script, whose `"$@"` is a program with arguments.
fn run_in_shell(script: &str, command: &Command) -> std::process::Output {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", script, "sh"])
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.output().expect("a shell")
}

#[test]
fn output_that_is_full_closed_or_not_writable_is_a_failure_of_every_command() {
    let state = tempfile::tempdir().expect("a directory");
    for (mut command, arguments) in [
        (program(), &["limits", "show"][..]),
        (program(), &["config", "show"]),
        (program(), &["config", "check", "--json"]),
        (program(), &["cache", "stats"]),
        (program(), &["explain", "10.1000/x"]),
        (program(), &["--help"]),
        (program(), &["--version"]),
        (program(), &["breaker", "show", "--json"]),
        (
            program(),
            &[
                "download",
                "10.1000/x",
                "--out",
                "unused",
                "--dry-run",
                "--json",
            ],
        ),
        (ontofetch(), &["list", "--sources"]),
        (ontofetch(), &["rl", "doctor"]),
        (ontofetch(), &["pull", "--help"]),
    ] {
        command
            .args(arguments)
            .env("DOCSTOKG_STATE_DIR", state.path());
        command.env("DOCSTOKG_RLIMIT_BACKEND", "sqlite");
        let ran = command.output().expect("the program");
        assert_eq!(
            ran.status.code(),
            Some(0),
            "{arguments:?}: {}",
            text(&ran.stderr)
        );
        for (script, sentence) in [
            ("\"$@\" > /dev/full", "No space left on device"),
            ("\"$@\" >&-", "stdout is closed"),
            ("\"$@\" 1< /dev/null", "stdout is not open for writing"),
        ] {
            let ran = run_in_shell(script, &command);
            let said = text(&ran.stderr);
            assert_eq!(ran.status.code(), Some(1), "{arguments:?} {script}: {said}");
            assert!(
                said.contains(&format!("the output cannot be written: {sentence}")),
                "{arguments:?} {script}: {said}"
            );
        }
        let ran = run_in_shell("\"$@\" | true", &command);
        assert!(
            !text(&ran.stderr).contains("cannot be written"),
            "{arguments:?}"
        );
    }
}

/// Returns whether a process catches a signal.
fn catches(process: u32, signal: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = u64::from_str_radix(caught.unwrap_or("0").trim(), 16).expect("a mask");
    caught & (1 << (signal - 1)) != 0
}

#[test]
fn a_signal_before_a_command_has_begun_is_exit_130() {
    for (name, number) in [("-INT", 2), ("-TERM", 15), ("-HUP", 1)] {
        for mut command in [program(), ontofetch()] {
            // It waits for the end of its input, long before it opens its state.
            let child = command
                .args(["config", "check", "/dev/stdin"])
                .stdin(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("the program");
            while !catches(child.id(), number) {
                std::thread::yield_now();
            }
            let process = child.id().to_string();
            let sent = Command::new("kill").args([name, &process]).status();
            assert!(sent.expect("kill").success());
            let ended = child.wait_with_output().expect("an end");
            assert_eq!(ended.status.code(), Some(130), "{name}");
            assert!(text(&ended.stderr).contains("interrupted"), "{name}");
        }
    }
}

#[test]
fn addresses_and_files_are_refused_as_directories() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let file = file.display().to_string();
    for (arguments, sentence) in [
        (
            &["download", "10.1000/x", "--out", "s3://bucket/x"][..],
            "files cannot be written to s3:// addresses",
        ),
        (
            &["download", "10.1000/x", "--out", "gs://bucket/x"],
            "gs:// addresses",
        ),
        (
            &["demo", "--out", "https://a.example/x"],
            "https:// addresses",
        ),
        (
            &["fetch", "http://a.example/", "-o", "s3://bucket/x"],
            "s3:// addresses",
        ),
        (
            &["limits", "show", "--state-dir", "file:///tmp/x"],
            "write the path alone, as /tmp/x",
        ),
        (
            &["download", "10.1000/x", "--out", &file],
            "is a file; name a directory",
        ),
    ] {
        let ran = program()
            .args(arguments)
            .current_dir(directory.path())
            .output()
            .expect("the program");
        let said = text(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(sentence), "{arguments:?}: {said}");
    }
    let entries = std::fs::read_dir(directory.path())
        .expect("a directory")
        .count();
    assert_eq!(entries, 1, "nothing was created");
}

#[test]
fn state_is_not_written_where_it_does_not_belong() {
    let without_home = |mut command: Command| {
        command
            .args(["limits", "advise", "latest"])
            .env_remove("DOCSTOKG_STATE_DIR")
            .env_remove("XDG_STATE_HOME")
            .env_remove("HOME");
        command.output().expect("the program")
    };
    // A user whom the system does not know has no home directory.
    let mut unknown = Command::new("unshare");
    unknown.arg("--map-user=12345").arg(program().get_program());
    unknown.env("DOCSTOKG_RLIMIT_BACKEND", "memory");
    let ran = without_home(unknown);
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(2), "{said}");
    assert!(
        said.contains("there is no place for state")
            && said.contains("--state-dir DIR or DOCSTOKG_STATE_DIR"),
        "{said}"
    );
    // Without HOME it is the home directory that the system knows.
    let ran = without_home(program());
    let said = text(&ran.stderr);
    assert!(
        said.contains("memory backend"),
        "the state directory was found: {said}"
    );
    // The directory of another user.
    let directory = tempfile::tempdir().expect("a directory");
    let is_root = std::fs::metadata("/proc/self").expect("a process").uid() == 0;
    let foreign = if is_root {
        std::os::unix::fs::chown(directory.path(), Some(65_534), None).expect("changed");
        directory.path().display().to_string()
    } else {
        "/usr".to_owned()
    };
    let ran = run(&["cache", "stats", "--state-dir", &foreign]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("belongs to another user"), "{}", ran.err);
}

#[test]
fn durations_sizes_and_years_have_units_and_words() {
    for (arguments, sentence) in [
        (
            &["download", "10.1/x", "--out", "o", "--max-wait", "soon"][..],
            "such as 90s, 15m, 1h30m or 2d",
        ),
        (
            &["download", "10.1/x", "--out", "o", "--max-bytes", "10X"],
            "such as 500K, 64M or 10G",
        ),
        (
            &["download", "10.1/x", "--out", "o", "--min-free", "much"],
            "a plain number is in MiB",
        ),
        (
            &["download", "10.1/x", "--out", "o", "--year-start", "20x"],
            "a year such as 2020",
        ),
        (
            &["download", "10.1/x", "--out", "o", "--workers", "many"],
            "a whole number of at least 1",
        ),
        (
            &["fetch", "http://a.example/", "--deadline", "5 parsecs"],
            "a plain number is in seconds",
        ),
        (
            &["breaker", "open", "a.example", "--seconds", "x"],
            "a plain number is in seconds",
        ),
        (&["serve", "--max-wait", "2d"], "longer than a day"),
        (&["serve", "--max-request-body", "big"], "such as 500K"),
    ] {
        let ran = run(arguments);
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(sentence), "{arguments:?}: {}", ran.err);
    }
    let shown = |arguments: &[&str]| {
        let ran = run(&[&["config", "show"], arguments].concat());
        serde_json::from_str::<serde_json::Value>(&ran.out).expect("JSON")
    };
    assert_eq!(
        shown(&["--deadline", "2m"])["transport"]["deadline_s"].as_f64(),
        Some(120.0)
    );
    let breaker = shown(&["--breaker", "a.example=reset:1m,retry_after_cap:1h"]);
    let breaker = &breaker["breakers"]["hosts"]["a.example"];
    assert_eq!(breaker["reset_timeout_s"].as_f64(), Some(60.0), "{breaker}");
    assert_eq!(
        breaker["retry_after_cap_s"].as_f64(),
        Some(3_600.0),
        "{breaker}"
    );
}
