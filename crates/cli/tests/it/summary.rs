use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use docstokg_origin_sim::{OriginScript, ScriptedReply};
use serde_json::Value;

use crate::support::{Served, program};

/// The program with a state directory of the test, and the host `a.example` for it.
struct Web {
    served: Served,
    directory: tempfile::TempDir,
}

impl Web {
    fn start([origin]: [OriginScript; 1]) -> Self {
        Self {
            served: Served::start(origin),
            directory: tempfile::tempdir().expect("a directory"),
        }
    }

    fn directory(&self) -> &std::path::Path {
        self.directory.path()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = program();
        command
            .args(arguments)
            .arg("--connect-to")
            .arg(format!("a.example:80={}", self.served.address));
        command.env("DOCSTOKG_STATE_DIR", self.directory());
        command
    }

    fn run(&self, arguments: &[&str]) -> std::process::Output {
        self.command(arguments).output().expect("the program")
    }
}

fn json(output: &std::process::Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stdout)))
}

#[test]
fn a_run_is_summarised_listed_and_compared() {
    let web = Web::start([OriginScript::new("a.example").route(
        "/x",
        [
            ScriptedReply::status(429).header("retry-after", "0"),
            ScriptedReply::ok("fine"),
        ],
    )]);
    assert!(web.run(&["fetch", "http://a.example/x"]).status.success());
    assert!(
        web.run(&["fetch", "http://a.example/other"])
            .status
            .success()
    );
    let listed = json(&web.run(&["summary", "--list", "--json"]));
    let ids: Vec<&str> = listed
        .as_array()
        .expect("ids")
        .iter()
        .map(|id| id.as_str().expect("text"))
        .collect();
    assert_eq!(ids.len(), 2);
    let summary = json(&web.run(&["summary", ids[1], "--json"]));
    assert_eq!(summary["totals"]["status_429"], 1);
    assert_eq!(summary["totals"]["attempts"], 2);
    assert_eq!(summary["run"]["state"], "finished");
    assert_eq!(summary["hosts"][0]["status_429"]["with_retry_after"], 1);
    let compared = json(&web.run(&["summary", "--compare", ids[1], "--json"]));
    assert_eq!(compared["compare"]["before"]["run_id"], ids[1]);
    let text = web.run(&["summary", ids[1]]);
    let text = String::from_utf8(text.stdout).expect("text");
    assert!(text.contains("429: 1"), "{text}");
    let page = web.directory().join("report.html");
    assert!(
        web.run(&["summary", ids[1], "--html", page.to_str().expect("a path")])
            .status
            .success()
    );
    assert!(
        std::fs::read_to_string(page)
            .expect("a page")
            .contains("a.example")
    );
}

#[test]
fn a_broken_target_ends_with_1_and_a_wrong_file_with_2() {
    let web = Web::start([OriginScript::new("a.example").route(
        "/x",
        [
            ScriptedReply::status(429).header("retry-after", "0"),
            ScriptedReply::ok("fine"),
        ],
    )]);
    assert!(web.run(&["fetch", "http://a.example/x"]).status.success());
    let checked = web.run(&["summary", "--slo", "--json"]);
    assert_eq!(checked.status.code(), Some(1));
    assert_eq!(json(&checked)["slo"]["ok"], false);
    let file = web.directory().join("slo.yaml");
    std::fs::write(&file, "http_429_ratio_max: 0.9\n").expect("a file");
    assert_eq!(
        web.run(&["summary", "--slo", file.to_str().expect("a path")])
            .status
            .code(),
        Some(0)
    );
    std::fs::write(&file, "http_429_ratio_mx: 0.9\n").expect("a file");
    let wrong = web.run(&["summary", "--slo", file.to_str().expect("a path")]);
    assert_eq!(wrong.status.code(), Some(2));
    let message = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(
        message.contains("slo.yaml") && message.contains("http_429_ratio_max"),
        "{message}"
    );
}

#[test]
fn summary_without_a_run_is_reported_in_a_sentence() {
    let web = Web::start([OriginScript::new("a.example")]);
    let nothing = web.run(&["summary"]);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&nothing.stderr).contains("there is no telemetry at"),
        "{nothing:?}"
    );
    assert!(web.run(&["fetch", "http://a.example/"]).status.success());
    let unknown = web.run(&["summary", "1999"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&unknown.stderr).contains("there is no run '1999'"),
        "{unknown:?}"
    );
}

