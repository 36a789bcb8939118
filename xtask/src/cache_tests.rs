//! The public suite http-tests/cache-tests, run against the gateway in both modes.
//!
//! The suite has a server, which is the origin, and a client. The gateway stands between them
//! without limits and breakers, because the suite sends as fast as it can and expects its own
//! failures. Tests that fail for a known reason are listed with it; any other failure fails the
//! command.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};

use crate::process::{Running, cargo, free_port, need, root, say, wait_for};

/// Configuration of a gateway without limits.
const CONFIGURATION: &str = "version: 1
limits:
  learn: off
  defaults: { metadata: { rates: [\"100000/SECOND\"], max_concurrent: 1000, pacing: burst } }
breakers: { defaults: { shadow: true } }
";

/// Header fields that the suite invents: the number of the request, and fields that `Vary` may
/// name. The private cache would tell requests apart by each of them.
const OWN_FIELDS: [&str; 8] = [
    "Abc",
    "Bar",
    "Baz",
    "Foo",
    "Other",
    "Req-Num",
    "Test-ID",
    "Test-Name",
];

/// Runs the tests of the suite and prints `KIND RESULT ID` for each, with the suite's own result.
const CLIENT: &str = "
const [suite, base] = process.argv.slice(1)
const { runTests, getResults } = await import(`${suite}/test-engine/client/runner.mjs`)
const results = await import(`${suite}/test-engine/lib/results.mjs`)
const tests = (await import(`${suite}/tests/index.mjs`)).default
await runTests(tests, false, base)
const got = getResults()
for (const part of tests) for (const test of part.tests) {
  if (test.browser_only) continue
  const symbol = results.determineTestResult(tests, test.id, got)
  const name = Object.keys(results.resultTypes).find(key => results.resultTypes[key] === symbol)
  console.log(test.kind || 'required', name, test.id)
}
process.exit(0)
";

/// The modes in which a reason applies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReasonScope {
    Always,
    Shared,
    Private,
    WithoutHeuristic,
}

/// The reasons why tests fail: the prefix of their ids, and the [`ReasonScope`].
const REASONS: [(&str, ReasonScope, &str); 15] = [
    (
        "interim-",
        ReasonScope::Always,
        "1xx are not forwarded: the HTTP library's server cannot send them",
    ),
    (
        "partial-store-partial",
        ReasonScope::Always,
        "partial content is not stored",
    ),
    (
        "method-POST",
        ReasonScope::Always,
        "answers to POST are not stored",
    ),
    (
        "vary-normalise-lang",
        ReasonScope::Always,
        "Accept-Language is compared as it stands",
    ),
    (
        "conditional-lm-fresh-no-lm",
        ReasonScope::Always,
        "a response without Last-Modified is as new as its Date, which is after the condition",
    ),
    (
        "heuristic-",
        ReasonScope::WithoutHeuristic,
        "no lifetime is invented unless --heuristic asks for it",
    ),
    (
        "headers-store-Transfer-Encoding",
        ReasonScope::Always,
        "the suite sends a transfer coding that does not exist: such a body cannot be read",
    ),
    (
        "headers-store-Set-Cookie",
        ReasonScope::Shared,
        "cookies of one client are not given to another",
    ),
    (
        "freshness-s-maxage",
        ReasonScope::Private,
        "about shared caches",
    ),
    (
        "freshness-max-age-s-maxage",
        ReasonScope::Private,
        "about shared caches",
    ),
    (
        "cc-resp-private-shared",
        ReasonScope::Private,
        "about shared caches",
    ),
    ("stale-close-", ReasonScope::Private, "about shared caches"),
    (
        "other-authorization",
        ReasonScope::Private,
        "an answer to one credential is not given to another",
    ),
    (
        "other-cookie",
        ReasonScope::Private,
        "an answer to one user's cookies is not given to another",
    ),
    ("cdn-", ReasonScope::Private, "about shared caches"),
];

/// Runs the suite of a directory.
pub(crate) fn run(arguments: &[&str]) -> anyhow::Result<()> {
    let [path] = arguments else {
        bail!("cache-tests needs the directory of a clone of http-tests/cache-tests");
    };
    let suite = std::fs::canonicalize(path).with_context(|| (*path).to_owned())?;
    ensure!(
        suite.join("test-engine/client/runner.mjs").is_file(),
        "{path} is not a clone of http-tests/cache-tests"
    );
    need("node", "nodejs")?;
    cargo(&["build", "--release", "--package", "docstokg-cli"])?;
    let work = std::env::temp_dir().join(format!("docstokg-cache-tests-{}", std::process::id()));
    std::fs::create_dir_all(&work)?;
    let outcome = run_modes(&suite, &work);
    let _ = std::fs::remove_dir_all(&work);
    outcome
}

fn run_modes(suite: &Path, work: &Path) -> anyhow::Result<()> {
    let config = work.join("config.yaml");
    std::fs::write(&config, CONFIGURATION)?;
    let origin = free_port()?;
    let _server = start_server(suite, work, origin)?;
    let mut unexplained = 0;
    for (mode, heuristic) in [
        ("shared", false),
        ("private", false),
        ("shared", true),
        ("private", true),
    ] {
        let port = free_port()?;
        let name = format!("{mode}{}", if heuristic { ", --heuristic" } else { "" });
        let _gateway = start_gateway(work, &name, (port, origin), mode, heuristic)?;
        let results = run_client(suite, port)?;
        unexplained += report(&name, mode, heuristic, &results);
    }
    ensure!(
        unexplained == 0,
        "{unexplained} failures have no listed reason"
    );
    Ok(())
}

fn start_server(suite: &Path, work: &Path, port: u16) -> anyhow::Result<Running> {
    let child = Command::new("node")
        .arg("test-engine/server/server.mjs")
        .current_dir(suite)
        .env("npm_config_protocol", "http")
        .env("npm_config_port", port.to_string())
        .env("npm_config_pidfile", work.join("server.pid"))
        .stdout(Stdio::null())
        .spawn()
        .context("the server of the suite")?;
    let server = Running(child);
    wait_for(port)?;
    Ok(server)
}

fn start_gateway(
    work: &Path,
    name: &str,
    (port, origin): (u16, u16),
    mode: &str,
    heuristic: bool,
) -> anyhow::Result<Running> {
    let program: PathBuf = root()?.join("target/release/docstokg");
    let child = Command::new(program)
        .arg("serve")
        .args(["--quiet", "--cache-mode", mode])
        .args(OWN_FIELDS.map(|name| format!("--ignore-field={name}")))
        .args(heuristic.then_some("--heuristic"))
        .arg("--config")
        .arg(work.join("config.yaml"))
        .arg("--state-dir")
        .arg(work.join(name.replace(", ", "")))
        .args(["--listen", &format!("127.0.0.1:{port}")])
        .args(["--origin", &format!("http://127.0.0.1:{origin}")])
        .spawn()
        .context("the gateway")?;
    let gateway = Running(child);
    wait_for(port)?;
    Ok(gateway)
}

/// The result of each test, by id: its kind and outcome.
type Results = BTreeMap<String, (String, String)>;

fn run_client(suite: &Path, port: u16) -> anyhow::Result<Results> {
    let ran = Command::new("node")
        .args(["--no-warnings", "--input-type=module", "--eval", CLIENT])
        .arg(suite)
        .arg(format!("http://127.0.0.1:{port}"))
        .stderr(Stdio::inherit())
        .output()
        .context("the client of the suite")?;
    ensure!(
        ran.status.success(),
        "the client of the suite failed; are its packages installed (npm install)?"
    );
    let text = String::from_utf8_lossy(&ran.stdout);
    let results: Results = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ').map(str::to_owned);
            let (kind, outcome) = (words.next()?, words.next()?);
            Some((words.next()?, (kind, outcome)))
        })
        .collect();
    ensure!(results.len() > 300, "only {} tests ran", results.len());
    Ok(results)
}

