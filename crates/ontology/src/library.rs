//! The library: every version of every ontology, and a link to the latest.
//!
//! ```text
//! ROOT/hp/2026-06-20/original/hp.owl      as it was downloaded
//!                    normalized/          sorted N-Triples, where the format allows
//!                    validation/          what reading the file found
//!                    manifest.json        where it came from, and what it is
//! ROOT/hp/latest -> 2026-06-20
//! ```
//!
//! A version is put together beside the others and gets its name by one rename; `latest` is
//! switched by another. A process that is killed in between leaves `latest` unchanged. The next
//! pull removes the directory of the incomplete version.

mod manifest;
mod name;
mod prune;
mod publish;
mod staged_version;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

pub use manifest::{Artifact, Manifest, PullStatus, SCHEMA_VERSION, TriedLocation};
pub use name::version_directory;
pub use prune::{PruneMode, PrunedVersion, prune};
pub use publish::Publication;
pub use staged_version::StagedVersion;

use docstokg_bulk::digest::sha256_of;
use docstokg_config::read_limited::read_text;

use crate::wanted_ontology::OntologyId;

/// Prefix of the names of directories that are not complete.
const UNFINISHED: &str = ".new-";
/// Name of the link to the latest version.
const LATEST: &str = "latest";
/// Name of the working directory of pulls.
pub(crate) const WORKPLACE: &str = ".ontofetch";
/// Name of the file with a version's [`Manifest`].
const MANIFEST: &str = "manifest.json";

/// Maximum size of a record that is read, in bytes: packages list each of their files.
const MAX_MANIFEST: u64 = 64 << 20;

/// The reason why the [`Library`] cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// A file or directory cannot be read or written.
    #[error("{path} cannot be {what}")]
    Io {
        /// The path of the file or directory.
        path: String,
        /// The failed operation: `read`, `written` or `removed`.
        what: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file of a record is not a record.
    #[error("{path} is not the record of a version: {why}; pull the ontology again")]
    Manifest {
        /// The path of the file.
        path: String,
        /// The fault of the text.
        why: String,
    },
    /// The version is not in the library.
    #[error("{0}")]
    Missing(String),
}

pub(crate) fn failed(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> LibraryError {
    let path = path.display().to_string();
    move |source| LibraryError::Io { path, what, source }
}

/// A directory with all versions of all ontologies.
///
/// ```
/// use docstokg_ontology::library::Library;
/// use docstokg_ontology::wanted_ontology::OntologyId;
///
/// # let directory = tempfile::tempdir()?;
/// let library = Library::at(directory.path());
/// assert!(library.ids()?.is_empty());
/// assert!(library.latest(&OntologyId::parse("hp")?)?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Library {
    root: PathBuf,
}

/// A version that is complete, in a [`Library`].
#[derive(Clone, Debug)]
pub struct StoredVersion {
    /// The name of its directory.
    pub name: String,
    /// The path of its directory.
    pub path: PathBuf,
    /// The [`Manifest`] of the version.
    pub manifest: Manifest,
    /// True if `latest` leads to this version.
    pub is_latest: bool,
}

impl StoredVersion {
    /// Returns the path of the file as it was downloaded.
    #[must_use]
    pub fn original(&self) -> PathBuf {
        self.path.join("original").join(&self.manifest.filename)
    }

    /// Lists the files of the version that are missing or changed.
    #[must_use]
    pub fn damaged_files(&self) -> Vec<String> {
        let is_damaged = |artifact: &&Artifact| {
            let found = sha256_of(&self.path.join(&artifact.path));
            !found.is_ok_and(|found| found == artifact.sha256)
        };
        let damaged = self.manifest.artifacts.iter().filter(is_damaged);
        damaged.map(|artifact| artifact.path.clone()).collect()
    }
}

/// A version whose record cannot be read, from [`Library::damaged`].
#[derive(Clone, Debug)]
pub struct DamagedVersion {
    /// The name of its directory.
    pub name: String,
    /// The fault of its record.
    pub why: String,
}

impl Library {
    /// Creates a library at a path; the directory need not exist yet.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Returns the directory of the library.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Tells whether the directory is a library: a pull worked there, or a version is stored.
    #[must_use]
    pub fn is_present(&self) -> bool {
        self.root.join(WORKPLACE).is_dir() || self.ids().is_ok_and(|ids| !ids.is_empty())
    }

