//! Unfinished files below the output directory: their paths, and the check which files this program
//! created.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::DirEntry;
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use crate::digest::Fingerprint;

/// The directories below an output directory that exist as far as this run knows, so that each is
/// created only once.
pub struct KnownDirectories {
    out: PathBuf,
    known: Mutex<HashSet<PathBuf>>,
}

impl KnownDirectories {
    /// Creates an empty set of known directories below an output directory.
    #[must_use]
    pub fn below(out: &Path) -> Self {
        Self {
            out: out.to_owned(),
            known: Mutex::default(),
        }
    }

    /// Creates a directory, unless this run has created it already.
    ///
    /// # Errors
    /// Returns an [`io::Error`] if the directory cannot be created, or is behind a symbolic link.
    pub fn create(&self, directory: &Path) -> io::Result<()> {
        if self.known.lock().contains(directory) {
            return Ok(());
        }
        self.create_again(directory)
    }

    /// Creates a directory even if this run has created it already, because it may have been
    /// removed since.
    ///
    /// # Errors
    /// Returns an [`io::Error`] if the directory cannot be created, or is behind a symbolic link.
    pub fn create_again(&self, directory: &Path) -> io::Result<()> {
        create_below(&self.out, directory)?;
        self.known.lock().insert(directory.to_owned());
        Ok(())
    }
}

/// Creates a directory below another, with all missing parents in between.
pub(crate) fn create_below(out: &Path, directory: &Path) -> io::Result<()> {
    refuse_link_below(out, directory)?;
    std::fs::create_dir_all(directory)
}

/// Returns an error if a path has a symbolic link below the output directory. The output directory
/// itself may be a link or behind a link, because the user named it.
fn refuse_link_below(out: &Path, path: &Path) -> io::Result<()> {
    match link_below(out, path) {
        None => Ok(()),
        Some(link) => Err(io::Error::other(format!(
            "{} is a symbolic link, which is not followed; remove the link, or name what it leads \
             to as the output",
            link.display()
        ))),
    }
}

/// Returns the first symbolic link between the output directory and a path, including the path.
pub(crate) fn link_below(out: &Path, path: &Path) -> Option<PathBuf> {
    let mut place = out.to_owned();
    let mut names = path.strip_prefix(out).ok()?.components();
    names.find_map(|name| {
        place.push(name);
        is_link(&place).then(|| place.clone())
    })
}

/// Tells whether a path is a symbolic link.
pub(crate) fn is_link(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
}

/// Returns the directory below `out` that has the unfinished files and the lock.
#[must_use]
pub fn working_directory(out: &Path) -> PathBuf {
    out.join(".docstokg")
}

/// The number of staging shards. Unfinished files are spread over several directories, because
/// threads that create files in a single directory block each other.
const STAGING_SHARD_COUNT: i64 = 8;

/// Returns the path of an unfinished file, made of the number of its item and the [`Fingerprint`]
/// of its URL.
#[must_use]
pub fn staging_file(out: &Path, item: i64, url: Fingerprint) -> PathBuf {
    working_directory(out)
        .join(item.rem_euclid(STAGING_SHARD_COUNT).to_string())
        .join(format!("{item}-{url:.16}"))
}

/// Sets an attribute by which ext4 places the shards far apart on disk (`chattr +T`). Threads that
/// create files in different shards then search different tables for a free inode, and do not have
/// to skip inodes of recently deleted files. On other file systems, this has no effect.
pub(crate) fn spread_shards(working: &Path) {
    #[cfg(target_os = "linux")]
    if let Ok(directory) = std::fs::File::open(working)
        && let Ok(flags) = rustix::fs::ioctl_getflags(&directory)
    {
        let _ = rustix::fs::ioctl_setflags(&directory, flags | rustix::fs::IFlags::TOPDIR);
    }
}