/// Prints the number of passed tests and the reasons of the others. Returns the number of failures
/// without a reason.
fn report(name: &str, mode: &str, heuristic: bool, results: &Results) -> usize {
    for kind in ["required", "optimal"] {
        let all = || results.values().filter(|(of, _)| of == kind);
        let passed = all().filter(|(_, outcome)| outcome == "pass").count();
        say(&format!("{name}: {passed} of {} {kind}", all().count()));
    }
    let mut unexplained = 0;
    for (id, (kind, outcome)) in results {
        if kind == "check" || outcome == "pass" {
            continue;
        }
        let reason = reason(id, mode, heuristic, outcome);
        unexplained += usize::from(reason.is_none());
        let reason = reason.unwrap_or("NOT EXPECTED");
        say(&format!("    {kind} {id} ({outcome}): {reason}"));
    }
    unexplained
}

fn reason(id: &str, mode: &str, heuristic: bool, outcome: &str) -> Option<&'static str> {
    let applies = |applies: ReasonScope| match applies {
        ReasonScope::Always => true,
        ReasonScope::Shared => mode == "shared",
        ReasonScope::Private => mode == "private",
        ReasonScope::WithoutHeuristic => !heuristic,
    };
    let mut known = REASONS.iter();
    let found = known.find(|(prefix, when, _)| id.starts_with(prefix) && applies(*when));
    match found {
        Some((_, _, why)) => Some(why),
        None if outcome == "dependency_fail" => Some("depends on one of the above"),
        None => None,
    }
}