    fn directory(&self, id: &OntologyId) -> PathBuf {
        self.root.join(id.as_str())
    }

    /// Lists the ontologies that have a version.
    ///
    /// # Errors
    /// [`LibraryError`] if the directory cannot be read.
    pub fn ids(&self) -> Result<Vec<OntologyId>, LibraryError> {
        let mut ids = Vec::new();
        for name in names(&self.root)? {
            if let Ok(id) = OntologyId::parse(&name)
                && id.as_str() == name
                && self.root.join(&name).is_dir()
                && !self.version_names(&id)?.is_empty()
            {
                ids.push(id);
            }
        }
        Ok(ids)
    }

    fn version_names(&self, id: &OntologyId) -> Result<Vec<String>, LibraryError> {
        let directory = self.directory(id);
        let is_version = |name: &String| {
            !name.starts_with('.')
                && name != LATEST
                && directory.join(name).join(MANIFEST).is_file()
        };
        Ok(names(&directory)?.into_iter().filter(is_version).collect())
    }

    /// Lists the versions of an ontology, the last download first. Versions with unreadable records
    /// are left out: [`Library::damaged`] lists them.
    ///
    /// # Errors
    /// [`LibraryError`] if a directory cannot be read.
    pub fn versions(&self, id: &OntologyId) -> Result<Vec<StoredVersion>, LibraryError> {
        Ok(self.read_versions(id)?.0)
    }

    /// Lists the versions of an ontology whose records cannot be read.
    ///
    /// # Errors
    /// [`LibraryError`] if a directory cannot be read.
    pub fn damaged(&self, id: &OntologyId) -> Result<Vec<DamagedVersion>, LibraryError> {
        Ok(self.read_versions(id)?.1)
    }

    fn read_versions(
        &self,
        id: &OntologyId,
    ) -> Result<(Vec<StoredVersion>, Vec<DamagedVersion>), LibraryError> {
        let latest = self.latest_name(id);
        let (mut versions, mut damaged) = (Vec::new(), Vec::new());
        for name in self.version_names(id)? {
            let path = self.directory(id).join(&name);
            match read_manifest(&path.join(MANIFEST)) {
                Ok(manifest) => versions.push(StoredVersion {
                    manifest,
                    is_latest: latest.as_ref() == Some(&name),
                    name,
                    path,
                }),
                Err(error) => damaged.push(DamagedVersion {
                    name,
                    why: error.to_string(),
                }),
            }
        }
        versions.sort_by(|a, b| {
            let key = |version: &StoredVersion| {
                (version.manifest.downloaded_at.clone(), version.name.clone())
            };
            key(b).cmp(&key(a))
        });
        Ok((versions, damaged))
    }

    /// Returns the latest version of an ontology.
    ///
    /// # Errors
    /// [`LibraryError`] if its record cannot be read.
    pub fn latest(&self, id: &OntologyId) -> Result<Option<StoredVersion>, LibraryError> {
        let Some(name) = self.latest_name(id) else {
            return Ok(None);
        };
        let path = self.directory(id).join(&name);
        if !path.join(MANIFEST).is_file() {
            return Ok(None);
        }
        Ok(Some(StoredVersion {
            manifest: read_manifest(&path.join(MANIFEST))?,
            is_latest: true,
            name,
            path,
        }))
    }

    fn latest_name(&self, id: &OntologyId) -> Option<String> {
        let target = fs::read_link(self.directory(id).join(LATEST)).ok()?;
        let name = target.to_str()?.to_owned();
        // A link that leads elsewhere was not made by this program.
        (!name.contains('/')).then_some(name)
    }