#[test]
fn a_killed_run_is_summarised_up_to_its_end() {
    let web = Web::start([OriginScript::new("a.example")
        .route("/go", [ScriptedReply::redirect(302, "/slow")])
        .route(
            "/slow",
            [ScriptedReply::ok("late").after(Duration::from_secs(60))],
        )]);
    let mut child = web
        .command(&["fetch", "http://a.example/go"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a process");
    // The first hop is in the database shortly after it ended.
    let has_started = |web: &Web| {
        let shown = web.run(&["summary", "--json"]);
        shown.status.success() && json(&shown)["totals"]["attempts"] == 1
    };
    let mut looks = 0;
    while !has_started(&web) {
        looks += 1;
        assert!(looks < 500, "the first hop never came");
    }
    child.kill().expect("killed");
    child.wait().expect("gone");
    let summary = json(&web.run(&["summary", "--json"]));
    assert_eq!(summary["run"]["state"], "killed");
    assert_eq!(summary["totals"]["attempts"], 1);
}

#[test]
fn metrics_are_served_during_a_run() {
    let web = Web::start([OriginScript::new("a.example").route(
        "/slow",
        [ScriptedReply::ok("late").after(Duration::from_secs(60))],
    )]);
    let mut child = web
        .command(&["fetch", "http://a.example/slow", "--metrics", "127.0.0.1:0"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a process");
    let mut printed = String::new();
    let mut stderr = child.stderr.take().expect("stderr");
    while !printed.contains("/metrics\n") {
        let mut byte = [0];
        assert_eq!(stderr.read(&mut byte).expect("a byte"), 1, "{printed}");
        printed.push(char::from(byte[0]));
    }
    let address = printed
        .split("http://")
        .nth(1)
        .expect("an address")
        .split('/')
        .next()
        .expect("an address")
        .to_owned();
    let ask = |path: &str| {
        let mut stream = TcpStream::connect(&address).expect("a connection");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").expect("asked");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    };
    let mut answer = ask("/metrics");
    let mut looks = 0;
    while !answer.contains("http_client_active_requests 1") {
        looks += 1;
        assert!(looks < 2_000, "{answer}");
        answer = ask("/metrics");
    }
    assert!(answer.contains("docstokg_run_info{run_id="), "{answer}");
    assert!(ask("/nothing").starts_with("HTTP/1.1 404"));
    child.kill().expect("killed");
    child.wait().expect("gone");
    let wrong = web.run(&["fetch", "http://a.example/", "--metrics", "nonsense"]);
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
}

/// A small file system that is full; needs a mount namespace, which root has.
#[test]
fn a_full_disk_loses_telemetry_and_no_request() {
    let web = Web::start([OriginScript::new("a.example")]);
    let state = web.directory().join("full");
    std::fs::create_dir_all(&state).expect("a directory");
    let program = web.command(&["fetch", "http://a.example/", "--json"]);
    let arguments: Vec<String> = program
        .get_args()
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    let script = "mount -t tmpfs -o size=64k tmpfs \"$1\" && \
                  head -c 1M /dev/zero > \"$1/ballast\" 2>/dev/null; shift; exec \"$@\"";
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "--map-root-user", "sh", "-c", script, "sh"])
        .arg(&state)
        .arg(program.get_program())
        .args(arguments);
    command.env("DOCSTOKG_RLIMIT_BACKEND", "memory");
    let output = command
        .arg("--state-dir")
        .arg(&state)
        .output()
        .expect("unshare");
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{printed}");
    assert!(
        printed.contains("this run is not recorded") || printed.contains("telemetry"),
        "{printed}"
    );
    assert_eq!(json(&output)["status"], 200);
}

#[test]
fn the_password_of_a_store_and_the_credentials_of_a_request_are_persisted_nowhere() {
    let web =
        Web::start([OriginScript::new("a.example").route("/x", [ScriptedReply::status(500)])]);
    let events = web.directory().join("events.jsonl");
    let config = web.directory().join("config.yaml");
    let text = format!(
        "version: 1\ntelemetry: {{ jsonl: \"{}\", prometheus_textfile: \"{}\" }}\n",
        events.display(),
        web.directory().join("m.prom").display()
    );
    std::fs::write(&config, text).expect("a file");
    let arguments = [
        "fetch",
        "http://a.example/x?api_key=PLANTEDKEY",
        "--header",
        "Authorization: Bearer PLANTEDKEY",
        "--deadline",
        "10",
    ];
    let mut command = web.command(&arguments);
    command.arg("--config").arg(&config).args([
        "--rate-backend",
        "redis",
        "--rate-dsn",
        "redis://user:PLANTEDKEY@127.0.0.1:1/0",
    ]);
    let ran = command.output().expect("the program");
    assert!(
        events.exists() && !web.served.web.ledger().is_empty(),
        "{ran:?}"
    );
    let mut written = vec![ran.stdout, ran.stderr];
    for entry in std::fs::read_dir(web.directory()).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_file() {
            written.push(std::fs::read(path).expect("a file"));
        }
    }
    assert!(written.len() >= 5);
    for bytes in written {
        assert!(
            !bytes.windows(10).any(|window| window == b"PLANTEDKEY"),
            "{}",
            String::from_utf8_lossy(&bytes)
        );
    }
}
