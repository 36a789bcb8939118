//! Names of directories for versions.

use crate::format::directory_name;

/// Makes a directory name of a version. OBO's `releases/DATE` and version IRIs with a date in their
/// path are named by that date; others as [`directory_name`] does.
#[must_use]
pub fn version_directory(version: &str) -> String {
    let shortened = version.strip_prefix("releases/").unwrap_or(version).trim();
    let is_iri = shortened.starts_with("http://") || shortened.starts_with("https://");
    if is_iri && let Some(date) = shortened.split('/').find(|part| is_date(part)) {
        return date.to_owned();
    }
    directory_name(shortened)
}

fn is_date(text: &str) -> bool {
    text.len() == 10
        && text.bytes().enumerate().all(|(index, byte)| match index {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_safe_and_short() {
        for (version, name) in [
            ("2026-06-20", "2026-06-20"),
            ("releases/2026-06-15", "2026-06-15"),
            ("4.1.258", "4.1.258"),
            (
                "http://purl.obolibrary.org/obo/hp/releases/2026-06-20/hp.owl",
                "2026-06-20",
            ),
        ] {
            assert_eq!(version_directory(version), name);
        }
        for odd in [
            "REC/2026/06",
            "../..",
            "a\nb",
            "",
            ".",
            "latest",
            "Fri 14 Jun 2024",
        ] {
            let name = version_directory(odd);
            let is_safe = !name.is_empty() && !name.contains('/') && !name.starts_with('.');
            assert!(
                is_safe && name != "latest" && name != odd,
                "{odd:?}: {name}"
            );
        }
    }
}
