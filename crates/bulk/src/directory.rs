//! The out directory: one run at a time, and what a killed one left is recovered.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use docstokg_stores::private;

use crate::digest::sha256_of;
use crate::queue::{CommitMode, QueueError, Respelling, WorkQueue};
use crate::scheduler::RunEnd;
use crate::staging::{
    StagingContents, create_below, is_link, link_below, shards, spread_shards, working_directory,
};

/// The name of the queue's file.
const QUEUE_FILE: &str = "manifest.sqlite3";

/// Why a directory cannot be worked on.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// It cannot be made or written.
    #[error("{path} cannot be written")]
    Unwritable {
        /// The directory or file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// Another run works on it.
    #[error("another run{by} works on {path}; wait for it, or choose another --out")]
    Busy {
        /// The directory.
        path: String,
        /// Which process, where that is known.
        by: String,
    },
    /// A directory below it leads elsewhere.
    #[error(
        "{path} is a symbolic link; files are written and removed there, so it has to be a directory of its own: remove the link, or name what it leads to as the output"
    )]
    Link {
        /// The link.
        path: String,
    },
    /// Its queue cannot be used.
    #[error(transparent)]
    Queue(#[from] QueueError),
}

/// What becomes of unfinished files when a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnfinishedFiles {
    /// The next run goes on with them.
    Keep,
    /// No item is left that needs them.
    Remove,
}

impl UnfinishedFiles {
    /// Returns what becomes of them after a run that ended in this way.
    #[must_use]
    pub fn after(ended: &RunEnd) -> Self {
        if *ended == RunEnd::Complete {
            Self::Remove
        } else {
            Self::Keep
        }
    }
}

/// An out directory, locked as long as this lives.
pub struct Directory {
    /// Where it is.
    pub path: PathBuf,
    /// Its queue.
    pub queue: WorkQueue,
    lock: PathBuf,
    _held: File,
}

impl Directory {
    /// Locks a directory, creating it where it is missing. `reasons` are the words that the queue
    /// of an earlier version may spell differently. The directory may be a symbolic link; those
    /// below it, where the run writes and removes files, may not.
    ///
    /// # Errors
    /// It cannot be written, another run works on it, or a directory below it is a link.
    pub fn open(
        path: &Path,
        mode: CommitMode,
        reasons: &[Respelling],
    ) -> Result<Self, DirectoryError> {
        let working = working_directory(path);
        let own = [working.clone(), working.join("lock")];
        refuse_links(own.into_iter().chain(shards(path)))?;
        let unwritable = |source| DirectoryError::Unwritable {
            path: path.display().to_string(),
            source,
        };
        // The user's directory follows the umask; what is unfinished is for its owner alone.
        fs::create_dir_all(path).map_err(unwritable)?;
        private::make_directory(&working).map_err(unwritable)?;
        spread_shards(&working);
        let lock = working.join("lock");
        let held = take_lock(path, &lock)?;
        let queue = WorkQueue::open(&path.join(QUEUE_FILE), mode, reasons)?;
        Ok(Self {
            path: path.to_owned(),
            queue,
            lock,
            _held: held,
        })
    }

    /// Locks a directory that is the program's own, as [`Directory::open`] does. It and its queue
    /// are created for their owner alone, whatever the umask; its missing parents follow the umask,
    /// and what exists is not changed.
    ///
    /// # Errors
    /// It is a link or cannot be written, or another run works on it.
    pub fn open_private(
        path: &Path,
        mode: CommitMode,
        reasons: &[Respelling],
    ) -> Result<Self, DirectoryError> {
        let unwritable = |source| DirectoryError::Unwritable {
            path: path.display().to_string(),
            source,
        };
        if is_link(path) {
            return Err(DirectoryError::Link {
                path: path.display().to_string(),
            });
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(unwritable)?;
        }
        private::make_directory(path).map_err(unwritable)?;
        private::make_file(&path.join(QUEUE_FILE)).map_err(unwritable)?;
        Self::open(path, mode, reasons)
    }

