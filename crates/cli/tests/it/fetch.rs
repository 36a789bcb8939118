use std::path::Path;
use std::time::Duration;

use docstokg_origin_sim::{OriginScript, Piece, ScriptedReply};
use serde_json::Value;

use crate::support::{Served, fetch, program, run, sharing};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn fetch_writes_only_the_body_to_stdout() {
    let served =
        Served::start(OriginScript::new("a.example").route("/x", [ScriptedReply::ok("the body")]));
    let ran = fetch(&served, "/x", &[]);
    assert_eq!(
        (ran.code, ran.out.as_str(), ran.err.as_str()),
        (0, "the body", "")
    );
    let explained = fetch(&served, "/x", &["--explain"]);
    assert_eq!(explained.out, "the body");
    for word in [
        "cache: miss",
        "limits: go",
        "send: connection made",
        "send: 200 OK",
        "result: success",
    ] {
        assert!(
            explained.err.contains(word),
            "{word} is not in\n{}",
            explained.err
        );
    }
}

#[test]
fn verbose_prints_the_limits_of_the_host_before_the_request() {
    let served =
        Served::start(OriginScript::new("a.example").route("/x", [ScriptedReply::ok("the body")]));
    let rate = "a.example:metadata=rates:3/SECOND,count_head:true,max_delay_ms:150";
    let ran = fetch(&served, "/x", &["-v", "--rate", rate]);
    assert_eq!(ran.out, "the body");
    let rows: Vec<Vec<&str>> = ran
        .err
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let table = ["host", "role", "rates", "max_delay_ms", "count_head"];
    assert!(rows[0].starts_with(&table), "{}", ran.err);
    let metadata = ["a.example", "metadata", "3/SECOND", "150", "true"];
    assert!(rows[1].starts_with(&metadata), "{}", ran.err);
    assert!(
        rows[1..4].iter().all(|row| row[0] == "a.example"),
        "{}",
        ran.err
    );
    assert_eq!(rows[2][1], "landing", "{}", ran.err);
    assert_eq!(rows[2][4], "false", "{}", ran.err);
}

#[test]
fn robots_txt_is_obeyed_when_that_is_asked_for() {
    let rules = "User-agent: *\nDisallow: /private\nCrawl-delay: 0.01\n";
    let served = Served::start(
        OriginScript::new("a.example")
            .route("/robots.txt", [ScriptedReply::ok(rules)])
            .route("/private", [ScriptedReply::ok("private")])
            .route("/open", [ScriptedReply::ok("open")]),
    );
    assert_eq!(fetch(&served, "/private", &[]).out, "private");
    let refused = fetch(&served, "/private", &["--obey-robots"]);
    assert_eq!((refused.code, refused.out.as_str()), (1, ""));
    let said = "docstokg: the robots.txt of a.example does not allow this path";
    assert!(refused.err.starts_with(said), "{}", refused.err);
    let open = fetch(&served, "/open", &["--obey-robots", "--explain"]);
    assert_eq!((open.code, open.out.as_str()), (0, "open"));
    let said = "robots.txt: allowed, 0.01 s between requests";
    assert!(open.err.contains(said), "{}", open.err);
}

#[test]
fn fetch_of_a_404_exits_with_1_and_a_sentence() {
    let served = Served::start(
        OriginScript::new("a.example")
            .route("/gone", [ScriptedReply::status(404).body("no such work")]),
    );
    let ran = fetch(&served, "/gone", &["--json"]);
    let shown = json(&ran.out);
    assert_eq!(
        (ran.code, shown["status"].as_u64(), shown["ok"].as_bool()),
        (1, Some(404), Some(false))
    );
    assert!(
        ran.err
            .starts_with("docstokg: a.example: the answer is 404 Not Found after 1 attempt"),
        "{}",
        ran.err
    );
}

#[test]
fn a_retry_after_beyond_the_deadline_is_exit_3_at_once_and_says_until_when() {
    let served = Served::start(OriginScript::new("a.example").route(
        "/busy",
        [ScriptedReply::status(429).header("retry-after", "3600")],
    ));
    let ran = fetch(&served, "/busy", &["--json"]);
    let shown = json(&ran.out);
    let remaining = shown["cooldown_remaining_ms"]
        .as_u64()
        .expect("milliseconds");
    assert_eq!((ran.code, shown["status"].as_u64()), (3, Some(429)));
    assert!((3_000_000..=3_600_000).contains(&remaining), "{remaining}");
    assert!(shown["until"].as_str().expect("a time").ends_with('Z'));
    assert!(ran.err.contains("after the deadline"), "{}", ran.err);
    assert_eq!(served.web.ledger().len(), 1);
}

