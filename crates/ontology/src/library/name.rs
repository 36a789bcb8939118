//! Names of directories for versions.

use crate::format::directory_name;

/// Returns a directory name for a version. Paths and version IRIs with a date among their parts
/// (`releases/DATE`, `hp/releases/DATE`, `http://.../DATE/hp.owl`) are named by that date. Other
/// versions are named by [`directory_name`].
///
/// ```
/// use docstokg_ontology::library::version_directory;
///
/// assert_eq!(version_directory("2026-06-20"), "2026-06-20");
/// assert!(!version_directory("releases/2026/x").contains("../"));
/// ```
#[must_use]
pub fn version_directory(version: &str) -> String {
    let mut parts = version.trim().split('/');
    match parts.find(|part| is_date(part)) {
        Some(date) => date.to_owned(),
        None => directory_name(version),
    }
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
    fn version_directory_is_a_safe_short_name() {
        for (version, name) in [
            ("2026-06-20", "2026-06-20"),
            ("releases/2026-06-15", "2026-06-15"),
            ("4.1.258", "4.1.258"),
            ("hp/releases/2025-01-16", "2025-01-16"),
            ("releases/2025-05-14/pato.obo", "2025-05-14"),
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
