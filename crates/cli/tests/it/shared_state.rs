//! State that processes share: the limits and breakers of one process hold for the next.

use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use crate::support::{Ran, Served, fetch_sharing as fetch, fine, run_sharing as run, sharing};

#[test]
fn two_runs_share_one_budget_on_every_store_of_the_machine() {
    for backend in ["sqlite", "multiprocess"] {
        let (state, served) = (tempfile::tempdir().expect("a directory"), fine());
        let limits = [
            "--rate",
            "a.example:metadata=rates:2/HOUR,max_delay_ms:0",
            "--rate-backend",
            backend,
        ];
        assert_eq!(
            [0, 0, 3].map(|_| fetch(state.path(), &served, &limits).code),
            [0, 0, 3],
            "{backend}"
        );
        assert_eq!(
            served.web.ledger().len(),
            2,
            "{backend}: a refusal sends nothing"
        );
    }
}

#[test]
fn a_state_directory_that_cannot_be_used_is_an_error_unless_the_state_is_in_memory() {
    let served = fine();
    let nowhere = Path::new("/proc/nowhere");
    let refused = fetch(nowhere, &served, &[]);
    assert!(
        refused.code == 1
            && refused.err.contains("cannot be used")
            && refused.err.contains("--rate-backend memory"),
        "{}",
        refused.err
    );
    assert_eq!(served.web.ledger().len(), 0);
    let fetched = fetch(nowhere, &served, &["--rate-backend", "memory"]);
    assert_eq!(fetched.code, 0, "{}", fetched.err);
    assert_eq!(run(nowhere, &["breaker", "show"]).code, 1);
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(
        file.path(),
        "limits: { backend: { on_store_failure: refuse } }\n",
    )
    .expect("a file");
    let refused = fetch(
        nowhere,
        &served,
        &["--config", &file.path().display().to_string()],
    );
    assert!(
        refused.code == 1 && refused.err.contains("--state-dir"),
        "{}",
        refused.err
    );
    assert_eq!(served.web.ledger().len(), 1);
}

#[test]
fn an_unavailable_redis_server_is_reported_once_and_without_its_password() {
    let (state, served) = (tempfile::tempdir().expect("a directory"), fine());
    let dsn = [
        "--rate-backend",
        "redis",
        "--rate-dsn",
        "redis://me:SECRET@127.0.0.1:1/0",
    ];
    let fetched = fetch(state.path(), &served, &dsn);
    assert_eq!(fetched.code, 0, "{}", fetched.err);
    assert!(
        fetched
            .err
            .contains("redis://***@127.0.0.1:1/0 does not answer")
            && fetched.err.contains("going on with"),
        "{}",
        fetched.err
    );
    assert!(!fetched.err.contains("SECRET"), "{}", fetched.err);
}

/// A process in its own time namespace, as a container may have, shares windows on the machine's
/// clock.
#[test]
#[cfg(target_os = "linux")]
fn another_time_namespace_shares_the_same_windows() {
    let namespace = || {
        let mut command = std::process::Command::new("unshare");
        command.args(["--time", "--boottime", "100000", "--fork"]);
        command
    };
    if !namespace()
        .arg("true")
        .status()
        .is_ok_and(|status| status.success())
    {
        // Needs root, or user namespaces.
        return;
    }
    for backend in ["sqlite", "multiprocess"] {
        let (state, served) = (tempfile::tempdir().expect("a directory"), fine());
        let mapping = format!("a.example:80={}", served.address);
        let limits = [
            "--rate",
            "a.example:metadata=rates:2/HOUR,max_delay_ms:0",
            "--rate-backend",
            backend,
        ];
        let inside = || {
            let status = namespace()
                .arg(env!("CARGO_BIN_EXE_docstokg"))
                .args([
                    "--state-dir",
                    &state.path().display().to_string(),
                    "--quiet",
                    "fetch",
                    "http://a.example/",
                    "--connect-to",
                    &mapping,
                ])
                .args(limits)
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null())
                .status();
            status.expect("unshare").code().unwrap_or(-1)
        };
        assert_eq!(inside(), 0, "{backend}");
        assert_eq!(fetch(state.path(), &served, &limits).code, 0, "{backend}");
        assert_eq!(
            (inside(), fetch(state.path(), &served, &limits).code),
            (3, 3),
            "{backend}: two requests an hour, for both together"
        );
        assert_eq!(served.web.ledger().len(), 2);
    }
}

/// State is readable by its owner only, whatever the umask is.
#[test]
fn state_and_telemetry_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let (outer, served) = (tempfile::tempdir().expect("a directory"), fine());
    let state = outer.path().join("new");
    for backend in ["sqlite", "multiprocess"] {
        let mapping = format!("a.example:80={}", served.address);
        let program = env!("CARGO_BIN_EXE_docstokg");
        let line = format!(
            "umask 000; exec {program} --state-dir {} --rate-backend {backend} \
             fetch http://a.example/ --connect-to {mapping}",
            state.display()
        );
        let output = std::process::Command::new("sh")
            .args(["-c", &line])
            .output()
            .expect("a shell");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let mode = |path: &Path| {
        std::fs::metadata(path)
            .expect("it is there")
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode(&state), 0o700);
    for entry in std::fs::read_dir(&state).expect("a directory").flatten() {
        let wanted = if entry.path().is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&entry.path()), wanted, "{}", entry.path().display());
    }
}

/// Starts a download of the list with a mapped file as the store.
fn start_download(state: &Path, served: &Served) -> Child {
    let mut run = sharing(state);
    run.args([
        "--connect-to",
        &format!("a.example:80={}", served.address),
        "--rate-backend",
        "multiprocess",
    ])
    .args([
        "--rate",
        "a.example:artifact=rates:2/SECOND",
        "download",
        "--out",
    ])
    .arg(state.join("out"))
    .arg(state.join("list.txt"));
    run.stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program")
}

/// A mapped file that is truncated during a run is a corrupt store, and not the end of the process.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a file is truncated during a real run"
)]
fn a_mapped_file_that_is_truncated_during_a_run_does_not_end_the_run() {
    let (state, served) = (tempfile::tempdir().expect("a directory"), fine());
    let list = (0..12)
        .map(|n| format!("http://a.example/{n}"))
        .collect::<Vec<_>>()
        .join("\n");
    std::fs::write(state.path().join("list.txt"), list).expect("a file");
    let run = start_download(state.path(), &served);
    let started = Instant::now();
    // What is left takes four seconds more: the run is still on its way when its file is cut short.
    while served.web.ledger().len() < 4 {
        assert!(
            started.elapsed() < Duration::from_secs(120),
            "the run does not start"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    let file = std::fs::read_dir(state.path())
        .expect("a directory")
        .flatten()
        .find(|entry| {
            entry
                .path()
                .extension()
                .is_some_and(|ending| ending == "shm")
        });
    std::fs::OpenOptions::new()
        .write(true)
        .open(file.expect("a mapped file").path())
        .and_then(|file| file.set_len(0))
        .expect("truncated");
    let ran: Ran = run.wait_with_output().expect("its end").into();
    assert!(
        ran.code == 0 || ran.code == 1,
        "the run ended by a signal: {} {}",
        ran.code,
        ran.err
    );
    assert!(
        ran.err.contains("it was cut short while it was in use")
            && ran.err.contains("going on with"),
        "{}",
        ran.err
    );
    assert!(
        served.web.ledger().len() >= 12,
        "the remaining works were requested as well"
    );
}
