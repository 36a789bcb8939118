//! Rules for dependencies: their licences, duplicate versions, and the layers of the workspace.
//!
//! The check reads `cargo metadata` and `Cargo.lock`, and needs no network and no further tool.

mod layers;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail};
use serde_json::Value;
use spdx::{Expression, ParseMode};

use crate::process::{cargo, cargo_output, root, runs, say};

/// Licences of dependencies that may be distributed with the program.
const ALLOWED_LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause", // http-cache-semantics, a test dependency
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "MIT",
    "MPL-2.0", // applies to the files of the crate, which are used unchanged
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Crates with several versions: one entry, with its reason, for each version beyond the first. One
/// more version is an error, and so is an entry without its version.
const ALLOWED_DUPLICATES: &[(&str, &str)] = &[
    ("alloc-no-stdlib", "brotli-decompressor 5 of lopdf"),
    ("alloc-stdlib", "brotli-decompressor 5 of lopdf"),
    ("block-buffer", "digest 0.11 of lopdf"),
    ("brotli-decompressor", "lopdf uses 5, brotli 6"),
    ("cpufeatures", "sha2 0.11 of lopdf"),
    ("crypto-common", "digest 0.11 of lopdf"),
    ("digest", "md-5 and sha2 0.11 of lopdf"),
    (
        "embedded-io",
        "postcard depends on both, and uses neither here",
    ),
    ("getrandom", "ring uses 0.2"),
    ("getrandom", "rand 0.9 of oxrdf uses 0.3"),
    ("md-5", "lopdf uses 0.11"),
    ("nom", "x509-parser of rcgen, a test dependency, uses 7"),
    ("quick-xml", "oxrdfxml uses 0.37"),
    ("r-efi", "getrandom in two versions; on UEFI only"),
    ("rand", "oxrdf uses 0.9"),
    ("rand_core", "rand 0.9 of oxrdf"),
    ("sha2", "lopdf uses 0.11"),
    (
        "syn",
        "procedural macros move from 2 to 3 one after the other",
    ),
    (
        "synstructure",
        "asn1-rs of rcgen, a test dependency, uses 0.13",
    ),
    (
        "vob",
        "sparsevec of promql-parser, a test dependency, uses 3",
    ),
    ("windows-sys", "ring uses 0.52; on Windows only"),
];

/// Checks licences, duplicates and the layers of the workspace.
pub(crate) fn check() -> anyhow::Result<()> {
    let metadata = metadata()?;
    let manifests = metadata["packages"].as_array().context("no packages")?;
    let read = |path: &'static str| std::fs::read_to_string(root()?.join(path)).context(path);
    let mut problems = licence_problems(&packages(manifests)?);
    problems.extend(duplicate_problems(&versions(&read("Cargo.lock")?)));
    problems.extend(layers::layer_problems(
        manifests,
        &read("crates/README.md")?,
    ));
    if problems.is_empty() {
        return Ok(());
    }
    bail!("{}", problems.join("\n       "))
}

/// Checks the advisories of the `RustSec` database, if `cargo audit` is installed.
pub(crate) fn audit() -> anyhow::Result<()> {
    if !runs("cargo", &["audit", "--version"]) {
        bail!("cargo audit is not installed: cargo install --locked cargo-audit");
    }
    cargo(&["audit"]).context(
        "cargo audit reports advisories, or cannot reach its database \
         (https://github.com/RustSec/advisory-db)",
    )
}

/// A dependency and its licence.
struct LockedPackage {
    name: String,
    version: String,
    licence: Option<String>,
}

/// Returns the metadata of the packages that this platform uses. Packages of other platforms need
/// not be downloaded.
fn metadata() -> anyhow::Result<Value> {
    let version = std::process::Command::new("rustc").arg("-vV").output();
    let version = String::from_utf8(version.context("rustc cannot be started")?.stdout)?;
    let platform = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .context("rustc -vV names no host")?;
    let metadata = cargo_output(&[
        "metadata",
        "--locked",
        "--offline",
        "--format-version",
        "1",
        "--filter-platform",
        platform,
    ])?;
    Ok(serde_json::from_slice(&metadata)?)
}

fn packages(manifests: &[Value]) -> anyhow::Result<Vec<LockedPackage>> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    manifests
        .iter()
        .map(|package| {
            Ok(LockedPackage {
                name: text(&package["name"]).context("a package without a name")?,
                version: text(&package["version"]).context("a package without a version")?,
                licence: text(&package["license"]),
            })
        })
        .collect()
}

fn licence_problems(packages: &[LockedPackage]) -> Vec<String> {
    packages
        .iter()
        .filter_map(|package| {
            let LockedPackage { name, version, .. } = package;
            match package.licence.as_deref() {
                None => Some(format!("{name} {version} states no licence")),
                Some(text) if is_allowed(text, ALLOWED_LICENCES) => None,
                Some(text) => Some(format!(
                    "{name} {version} has the licence {text}, which is not in ALLOWED_LICENCES"
                )),
            }
        })
        .collect()
}

