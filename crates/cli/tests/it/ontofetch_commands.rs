//! Flags and commands of `ontofetch` that are used less often, as users type them.

use docstokg_origin_sim::{Origin, Reply};
use serde_json::Value;

use crate::ontofetch::{World, obo};

#[test]
fn since_leaves_out_what_has_not_changed() {
    let files = Origin::new("files.example").handler(|arrival, _| {
        let changed = if arrival.path.contains("old") {
            "Wed, 01 Jan 2025 00:00:00 GMT"
        } else {
            "Wed, 01 Jul 2026 00:00:00 GMT"
        };
        Reply::ok(obo("1", "")).header("last-modified", changed)
    });
    let world = World::files(files);
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
    let files = Origin::new("files.example").handler(|arrival, _| {
        if arrival.path.contains("gone") {
            Reply::status(404)
        } else {
            Reply::ok(obo("1", ""))
        }
    });
    let world = World::files(files);
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
    let world = World::files(Origin::new("files.example"));
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
fn portal() -> Origin {
    Origin::new("files.example").handler(|arrival, _| match arrival.header("authorization") {
        Some("apikey token=good") => Reply::status(404),
        Some(_) => Reply::status(401),
        None => Reply::ok("{}"),
    })
}

#[test]
fn the_doctor_finds_a_key_that_is_not_accepted_and_takes_a_library() {
    let world = World::files(portal());
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
    let files = Origin::new("files.example").handler(|_, _| Reply::ok(obo("1", "")));
    let world = World::files(files);
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
    let ran = world.run(&["rl", "doctor", "nosuch"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("nosuch"), "{}", ran.err);
}
