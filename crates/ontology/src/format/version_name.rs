//! Makes directory names from versions, whose texts may have slashes, spaces and newlines.

use docstokg_hub::files::hex;
use sha2::{Digest, Sha256};

const MAX_NAME_BYTES: usize = 80;

/// Returns a safe directory name for a version. The version cannot be recovered from the name, so
/// store it in a manifest.
///
/// A version of letters, digits and `.`, `_`, `+`, `-` is its own name. For every other version,
/// the name is a readable form, `~`, and the start of the version's SHA-256, so that different
/// versions have different names.
#[must_use]
pub fn directory_name(version: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '+' | '-');
    if !version.is_empty()
        && version.len() <= MAX_NAME_BYTES
        && version.chars().all(is_plain)
        && version.starts_with(|c: char| c.is_ascii_alphanumeric())
        && !version.ends_with('.')
        && !is_reserved(version)
    {
        return version.to_owned();
    }
    let mut readable = String::new();
    for c in without_scheme(version).chars() {
        if readable.len() >= MAX_NAME_BYTES - 13 {
            break;
        }
        if is_plain(c) {
            readable.push(c);
        } else if !readable.ends_with('-') {
            readable.push('-');
        }
    }
    let readable = readable.trim_matches(['-', '.', '_', '+']);
    let digest = Sha256::digest(version.as_bytes());
    let suffix = hex(&digest[..6]);
    let readable = if readable.is_empty() {
        "version"
    } else {
        readable
    };
    format!("{readable}~{suffix}")
}

fn without_scheme(version: &str) -> &str {
    let version = version.trim();
    version
        .strip_prefix("https://")
        .or_else(|| version.strip_prefix("http://"))
        .unwrap_or(version)
}

/// Returns true if a name has a special meaning, in the library or for an operating system.
fn is_reserved(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or(name).to_ascii_lowercase();
    let is_device = matches!(stem.as_str(), "con" | "prn" | "aux" | "nul")
        || ((stem.starts_with("com") || stem.starts_with("lpt")) && stem.len() == 4);
    is_device || name.eq_ignore_ascii_case("latest")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn versions_have_readable_names() {
        for (version, name) in [
            ("2026-07-24", "2026-07-24"),
            ("4.1.258", "4.1.258"),
            (
                "releases/2025-05-14/pato.obo",
                "releases-2025-05-14-pato.obo~",
            ),
            ("hp/releases/2025-01-16", "hp-releases-2025-01-16~"),
            ("Fri 14 Jun 2024", "Fri-14-Jun-2024~"),
            ("two\n\nparagraphs", "two-paragraphs~"),
            (
                "http://purl.obolibrary.org/obo/go.owl",
                "purl.obolibrary.org-obo-go.owl~",
            ),
            ("..", "version~"),
            ("", "version~"),
            ("../../etc/passwd", "etc-passwd~"),
            ("latest", "latest~"),
            ("NUL.txt", "NUL.txt~"),
            (".hidden", "hidden~"),
        ] {
            let made = directory_name(version);
            if name.ends_with('~') {
                assert!(
                    made.starts_with(name) && made.len() == name.len() + 12,
                    "{made}"
                );
            } else {
                assert_eq!(made, name);
            }
        }
        assert_ne!(directory_name("a/b"), directory_name("a b"));
    }

    proptest! {
        #[test]
        fn names_are_safe_and_distinct(a in "\\PC{0,120}|[./~a-b\\n]{0,6}", b in "[./~a-b\\n]{0,6}") {
            let name = directory_name(&a);
            prop_assert!(!name.is_empty() && name.len() <= MAX_NAME_BYTES);
            prop_assert!(name.bytes().all(|c| c.is_ascii_alphanumeric() || b"._+-~".contains(&c)));
            prop_assert!(!name.starts_with('.') && !name.starts_with('-'));
            if a != b {
                prop_assert_ne!(name, directory_name(&b));
            }
        }
    }
}