    /// Finds a version by the name of its directory or by its declared version, or finds the
    /// latest.
    ///
    /// # Errors
    /// [`LibraryError::Missing`] if there is no such version; the message lists the stored
    /// versions.
    pub fn find(
        &self,
        id: &OntologyId,
        version: Option<&str>,
    ) -> Result<StoredVersion, LibraryError> {
        let missing = |text: String| LibraryError::Missing(text);
        let (mut versions, damaged) = self.read_versions(id)?;
        if let (true, Some(damaged)) = (versions.is_empty(), damaged.first()) {
            return Err(missing(damaged.why.clone()));
        }
        if versions.is_empty() {
            return Err(missing(format!(
                "{id} is not in the library at {}; get it with: ontofetch pull {id}",
                self.root.display()
            )));
        }
        let wanted = |stored: &StoredVersion| match version {
            None | Some(LATEST) => stored.is_latest,
            Some(version) => stored.name == version || stored.manifest.version == version,
        };
        if let Some(index) = versions.iter().position(wanted) {
            return Ok(versions.swap_remove(index));
        }
        let all: Vec<&str> = versions
            .iter()
            .map(|version| version.name.as_str())
            .collect();
        Err(missing(format!(
            "{id} has no version '{}'; there are {}",
            version.unwrap_or(LATEST),
            all.join(", ")
        )))
    }

    /// Begins a new version.
    ///
    /// # Errors
    /// [`LibraryError`] if its directory cannot be created.
    pub fn stage(&self, id: &OntologyId) -> Result<StagedVersion, LibraryError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let directory = self.directory(id);
        refuse_link(&directory)?;
        fs::create_dir_all(&directory).map_err(failed(&directory, "written"))?;
        loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("{UNFINISHED}{}-{number}", std::process::id());
            // A name that is taken, perhaps by a link, is not written to.
            if let Some(staged) = StagedVersion::make(directory.join(name), id)? {
                return Ok(staged);
            }
        }
    }

    /// Removes the files of killed processes: only names of this program's own pattern, and no
    /// target of a link. Call only while no other process pulls into the library.
    ///
    /// # Errors
    /// [`LibraryError`] if a directory cannot be read.
    pub fn remove_unfinished(&self) -> Result<(), LibraryError> {
        for id in names(&self.root)? {
            let directory = self.root.join(&id);
            let is_ours = OntologyId::parse(&id).is_ok_and(|parsed| parsed.as_str() == id);
            let is_directory = fs::symlink_metadata(&directory).is_ok_and(|found| found.is_dir());
            if !is_ours || !is_directory {
                continue;
            }
            for name in names(&directory)?.iter().filter(|name| is_unfinished(name)) {
                let path = directory.join(name);
                // A leftover that cannot be removed does no harm.
                let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
            }
            // An ontology without any version has no directory.
            let _ = fs::remove_dir(&directory);
        }
        Ok(())
    }
}

/// Returns true if this program gives the name to incomplete directories: `PID-NUMBER`,
/// `latest-PID`, `damaged-PID` or `prune-PID-VERSION` after [`UNFINISHED`].
fn is_unfinished(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let parts = name
        .strip_prefix(UNFINISHED)
        .and_then(|rest| rest.split_once('-'));
    match parts {
        Some(("latest" | "damaged", process)) => is_number(process),
        Some(("prune", rest)) => rest
            .split_once('-')
            .is_some_and(|(process, version)| is_number(process) && !version.is_empty()),
        Some((process, number)) => is_number(process) && is_number(number),
        None => false,
    }
}

/// Refuses a link in place of a directory of the library: versions would be written to, or removed
/// from, the target of the link.
fn refuse_link(directory: &Path) -> Result<(), LibraryError> {
    if fs::symlink_metadata(directory).is_ok_and(|found| found.is_symlink()) {
        let why = "it is a symbolic link, which is not followed; put a directory in its place";
        return Err(failed(directory, "written")(io::Error::other(why)));
    }
    Ok(())
}

/// Writes renames to the disk, if the file system can do so.
fn sync_directory(directory: &Path) {
    let _ = File::open(directory).and_then(|directory| directory.sync_all());
}

/// Lists the names in a directory, sorted; empty if there is no such directory.
fn names(directory: &Path) -> Result<Vec<String>, LibraryError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(directory, "read")(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed(directory, "read"))?;
        if let Ok(name) = entry.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn read_manifest(path: &Path) -> Result<Manifest, LibraryError> {
    let text = read_text(path, MAX_MANIFEST, "which no record is");
    let text = text.map_err(failed(path, "read"))?;
    Manifest::from_text(&text).map_err(|why| LibraryError::Manifest {
        path: path.display().to_string(),
        why,
    })
}
