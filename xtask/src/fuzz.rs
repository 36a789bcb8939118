//! Fuzzing with libFuzzer: the targets of `fuzz/`.

use anyhow::{Context, bail};

use crate::process::{cargo_with, root};

const TARGETS: [&str; 6] = [
    "headers",
    "dates",
    "rates",
    "rate_headers",
    "robots",
    "configuration",
];
/// Seconds for each target, unless the command line has another number.
const DEFAULT_SECONDS: u64 = 60;
/// Flags for the coverage of libFuzzer, and for `AddressSanitizer`. Both are unstable, so
/// `RUSTC_BOOTSTRAP` enables them.
const RUSTFLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module \
     -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
     -Cllvm-args=-sanitizer-coverage-pc-table \
     -Zsanitizer=address";

/// Fuzzes the named targets, or all of them, one after the other.
pub(crate) fn run(arguments: &[&str]) -> anyhow::Result<()> {
    let (targets, seconds) = read(arguments)?;
    for target in targets {
        let corpus = root()?.join("fuzz/corpus").join(target);
        std::fs::create_dir_all(&corpus)
            .with_context(|| format!("{} cannot be written", corpus.display()))?;
        cargo_with(
            &[
                "run",
                "--release",
                "--manifest-path",
                "fuzz/Cargo.toml",
                "--target-dir",
                "target/fuzz",
                "--target",
                "x86_64-unknown-linux-gnu",
                "--bin",
                target,
                "--",
                &corpus.to_string_lossy(),
                &format!("-max_total_time={seconds}"),
            ],
            &[("RUSTC_BOOTSTRAP", "1"), ("RUSTFLAGS", RUSTFLAGS)],
        )?;
    }
    Ok(())
}

/// Reads the targets and the seconds for each.
fn read<'a>(arguments: &[&'a str]) -> anyhow::Result<(Vec<&'a str>, u64)> {
    let (targets, seconds) = match arguments {
        [targets @ .., "--seconds", seconds] => {
            let seconds = seconds
                .parse()
                .with_context(|| format!("--seconds: '{seconds}' is not a number"))?;
            (targets, seconds)
        }
        targets => (targets, DEFAULT_SECONDS),
    };
    if let Some(unknown) = targets.iter().find(|target| !TARGETS.contains(target)) {
        bail!("'{unknown}' is not a target: {}", TARGETS.join(", "));
    }
    if targets.is_empty() {
        return Ok((TARGETS.to_vec(), seconds));
    }
    Ok((targets.to_vec(), seconds))
}