#[test]
fn a_short_retry_after_is_waited_for() {
    let served = Served::start(OriginScript::new("a.example").route(
        "/busy",
        [
            ScriptedReply::status(429).header("retry-after", "1"),
            ScriptedReply::ok("fine"),
        ],
    ));
    let ran = fetch(&served, "/busy", &["--explain"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "fine"));
    served
        .web
        .ledger()
        .nothing_before_retry_after("a.example")
        .expect("no request came early");
    assert!(
        ran.err.contains("closed -> open for 1 s (retry-after)")
            && ran.err.contains("half_open -> closed"),
        "{}",
        ran.err
    );
}

#[test]
fn a_redirect_chain_beyond_a_rate_is_refused_with_exit_3() {
    let origin = OriginScript::new("a.example").route("/1", [ScriptedReply::redirect(302, "/2")]);
    let served = Served::start(origin);
    let ran = fetch(
        &served,
        "/1",
        &[
            "--json",
            "--rate",
            "a.example:metadata=rates:1/HOUR,max_delay_ms:100",
        ],
    );
    let shown = json(&ran.out);
    assert_eq!(
        (ran.code, shown["error"].as_str(), shown["reason"].as_str()),
        (3, Some("rate_limited"), Some("1/HOUR"))
    );
    assert_eq!(
        (shown["host"].as_str(), shown["role"].as_str()),
        (Some("a.example"), Some("metadata"))
    );
    assert!(
        shown["cooldown_remaining_ms"]
            .as_u64()
            .expect("milliseconds")
            > 3_000_000
    );
    assert_eq!(served.web.ledger().len(), 1, "the second hop was not sent");
    assert!(ran.err.contains("hint: "), "{}", ran.err);
}

#[test]
fn a_file_appears_complete_or_not_at_all() {
    let directory = tempfile::tempdir().expect("a directory");
    let body: Vec<u8> = (0..50_000u32).flat_map(u32::to_le_bytes).collect();
    let broken = ScriptedReply::ok("")
        .pieces([Piece::Bytes(body[..9_000].to_vec().into()), Piece::Cut])
        .claiming(200_000);
    let served = Served::start(
        OriginScript::new("a.example")
            .route("/file", [broken.clone(), ScriptedReply::ok(body.clone())])
            .route("/never", [broken]),
    );
    let path = directory.path().join("paper.pdf");
    let ran = fetch(
        &served,
        "/file",
        &[
            "--role",
            "artifact",
            "-o",
            path.to_str().expect("text"),
            "--json",
        ],
    );
    let shown = json(&ran.out);
    assert_eq!(
        (
            ran.code,
            shown["bytes"].as_u64(),
            shown["sha256"].as_str().map(str::len)
        ),
        (0, Some(200_000), Some(64))
    );
    assert_eq!(std::fs::read(&path).expect("a file"), body);
    let never = directory.path().join("never.pdf");
    let ran = fetch(
        &served,
        "/never",
        &["--role", "artifact", "-o", never.to_str().expect("text")],
    );
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.contains("the answer broke off") && ran.err.contains("4 attempts"),
        "{}",
        ran.err
    );
    let names: Vec<_> = std::fs::read_dir(directory.path())
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(names, ["paper.pdf"]);
}

