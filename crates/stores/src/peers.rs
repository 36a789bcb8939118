//! The count of the processes of a machine that share a store, without the store itself: each
//! process locks its own file.
//!
//! If the store does not respond, the limits are divided by that count.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// This process among those that share a store.
pub(crate) struct StorePeers {
    directory: PathBuf,
    own: PathBuf,
    _locked: File,
}

impl StorePeers {
    /// Joins the processes that share the store at `path`. Returns `None` if the directory cannot
    /// be written.
    pub(crate) fn join(path: &Path) -> Option<Self> {
        let directory = path.with_extension("peers");
        crate::private::make_directory(&directory).ok()?;
        let own = directory.join(format!(
            "{}-{:x}",
            std::process::id(),
            crate::process::first_name()
        ));
        // Between creation and lock, another process may remove the file as a leftover of a killed
        // process.
        (0..5).find_map(|_| {
            crate::private::make_file(&own).ok()?;
            let locked = File::options().write(true).open(&own).ok()?;
            flock(&locked, FlockOperation::NonBlockingLockExclusive).ok()?;
            let is_there = std::fs::metadata(&own).ok()?.ino() == locked.metadata().ok()?.ino();
            is_there.then(|| Self {
                directory: directory.clone(),
                own: own.clone(),
                _locked: locked,
            })
        })
    }

    /// Returns the number of running processes, this one included. Removes the files of killed
    /// processes.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.alive().count())
            .unwrap_or(u32::MAX)
            .max(1)
    }

    /// Returns the number of running processes whose file names come before this one's.
    pub(crate) fn rank(&self) -> u32 {
        u32::try_from(self.alive().filter(|path| *path < self.own).count()).unwrap_or(0)
    }

    fn alive(&self) -> impl Iterator<Item = PathBuf> {
        let entries = std::fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path());
        entries.filter(|path| *path == self.own || is_held(path))
    }
}

impl Drop for StorePeers {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.own);
    }
}

/// Returns whether a process holds the lock of its file. Removes the file of a process that has
/// ended.
fn is_held(path: &Path) -> bool {
    let Ok(file) = File::open(path) else {
        return false;
    };
    if flock(&file, FlockOperation::NonBlockingLockShared).is_err() {
        return true;
    }
    let _ = std::fs::remove_file(path);
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_processes_are_counted_and_files_of_killed_ones_removed() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("state.sqlite");
        let first = StorePeers::join(&path).expect("it joins");
        assert_eq!(first.count(), 1);
        let second = StorePeers::join(&path).expect("it joins");
        std::fs::write(directory.path().join("state.peers/4711-1"), "")
            .expect("what a killed process left");
        assert_eq!((first.count(), second.count()), (2, 2));
        assert_eq!(first.rank() + second.rank(), 1);
        drop(second);
        assert_eq!(first.count(), 1);
        assert_eq!(
            std::fs::read_dir(directory.path().join("state.peers"))
                .expect("a directory")
                .count(),
            1
        );
    }
}
