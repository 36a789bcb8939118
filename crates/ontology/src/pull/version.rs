//! Checks that a file has the requested version and format.

use super::examine::ExaminedFile;
use super::fetch::GatedLocation;
use super::state::PullState;
use crate::library::version_directory;
use crate::source::{Absence, AbsenceReason};

/// Returns true if two texts name the same version: `2026-06-20`, `releases/2026-06-20` and
/// `http://purl.obolibrary.org/obo/hp/releases/2026-06-20/hp.owl` are the same, and so are `1.2`
/// and `v1.2`.
#[must_use]
pub(crate) fn is_same_version(wanted: &str, stated: &str) -> bool {
    let plain = |text: &str| {
        let text = text.trim().trim_end_matches('/').to_ascii_lowercase();
        text.strip_prefix('v')
            .filter(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
            .map_or(text.clone(), str::to_owned)
    };
    let wanted_plain = plain(wanted);
    if wanted_plain.is_empty() {
        return false;
    }
    plain(stated) == wanted_plain
        || stated.split('/').any(|part| plain(part) == wanted_plain)
        || version_directory(wanted) == version_directory(stated)
}

/// Returns the version that the user requested or pinned. Returns `None` for a pin with a checksum
/// or revision, because these identify the file more exactly than the version.
pub(super) fn wanted_version(state: &PullState) -> Option<&str> {
    let pinned = state.pin.as_ref();
    let pinned = pinned.filter(|pin| pin.checksum.is_none() && pin.revision.is_none());
    let pinned = pinned.and_then(|pin| pin.version.as_deref());
    state.wanted.version.as_deref().or(pinned)
}

/// Checks that a file has the requested version.
///
/// - If the location has a revision, the version that the source declares must be the requested
///   one.
/// - Otherwise a version that the file declares must be the requested one.
/// - If the file declares no version, the version that the source declares must be the requested
///   one.
pub(super) fn check_version(
    state: &PullState,
    target: &GatedLocation,
    examined: &ExaminedFile,
) -> Result<(), Absence> {
    let Some(wanted) = wanted_version(state) else {
        return Ok(());
    };
    let by_source = target.location.version.as_deref();
    let is_by_source = by_source.is_some_and(|stated| is_same_version(wanted, stated));
    let is_chosen = target.location.revision.is_some() && is_by_source;
    let mut stated = examined.versions.iter();
    let is_good = if is_chosen || stated.len() == 0 {
        is_by_source
    } else {
        stated.any(|stated| is_same_version(wanted, stated))
    };
    if is_good {
        return Ok(());
    }
    let found = examined
        .version
        .as_ref()
        .map(|(version, _)| version.as_str());
    let found = found.or(by_source);
    let found = found.map_or_else(
        || "the file states no version".to_owned(),
        |found| format!("the file is version {found}"),
    );
    Err(Absence {
        reason: AbsenceReason::Version,
        detail: format!(
            "version {wanted} of {} is wanted, and {found}",
            state.wanted.id
        ),
    })
}

/// Checks that a file has a requested format. Any format is accepted for an import, a pinned
/// ontology or a URL from the user, and if no format was requested or the source declares the
/// format.
pub(super) fn check_format(
    state: &PullState,
    target: &GatedLocation,
    examined: &ExaminedFile,
) -> Result<(), Absence> {
    let formats = &state.wanted.formats;
    let location = &target.location;
    let Some(found) = &examined.format else {
        return Ok(());
    };
    let is_free = formats.is_empty()
        || location.is_user_supplied
        || location.format.is_some()
        || state.pin.is_some()
        || state.import_depth > 0;
    if is_free || formats.iter().any(|format| format.holds(found)) {
        return Ok(());
    }
    let wanted: Vec<&str> = formats.iter().map(|format| format.as_str()).collect();
    Err(Absence {
        reason: AbsenceReason::Format,
        detail: format!(
            "{} is wanted as {}, and the file is {found}",
            state.wanted.id,
            wanted.join(" or ")
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_the_same_in_several_spellings() {
        for (wanted, stated, is_same) in [
            ("2026-06-20", "releases/2026-06-20", true),
            ("2026-06-20", "http://x.org/hp/2026-06-20/hp.owl", true),
            ("releases/2026-06-20", "2026-06-20", true),
            ("1.2", "v1.2", true),
            ("V1.2", "1.2", true),
            ("1.2", "http://x.org/onto/1.2/", true),
            ("1.2", "1.2.3", false),
            ("2026-06-20", "2026-06-21", false),
            ("2", "http://x.org/2/3/onto.owl", true),
            ("", "", false),
            ("version", "ersion", false),
        ] {
            assert_eq!(
                is_same_version(wanted, stated),
                is_same,
                "{wanted} {stated}"
            );
        }
    }
}
