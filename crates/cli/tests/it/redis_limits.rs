//! Limits that are learned, and rate headers, with a Redis store: every machine sees the same.

use std::path::Path;
use std::process::Stdio;

use docstokg_origin_sim::{OriginScript, ScriptedReply, Throttle};
use serde_json::{Value, json};

use crate::download_world::{DownloadWorld, pdf};
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
    let redis = Server::start();
    let machines = [(), ()].map(|()| tempfile::tempdir().expect("a directory"));
    let [one, other] = machines.each_ref().map(tempfile::TempDir::path);
    let config = one.join("docstokg.yaml");
    let text = "version: 1\nlimits: { learn: tighten }\ncache: { enabled: false }\n";
    std::fs::write(&config, text).expect("a file");
    let (config, dsn) = (config.display().to_string(), redis.dsn());
    let options = [
        "--config",
        &config,
        "--rate-backend",
        "redis",
        "--rate-dsn",
        &dsn,
    ];
    let stated = ScriptedReply::ok("fine").header("RateLimit", "\"hourly\";r=7;t=900");
    let origin = OriginScript::new("a.example").route("/", [ScriptedReply::status(429), stated]);
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

/// Two runs share a Redis server and are not told the limit of a host: together they find it, and
/// every file comes.
#[test]
fn two_runs_find_a_hidden_limit_together() {
    const FILES: usize = 40;
    let redis = Server::start();
    let origin = OriginScript::new("a.example")
        .limit("10/SECOND")
        .throttle(Throttle::Silent)
        .handler(|arrival, _| pdf(&arrival.path));
    let config = "version: 1\nlimits: { hosts: { a.example: { learn: { up_to: 50/SECOND } } } }\n";
    let world = DownloadWorld::start(vec![origin], vec!["a.example".to_owned()], config);
    let start = |number: usize| {
        let urls = (0..FILES).map(|file| format!("http://a.example/{number}/{file}.pdf"));
        let list = world.path(&format!("{number}.txt"));
        std::fs::write(&list, urls.collect::<Vec<_>>().join("\n")).expect("a file");
        let out = world.path(&format!("out-{number}")).display().to_string();
        let (list, dsn) = (list.display().to_string(), redis.dsn());
        let mut run = world.command(&[
            &list,
            "--out",
            &out,
            "--ignore-robots",
            "--quiet",
            "--rate-backend",
            "redis",
            "--rate-dsn",
            &dsn,
        ]);
        // Two machines: nothing but the server is common.
        run.env("DOCSTOKG_STATE_DIR", world.path(&format!("state-{number}")));
        run.stdout(Stdio::null()).stderr(Stdio::piped());
        run.spawn().expect("the program")
    };
    let runs = [0, 1].map(start);
    for run in runs {
        let ended = run.wait_with_output().expect("its end");
        let err = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(0), "{err}");
    }
    let arrivals = world.web.ledger().at("a.example");
    let of = |status: u16| arrivals.iter().filter(|one| one.status == status).count();
    assert_eq!(of(200), 2 * FILES, "every file comes once");
    // Runs that learned nothing of each other would be refused far more often than served.
    assert!(of(429) <= FILES, "{} refused", of(429));
}
