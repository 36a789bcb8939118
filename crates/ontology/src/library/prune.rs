//! Removes old versions. The latest version of an ontology is never removed, however old it is.

use std::fs;

use super::{Library, LibraryError, StoredVersion, failed, refuse_link};
use crate::wanted_ontology::OntologyId;

/// A version that was removed, or, in [`PruneMode::ListOnly`], that would be removed.
#[derive(Clone, Debug)]
pub struct PrunedVersion {
    /// The name of the ontology.
    pub id: OntologyId,
    /// The [`StoredVersion`] that was removed or listed.
    pub version: StoredVersion,
    /// The size of its files, in bytes.
    pub bytes: u64,
}

/// Keeps the `keep` newest versions of an ontology and its latest version, and removes or lists the
/// others.
///
/// # Errors
/// [`LibraryError`] if a directory cannot be read or removed.
pub fn prune(
    library: &Library,
    id: &OntologyId,
    keep: usize,
    mode: PruneMode,
) -> Result<Vec<PrunedVersion>, LibraryError> {
    let mut removed = Vec::new();
    for (index, version) in library.versions(id)?.into_iter().enumerate() {
        if index < keep.max(1) || version.is_latest {
            continue;
        }
        let bytes = version
            .manifest
            .artifacts
            .iter()
            .map(|artifact| artifact.bytes)
            .sum();
        if mode == PruneMode::Remove {
            refuse_link(&library.directory(id))?;
            refuse_link(&version.path)?;
            // Rename the version first to hide it, so that other processes never see a version
            // without some of its files.
            let hidden = version.path.with_file_name(format!(
                "{}prune-{}-{}",
                super::UNFINISHED,
                std::process::id(),
                version.name
            ));
            fs::rename(&version.path, &hidden).map_err(failed(&version.path, "removed"))?;
            fs::remove_dir_all(&hidden).map_err(failed(&hidden, "removed"))?;
        }
        removed.push(PrunedVersion {
            id: id.clone(),
            version,
            bytes,
        });
    }
    Ok(removed)
}

/// The treatment of old versions in [`prune`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PruneMode {
    /// Old versions are removed.
    Remove,
    /// Old versions are only listed.
    ListOnly,
}
