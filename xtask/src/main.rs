//! Project chores: `cargo xtask test | bench | politeness | sharing | bulk | million | sanitize |
//! soak | attack`.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};

const HELP: &str = "\
Usage: cargo xtask COMMAND

  test         run all tests, installing what they need
  bench        measure the hot paths, as ratios to a baseline of the same run
  politeness   measure on loopback what an origin sees: windows, and how much of the rate is used
               [--seconds N (20)] [--runs N (5)] [--limit N (10, 50 and 200)]
  sharing      measure on loopback how four processes share one limit, on every store
               [--seconds N (20)] [--runs N (5)] [--store multiprocess | sqlite | redis (all)]
  bulk         measure bulk downloads beside curl and aria2c, installing them [small] [large]
  million      measure memory and the first request of runs over a million lines
  sanitize     run the tests of the mapped file, the one place with unsafe code, under AddressSanitizer
  soak         kill processes in the middle of anything, on every store: nothing breaks, nothing overshoots
               [--kills N (1000)]; then kill downloads a hundred times and resume them to their end
  attack       answers, pages, files, flags, lists and servers that mean harm, on loopback: nothing crashes, leaks,
               grows, holds others up or exceeds a limit [words of the names of tests (all)]; then fuzz the readers";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
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
        ["bulk", rest @ ..] => need("aria2c", "aria2")
            .and_then(|()| need("curl", "curl"))
            .and_then(|()| bench("docstokg-cli", "bulk", rest)),
        ["million", rest @ ..] => bench("docstokg-cli", "million", rest),
        ["sanitize"] => sanitize(),
        ["soak", rest @ ..] => need_redis()
            .and_then(|()| all([bench("docstokg-stores", "soak", rest), kill_downloads()])),
        ["attack", rest @ ..] => need_redis()
            .and_then(|()| need("prlimit", "util-linux"))
            .and_then(|()| all([attack(rest), fuzz()])),
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
    need_redis()?;
    need_as("nginx", "-v", "nginx")?;
    cargo(&[&["test", "--workspace"], rest].concat())
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

/// Runs on after a failure, and fails in the end.
fn all<const N: usize>(outcomes: [anyhow::Result<()>; N]) -> anyhow::Result<()> {
    outcomes.into_iter().collect()
}

/// Makes sure that a Redis or Valkey server can be started, and installs one from the system's
/// packages if none is there.
fn need_redis() -> anyhow::Result<()> {
    let is_there = || {
        ["redis-server", "valkey-server"]
            .iter()
            .any(|program| runs(program, &["--version"]))
    };
    if is_there() {
        return Ok(());
    }
    say("xtask: no redis-server here; installing it from the system's packages");
    let ways: [&[&[&str]]; 5] = [
        &[
            &["apt-get", "update"],
            &[
                "apt-get",
                "install",
                "--yes",
                "--no-install-recommends",
                "redis-server",
            ],
        ],
        &[&["dnf", "install", "--assumeyes", "valkey"]],
        &[&["apk", "add", "redis"]],
        &[&["pacman", "--sync", "--noconfirm", "valkey"]],
        &[&["brew", "install", "redis"]],
    ];
    for way in ways {
        // An update that fails for one source may still have found the package in another: the
        // install decides.
        let done: Vec<bool> = way
            .iter()
            .map(|command| runs(command[0], &command[1..]))
            .collect();
        if done.last() == Some(&true) && is_there() {
            return Ok(());
        }
    }
    bail!(
        "the tests need redis-server (or valkey-server), and it could not be installed: install it by hand, as root if need be, and run this again"
    )
}

/// Makes sure that a program is there, and installs it from Debian's packages if it is not.
fn need(program: &str, package: &str) -> anyhow::Result<()> {
    need_as(program, "--version", package)
}

/// The same, for a program that says its version when it is asked for it in its own way.
fn need_as(program: &str, version: &str, package: &str) -> anyhow::Result<()> {
    if runs(program, &[version]) {
        return Ok(());
    }
    say(&format!(
        "xtask: no {program} here; installing {package} from the system's packages"
    ));
    let _ = runs("apt-get", &["update"]);
    if runs(
        "apt-get",
        &["install", "--yes", "--no-install-recommends", package],
    ) && runs(program, &[version])
    {
        return Ok(());
    }
    bail!("{program} is not here and could not be installed")
}

/// Runs the tests of the mapped file with every access to memory checked, in a target directory of
/// their own.
fn sanitize() -> anyhow::Result<()> {
    need_redis()?;
    let of_the_mapped_file = [
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
    // The sanitizers come with the toolchain, and have not been made stable; this opens them.
    cargo_with(
        &[&arguments[..], &of_the_mapped_file].concat(),
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

/// Runs the attack suite in full, one class at a time, and shows what came of each.
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
        let [class, cases, held, figures] =
            std::array::from_fn(|_| fields.next().unwrap_or_default());
        say(&format!("{class:<26} {cases:>7}  {held:<7} {figures}"));
    }
    outcome
}

/// Runs the property tests of everything that reads what others wrote, with many more cases than CI
/// has time for.
fn fuzz() -> anyhow::Result<()> {
    let many = [("PROPTEST_CASES", "20000")];
    all(["docstokg-content", "docstokg-hub", "docstokg-policy"]
        .map(|package| cargo_with(&["test", "--release", "--package", package, "fuzz"], &many)))
}

fn runs(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn cargo(arguments: &[&str]) -> anyhow::Result<()> {
    cargo_with(arguments, &[])
}

fn cargo_with(arguments: &[&str], variables: &[(&str, &str)]) -> anyhow::Result<()> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .context("the workspace")?;
    let status = Command::new(program)
        .args(arguments)
        .envs(variables.iter().copied())
        .current_dir(root)
        .status()
        .context("cargo cannot be started")?;
    if !status.success() {
        bail!("cargo {} failed", arguments.join(" "));
    }
    Ok(())
}

#[expect(clippy::print_stderr, reason = "a chore talks to whoever runs it")]
fn say(text: &str) {
    eprintln!("{text}");
}
