//! The commands of an operator: `breaker` and `limits doctor`.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{fetch_sharing as fetch, fine, run_sharing as run};

#[test]
fn a_pause_by_an_operator_holds_for_every_process_and_is_shown() {
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
    let answer: serde_json::Value = serde_json::from_str(&refused.out).expect("JSON");
    assert_eq!(
        (answer["error"].as_str(), answer["reason"].as_str()),
        (Some("breaker_open"), Some("cli-open:lunch"))
    );
    assert!(
        answer["cooldown_remaining_ms"]
            .as_u64()
            .is_some_and(|left| left > 50_000 && left <= 60_000),
        "{answer}"
    );

    assert_the_pause_is_shown(state.path());

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

/// The pause is in `breaker show`, as JSON and as a table, and in `limits doctor`.
fn assert_the_pause_is_shown(state: &Path) {
    let shown = run(state, &["breaker", "show", "--open-only", "--json"]);
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
            .is_some_and(|process| process.starts_with("pid ")),
        "{row}"
    );
    assert_eq!(row["probes"]["artifact"]["most"], 2);
    let table = run(state, &["breaker", "show", "--host", "a.example"]);
    assert!(
        table.out.contains("cli-open:lunch") && table.out.lines().count() == 2,
        "{}",
        table.out
    );
    let doctor = run(state, &["limits", "doctor", "a.example"]);
    assert!(
        doctor
            .out
            .contains("because: breaker: open (cli-open:lunch)"),
        "{}",
        doctor.out
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
fn the_doctor_reports_that_a_stricter_configuration_hardly_gets_a_turn() {
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
    let printed = run(
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
        printed.contains("4 in 2/MINUTE: other processes send under a larger limit"),
        "{printed}"
    );
    let printed = run(
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
    assert!(!printed.contains("larger limit"), "{printed}");
}

#[test]
fn the_doctor_shows_the_use_of_each_window_and_the_next_request() {
    let (state, served) = (tempfile::tempdir().expect("a directory"), fine());
    assert!(
        run(state.path(), &["limits", "doctor"])
            .out
            .contains("nothing waits")
    );
    let limits = ["--rate", "a.example:metadata=rates:1/HOUR+5/DAY"];
    assert_eq!(fetch(state.path(), &served, &limits).code, 0);
    let printed = run(
        state.path(),
        &[&["limits", "doctor", "--json"], limits.as_slice()].concat(),
    );
    let printed: serde_json::Value = serde_json::from_str(&printed.out).expect("JSON");
    let [budget] = printed["budgets"].as_array().expect("budgets").as_slice() else {
        panic!("{printed}")
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
fn closing_an_unknown_host_is_an_error_and_creates_no_state() {
    let state = tempfile::tempdir().expect("a directory");
    let closed = run(state.path(), &["breaker", "close", "unheard.example"]);
    assert!(
        closed.code == 1 && closed.err.contains("unheard.example is not known"),
        "{}",
        closed.err
    );
    let shown = run(state.path(), &["breaker", "show", "--json"]);
    assert!(!shown.out.contains("unheard.example"), "{}", shown.out);
    let closed = run(state.path(), &["breaker", "close", "api.crossref.org"]);
    assert!(
        closed.code == 0 && closed.err.contains("already closed"),
        "{}",
        closed.err
    );
}

/// Text that other processes wrote into the store does not control the terminal.
#[test]
fn control_characters_of_a_reason_are_escaped() {
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
