//! Real servers that enforce 10 requests per second: nginx `limit_req`, with and without a burst,
//! with 429 and 503, and a stick table of `HAProxy`. A run that knows the limit, and one that has to
//! find it, get every file.
//!
//! `cargo xtask servers` measures beside it, by the server's own log, how often they are refused and
//! how long they take. A machine that is busy with other tests delays single requests by more than
//! the limits leave, so that says nothing beside them.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::servers::{Server, free_port, nginx, write_files};
use crate::support::{Ran, run_sharing, sharing};

const FILES: usize = 100;
/// The least time that the files take at 10 per second.
const IDEAL_S: f64 = 10.0;

/// How often a case is measured that misses its targets.
const ROUNDS: u32 = 3;

/// How long a run may take, in tenths of a second: only what hangs takes so long.
const PATIENCE: u32 = 3_000;

/// How a server enforces its limit.
#[derive(Clone, Copy, Debug)]
enum Enforced {
    /// nginx, by this line.
    Nginx(&'static str),
    /// `HAProxy` before an nginx without limits.
    HaProxy,
}

const SERVERS: [Enforced; 5] = [
    Enforced::Nginx("limit_req zone=r; limit_req_status 429;"),
    Enforced::Nginx("limit_req zone=r;"),
    Enforced::Nginx("limit_req zone=r burst=5 nodelay; limit_req_status 429;"),
    Enforced::Nginx("limit_req zone=r burst=5 nodelay;"),
    Enforced::HaProxy,
];

/// What a run knows of the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Known {
    /// It is configured.
    Configured,
    /// Nothing: it searches, up to 50 per second.
    Nothing,
}

/// Servers in a directory, and the log of the one that enforces the limit.
struct Limited {
    directory: tempfile::TempDir,
    port: u16,
    log: &'static str,
    _servers: Vec<Server>,
}

impl Limited {
    fn start(enforced: Enforced) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        write_files(directory.path(), FILES);
        let at = |name: &str| directory.path().join(name).display().to_string();
        let port = free_port();
        let http = format!(
            "log_format t '$msec $status'; access_log {} t;
             limit_req_zone $binary_remote_addr zone=r:1m rate=10r/s;",
            at("access.log")
        );
        let of_nginx = |line: &str| {
            let server = format!("listen 127.0.0.1:{port}; {line}");
            nginx(directory.path(), port, &http, &server)
        };
        let (servers, port, log) = match enforced {
            Enforced::Nginx(line) => (vec![of_nginx(line)], port, "access.log"),
            Enforced::HaProxy => {
                let before = ha_proxy(directory.path(), port);
                let front = before.port;
                (vec![of_nginx(""), before], front, "haproxy.log")
            }
        };
        Self {
            directory,
            port,
            log,
            _servers: servers,
        }
    }

    /// Returns when each request arrived, in seconds, and the status of its answer.
    fn log(&self) -> Vec<(f64, u16)> {
        let text = std::fs::read_to_string(self.directory.path().join(self.log)).expect("the log");
        let entry = |line: &str| {
            let (at, status) = line.split_once(' ')?;
            // HAProxy writes milliseconds.
            let unit = if at.contains('.') { 1.0 } else { 1_000.0 };
            Some((at.parse::<f64>().ok()? / unit, status.parse().ok()?))
        };
        text.lines().filter_map(entry).collect()
    }

    fn state(&self) -> std::path::PathBuf {
        self.directory.path().join("state")
    }

    /// Downloads all files; returns how many there are, and the exit code.
    fn download(&self, known: Known) -> (usize, Ran) {
        let at = |name: &str| self.directory.path().join(name);
        let (host, out) = (format!("h.example:{}", self.port), at("out"));
        let list: Vec<String> = (0..FILES)
            .map(|number| format!("http://{host}/{number}.pdf"))
            .collect();
        std::fs::write(at("list.txt"), list.join("\n")).expect("a file");
        let mut command = sharing(&self.state());
        command.args(["--connect-to", &format!("{host}=127.0.0.1:{}", self.port)]);
        match known {
            Known::Configured => {
                command.args(["--rate", &format!("{host}:artifact=rates:10/SECOND")]);
            }
            Known::Nothing => {
                let config = "version: 1\nlimits: { learn: { up_to: 50/SECOND } }\n";
                std::fs::write(at("config.yaml"), config).expect("a file");
                command.arg("--config").arg(at("config.yaml"));
            }
        }
        command
            .args(["download", "--quiet", "--ignore-robots", "--out"])
            .arg(&out)
            .arg(at("list.txt"));
        let ran = run_bounded(command);
        let files = std::fs::read_dir(out.join("pdf"));
        (files.into_iter().flatten().count(), ran)
    }
}

/// Starts `HAProxy` before the server of a port.
fn ha_proxy(directory: &Path, behind: u16) -> Server {
    let port = free_port();
    let config = format!(
        "global
  maxconn 2000
  log stdout format raw local0
defaults
  mode http
  log global
  log-format \"%[date(0,ms)] %ST\"
  timeout connect 5s
  timeout client 30s
  timeout server 30s
frontend f
  bind 127.0.0.1:{port}
  stick-table type ip size 100k expire 30s store http_req_rate(1s)
  http-request track-sc0 src
  http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt 10 }}
  default_backend b
backend b
  server s 127.0.0.1:{behind}
