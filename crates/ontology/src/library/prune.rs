//! Removing old versions. The latest stays, whatever its age.

use std::fs;

use super::{Library, LibraryError, StoredVersion, failed, refuse_link};
use crate::wanted_ontology::OntologyId;

/// A version that was removed, or would be.
#[derive(Clone, Debug)]
pub struct PrunedVersion {
    /// The ontology.
    pub id: OntologyId,
    /// The version.
    pub version: StoredVersion,
    /// The bytes of its files.
    pub bytes: u64,
}

/// Keeps the newest `keep` versions of an ontology and its latest, and removes or lists the rest.
///
/// # Errors
/// A directory cannot be read or removed.
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
            // Out of sight by one rename first: a version is there as a whole or not at all.
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

/// Whether versions are really removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PruneMode {
    /// They are.
    Remove,
    /// They are only listed.
    ListOnly,
}
