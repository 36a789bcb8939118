//! Flags and commands of `ontofetch` that are used less often, as users type them.

use docstokg_origin_sim::{OriginScript, ScriptedReply};
use serde_json::Value;

use crate::ontofetch::{OntofetchWorld, obo};

#[test]
fn since_leaves_out_what_has_not_changed() {
    let files = OriginScript::new("files.example").handler(|arrival, _| {
        let changed = if arrival.path.contains("old") {
            "Wed, 01 Jan 2025 00:00:00 GMT"
        } else {
            "Wed, 01 Jul 2026 00:00:00 GMT"
        };
        ScriptedReply::ok(obo("1", "")).header("last-modified", changed)
    });
    let world = OntofetchWorld::files(files);
    world.config("100/SECOND", "");
    let spec = world.spec(&["old", "new"]);
    let (code, pulled) = world.json(&["pull", "--spec", &spec, "--since", "2026-01-01"]);
    assert_eq!(code, 0, "{pulled}");
    let statuses: Vec<&str> = pulled["results"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|result| result["status"].as_str())
        .collect();
    assert_eq!(statuses, ["skipped", "fresh"], "{pulled}");
    assert!(!world.path("library/old").exists());
    let (_, planned) = world.json(&["plan", "--spec", &spec, "--since", "2026-01-01"]);
    assert_eq!(planned["plans"][0]["status"], "skipped", "{planned}");
}

#[test]
fn a_baseline_is_updated_only_where_it_is_asked_for_and_the_plan_is_complete() {
    let files = OriginScript::new("files.example").handler(|arrival, _| {
        if arrival.path.contains("gone") {
            ScriptedReply::status(404)
        } else {
            ScriptedReply::ok(obo("1", ""))
        }
    });
    let world = OntofetchWorld::files(files);
    world.config("100/SECOND", "");
    let baseline = world.path("baseline.json").display().to_string();
    let spec = world.spec(&["a"]);
    world.json(&["plan", "--spec", &spec, "--lock-output", &baseline]);
    let before = std::fs::read_to_string(&baseline).expect("a file");
    let spec = world.spec(&["a", "b"]);
    let words = ["plan-diff", "--spec", &spec, "--baseline", &baseline];
    let (_, differs) = world.json(&words);
    assert_eq!(differs["diff"]["added"][0], "b", "{differs}");
    assert_eq!(std::fs::read_to_string(&baseline).expect("a file"), before);
    let (code, _) = world.json(&[&words[..], &["--update-baseline"]].concat());
    assert_eq!(code, 0);
    let (_, same) = world.json(&words);
    assert_eq!(same["is_same"], true, "{same}");
    // A plan that failed does not become the baseline.
    let after = std::fs::read_to_string(&baseline).expect("a file");
    let spec = world.spec(&["a", "gone"]);
    let words = [
        "plan-diff",
        "--spec",
        &spec,
        "--baseline",
        &baseline,
        "--update-baseline",
    ];
    let (code, failed) = world.json(&words);
    assert_eq!(code, 1, "{failed}");
    assert_eq!(std::fs::read_to_string(&baseline).expect("a file"), after);
}

