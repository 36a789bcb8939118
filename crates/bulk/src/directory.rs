//! The output directory: a lock for one run at a time, and the recovery after a killed run.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use docstokg_stores::private;

use crate::digest::sha256_of;
use crate::queue::{CommitMode, QUEUE_FILE, QueueError, Respelling, WorkQueue};
use crate::scheduler::RunEnd;
use crate::staging::{
    StagingContents, create_below, is_link, link_below, shards, spread_shards, working_directory,
};

/// The error of a directory that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// The directory or file cannot be created or written.
    #[error("{path} cannot be written")]
    Unwritable {
        /// The directory or file.
        path: String,
        /// The error of the file system.
        source: io::Error,
    },
    /// Another run works on the directory.
    #[error("another run{by} works on {path}; wait for it, or choose another --out")]
    Busy {
        /// The directory.
        path: String,
        /// The other process, if known.
        by: String,
    },
    /// A directory below the output directory is a symbolic link.
    #[error(
        "{path} is a symbolic link; files are written and removed there, so it has to be a directory of its own: remove the link, or name what it leads to as the output"
    )]
    Link {
        /// The link.
        path: String,
    },
    /// The queue of the directory cannot be used.
    #[error(transparent)]
    Queue(#[from] QueueError),
}

/// The treatment of unfinished files when a run has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnfinishedFiles {
    /// The next run continues with the files.
    Keep,
    /// The files are removed, because no item needs them.
    Remove,
}

impl UnfinishedFiles {
    /// Returns the treatment for a run with this [`RunEnd`].
    #[must_use]
    pub fn after(ended: &RunEnd) -> Self {
        if *ended == RunEnd::Complete {
            Self::Remove
        } else {
            Self::Keep
        }
    }
}

/// An output directory, locked until this value is dropped.
pub struct Directory {
    /// The path of the directory.
    pub path: PathBuf,
    /// The [`WorkQueue`] of the directory.
    pub queue: WorkQueue,
    lock: PathBuf,
    _held: File,
}

impl Directory {
    /// Locks a directory, after creating it if missing. `reasons` are the words that the queue of
    /// an earlier version may spell differently. The directory itself may be a symbolic link.
    /// Directories below it, in which the run writes and removes files, may not.
    ///
    /// # Errors
    /// Returns a [`DirectoryError`] in these cases:
    ///
    /// - The directory cannot be written.
    /// - Another run works on the directory.
    /// - A directory below it is a symbolic link.
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
        // The user's directory follows the umask. Unfinished files are accessible to their owner
        // only.
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

    /// Locks a directory of the program itself, like [`Directory::open`]. The directory and its
    /// queue are created for their owner only, whatever the umask. Missing parent directories
    /// follow the umask, and existing files are not changed.
    ///
    /// # Errors
    /// Returns a [`DirectoryError`] if the directory is a link, cannot be written, or is in use by
    /// another run.
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

    /// Copies the queue of an earlier run into another directory, so that a dry run knows existing
    /// files.
    ///
    /// # Errors
    /// Returns a [`DirectoryError`] if the earlier queue cannot be read, or the copy cannot be
    /// written.
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

    /// Tells whether an earlier run used this directory.
    #[must_use]
    pub fn was_used(path: &Path) -> bool {
        path.join(QUEUE_FILE).exists()
    }

    /// Reads a setting that an earlier run wrote, without locking the directory: a run may be active
    /// there. `None` if the directory has no such setting.
    #[must_use]
    pub fn read_setting(path: &Path, name: &str) -> Option<String> {
        WorkQueue::read_setting(&path.join(QUEUE_FILE), name)
    }

    /// Finishes what a killed run left: recorded files are renamed to their final paths.
    ///
    /// # Errors
    /// Returns a [`DirectoryError`] if the directory cannot be read or written.
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
                // The file is unfinished, and the run continues with it.
                continue;
            }
            // A file without a record is not yet verified, so the run continues with it, too.
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

    /// Removes the working files of a finished run, see [`UnfinishedFiles`].
    pub fn clean_up(&self, unfinished_files: UnfinishedFiles) {
        let working = working_directory(&self.path);
        let unfinished = StagingContents::in_directory(&self.path);
        if unfinished_files == UnfinishedFiles::Remove {
            for file in unfinished.files.iter().filter(|file| **file != self.lock) {
                let _ = fs::remove_file(file);
            }
        }
        for shard in unfinished.shards {
            // The call fails for a shard that still contains files to continue with.
            let _ = fs::remove_dir(shard);
        }
        // Removed before the lock is released: a process that waits for it then notices that the
        // path is another file.
        let _ = fs::remove_file(&self.lock);
        // The call fails if a shard remains in the directory.
        let _ = fs::remove_dir(&working);
    }
}

/// Refuses symbolic links among the paths of directories and files of a run.
///
/// # Errors
/// Returns a [`DirectoryError`] if a path is a link.
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
        // The previous holder may have removed the file between our open and our lock.
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

/// The result of checking all files.
#[derive(Debug)]
pub struct FileCheckReport {
    /// The number of checked files.
    pub checked: u64,
    /// The files whose items are queued again, each with its flaw.
    pub wrong: Vec<(String, &'static str)>,
    /// The files that could not be read and stay unchanged.
    pub unreadable: Vec<String>,
}

/// Checks every file of a directory against its manifest. Items whose files are changed or missing
/// are queued again.
///
/// # Errors
/// Returns a [`DirectoryError`] if the queue cannot be read or written, or files are behind a
/// symbolic link.
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
                    // A file that cannot be read now may be intact.
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

    /// The target of a link is not deleted, and neither is a file of another program.
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
        // The output directory itself may be a link, because the user chose it.
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
