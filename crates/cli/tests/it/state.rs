//! State that processes share: what one process does, the next one obeys; and an operator's word
//! reaches all.

use std::time::{Duration, Instant};

use docstokg_origin_sim::{Origin, Reply};

use crate::support::{Ran, Served, sharing};

fn run(state: &std::path::Path, arguments: &[&str]) -> Ran {
    sharing(state)
        .args(arguments)
        .output()
        .expect("the program")
        .into()
}

fn fetch(state: &std::path::Path, served: &Served, more: &[&str]) -> Ran {
    let mapping = format!("a.example:80={}", served.address);
    run(
        state,
        &[
            &["fetch", "http://a.example/", "--connect-to", &mapping],
            more,
        ]
        .concat(),
    )
}

fn fine() -> Served {
    Served::start(Origin::new("a.example").route("/", [Reply::ok("fine")]))
}

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
fn an_operators_word_reaches_every_process_and_is_shown() {
    let (state, served) = (tempfile::tempdir().expect("a directory"), fine());
    let opened = run(
        state.path(),
        &[
            "breaker",
            "open",
            "a.example",
            "--seconds",
            "60",
            "--reason",
            "lunch",
        ],
    );
    assert!(
        opened.code == 0
            && opened
                .err
                .contains("a.example: open (cli-open:lunch) until"),
        "{}",
        opened.err
    );
    let refused = fetch(state.path(), &served, &["--json"]);
    assert_eq!(refused.code, 3);
    let said: serde_json::Value = serde_json::from_str(&refused.out).expect("JSON");
    assert_eq!(
        (said["error"].as_str(), said["reason"].as_str()),
        (Some("breaker_open"), Some("cli-open:lunch"))
    );
    assert!(
        said["cooldown_remaining_ms"]
            .as_u64()
            .is_some_and(|left| left > 50_000 && left <= 60_000),
        "{said}"
    );

    let shown = run(state.path(), &["breaker", "show", "--open-only", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown.out).expect("JSON");
    let [row] = shown["breakers"].as_array().expect("rows").as_slice() else {
        panic!("{shown}")
    };
    assert_eq!(
        (row["host"].as_str(), row["state"].as_str()),
        (Some("a.example"), Some("open"))
    );
    assert!(
        row["opened_by"]
            .as_str()
            .is_some_and(|who| who.starts_with("pid ")),
        "{row}"
    );
    assert_eq!(row["probes"]["artifact"]["most"], 2);
    let table = run(state.path(), &["breaker", "show", "--host", "a.example"]);
    assert!(
        table.out.contains("cli-open:lunch") && table.out.lines().count() == 2,
        "{}",
        table.out
    );
    let doctor = run(state.path(), &["limits", "doctor", "a.example"]);
    assert!(
        doctor
            .out
            .contains("because: breaker: open (cli-open:lunch)"),
        "{}",
        doctor.out
    );

    assert!(
        run(state.path(), &["breaker", "close", "a.example"])
            .err
            .contains("a.example: closed")
    );
    assert_eq!(fetch(state.path(), &served, &[]).code, 0);
    assert!(
        run(state.path(), &["breaker", "show", "--open-only"])
            .out
            .contains("every breaker is closed")
    );
}

#[test]
fn a_resolver_is_opened_and_closed_by_its_name() {
    let (state, served) = (tempfile::tempdir().expect("a directory"), fine());
    assert_eq!(
        run(
            state.path(),
            &[
                "breaker",
                "open",
                "landing_page",
                "--resolver",
                "--seconds",
                "60"
            ]
        )
        .code,
        0
    );
    assert_eq!(
        fetch(state.path(), &served, &["--resolver", "landing_page"]).code,
        3
    );
    assert_eq!(
        fetch(state.path(), &served, &[]).code,
        0,
        "others are not affected"
    );
    assert_eq!(
        run(
            state.path(),
            &["breaker", "close", "landing_page", "--resolver"]
        )
        .code,
        0
    );
    assert_eq!(
        fetch(state.path(), &served, &["--resolver", "landing_page"]).code,
        0
    );
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a block ends in real time")]
fn a_block_set_by_one_process_holds_for_another_and_ends_in_time() {
    let (state, served) = (tempfile::tempdir().expect("a directory"), fine());
    let start = Instant::now();
    assert_eq!(
        run(
            state.path(),
            &["breaker", "open", "a.example", "--seconds", "3"]
        )
        .code,
        0
    );
    assert_eq!(fetch(state.path(), &served, &[]).code, 3, "blocked");
    std::thread::sleep(Duration::from_millis(3_050).saturating_sub(start.elapsed()));
    assert_eq!(
        fetch(state.path(), &served, &[]).code,
        0,
        "after three seconds it proceeds"
    );
}

#[test]
fn the_doctor_says_that_a_stricter_configuration_hardly_gets_a_turn() {
    let (state, served) = (tempfile::tempdir().expect("a directory"), fine());
    for _ in 0..4 {
        assert_eq!(
            fetch(
                state.path(),
                &served,
                &["--rate", "a.example:metadata=rates:9/MINUTE"]
            )
            .code,
            0
        );
    }
    let told = run(
        state.path(),
        &[
            "limits",
            "doctor",
            "a.example",
            "--rate",
            "a.example:metadata=rates:2/MINUTE",
        ],
    )
    .out;
    assert!(
        told.contains("4 in 2/MINUTE: other processes ask under a larger limit"),
        "{told}"
    );
    let told = run(
        state.path(),
        &[
            "limits",
            "doctor",
            "a.example",
            "--rate",
            "a.example:metadata=rates:9/MINUTE",
        ],
    )
    .out;
    assert!(!told.contains("larger limit"), "{told}");
}

#[test]
fn the_doctor_tells_how_full_each_window_is_and_when_there_is_room() {
    let (state, served) = (tempfile::tempdir().expect("a directory"), fine());
    assert!(
        run(state.path(), &["limits", "doctor"])
            .out
            .contains("nothing waits")
    );
    let limits = ["--rate", "a.example:metadata=rates:1/HOUR+5/DAY"];
    assert_eq!(fetch(state.path(), &served, &limits).code, 0);
    let told = run(
        state.path(),
        &[&["limits", "doctor", "--json"], limits.as_slice()].concat(),
    );
    let told: serde_json::Value = serde_json::from_str(&told.out).expect("JSON");
    let [budget] = told["budgets"].as_array().expect("budgets").as_slice() else {
        panic!("{told}")
    };
    assert_eq!(budget["because"], "window 1/HOUR is full");
    assert!(
        budget["eligible_in_ms"]
            .as_u64()
            .is_some_and(|left| left > 3_500_000 && left <= 3_600_010),
        "{budget}"
    );
    assert_eq!(budget["budgets"][0]["windows"][1]["used"], 1);
    let text = run(
        state.path(),
        &[&["limits", "doctor", "a.example"], limits.as_slice()].concat(),
    )
    .out;
    assert!(
        text.contains("budget a.example metadata: 1 of 1/HOUR, 1 of 5/DAY"),
        "{text}"
    );
}

#[test]
fn a_state_directory_that_cannot_be_used_is_an_error_unless_the_state_is_in_memory() {
    let served = fine();
    let nowhere = std::path::Path::new("/proc/nowhere");
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
fn a_redis_server_that_is_away_is_said_once_and_its_password_never() {
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

/// A process in a time namespace of its own, as a container may have, obeys and is obeyed on the
/// machine's clock.
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
            "{backend}: two an hour, for both"
        );
        assert_eq!(served.web.ledger().len(), 2);
    }
}

#[test]
fn closing_a_host_that_is_not_known_says_so_and_makes_nothing() {
    let state = tempfile::tempdir().expect("a directory");
    let closed = run(state.path(), &["breaker", "close", "unheard.example"]);
    assert!(
        closed.code == 1 && closed.err.contains("unheard.example is not known here"),
        "{}",
        closed.err
    );
    let shown = run(state.path(), &["breaker", "show", "--json"]);
    assert!(!shown.out.contains("unheard.example"), "{}", shown.out);
    let closed = run(state.path(), &["breaker", "close", "api.crossref.org"]);
    assert!(
        closed.code == 0 && closed.err.contains("closed, and was so before"),
        "{}",
        closed.err
    );
}

/// What others wrote into the store does not steer the terminal of the one who looks.
#[test]
fn control_characters_of_a_reason_are_shown_and_not_obeyed() {
    let state = tempfile::tempdir().expect("a directory");
    let reason = "lunch\u{1b}[2J\u{9b}31m";
    let opened = run(
        state.path(),
        &[
            "breaker",
            "open",
            "a.example",
            "--seconds",
            "60",
            "--reason",
            reason,
        ],
    );
    let shown = run(state.path(), &["breaker", "show"]);
    let json = run(state.path(), &["breaker", "show", "--json"]);
    for text in [&opened.err, &shown.out, &json.out] {
        assert!(
            text.contains("lunch") && !text.contains(['\u{1b}', '\u{9b}']),
            "{text:?}"
        );
    }
}

/// State is for its owner, whatever the umask says.
#[test]
fn state_and_telemetry_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let (outer, served) = (tempfile::tempdir().expect("a directory"), fine());
    let state = outer.path().join("new");
    for backend in ["sqlite", "multiprocess"] {
        let mapping = format!("a.example:80={}", served.address);
        let program = env!("CARGO_BIN_EXE_docstokg");
        let line = format!(
            "umask 000; exec {program} --state-dir {} --rate-backend {backend} fetch http://a.example/ --connect-to {mapping}",
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
    let mode = |path: &std::path::Path| {
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

/// A mapped file that is cut short in mid-run is a damaged store, not the end of the program.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "a file is cut in the middle of a real run"
)]
fn a_mapped_file_that_is_cut_in_mid_run_does_not_kill_the_run() {
    let (state, served) = (tempfile::tempdir().expect("a directory"), fine());
    let list = (0..16)
        .map(|n| format!("http://a.example/{n}"))
        .collect::<Vec<_>>()
        .join("\n");
    std::fs::write(state.path().join("list.txt"), list).expect("a file");
    let mut run = sharing(state.path());
    run.args([
        "--connect-to",
        &format!("a.example:80={}", served.address),
        "--rate-backend",
        "multiprocess",
    ])
    .args([
        "--rate",
        "a.example:artifact=rates:8/SECOND",
        "download",
        "--out",
    ])
    .arg(state.path().join("out"))
    .arg(state.path().join("list.txt"));
    let run = run
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program");
    let begun = Instant::now();
    while served.web.ledger().len() < 6 {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "the run does not begin"
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
        .expect("cut");
    let ran: Ran = run.wait_with_output().expect("its end").into();
    assert!(
        ran.code == 0 || ran.code == 1,
        "it ended by itself: {} {}",
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
        served.web.ledger().len() >= 16,
        "the rest was asked for as well"
    );
}
