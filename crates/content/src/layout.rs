//! Where files go below the out directory.

use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use url::Url;

use crate::digest::Fingerprint;
use crate::names::file_stem;
use crate::pursuit::Kind;
use crate::work::Work;

/// How files are laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// `pdf/YEAR__TITLE__ID.pdf`
    #[default]
    ByKind,
    /// `sha256/ab/abcdef….pdf`: the same bytes are one file.
    ContentAddressed,
}

/// Returns the path of a file below the out directory.
#[must_use]
pub fn path_of(layout: Layout, work: &Work, kind: Kind, extension: &str, sha256: &str) -> PathBuf {
    match layout {
        Layout::ByKind => Path::new(kind.as_str()).join(format!("{}.{extension}", file_stem(work))),
        Layout::ContentAddressed => Path::new("sha256").join(sha256.get(..2).unwrap_or("00")).join(format!("{sha256}.{extension}")),
    }
}

/// Returns the ending that a URL suggests, if it is a plain one.
#[must_use]
pub fn extension_of(url: &Url) -> Option<String> {
    let name = url.path_segments()?.next_back()?;
    let (_, ending) = name.rsplit_once('.')?;
    let plain = (1..=8).contains(&ending.len()) && ending.bytes().all(|byte| byte.is_ascii_alphanumeric());
    plain.then(|| ending.to_ascii_lowercase())
}

/// The directories that this run knows to be there.
#[derive(Default)]
pub(crate) struct Shelves(Mutex<HashSet<PathBuf>>);

impl Shelves {
    /// Makes a directory, once.
    pub(crate) fn make(&self, directory: &Path) -> io::Result<()> {
        if self.0.lock().contains(directory) {
            return Ok(());
        }
        self.make_again(directory)
    }

    /// Makes a directory that may be gone.
    pub(crate) fn make_again(&self, directory: &Path) -> io::Result<()> {
        std::fs::create_dir_all(directory)?;
        self.0.lock().insert(directory.to_owned());
        Ok(())
    }
}

/// Returns the names of the files in a directory, as far as it can be read.
pub(crate) fn left_in(directory: &Path) -> HashSet<OsString> {
    std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.file_name()).collect()
}

/// The directory of what is not finished, and of the lock.
#[must_use]
pub fn working_directory(out: &Path) -> PathBuf {
    out.join(".docstokg")
}

/// Where an unfinished file of an item lies: its number and the fingerprint of its URL say which it is.
#[must_use]
pub(crate) fn staging(out: &Path, item: i64, url: Fingerprint) -> PathBuf {
    working_directory(out).join(format!("{item}-{url:.16}"))
}
