//! Publishes versions: a version gets its final name, and the `latest` link points to it.

use std::fs;
use std::path::Path;

use docstokg_bulk::digest::sha256_of;
use docstokg_hub::files::write_whole;
use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::{
    LATEST, Library, LibraryError, MANIFEST, Manifest, StagedVersion, StoredVersion, UNFINISHED,
    failed, read_manifest, refuse_link, sync_directory, version_directory,
};
use crate::wanted_ontology::OntologyId;

/// The result of [`Library::publish`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publication {
    /// A new version was added.
    New,
    /// The library had the content already, as the returned version.
    Unchanged,
    /// The library had the content already, but its files were damaged. The published files have
    /// replaced them.
    Replaced,
}

impl Library {
    /// Gives a [`StagedVersion`] its final name and makes it the latest, with one rename each.
    ///
    /// - If a version has the same content already, that version stays, and its record gets the
    ///   newer
    ///   validators.
    /// - If a version has the same content but damaged files, its files are replaced.
    /// - If another version has the same name and other content, the name is extended by the
    ///   checksum.
    ///
    /// # Errors
    /// [`LibraryError`] if files cannot be written.
    pub fn publish(
        &self,
        mut staged: StagedVersion,
        manifest: &Manifest,
    ) -> Result<(StoredVersion, Publication), LibraryError> {
        let record = staged.path.join(MANIFEST);
        let text = manifest.to_text();
        write_whole(&record, &text).map_err(failed(&record, "written"))?;
        staged.sync()?;
        if let Some(known) = self.with_content(&staged.id, &manifest.sha256)? {
            if known.damaged_files().is_empty() {
                let stored = self.take_up(&staged.id, &known, manifest)?;
                return Ok((stored, Publication::Unchanged));
            }
            return self.replace(&staged, &known.name);
        }
        let wanted = version_directory(&manifest.version);
        let suffixed = format!("{wanted}-{:.8}", manifest.sha256);
        for name in [wanted, suffixed] {
            let path = self.directory(&staged.id).join(&name);
            if !path.exists() {
                fs::rename(&staged.path, &path).map_err(failed(&path, "written"))?;
                staged.is_published = true;
                let stored = self.made_latest(&staged.id, &name)?;
                return Ok((stored, Publication::New));
            }
            // A version without a readable record can be replaced if its file is the same.
            let is_broken = read_manifest(&path.join(MANIFEST)).is_err();
            let original = path.join("original").join(&manifest.filename);
            if is_broken && sha256_of(&original).is_ok_and(|found| found == manifest.sha256) {
                return self.replace(&staged, &name);
            }
        }
        Err(LibraryError::Missing(format!(
            "{} has two versions of the same name and checksum and other records; remove {}",
            staged.id,
            self.directory(&staged.id).display()
        )))
    }

    /// Finds the version whose file has this SHA-256.
    ///
    /// # Errors
    /// [`LibraryError`] if the directory cannot be read.
    pub fn with_content(
        &self,
        id: &OntologyId,
        sha256: &str,
    ) -> Result<Option<StoredVersion>, LibraryError> {
        let versions = self.versions(id)?.into_iter();
        let mut same = versions.filter(|version| version.manifest.sha256 == sha256);
        Ok(same.next())
    }

    /// Makes a version the latest again, because its content was downloaded again. Its record gets
    /// the validators and the address of the new response, so that the next request can be
    /// conditional.
    ///
    /// # Errors
    /// [`LibraryError`] if files cannot be written.
    pub fn take_up(
        &self,
        id: &OntologyId,
        known: &StoredVersion,
        newer: &Manifest,
    ) -> Result<StoredVersion, LibraryError> {
        refuse_link(&self.directory(id))?;
        refuse_link(&known.path)?;
        let mut manifest = known.manifest.clone();
        manifest.etag.clone_from(&newer.etag);
        manifest.last_modified.clone_from(&newer.last_modified);
        manifest.revision.clone_from(&newer.revision);
        manifest.resolver.clone_from(&newer.resolver);
        manifest.url.clone_from(&newer.url);
        manifest.final_url.clone_from(&newer.final_url);
        if manifest != known.manifest {
            let record = known.path.join(MANIFEST);
            write_whole(&record, &manifest.to_text()).map_err(failed(&record, "written"))?;
        }
        self.made_latest(id, &known.name)
    }

    /// Replaces the directory of a damaged version by that of a [`StagedVersion`].
    fn replace(
        &self,
        staged: &StagedVersion,
        name: &str,
    ) -> Result<(StoredVersion, Publication), LibraryError> {
        let path = self.directory(&staged.id).join(name);
        refuse_link(&path)?;
        let exchanged = renameat_with(CWD, &staged.path, CWD, &path, RenameFlags::EXCHANGE);
        if exchanged.is_err() {
            // The file system cannot exchange two names, so for a moment no directory has the name.
            let aside = path.with_file_name(format!("{UNFINISHED}damaged-{}", std::process::id()));
            fs::rename(&path, &aside).map_err(failed(&path, "written"))?;
            fs::rename(&staged.path, &path).map_err(failed(&path, "written"))?;
            fs::rename(&aside, &staged.path).map_err(failed(&aside, "written"))?;
        }
        // The staged directory now contains the damaged version, and is removed when `staged` is
        // dropped.
        let stored = self.made_latest(&staged.id, name)?;
        Ok((stored, Publication::Replaced))
    }

    fn made_latest(&self, id: &OntologyId, name: &str) -> Result<StoredVersion, LibraryError> {
        self.point_latest_at(id, name)?;
        let path = self.directory(id).join(name);
        Ok(StoredVersion {
            manifest: read_manifest(&path.join(MANIFEST))?,
            is_latest: true,
            name: name.to_owned(),
            path,
        })
    }

    /// Points the [`LATEST`] link at another version, by a rename.
    fn point_latest_at(&self, id: &OntologyId, name: &str) -> Result<(), LibraryError> {
        let directory = self.directory(id);
        let link = directory.join(LATEST);
        if fs::read_link(&link).is_ok_and(|target| target == Path::new(name)) {
            return Ok(());
        }
        let beside = directory.join(format!("{UNFINISHED}latest-{}", std::process::id()));
        let _ = fs::remove_file(&beside);
        std::os::unix::fs::symlink(name, &beside).map_err(failed(&beside, "written"))?;
        fs::rename(&beside, &link).map_err(failed(&link, "written"))?;
        sync_directory(&directory);
        Ok(())
    }
}
