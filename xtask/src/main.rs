//! Project chores: `cargo xtask help` lists them.

mod cache_tests;
mod dependencies;
mod docs;
mod fuzz;
mod limiters;
mod limits;
mod process;
mod real_ontologies;
mod words;

use std::process::ExitCode;

use process::{cargo, cargo_with, need, need_as, need_on_path, need_python, need_redis, say};

const HELP: &str = "\
Usage: cargo xtask COMMAND

  test         run all tests, installing what they need, check-dependencies and words; list all failures at the end
               [--fast: only those that need no server and little time: the daily loop]
  bench        measure the hot paths, as ratios to a baseline of the same run
  politeness   measure on loopback what an origin receives: windows, and how much of the rate is used
               [--seconds N (20)] [--runs N (5)] [--limit N (10, 50 and 200)]
  sharing      measure on loopback how four processes share one limit, on every store
               [--seconds N (20)] [--runs N (5)] [--store multiprocess | sqlite | redis (all)]
  servers      measure downloads from nginx and HAProxy that enforce a rate, known and unknown, installing both:
               refusals, and the time beside the least
  limiters     measure one download over rate limiters that others wrote, installing them (npm, PyPI, nginx, HAProxy):
               refusals, and the time beside the least; by a search up to 50 per second, then by default
               [--told: knowing every limit instead] [beginnings of names (all)]
  limits       simulate servers with hidden limits: learned limits beside CUBIC, AIMD, backoff and AutoThrottle
               [--servers N (200 of each class)]
  cache-tests PATH
               run the public suite http-tests/cache-tests, cloned to PATH with its packages installed, against
               the gateway, in shared and in private mode
  bulk         measure bulk downloads beside curl and aria2c, installing them [small] [large]
  gateway      measure the gateway beside nginx, installing nginx and wrk, and its memory with a body of 1 GiB
  million      measure memory and the first request of runs over a million lines
  ontology     measure reading ontologies beside rapper, installing it, and the fail path of the rate facade
               [--megabytes N (200)]
  real-ontologies
               download ontologies in Python packages by pip, read every one, and compare the counts with
               those of rapper, rdflib and grep
  real-papers DIR
               tell the PDFs of a directory apart, whole and cut: DIR/index.json lists their `file`, `doi`, `title`
               and `journal`
  check-dependencies
               check licences of dependencies, that no crate is there in two versions without a reason
               (`explain` prints the reasons), and that crates depend on those alone that crates/README.md allows
  words        check names and prose: types that share a name, retired words, links, long sentences; the numbers of
               xtask/words-baseline.txt may only shrink, and xtask/words.txt has the words and the exceptions
               [list RULE [beginning of paths]] [list figures] [lower: write the numbers that are lower now]
  docs         build the book of docs/ into target/book with mdBook, installing it, and check every link of its pages
               [--write: first write the generated part of docs/reference/command-line.md]
  audit        check dependencies for known vulnerabilities with cargo audit
  sanitize     run the tests of the mapped file, the only unsafe module, under AddressSanitizer
  soak         kill processes at random times, on every store: no state is corrupted, no limit is exceeded
               [--kills N (1000)]; then kill downloads and pulls a hundred times and resume them to their
               end; then pull ontologies of 1 GiB, and several at once, within 256 MiB of memory
  attack       malicious answers, pages, files, flags, lists and servers, on loopback: nothing crashes, leaks,
               grows, delays other works or exceeds a limit [parts of test names (all)]; then fuzz the parsers
  fuzz         fuzz the parsers of foreign text with libFuzzer [headers] [dates] [rates]
               [rate_headers] [robots] [configuration] (all) [--seconds N (60)]";

