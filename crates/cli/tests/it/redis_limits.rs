//! Limits that are learned, and rate headers, with a Redis store: every machine sees the same.

use std::path::Path;

use docstokg_origin_sim::{Origin, Reply};
use serde_json::{Value, json};

use crate::redis_server::Server;
use crate::support::{Served, fetch_sharing, run_sharing};

/// Runs a command on limits from one of the machines.
fn limits(machine: &Path, options: &[&str], arguments: &[&str]) -> Value {
    let command = [&["--json"], options, &["limits"], arguments].concat();
    let ran = run_sharing(machine, &command);
    assert_eq!(ran.code, 0, "{command:?}: {}", ran.err);
    serde_json::from_str(&ran.out).expect("JSON")
}

#[test]
fn what_one_machine_learns_every_other_one_shows_and_may_forget() {
    let server = Server::start();
    let machines = [(), ()].map(|()| tempfile::tempdir().expect("a directory"));
    let [one, other] = machines.each_ref().map(tempfile::TempDir::path);
    let config = one.join("docstokg.yaml");
    let text = "version: 1\nlimits: { learn: tighten }\ncache: { enabled: false }\n";
    std::fs::write(&config, text).expect("a file");
    let (config, dsn) = (config.display().to_string(), server.dsn());
    let options = [
        "--config",
        &config,
        "--rate-backend",
        "redis",
        "--rate-dsn",
        &dsn,
    ];
    let stated = Reply::ok("fine").header("RateLimit", "\"hourly\";r=7;t=900");
    let origin = Origin::new("a.example").route("/", [Reply::status(429), stated]);
    let served = Served::start(origin);
    let fetched = fetch_sharing(one, &served, &options);
    assert_eq!(fetched.code, 0, "{}", fetched.err);

    let advice = limits(other, &options, &["advise", "a.example"]);
    assert_eq!(
        advice["learned"][0]["hosts"],
        json!(["a.example"]),
        "{advice}"
    );
    let doctor = limits(other, &options, &["doctor", "a.example"]);
    let budget = &doctor["budgets"][0];
    assert!(!budget["learned"].is_null(), "{doctor}");
    assert!(
        budget["stated"].to_string().contains("\"remaining\":7"),
        "{doctor}"
    );
    let shown = limits(other, &options, &["show", "a.example"]);
    assert_eq!(shown["limits"][0]["learn"], "tighten", "{shown}");

    let forget = || limits(other, &options, &["forget", "a.example"])["forgotten"].clone();
    assert_eq!([forget(), forget()], [json!(true), json!(false)]);
    let advice = limits(one, &options, &["advise", "a.example"]);
    assert_eq!(advice["learned"], json!([]));
    let doctor = limits(one, &options, &["doctor", "a.example"]);
    assert_eq!(doctor["budgets"][0]["learned"], Value::Null);
}