    /// Copies the queue of an earlier run into another directory, so that a dry run knows what is
    /// there.
    ///
    /// # Errors
    /// The earlier run cannot be read, or the copy cannot be written.
    pub fn copy_queue(from: &Path, to: &Path) -> Result<(), DirectoryError> {
        fs::create_dir_all(to).map_err(|source| DirectoryError::Unwritable {
            path: to.display().to_string(),
            source,
        })?;
        Ok(WorkQueue::copy(
            &from.join(QUEUE_FILE),
            &to.join(QUEUE_FILE),
        )?)
    }

    /// Tells whether a run has worked here before.
    #[must_use]
    pub fn was_used(path: &Path) -> bool {
        path.join(QUEUE_FILE).exists()
    }

    /// Reads a setting that an earlier run wrote, without locking the directory: a run may be active
    /// there. `None` if there is none.
    #[must_use]
    pub fn read_setting(path: &Path, name: &str) -> Option<String> {
        WorkQueue::read_setting(&path.join(QUEUE_FILE), name)
    }

    /// Recovers what a killed run left: files that were recorded get their names.
    ///
    /// # Errors
    /// The directory cannot be read or written.
    pub async fn recover(&self) -> Result<(), DirectoryError> {
        let working = working_directory(&self.path);
        let unwritable = |source| DirectoryError::Unwritable {
            path: working.display().to_string(),
            source,
        };
        for file in StagingContents::in_directory(&self.path).files {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            let Some(item) = name
                .split('-')
                .next()
                .and_then(|item| item.parse::<i64>().ok())
            else {
                continue;
            };
            if name.contains(".part") {
                // Unfinished: the run goes on with it.
                continue;
            }
            // Without a record it was not verified yet, and the run goes on with it, too.
            for recorded in &self.queue.files_of(item).await? {
                let place = self.path.join(&recorded.path);
                let fits = fs::metadata(&file).is_ok_and(|meta| meta.len() == recorded.bytes)
                    && sha256_of(&file).is_ok_and(|found| found == recorded.sha256);
                if fits && !place.exists() {
                    if let Some(parent) = place.parent() {
                        refuse_links(link_below(&self.path, parent))?;
                        create_below(&self.path, parent).map_err(unwritable)?;
                    }
                    fs::rename(&file, &place).map_err(unwritable)?;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Removes what a run that has ended leaves behind.
    pub fn clean_up(&self, unfinished_files: UnfinishedFiles) {
        let working = working_directory(&self.path);
        let unfinished = StagingContents::in_directory(&self.path);
        if unfinished_files == UnfinishedFiles::Remove {
            for file in unfinished.files.iter().filter(|file| **file != self.lock) {
                let _ = fs::remove_file(file);
            }
        }
        for shard in unfinished.shards {
            // Stays if something to go on with is in it.
            let _ = fs::remove_dir(shard);
        }
        // Removed while it is held: a process that waits for it notices that it is another file by
        // then.
        let _ = fs::remove_file(&self.lock);
        // As the shards.
        let _ = fs::remove_dir(&working);
    }
}

/// Refuses symbolic links where directories and files of a run would be.
///
/// # Errors
/// One of the paths is a link.
pub fn refuse_links(paths: impl IntoIterator<Item = PathBuf>) -> Result<(), DirectoryError> {
    match paths.into_iter().find(|path| is_link(path)) {
        Some(link) => Err(DirectoryError::Link {
            path: link.display().to_string(),
        }),
        None => Ok(()),
    }
}

fn take_lock(path: &Path, lock: &Path) -> Result<File, DirectoryError> {
    let unwritable = |source| DirectoryError::Unwritable {
        path: lock.display().to_string(),
        source,
    };
    loop {
        if let Some(working) = lock.parent() {
            private::make_directory(working).map_err(unwritable)?;
        }
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(lock)
            .map_err(unwritable)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut text = String::new();
            let _ = file.read_to_string(&mut text);
            let by = text
                .trim()
                .parse::<u32>()
                .map(|pid| format!(" (process {pid})"))
                .unwrap_or_default();
            return Err(DirectoryError::Busy {
                path: path.display().to_string(),
                by,
            });
        }
        // The one before may have removed it between opening and locking.
        let same = fs::metadata(lock).is_ok_and(|now| {
            use std::os::unix::fs::MetadataExt;
            file.metadata()
                .is_ok_and(|held| held.ino() == now.ino() && held.dev() == now.dev())
        });
        if same {
            file.set_len(0)
                .and_then(|()| file.write_all(std::process::id().to_string().as_bytes()))
                .map_err(unwritable)?;
            return Ok(file);
        }
    }
}

/// What a check of all files found.
#[derive(Debug)]
pub struct FileCheckReport {
    /// How many files were checked.
    pub checked: u64,
    /// The files whose items are queued anew, and what is wrong with each.
    pub wrong: Vec<(String, &'static str)>,
    /// The files that could not be read and stay as they are.
    pub unreadable: Vec<String>,
}

/// Checks every file of a directory against its manifest, and queues the items of those anew that
/// have changed or are missing.
///
/// # Errors
/// The queue cannot be read or written, or files lie behind a symbolic link.
pub async fn verify(directory: &Directory) -> Result<FileCheckReport, DirectoryError> {
    let mut verified = FileCheckReport {
        checked: 0,
        wrong: Vec::new(),
        unreadable: Vec::new(),
    };
    for file in directory.queue.files().await? {
        let place = directory.path.join(&file.path);
        let parent = place.parent().unwrap_or(&directory.path);
        refuse_links(link_below(&directory.path, parent))?;
        let flaw = match fs::metadata(&place) {
            Err(_) => Some("it is missing"),
            Ok(meta) if meta.len() != file.bytes => Some("it has another length"),
            Ok(_) => match sha256_of(&place) {
                Ok(found) if found == file.sha256 => None,
                Ok(_) => Some("it has another checksum"),
                Err(_) => {
                    // What cannot be read now may be whole.
                    verified.unreadable.push(file.path);
                    continue;
                }
            },
        };
        verified.checked += 1;
        if let Some(flaw) = flaw {
            directory.queue.disown(file.item, file.path.clone()).await?;
            let _ = fs::remove_file(&place);
            verified.wrong.push((file.path, flaw));
        }
    }
    Ok(verified)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use super::*;

    /// Whatever a link leads to is not deleted, and neither is a file that is not ours.
    #[test]
    fn a_link_is_refused_and_foreign_files_stay() {
        let (out, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let precious = elsewhere.path().join("1-0011223344556677.part");
        fs::write(&precious, "x").unwrap();
        let working = working_directory(out.path());
        std::os::unix::fs::symlink(elsewhere.path(), &working).unwrap();
        let error = Directory::open(out.path(), CommitMode::Inline, &[])
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.contains("is a symbolic link") && error.contains("remove the link"),
            "{error}"
        );
        fs::remove_file(&working).unwrap();
        fs::create_dir_all(&working).unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), working.join("3")).unwrap();
        assert!(matches!(
            Directory::open(out.path(), CommitMode::Inline, &[]),
            Err(DirectoryError::Link { .. })
        ));
        fs::remove_file(working.join("3")).unwrap();
        // The directory itself is the user's choice.
        let named = elsewhere.path().join("named");
        std::os::unix::fs::symlink(out.path(), &named).unwrap();
        drop(Directory::open(&named, CommitMode::Inline, &[]).unwrap());
        let foreign = working.join("notes.txt");
        fs::write(&foreign, "x").unwrap();
        fs::write(working.join("7-0011223344556677.part"), "x").unwrap();
        let directory = Directory::open(out.path(), CommitMode::Inline, &[]).unwrap();
        directory.clean_up(UnfinishedFiles::Remove);
        assert!(precious.exists() && foreign.exists());
        assert!(!working.join("7-0011223344556677.part").exists());
    }
}
