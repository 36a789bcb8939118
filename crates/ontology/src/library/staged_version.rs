//! A version that is being put together, before its publication.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::{LibraryError, failed, names, sync_directory};
use crate::wanted_ontology::OntologyId;

/// The directories of a version.
const PARTS: [&str; 3] = ["original", "normalized", "validation"];

/// A version that is being put together. Dropping this value removes the files, unless
/// [`Library::publish`](crate::library::Library::publish) has moved them.
#[derive(Debug)]
pub struct StagedVersion {
    pub(super) path: PathBuf,
    pub(super) id: OntologyId,
    pub(super) is_published: bool,
}

impl StagedVersion {
    /// Creates the directories of a version; returns `None` if `path` exists already.
    pub(super) fn make(path: PathBuf, id: &OntologyId) -> Result<Option<Self>, LibraryError> {
        match fs::create_dir(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            Err(error) => return Err(failed(&path, "written")(error)),
        }
        let staged = Self {
            path,
            id: id.clone(),
            is_published: false,
        };
        for part in PARTS {
            let part = staged.path.join(part);
            fs::create_dir(&part).map_err(failed(&part, "written"))?;
        }
        Ok(Some(staged))
    }

    /// Returns the directory to which the files of the version are written.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Flushes all files to the disk, so that a version with a final name is complete after a
    /// crash.
    pub(super) fn sync(&self) -> Result<(), LibraryError> {
        sync_tree(&self.path)
    }
}

/// Flushes a directory and everything below it to the disk. Links are not followed.
fn sync_tree(directory: &Path) -> Result<(), LibraryError> {
    for name in names(directory)? {
        let path = directory.join(name);
        let kind = fs::symlink_metadata(&path).map_err(failed(&path, "read"))?;
        if kind.is_dir() {
            sync_tree(&path)?;
        } else if kind.is_file() {
            let synced = File::open(&path).and_then(|file| file.sync_all());
            synced.map_err(failed(&path, "written"))?;
        }
    }
    sync_directory(directory);
    Ok(())
}

impl Drop for StagedVersion {
    fn drop(&mut self) {
        if !self.is_published {
            let _ = fs::remove_dir_all(&self.path);
            // The directory of an ontology is removed if it has no versions.
            let _ = self.path.parent().map(fs::remove_dir);
        }
    }
}
