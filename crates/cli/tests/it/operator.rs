//! The commands of an operator: `breaker` and `limits doctor`.

use std::path::Path;
use std::time::Duration;

use docstokg_hub::clock::{Clock as _, SystemClock};

use docstokg_origin_sim::{OriginScript, ScriptedReply};

use crate::support::{Served, fetch_sharing as fetch, fine, run_sharing as run};

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
            "3600",
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
            .is_some_and(|left| left > 3_000_000 && left <= 3_600_000),
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
fn a_block_set_by_one_process_holds_for_another_and_ends_in_time() {
    let (state, served) = (tempfile::tempdir().expect("a directory"), fine());
    let begun = SystemClock.boot();
    let open = ["breaker", "open", "a.example", "--seconds", "2"];
    assert_eq!(run(state.path(), &open).code, 0);
    while fetch(state.path(), &served, &[]).code != 0 {
        assert!(
            SystemClock.boot().since(begun) < Duration::from_secs(120),
            "the block does not end"
        );
    }
    let arrivals = served.web.ledger().arrivals();
    assert_eq!(arrivals.len(), 1, "a refused request is not sent");
    assert!(
        arrivals[0].at.since(begun) >= Duration::from_secs(2),
        "it was sent while the host was blocked"
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
                &["--rate", "a.example:metadata=rates:9/HOUR"]
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
            "a.example:metadata=rates:2/HOUR",
        ],
    )
    .out;
    assert!(
        printed.contains("4 in 2 an hour: other processes send under a larger limit"),
        "{printed}"
    );
    let printed = run(
        state.path(),
        &[
            "limits",
            "doctor",
            "a.example",
            "--rate",
            "a.example:metadata=rates:9/HOUR",
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
    assert_eq!(budget["because"], "the limit of 1 an hour is reached");
    assert!(
        budget["eligible_in_ms"]
            .as_u64()
            .is_some_and(|left| left > 3_000_000 && left <= 3_600_010),
        "{budget}"
    );
    assert_eq!(budget["budgets"][0]["windows"][1]["used"], 1);
    let text = run(
        state.path(),
        &[&["limits", "doctor", "a.example"], limits.as_slice()].concat(),
    )
    .out;
    assert!(
        text.contains("budget a.example metadata: 1 of 1 an hour, 1 of 5 a day"),
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

/// A mistyped host has no state: commands about it say so, and name the one that was meant.
#[test]
fn a_host_that_nothing_has_asked_is_warned_about() {
    let state = tempfile::tempdir().expect("a directory");
    let opened = run(
        state.path(),
        &["breaker", "open", "api.crosref.org", "--seconds", "60"],
    );
    assert_eq!(opened.code, 0, "{}", opened.err);
    let warning = "nothing with this state directory has sent a request to api.crosref.org, and \
                   no configuration names it; did you mean 'api.crossref.org'?";
    assert!(opened.err.contains(warning), "{}", opened.err);
    let warned = run(state.path(), &["limits", "doctor", "api.opnalex.org"]);
    assert!(
        warned.err.contains("did you mean 'api.openalex.org'?"),
        "{}",
        warned.err
    );
    let shown = run(state.path(), &["limits", "show", "api.opnalex.org"]);
    assert!(
        shown.err.contains("did you mean 'api.openalex.org'?"),
        "{}",
        shown.err
    );
    for known in ["api.crossref.org", "api.crosref.org"] {
        let words = ["breaker", "open", known, "--seconds", "60"];
        let opened = run(state.path(), &words);
        assert!(!opened.err.contains("warning"), "{}", opened.err);
    }
    let resolver = run(
        state.path(),
        &[
            "breaker",
            "open",
            "landing_pag",
            "--seconds",
            "60",
            "--resolver",
        ],
    );
    assert!(
        resolver.err.contains("warning") && resolver.err.contains("landing_page"),
        "{}",
        resolver.err
    );
}

/// The robots.txt that a run has read is shown once for its host, with the length of its delay.
#[test]
fn the_doctor_shows_robots_txt_once_and_pacing_per_role() {
    let origin = OriginScript::new("a.example").handler(|arrival, _| match arrival.path.as_str() {
        "/robots.txt" => ScriptedReply::ok("User-agent: *\nCrawl-delay: 1\nDisallow: /private\n"),
        path => crate::download_world::pdf(path),
    });
    let served = Served::start(origin);
    let state = tempfile::tempdir().expect("a directory");
    let mapping = format!("a.example:80={}", served.address);
    let out = state.path().join("out").display().to_string();
    let download = |url: &str| {
        let words = [
            "download",
            url,
            "--out",
            &out,
            "--connect-to",
            &mapping,
            "--disable",
            "landing_page",
        ];
        run(state.path(), &words)
    };
    let ran = download("http://a.example/1.pdf");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let doctor = || run(state.path(), &["limits", "doctor", "a.example"]).out;
    let shown = doctor();
    assert_eq!(shown.matches("crawl delay of 1 s").count(), 1, "{shown}");
    assert_eq!(shown.matches("robots.txt").count(), 1, "{shown}");
    assert_eq!(
        shown.matches("  pacing: even, one request every").count(),
        3,
        "{shown}"
    );
    download("http://a.example/private/2.pdf");
    let shown = doctor();
    assert!(
        shown.contains("a.example robots.txt: it forbade a request at")
            && shown.contains("crawl delay of 1 s"),
        "{shown}"
    );
    let shown = run(state.path(), &["limits", "doctor", "a.example", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown.out).expect("JSON");
    let row = &shown["budgets"][0];
    assert_eq!(row["robots"]["state"], "forbids", "{row}");
    assert_eq!(row["robots"]["crawl_delay_s"], 1.0, "{row}");
    assert_eq!(row["pacing"], "even", "{row}");
}

#[test]
fn the_pacing_of_a_role_includes_the_common_windows_of_its_site() {
    let state = tempfile::tempdir().expect("a directory");
    let file = state.path().join("docstokg.yaml");
    let text = "version: 1
sites: { a: { hosts: [a.example], common: { rates: [\"1/2SECOND\"] } } }
limits: { hosts: { a.example: { metadata: { rates: [\"10/SECOND\"] } } } }
";
    std::fs::write(&file, text).expect("a file");
    let file = file.display().to_string();
    let words = ["limits", "doctor", "a.example", "--config", &file];
    let shown = run(state.path(), &words).out;
    let line = "  pacing: even, one request every 2.000 s";
    assert!(shown.contains(line), "{shown}");
}