"
    );
    std::fs::write(directory.join("haproxy.cfg"), config).expect("a file");
    let mut command = Command::new("haproxy");
    command.arg("-f").arg(directory.join("haproxy.cfg"));
    Server::start(command, port, &directory.join("haproxy.log"))
}

/// Runs a command, or ends it where it hangs.
#[expect(
    clippy::disallowed_methods,
    reason = "a real process is waited for in real time"
)]
fn run_bounded(mut command: Command) -> Ran {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program");
    for _ in 0..PATIENCE {
        if child.try_wait().expect("its state").is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let _ = child.kill();
    child.wait_with_output().expect("its output").into()
}

/// What came of one run.
struct Case {
    name: String,
    enforced: Enforced,
    known: Known,
    files: usize,
    code: i32,
    refused: usize,
    /// From the first request to the last, by the server's log.
    seconds: f64,
    limited: Limited,
}

fn run_case(enforced: Enforced, known: Known) -> Case {
    let limited = Limited::start(enforced);
    let (files, ran) = limited.download(known);
    let log = limited.log();
    let instants = || log.iter().map(|(at, _)| *at);
    Case {
        name: format!("{enforced:?} {known:?}"),
        enforced,
        known,
        files,
        code: ran.code,
        refused: log
            .iter()
            .filter(|(_, status)| [429, 503].contains(status))
            .count(),
        seconds: instants().fold(0.0, f64::max) - instants().fold(f64::MAX, f64::min),
        limited,
    }
}

impl Case {
    fn line(&self) -> String {
        format!(
            "{}: {} files, exit {}, {} refused, {:.2} x of the ideal time",
            self.name,
            self.files,
            self.code,
            self.refused,
            self.seconds / IDEAL_S
        )
    }

    /// Returns whether it was refused little and took little time.
    fn meets_its_targets(&self) -> bool {
        let (most_refused, longest) = match self.known {
            Known::Configured => (3, 1.1),
            Known::Nothing => (25, 1.3),
        };
        self.refused <= most_refused && self.seconds <= longest * IDEAL_S
    }
}

/// Runs cases side by side.
fn run_cases(asked: &[(Enforced, Known)]) -> Vec<Case> {
    std::thread::scope(|scope| {
        let running: Vec<_> = asked
            .iter()
            .map(|(server, known)| scope.spawn(|| run_case(*server, *known)))
            .collect();
        running
            .into_iter()
            .map(|case| case.join().expect("no panic"))
            .collect()
    })
}

#[test]
fn every_file_comes_from_servers_that_enforce_a_rate() {
    for case in run_cases(&all_cases()) {
        assert_eq!((case.files, case.code), (FILES, 0), "{}", case.line());
        // Without any regard to refusals there are many times as many.
        assert!(case.refused <= FILES, "{}", case.line());
        if case.known == Known::Nothing {
            assert_what_was_learned_is_shown_and_forgotten(&case);
        }
    }
}

#[test]
#[ignore = "for cargo xtask servers: it measures time"]
#[expect(clippy::print_stderr, reason = "a measurement prints its results")]
fn refusals_and_time_are_near_the_least() {
    let mut asked = all_cases();
    for round in 1..=ROUNDS {
        let cases = run_cases(&asked);
        for case in &cases {
            eprintln!("round {round}: {}", case.line());
        }
        let missed = cases.iter().filter(|case| !case.meets_its_targets());
        asked = missed.map(|case| (case.enforced, case.known)).collect();
        if asked.is_empty() {
            return;
        }
    }
    panic!("{asked:?} missed their targets in each of {ROUNDS} rounds");
}

fn all_cases() -> Vec<(Enforced, Known)> {
    let both = |server: Enforced| [(server, Known::Configured), (server, Known::Nothing)];
    SERVERS.into_iter().flat_map(both).collect()
}

/// `limits advise`, `doctor` and `forget` agree on what a run has learned.
fn assert_what_was_learned_is_shown_and_forgotten(case: &Case) {
    let state = case.limited.state();
    let host = format!("h.example:{}", case.limited.port);
    let ask = |arguments: &[&str]| {
        let ran = run_sharing(&state, &[&["--json", "limits"], arguments].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        serde_json::from_str::<Value>(&ran.out).expect("JSON")
    };
    let (advice, of_host) = (ask(&["advise"]), ask(&["advise", &host]));
    let [learned] = advice["learned"].as_array().expect("a list").as_slice() else {
        panic!("{advice}")
    };
    assert_eq!(learned["hosts"][0], host.as_str());
    assert_eq!(learned["refusals"], case.refused, "by the server's own log");
    assert!(learned["refusals_saved"].as_u64() <= learned["refusals"].as_u64());
    assert_eq!(advice["learned"], of_host["learned"]);
    let doctor = ask(&["doctor", &host]);
    assert_eq!(doctor["budgets"][0]["learned"]["limits"], learned["limits"]);
    if let Some(lines) = advice["yaml"].as_str() {
        let file = case.limited.directory.path().join("advised.yaml");
        std::fs::write(&file, format!("version: 1\n{lines}")).expect("a file");
        let checked = run_sharing(&state, &["config", "check", &file.display().to_string()]);
        assert_eq!(checked.code, 0, "{lines}: {}", checked.err);
    }
    assert_eq!(ask(&["forget", &host])["forgotten"], true);
    assert_eq!(ask(&["forget", &host])["forgotten"], false);
    assert_eq!(ask(&["advise"])["learned"], serde_json::json!([]));
    assert_eq!(
        ask(&["doctor", &host])["budgets"][0]["learned"],
        Value::Null
    );
}
