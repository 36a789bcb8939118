//! Names of directories for versions, which may hold slashes, spaces and newlines.

use docstokg_bulk::digest::Fingerprint;

/// The longest name.
const MAX_NAME: usize = 80;

/// Makes a directory name of a version. A name that leaves something out ends with a part of the
/// version's fingerprint, so that two versions do not fall on one name.
#[must_use]
pub fn version_directory(version: &str) -> String {
    // Version IRIs and OBO's data-version say the date in the middle of a path.
    let shortened = version.strip_prefix("releases/").unwrap_or(version).trim();
    let fits =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_' | '+');
    let mut name: String = shortened
        .chars()
        .map(|letter| if fits(letter) { letter } else { '_' })
        .collect();
    let is_whole = name == shortened
        && name.len() <= MAX_NAME
        && name.starts_with(|letter: char| letter.is_ascii_alphanumeric())
        && name != "latest";
    if is_whole {
        return name;
    }
    name = name.trim_start_matches(['.', '_', '-', '+']).to_owned();
    name.truncate(MAX_NAME);
    let name = if name.is_empty() {
        "version".to_owned()
    } else {
        name
    };
    format!("{name}-{:.8}", Fingerprint::of(version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_and_tell_versions_apart() {
        for (version, name) in [
            ("2026-06-20", "2026-06-20"),
            ("releases/2026-06-15", "2026-06-15"),
            ("4.1.258", "4.1.258"),
        ] {
            assert_eq!(version_directory(version), name);
        }
        let odd = [
            "REC/2026/06",
            "REC_2026_06",
            "../..",
            "a\nb",
            "",
            ".",
            "latest",
            "Fri 14 Jun 2024",
            &"x".repeat(300),
        ];
        let names: std::collections::BTreeSet<String> = odd
            .iter()
            .map(|version| version_directory(version))
            .collect();
        assert_eq!(names.len(), odd.len(), "{names:?}");
        for name in names {
            assert!(
                name.len() < 100
                    && !name.contains('/')
                    && !name.starts_with('.')
                    && name != "latest",
                "{name}"
            );
        }
    }
}