/// Returns true if allowed licences alone satisfy an SPDX expression, such as `MIT OR (Apache-2.0
/// AND ISC)` or the older `MIT/Apache-2.0`.
fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    Expression::parse_mode(expression, ParseMode::LAX).is_ok_and(|expression| {
        expression.evaluate(|licence| allowed.contains(&licence.to_string().as_str()))
    })
}

/// Reads the versions of each crate from the text of `Cargo.lock`.
fn versions(lock: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut name = String::new();
    for line in lock.lines() {
        let value = |key: &str| {
            let text = line.strip_prefix(key)?.strip_prefix(" = \"")?;
            text.strip_suffix('"').map(str::to_owned)
        };
        if let Some(found) = value("name") {
            name = found;
        } else if let Some(version) = value("version") {
            versions.entry(name.clone()).or_default().insert(version);
        }
    }
    versions
}

fn duplicate_problems(versions: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let allowed = |name: &str| {
        let reasons = ALLOWED_DUPLICATES.iter();
        1 + reasons.filter(|(known, _)| *known == name).count()
    };
    let list = |versions: &BTreeSet<String>| {
        let versions: Vec<&str> = versions.iter().map(String::as_str).collect();
        versions.join(" and ")
    };
    let mut problems: Vec<String> = versions
        .iter()
        .filter(|(name, versions)| versions.len() > allowed(name))
        .map(|(name, versions)| {
            format!(
                "{name} is there as {}: use one, or give a reason in ALLOWED_DUPLICATES",
                list(versions)
            )
        })
        .collect();
    let there = |name: &str| versions.get(name).map_or(0, BTreeSet::len);
    let named: BTreeSet<&str> = ALLOWED_DUPLICATES.iter().map(|(name, _)| *name).collect();
    let stale = named.into_iter().filter(|name| there(name) < allowed(name));
    problems.extend(stale.map(|name| {
        let (there, reasons) = (there(name), allowed(name) - 1);
        format!("{name}: {there} versions, {reasons} reasons: remove one from ALLOWED_DUPLICATES")
    }));
    problems
}

/// Prints the reason of each entry of [`ALLOWED_DUPLICATES`].
pub(crate) fn explain() {
    for (name, reason) in ALLOWED_DUPLICATES {
        say(&format!("{name}: {reason}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_version_needs_a_reason_and_a_reason_needs_a_second_version() {
        let mut both = "[[package]]\nname = \"anyhow\"\nversion = \"1.0.0\"\n".to_owned();
        let entry = |name: &str, version: &str| {
            format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n")
        };
        for (name, reason) in ALLOWED_DUPLICATES {
            both += &(entry(name, "first") + &entry(name, reason));
        }
        assert_eq!(duplicate_problems(&versions(&both)), Vec::<String>::new());
        let more = both.clone() + "[[package]]\nname = \"anyhow\"\nversion = \"2.0.0\"\n";
        let problems = duplicate_problems(&versions(&more));
        assert!(
            problems.len() == 1 && problems[0].starts_with("anyhow is there as 1.0.0 and 2.0.0"),
            "{problems:?}"
        );
        let fewer = both.replace("name = \"syn\"\nversion = \"first\"", "");
        let problems = duplicate_problems(&versions(&fewer));
        assert_eq!(problems.len(), 1, "{problems:?}");
    }

    #[test]
    fn an_expression_is_allowed_if_allowed_licences_satisfy_it() {
        let allowed = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"];
        for (expression, expected) in [
            ("MIT", true),
            ("GPL-3.0-only", false),
            ("MIT OR GPL-3.0-only", true),
            ("GPL-3.0-only/MIT", true),
            ("MIT AND GPL-3.0-only", false),
            ("(GPL-3.0-only OR MIT) AND ISC", true),
            ("GPL-3.0-only OR MIT AND ISC", true),
            ("(MIT OR ISC) AND GPL-3.0-only", false),
            ("Apache-2.0 WITH LLVM-exception OR Apache-2.0", true),
            ("Apache-2.0", false),
            ("", false),
            ("(MIT", false),
            ("MIT ISC", false),
        ] {
            assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
        }
    }

    #[test]
    fn a_licence_outside_the_list_is_named() {
        let package = |licence: Option<&str>| LockedPackage {
            name: "some".to_owned(),
            version: "1.0.0".to_owned(),
            licence: licence.map(str::to_owned),
        };
        assert!(licence_problems(&[package(Some("MIT OR GPL-3.0-only"))]).is_empty());
        let problems = licence_problems(&[package(Some("GPL-3.0-only")), package(None)]);
        assert!(
            problems[0].contains("GPL-3.0-only") && problems[1].contains("no licence"),
            "{problems:?}"
        );
    }
}
