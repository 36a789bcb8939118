//! Signals, and an operator's commands.

use std::io::Read as _;
use std::time::Duration;

use docstokg_hub::clock::{Clock as _, SystemClock};
use docstokg_origin_sim::{OriginScript, Piece, ScriptedReply};

use super::running::PATIENCE;
use super::{before, state};
use crate::support::{Served, run_sharing};

#[test]
fn a_signal_reads_the_configuration_again_and_another_ends_in_good_order() {
    let slow = ScriptedReply::ok("").pieces([
        Piece::Bytes("be".into()),
        Piece::Pause(Duration::from_millis(1500)),
        Piece::Bytes("gun".into()),
    ]);
    let served = Served::start(
        OriginScript::new("a.example")
            .route("/slow", [slow])
            .handler(|arrival, _| ScriptedReply::ok(arrival.path.clone())),
    );
    let directory = state();
    let config = directory.path().join("config.yaml");
    let write = |rate: &str| {
        let text = format!(
            "version: 1\nlimits: {{ hosts: {{ a.example: {{ metadata: {{ rates: [\"{rate}\"] }} }} }} }}\n"
        );
        std::fs::write(&config, text).expect("a file");
    };
    write("1/HOUR");
    let path = config.display().to_string();
    let mut gateway = before(
        &served,
        &directory.path().join("state"),
        &["--config", &path],
    );
    assert_eq!(gateway.get("http://a.example/1").status, 200);
    assert_eq!(gateway.get("http://a.example/2").status, 429);
    // One with a problem changes nothing.
    write("nonsense");
    gateway.signal("HUP");
    assert_eq!(gateway.get("http://a.example/3").status, 429);
    write("100/SECOND");
    gateway.signal("HUP");
    let until = SystemClock.boot() + PATIENCE;
    while gateway.get("http://a.example/4").status != 200 {
        assert!(
            SystemClock.boot() < until,
            "the configuration is not read again"
        );
    }
    let mut running = gateway
        .send("GET http://a.example/slow HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
    // The answer has begun when its head is there.
    let mut first = [0; 12];
    running.read_exact(&mut first).expect("its beginning");
    gateway.signal("TERM");
    let mut rest = String::new();
    running.read_to_string(&mut rest).expect("its end");
    assert!(rest.ends_with("gun"), "{rest}");
    assert_eq!(gateway.wait(), Some(0));
}

#[test]
fn a_configuration_that_cannot_be_read_again_changes_nothing_and_holds_nothing_up() {
    let served = Served::start(
        OriginScript::new("a.example")
            .handler(|arrival, _| ScriptedReply::ok(arrival.path.clone())),
    );
    let directory = state();
    let config = directory.path().join("config.yaml");
    let write = |rate: &str| {
        let text = format!(
            "version: 1\nlimits: {{ hosts: {{ a.example: {{ metadata: {{ rates: [\"{rate}\"] }} }} }} }}\n"
        );
        std::fs::write(&config, text).expect("a file");
    };
    write("1/MINUTE");
    let path = config.display().to_string();
    let mut gateway = before(
        &served,
        &directory.path().join("state"),
        &["--config", &path],
    );
    assert_eq!(gateway.get("http://a.example/1").status, 200);
    std::fs::remove_file(&config).expect("the file");
    let mkfifo = std::process::Command::new("mkfifo").arg(&config).status();
    assert!(mkfifo.expect("mkfifo").success());
    for _ in 0..3 {
        gateway.signal("HUP");
        // Of the old configuration, and at once.
        assert_eq!(gateway.get("http://a.example/2").status, 429);
        assert_eq!(gateway.page("/-/health").status, 200);
    }
    std::fs::remove_file(&config).expect("the pipe");
    std::fs::create_dir(&config).expect("a directory");
    gateway.signal("HUP");
    assert_eq!(gateway.get("http://a.example/3").status, 429);
    std::fs::remove_dir(&config).expect("the directory");
    gateway.signal("HUP");
    assert_eq!(gateway.get("http://a.example/4").status, 429);
    write("100/SECOND");
    gateway.signal("HUP");
    let until = SystemClock.boot() + Duration::from_secs(20);
    while gateway.get("http://a.example/5").status != 200 {
        assert!(
            SystemClock.boot() < until,
            "the configuration is not read again"
        );
    }
    gateway.signal("TERM");
    assert_eq!(gateway.wait(), Some(0));
}

#[test]
fn an_operator_ends_the_pause_that_an_answer_asked_for() {
    let throttled = ScriptedReply::status(429).header("retry-after", "86400");
    let served = Served::start(
        OriginScript::new("a.example").route("/", [throttled, ScriptedReply::ok("fine")]),
    );
    let directory = state();
    let gateway = before(&served, directory.path(), &["--no-cache"]);
    assert_eq!(gateway.get("http://a.example/").status, 429);
    assert_eq!(gateway.get("http://a.example/").status, 503);
    let closed = run_sharing(directory.path(), &["breaker", "close", "a.example"]);
    assert_eq!(closed.code, 0, "{}", closed.err);
    let until = SystemClock.boot() + PATIENCE;
    while gateway.get("http://a.example/").status != 200 {
        assert!(SystemClock.boot() < until, "the host stays paused");
    }
}
