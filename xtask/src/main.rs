//! Project chores: `cargo xtask test | bench | politeness | sharing`.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};

const HELP: &str = "\
Usage: cargo xtask COMMAND

  test         run all tests, installing what they need
  bench        measure the hot paths, as ratios to a baseline of the same run
  politeness   measure on loopback what an origin sees: windows, and how much of the rate is used
               [--seconds N (20)] [--runs N (5)] [--limit N (10, 50 and 200)]
  sharing      measure on loopback how four processes share one limit, on every store
               [--seconds N (20)] [--runs N (5)]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["test", rest @ ..] => test(rest),
        ["bench", rest @ ..] => bench("hub", rest),
        ["politeness", rest @ ..] => bench("politeness", rest),
        ["sharing", rest @ ..] => bench("sharing", rest),
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
    cargo(&[&["test", "--workspace"], rest].concat())
}

/// Runs one benchmark program, optimised.
fn bench(name: &str, rest: &[&str]) -> anyhow::Result<()> {
    cargo(&[&["bench", "--quiet", "--package", "docstokg-hub", "--bench", name, "--"], rest].concat())
}

fn cargo(arguments: &[&str]) -> anyhow::Result<()> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the workspace")?;
    let status = Command::new(program).args(arguments).current_dir(root).status().context("cargo cannot be started")?;
    if !status.success() {
        bail!("cargo {} failed", arguments.join(" "));
    }
    Ok(())
}

#[expect(clippy::print_stderr, reason = "a chore talks to whoever runs it")]
fn say(text: &str) {
    eprintln!("{text}");
}