#[test]
fn an_unreachable_host_is_reported_in_a_sentence() {
    let ran = run(&["fetch", "http://127.0.0.1:1/", "--deadline", "5"]);
    assert_eq!(ran.code, 1);
    let said = "docstokg: 127.0.0.1:1: no connection could be made (after 4 attempts in ";
    assert!(
        ran.err.starts_with(said) && ran.err.contains("s): Connection refused"),
        "{}",
        ran.err
    );
    let ran = run(&["fetch", "http://no-such-host.invalid/", "--deadline", "20"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.err
            .contains("no-such-host.invalid: the name could not be resolved"),
        "{}",
        ran.err
    );
}

#[test]
fn faults_that_open_the_breaker_end_with_the_time_of_the_probe() {
    let request = [
        "fetch",
        "http://down.example/",
        "--connect-to",
        "down.example:80=127.0.0.1:1",
        "--breaker",
        "down.example=fail_max:1,reset:60",
    ];
    let ran = run(&request);
    assert_eq!(ran.code, 3, "{}", ran.err);
    for said in [
        "down.example: no connection could be made",
        "the next attempt is due at ",
        "is probed; try again then",
    ] {
        assert!(ran.err.contains(said), "{said}: {}", ran.err);
    }
    let ran = run(&[&request[..], &["--json"]].concat());
    let shown = json(&ran.out);
    assert_eq!((ran.code, &shown["error"]), (3, &"connect".into()));
    assert!(shown["until"].is_string(), "{shown}");
    assert!(shown["cooldown_remaining_ms"].is_number(), "{shown}");
}

#[test]
fn a_redirect_into_the_private_network_is_refused() {
    let served = Served::start(OriginScript::new("a.example").route(
        "/out",
        [ScriptedReply::redirect(302, "http://localhost:9/secret")],
    ));
    let ran = fetch(&served, "/out", &[]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.contains("internal address") && ran.err.contains("hint: type the host yourself"),
        "{}",
        ran.err
    );
}

#[test]
fn credentials_are_never_repeated() {
    let served = Served::start(
        OriginScript::new("a.example").route("/x?api_key=PLANTED", [ScriptedReply::status(404)]),
    );
    let ran = fetch(
        &served,
        "/x?api_key=PLANTED",
        &["-H", "Authorization: Bearer PLANTED", "--explain", "--json"],
    );
    assert_eq!(ran.code, 1);
    assert!(
        !ran.out.contains("PLANTED") && !ran.err.contains("PLANTED"),
        "{}{}",
        ran.out,
        ran.err
    );
    let ran = fetch(&served, "/x", &["-H", "Authorization Bearer PLANTED"]);
    assert_eq!(ran.code, 2);
    assert!(!ran.err.contains("PLANTED"), "{}", ran.err);
}

#[test]
fn a_proxy_of_the_environment_is_used() {
    let proxy = Served::start(
        OriginScript::new("far.example")
            .handler(|arrival, _| ScriptedReply::ok(format!("by proxy: {}", arrival.path))),
    );
    let output = program()
        .args(["fetch", "http://far.example/page"])
        .env("http_proxy", format!("http://{}", proxy.address))
        .output()
        .expect("the program");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "by proxy: http://far.example/page"
    );
}

/// Starts a slow `fetch` into a directory, interrupts it when `has_begun`, and checks that it says so
/// and leaves no file behind.
fn interrupt(signal: &str, has_begun: impl Fn(&Path, &Path) -> bool) {
    let directory = tempfile::tempdir().expect("a directory");
    let (state, files) = (
        directory.path().join("state"),
        directory.path().join("files"),
    );
    std::fs::create_dir(&files).expect("a directory");
    let slow =
        ScriptedReply::status(200).drip(&vec![1; 100_000], 1_000, Duration::from_millis(100));
    let served = Served::start(OriginScript::new("a.example").route("/slow", [slow]));
    let mut child = sharing(&state)
        .args([
            "fetch",
            "http://a.example/slow",
            "--connect-to",
            &format!("a.example:80={}", served.address),
            "-o",
        ])
        .arg(files.join("paper.pdf"))
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program");
    while !has_begun(&state, &files) {
        assert!(
            child.try_wait().expect("a child").is_none(),
            "ended before it began"
        );
        std::thread::yield_now();
    }
    let interrupted = std::process::Command::new("kill")
        .args([signal, &child.id().to_string()])
        .status()
        .expect("kill");
    assert!(interrupted.success());
    let output = child.wait_with_output().expect("the program");
    assert_eq!(output.status.code(), Some(130), "{signal}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted"));
    assert_eq!(entries(&files), 0, "the temporary file is gone too");
}

/// Counts the entries of a directory, none where it is not there.
fn entries(directory: &Path) -> usize {
    std::fs::read_dir(directory).map_or(0, Iterator::count)
}

#[test]
fn an_interrupt_leaves_no_partial_file() {
    for signal in ["-INT", "-TERM", "-HUP"] {
        interrupt(signal, |_, files| entries(files) > 0);
    }
}

/// Signals are caught before the first file is made, that of the state included.
#[test]
fn interrupt_before_the_first_file_leaves_no_partial_file() {
    for signal in ["-INT", "-TERM", "-HUP"] {
        interrupt(signal, |state, _| state.exists());
    }
}

#[test]
fn a_device_is_written_to_and_never_replaced() {
    use std::os::unix::fs::FileTypeExt;
    let served =
        Served::start(OriginScript::new("a.example").route("/x", [ScriptedReply::ok("the body")]));
    let ran = fetch(&served, "/x", &["-o", "/dev/full"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.err
            .contains("cannot write /dev/full: No space left on device"),
        "{}",
        ran.err
    );
    assert!(
        std::fs::metadata("/dev/full")
            .expect("it is there")
            .file_type()
            .is_char_device(),
        "and still a device"
    );
}