#[test]
fn the_configuration_is_shown_without_its_keys() {
    let world = OntofetchWorld::files(OriginScript::new("files.example"));
    world.config(
        "100/SECOND",
        "  sources: { bioportal: { key: hush-hush } }\n",
    );
    let ran = world.run(&["config", "show"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("plain_http_hosts"), "{}", ran.out);
    assert!(
        !ran.out.contains("hush-hush") && !ran.err.contains("hush-hush"),
        "{}",
        ran.out
    );
}

/// A portal that knows one key.
fn portal() -> OriginScript {
    OriginScript::new("files.example").handler(|arrival, _| match arrival.header("authorization") {
        Some("apikey token=good") | None => ScriptedReply::ok("{}"),
        Some(_) => ScriptedReply::status(401),
    })
}

#[test]
fn the_doctor_finds_a_key_that_is_not_accepted_and_takes_a_library() {
    let world = OntofetchWorld::files(portal());
    let configure = |key: &str| {
        world.config(
            "100/SECOND",
            &format!(
                "  prefer_source: [bioportal]\n  sources: {{ bioportal: {{ url: \"http://files.example\", key: {key} }} }}\n"
            ),
        )
    };
    let library = world.path("elsewhere").display().to_string();
    for (key, wanted, level) in [("bad", 1, "FAIL"), ("good", 0, "ok")] {
        configure(key);
        let (code, checks) = world.json(&["doctor", "--library", &library]);
        assert_eq!(code, wanted, "{key}: {checks}");
        let list = checks["checks"].as_array().expect("a list");
        let of = |name: &str| {
            list.iter()
                .find(|check| check["check"] == name)
                .unwrap_or_else(|| panic!("{checks}"))
        };
        assert_eq!(of("endpoint")["level"], level, "{checks}");
        assert!(
            of("disk")["detail"]
                .as_str()
                .is_some_and(|detail| detail.contains("elsewhere")),
            "{checks}"
        );
        assert!(!checks.to_string().contains("token"), "{checks}");
    }
}

#[test]
fn the_rate_doctor_shows_one_service_and_what_programs_report() {
    let files = OriginScript::new("files.example").handler(|_, _| ScriptedReply::ok(obo("1", "")));
    let world = OntofetchWorld::files(files);
    world.config("100/SECOND", "");
    let spec = world.spec(&["a"]);
    world.json(&["pull", "--spec", &spec]);
    let event = |outcome: &str, blocked: f64| {
        serde_json::json!({
            "event": "ratelimit.acquire", "key": "direct:files.example",
            "outcome": outcome, "blocked_ms": blocked,
        })
        .to_string()
    };
    let lines = [
        event("ok", 0.0),
        event("ok", 125.0),
        event("exceeded", 0.0),
        "not an event".to_owned(),
        r#"{"event": "ratelimit.cooldown", "key": "direct:files.example"}"#.to_owned(),
    ];
    let events = world.write("events.jsonl", &lines.join("\n"));
    let (code, shown) = world.json(&["rl", "doctor", "direct", "--events", &events]);
    assert_eq!(code, 0, "{shown}");
    let keys = shown["keys"].as_array().expect("a list");
    assert!(
        keys.iter().all(|key| key["key"]
            .as_str()
            .is_some_and(|key| key.starts_with("direct:"))),
        "{shown}"
    );
    let key: &Value = keys
        .iter()
        .find(|key| key["key"] == "direct:files.example")
        .unwrap_or_else(|| panic!("{shown}"));
    assert_eq!(key["acquired"]["ok"], 2, "{key}");
    assert_eq!(key["acquired"]["exceeded"], 1, "{key}");
    assert_eq!(key["acquired"]["recent_blocked_ms"][0], 125.0, "{key}");
    let text = world.run(&["rl", "doctor", "direct:files.example", "--events", &events]);
    assert!(
        text.out.contains("2 permitted, 1 refused") && text.out.contains("125 ms"),
        "{}",
        text.out
    );
    // Programs without a shared directory report keys of which this store knows nothing.
    let other = event("ok", 50.0).replace("direct:files.example", "ols:www.ebi.ac.uk");
    let events = world.write("other.jsonl", &other);
    let text = world.run(&["rl", "doctor", "ols:www.ebi.ac.uk", "--events", &events]);
    assert!(
        text.out.contains("ols:www.ebi.ac.uk: no state here") && text.out.contains("1 permitted"),
        "{}",
        text.out
    );
    let ran = world.run(&["rl", "doctor", "nosuch"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("nosuch"), "{}", ran.err);
}

/// A pull charges the service and the host; events and the doctor name the budget of the service.
#[test]
fn the_events_of_a_pull_name_the_key_of_its_service() {
    let files = OriginScript::new("files.example").handler(|_, _| ScriptedReply::ok(obo("1", "")));
    let world = OntofetchWorld::files(files);
    let events = world.path("events.jsonl");
    let telemetry = format!("telemetry: {{ jsonl: \"{}\" }}\n", events.display());
    world.config("100/SECOND", &telemetry);
    let spec = world.spec(&["a", "b"]);
    assert_eq!(world.run(&["pull", "--spec", &spec]).code, 0);
    let text = std::fs::read_to_string(events).expect("events");
    let keys: Vec<String> = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|event| event["event"] == "ratelimit.acquire")
        .map(|event| format!("{} {}", event["key"], event["rates"]))
        .collect();
    let wanted = r#""direct:files.example" ["200/SECOND","9000/MINUTE"]"#;
    assert!(
        !keys.is_empty() && keys.iter().all(|key| key == wanted),
        "{keys:?}"
    );
    let (_, shown) = world.json(&["rl", "doctor", "direct"]);
    let rows = shown["keys"].as_array().expect("a list").iter();
    let mut row = rows.filter(|key| key["key"] == "direct:files.example");
    assert_eq!(row.next().expect("a row")["recorded"]["ok"], 2, "{shown}");
}

/// Processes with state directories of their own share limits through the shared directory.
#[test]
fn the_shared_directory_holds_the_limits_of_pulls() {
    let files = OriginScript::new("files.example").handler(|_, _| ScriptedReply::ok(obo("1", "")));
    let world = OntofetchWorld::files(files);
    world.config("100/SECOND", "");
    let spec = world.spec(&["a", "b"]);
    let run = |state: &str, words: &[&str]| -> crate::support::Ran {
        let mut command = world.command(words);
        command
            .env("DOCSTOKG_STATE_DIR", world.path(state))
            .env("ONTOFETCH_SHARED_RATE_LIMIT_DIR", world.path("shared"));
        command.output().expect("the program").into()
    };
    let pulled = run("one", &["pull", "--spec", &spec]);
    assert_eq!(pulled.code, 0, "{}", pulled.err);
    assert!(world.path("shared/state.sqlite").exists());
    assert!(!world.path("one/state.sqlite").exists());
    let shown = run("two", &["rl", "doctor", "direct"]);
    let line = shown
        .out
        .lines()
        .find(|line| line.starts_with("direct:files.example: "));
    let line = line.unwrap_or_else(|| panic!("{}", shown.out));
    assert!(line.contains("2 of 9000/min"), "{line}");

    let refused = run("one", &["rl", "doctor", "--rate-backend", "memory"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(
        refused
            .err
            .contains("ontology.ratelimit.shared_dir: limits.backend (--rate-backend)"),
        "{}",
        refused.err
    );
    world.config(
        "100/SECOND",
        "breakers: { cooldown_store: { kind: memory } }\n",
    );
    let refused = run("one", &["rl", "doctor"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(
        refused.err.contains("breakers.cooldown_store (")
            && !refused.err.contains("limits.backend"),
        "{}",
        refused.err
    );
}

#[test]
fn unknown_variables_are_warned_about() {
    let world = OntofetchWorld::files(OriginScript::new("files.example"));
    let mut command = world.command(&["config", "check"]);
    command.env("ONTOFETCH_SHARED_RATELIMIT_DIR", "/tmp/x");
    let ran: crate::support::Ran = command.output().expect("the program").into();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err.contains(
            "$ONTOFETCH_SHARED_RATELIMIT_DIR: this variable is not known and has no effect"
        ) && ran
            .err
            .contains("did you mean 'ONTOFETCH_SHARED_RATE_LIMIT_DIR'?"),
        "{}",
        ran.err
    );
}

/// Each program prints the limits in force when it starts, where more output is asked for.
#[test]
fn a_verbose_pull_begins_with_the_limits_in_force() {
    let files = OriginScript::new("files.example").handler(|_, _| ScriptedReply::ok(obo("1", "")));
    let world = OntofetchWorld::files(files);
    world.config("100/SECOND", "");
    let spec = world.spec(&["a"]);
    let ran = world.run(&["pull", "--spec", &spec, "-v"]);
    assert!(ran.err.starts_with("host "), "{}", ran.err);
    for wanted in [
        "max_delay_ms",
        "files.example",
        "direct 200/SECOND+9000/MINUTE",
    ] {
        let words: Vec<&str> = ran.err.split_whitespace().collect();
        assert!(words.join(" ").contains(wanted), "{wanted}: {}", ran.err);
    }
}