/// Returns the shards: the directories below the working directory that spread unfinished files.
pub(crate) fn shards(out: &Path) -> impl Iterator<Item = PathBuf> {
    let working = working_directory(out);
    (0..STAGING_SHARD_COUNT).map(move |number| working.join(number.to_string()))
}

fn is_shard(directory: &Path) -> bool {
    let name = directory.file_name().and_then(|name| name.to_str());
    name.and_then(|name| name.parse::<i64>().ok())
        .is_some_and(|number| (0..STAGING_SHARD_COUNT).contains(&number))
}

/// Returns the path at which a job may store the response headers of the complete file `staged`.
#[must_use]
pub fn head_file(staged: &Path) -> PathBuf {
    let mut name = staged.as_os_str().to_owned();
    name.push(".head");
    name.into()
}

/// Returns whether this program created a file, judged by its name: `ITEM-FINGERPRINT` with the
/// extensions of partial files and response headers, or the lock.
fn is_ours(file: &Path) -> bool {
    let Some(name) = file.file_name().and_then(|name| name.to_str()) else {
        return false;
    };
    let stem = ["", ".head", ".part", ".part.note"]
        .iter()
        .rev()
        .find_map(|ending| name.strip_suffix(ending))
        .unwrap_or(name);
    let Some((item, url)) = stem.split_once('-') else {
        return name == "lock";
    };
    let is_number = !item.is_empty() && item.bytes().all(|byte| byte.is_ascii_digit());
    is_number && url.len() == 16 && url.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The content of the working directory.
#[derive(Default)]
pub struct StagingContents {
    /// The files of this program, inside and outside of shards, including the lock.
    pub files: Vec<PathBuf>,
    /// The paths of the shards.
    pub shards: Vec<PathBuf>,
}

impl StagingContents {
    /// Lists the content of the working directory. Directories that cannot be read are skipped.
    #[must_use]
    pub fn in_directory(out: &Path) -> Self {
        let entries =
            |directory: &Path| std::fs::read_dir(directory).into_iter().flatten().flatten();
        let (directories, mut files): (Vec<_>, Vec<_>) = entries(&working_directory(out))
            .partition(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let shards: Vec<PathBuf> = directories
            .iter()
            .map(DirEntry::path)
            .filter(|shard| is_shard(shard))
            .collect();
        files.extend(shards.iter().flat_map(|shard| entries(shard)));
        // A file with another name does not belong to this program.
        Self {
            files: files
                .iter()
                .map(DirEntry::path)
                .filter(|file| is_ours(file))
                .collect(),
            shards,
        }
    }

    /// Returns the names of the files.
    #[must_use]
    pub fn names(&self) -> HashSet<OsString> {
        self.files
            .iter()
            .filter_map(|file| file.file_name().map(ToOwned::to_owned))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use super::*;

    #[test]
    fn unfinished_files_are_found_in_shards_and_beside_them() {
        let out = tempfile::tempdir().unwrap();
        let url = Fingerprint::of("https://a.org/x");
        let (one, other) = (
            staging_file(out.path(), 1, url),
            staging_file(out.path(), STAGING_SHARD_COUNT + 2, url),
        );
        assert_ne!(one.parent(), other.parent());
        // Earlier versions had no shards.
        let beside = working_directory(out.path()).join("3-0011223344556677.part");
        for file in [&one, &other, &beside] {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "x").unwrap();
        }
        let unfinished = StagingContents::in_directory(out.path());
        let mut files = unfinished.files.clone();
        files.sort();
        let mut expected = [one.clone(), other.clone(), beside];
        expected.sort();
        assert_eq!(files, expected);
        assert_eq!(unfinished.shards.len(), 2);
        assert!(
            unfinished.names().contains(one.file_name().unwrap())
                && unfinished.names().contains(other.file_name().unwrap())
        );
        assert!(
            StagingContents::in_directory(Path::new("/nowhere"))
                .files
                .is_empty()
        );
    }
}