/// Parts of the names of tests that [`test_fast`] leaves out. These tests need a server or another
/// program, kill processes, or take long.
const SLOW_TESTS: &[&str] = &[
    "a_second_fetch",
    "a_second_run",
    "agreement",
    "cache::damage::",
    "cache::model::",
    "cookies_takes_the_same_hops_as_curl",
    "contention::",
    "download::",
    "final_reports::",
    "gateway::",
    "hostile_server::a_list_without_an_end",
    "interrupted_runs::",
    "killed",
    "learning::",
    "limiter::",
    "nginx::",
    "blocked_paths::",
    "processes::",
    "quotas::",
    "redis",
    "hour_of_traffic::",
    "sigterm_and_sighup",
    "two_stores",
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["test", "--fast", rest @ ..] => test_fast(rest),
        ["test", rest @ ..] => test(rest),
        ["bench", rest @ ..] => need_redis().and_then(|()| {
            all([
                bench("docstokg-hub", "hub", rest),
                bench("docstokg-stores", "stores", rest),
                bench("docstokg-telemetry", "telemetry", rest),
            ])
        }),
        ["politeness", rest @ ..] => bench("docstokg-hub", "politeness", rest),
        ["sharing", rest @ ..] => {
            need_redis().and_then(|()| bench("docstokg-hub", "sharing", rest))
        }
        ["servers"] => servers(),
        ["limiters", rest @ ..] => limiters::run(rest),
        ["limits", rest @ ..] => limits::run(rest),
        ["cache-tests", rest @ ..] => cache_tests::run(rest),
        ["bulk", rest @ ..] => need("aria2c", "aria2")
            .and_then(|()| need("curl", "curl"))
            .and_then(|()| bench("docstokg-cli", "bulk", rest)),
        ["gateway", rest @ ..] => need_as("nginx", "-v", "nginx")
            .and_then(|()| need_on_path("wrk", "wrk"))
            .and_then(|()| need("taskset", "util-linux"))
            .and_then(|()| bench("docstokg-cli", "gateway", rest)),
        ["million", rest @ ..] => bench("docstokg-cli", "million", rest),
        ["ontology", rest @ ..] => need("rapper", "raptor2-utils")
            .and_then(|()| bench("docstokg-ontology", "ontology", rest)),
        ["real-ontologies"] => real_ontologies::run(),
        ["real-papers", directory] => real_papers(directory),
        ["check-dependencies"] => dependencies::check(),
        ["check-dependencies", "explain"] => {
            dependencies::explain();
            Ok(())
        }
        ["words", rest @ ..] => words::run(rest),
        ["docs", rest @ ..] => docs::run(rest),
        ["audit"] => dependencies::audit(),
        ["sanitize"] => sanitize(),
        ["fuzz", rest @ ..] => fuzz::run(rest),
        ["soak", rest @ ..] => need_redis().and_then(|()| {
            all([
                bench("docstokg-stores", "soak", rest),
                kill_downloads(),
                bench("docstokg-cli", "large_ontologies", &[]),
            ])
        }),
        ["attack", rest @ ..] => need_redis()
            .and_then(|()| need("prlimit", "util-linux"))
            .and_then(|()| all([attack(rest), many_properties()])),
        ["help" | "--help" | "-h"] => {
            say(HELP);
            Ok(())
        }
        _ => Err(anyhow::anyhow!("unknown command\n{HELP}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("xtask: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Runs every test of the workspace.
fn test(rest: &[&str]) -> anyhow::Result<()> {
    words::check()?;
    need_redis()?;
    need_as("nginx", "-v", "nginx")?;
    need_as("haproxy", "-v", "haproxy")?;
    need("curl", "curl")?;
    need_python(&["httpx", "requests"])?;
    cargo(&[&["test", "--workspace", "--no-fail-fast"], rest].concat())?;
    // The tests have downloaded every crate, so the check needs no network.
    dependencies::check()
}

/// Runs the tests that need no server and little time. The whole workspace is selected, so the
/// build is the same as that of [`test()`].
fn test_fast(rest: &[&str]) -> anyhow::Result<()> {
    let targets = [
        "test",
        "--workspace",
        "--no-fail-fast",
        "--lib",
        "--bins",
        "--test",
        "it",
        "--test",
        "formats",
        "--test",
        "memory",
        "--",
    ];
    let skipped = SLOW_TESTS.iter().flat_map(|part| ["--skip", *part]);
    let skipped: Vec<&str> = skipped.collect();
    cargo(&[&targets[..], &skipped[..], rest].concat())
}

/// Measures downloads from real servers.
fn servers() -> anyhow::Result<()> {
    need_as("nginx", "-v", "nginx")?;
    need_as("haproxy", "-v", "haproxy")?;
    let arguments = [
        "test",
        "--release",
        "--package",
        "docstokg-cli",
        "--test",
        "limits",
        "near_the_least",
        "--",
        "--ignored",
        "--nocapture",
    ];
    cargo(&arguments)
}

/// Runs one benchmark program, optimised.
fn bench(package: &str, name: &str, rest: &[&str]) -> anyhow::Result<()> {
    cargo(
        &[
            &[
                "bench",
                "--quiet",
                "--package",
                package,
                "--bench",
                name,
                "--",
            ],
            rest,
        ]
        .concat(),
    )
}

/// Fails if one of the outcomes is a failure. All steps have run by then.
fn all<const N: usize>(outcomes: [anyhow::Result<()>; N]) -> anyhow::Result<()> {
    outcomes.into_iter().collect()
}

/// Runs the tests of the mapped file with a check of every memory access, in a separate target
/// directory.
fn sanitize() -> anyhow::Result<()> {
    need_redis()?;
    let mapped_file_tests = [
        "multiprocess",
        "processes::",
        "corrupt",
        "files_that_are_not_ours",
    ];
    let arguments = [
        "test",
        "--package",
        "docstokg-stores",
        "--target",
        "x86_64-unknown-linux-gnu",
        "--target-dir",
        "target/sanitize",
        "--",
    ];
    // The sanitizers are part of the toolchain, but unstable; the variable enables them.
    cargo_with(
        &[&arguments[..], &mapped_file_tests].concat(),
        &[
            ("RUSTC_BOOTSTRAP", "1"),
            ("RUSTFLAGS", "-Zsanitizer=address"),
        ],
    )
}

/// Kills downloads a hundred times.
fn kill_downloads() -> anyhow::Result<()> {
    let arguments = [
        "test",
        "--release",
        "--package",
        "docstokg-cli",
        "--test",
        "it",
        "killed_at_random_points",
        "--",
        "--nocapture",
    ];
    cargo_with(&arguments, &[("DOCSTOKG_TEST_KILLS", "100")])
}

/// Runs the attack suite in full, one class at a time, and prints the results.
fn attack(rest: &[&str]) -> anyhow::Result<()> {
    let report = std::env::temp_dir().join(format!("docstokg-attack-{}", std::process::id()));
    let arguments = [
        "test",
        "--release",
        "--package",
        "docstokg-cli",
        "--test",
        "attack",
        "--",
        "--include-ignored",
        "--test-threads",
        "1",
    ];
    let path = report.to_string_lossy();
    let outcome = cargo_with(
        &[&arguments[..], rest].concat(),
        &[
            ("DOCSTOKG_ATTACK", "full"),
            ("DOCSTOKG_ATTACK_REPORT", &path),
        ],
    );
    let lines = std::fs::read_to_string(&report).unwrap_or_default();
    let _ = std::fs::remove_file(&report);
    say(&format!(
        "\n{:<26} {:>7}  {:<7} figures",
        "class", "cases", "outcome"
    ));
    for line in lines.lines() {
        let mut fields = line.splitn(4, '\t');
        let [class, cases, outcome, figures] =
            std::array::from_fn(|_| fields.next().unwrap_or_default());
        say(&format!("{class:<26} {cases:>7}  {outcome:<7} {figures}"));
    }
    outcome
}

/// Runs the property tests of all parsers of foreign input, with many more cases than CI has time
/// for. Also runs the tests that nest every format far deeper than a stack.
fn many_properties() -> anyhow::Result<()> {
    let many = [("PROPTEST_CASES", "20000")];
    all([
        "docstokg-content",
        "docstokg-hub",
        "docstokg-ontology",
        "docstokg-policy",
    ]
    .map(|package| {
        let filtered = [
            "test",
            "--release",
            "--package",
            package,
            "--",
            "fuzz",
            "nested",
        ];
        cargo_with(&filtered, &many)
    }))
}

/// Classifies the papers of a directory, and looks for damage in them and in their truncated
/// copies.
fn real_papers(directory: &str) -> anyhow::Result<()> {
    let arguments = ["test", "--package", "docstokg-content", "--lib", "--locked"];
    let rest = ["real_papers", "--", "--ignored", "--nocapture"];
    let directory = std::path::absolute(directory)?;
    let directory = directory.display().to_string();
    cargo_with(
        &[&arguments[..], &rest[..]].concat(),
        &[("DOCSTOKG_PAPERS", directory.as_str())],
    )
}
