//! Counting the processes of a machine that share a store, without the store: each holds a lock on
//! a file of its own.
//!
//! When the store does not answer, that is how many there are to share the limits with.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// This process among those that share a store.
pub(crate) struct Peers {
    directory: PathBuf,
    own: PathBuf,
    _held: File,
}

impl Peers {
    /// Joins those that share the store at `path`. `None` where that cannot be written.
    pub(crate) fn join(path: &Path) -> Option<Self> {
        let directory = path.with_extension("peers");
        crate::private::make_directory(&directory).ok()?;
        let own = directory.join(format!(
            "{}-{:x}",
            std::process::id(),
            crate::process::first_name()
        ));
        // Between its creation and its lock another process may take the file for one that a killed
        // process left.
        (0..5).find_map(|_| {
            crate::private::make_file(&own).ok()?;
            let held = File::options().write(true).open(&own).ok()?;
            flock(&held, FlockOperation::NonBlockingLockExclusive).ok()?;
            let is_there = std::fs::metadata(&own).ok()?.ino() == held.metadata().ok()?.ino();
            is_there.then(|| Self {
                directory: directory.clone(),
                own: own.clone(),
                _held: held,
            })
        })
    }

    /// Counts the processes that live, this one included. What a killed one left is removed.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.alive().count())
            .unwrap_or(u32::MAX)
            .max(1)
    }

    /// Counts those of them whose names come before this one's.
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

impl Drop for Peers {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.own);
    }
}

/// Tells whether a process holds the lock of its file; removes the file of one that is gone.
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
    fn those_that_live_are_counted_and_what_others_left_is_removed() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("state.sqlite");
        let first = Peers::join(&path).expect("it joins");
        assert_eq!(first.count(), 1);
        let second = Peers::join(&path).expect("it joins");
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
