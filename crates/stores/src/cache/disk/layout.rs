//! The files of a cache directory. All lie below `v1/`, so that versions of the program with
//! another format use another directory.
//!
//! ```text
//! v1/index.sqlite     rows: hashes, redacted URLs, metadata, small bodies, leases
//! v1/bodies/ab/ab…    larger bodies, under random names; they never change
//! v1/tmp/             bodies that are being written
//! v1/changes          counters that processes map (see marks.rs)
//! v1/lock             held while the index is opened or replaced
//! v1/damaged.sqlite   the last index that was set aside
//! ```
//!
//! Bodies are not synced to the disk. A killed process loses nothing that the system has accepted;
//! after a loss of power a body may be short or wrong, which its length and checksum reveal: the
//! response is requested again, which is what a sync of every body would cost many times over. The
//! index is consistent by its write-ahead log, and may lose its latest commits.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{FlockOperation, flock};

use crate::error::StoreError;
use crate::private;
use crate::sqlite::network_of;

/// How long to wait for the lock file; it is held for milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(3);
/// How long to sleep between two attempts to lock it.
const LOCK_INTERVAL: Duration = Duration::from_millis(5);

/// The random name of a body file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in super::super) struct BodyName(pub(super) [u8; 16]);

impl BodyName {
    /// Draws a name from the system's generator: a forked child must not repeat its parent's.
    fn random() -> io::Result<Self> {
        let mut name = [0; 16];
        File::open("/dev/urandom")?.read_exact(&mut name)?;
        Ok(Self(name))
    }

    fn hex(self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }

    /// Reads a name back from a file's.
    pub(super) fn parse(hex: &str) -> Option<Self> {
        if hex.len() != 32 || !hex.is_ascii() {
            return None;
        }
        let mut name = [0; 16];
        for (index, byte) in name.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * index..2 * index + 2], 16).ok()?;
        }
        Some(Self(name))
    }
}

/// The paths of a cache directory.
pub(in super::super) struct CacheLayout {
    pub(super) root: PathBuf,
    /// The system locks the file for a process; the mutex, for a thread of it.
    lock: Mutex<File>,
}

/// The lock of the directory, held until this is dropped.
pub(super) struct DirectoryLock<'a>(MutexGuard<'a, File>);

impl Drop for DirectoryLock<'_> {
    fn drop(&mut self) {
        let _ = flock(&*self.0, FlockOperation::Unlock);
    }
}

/// Describes the cache for messages.
pub(super) fn name(root: &Path) -> String {
    format!("the cache {}", root.display())
}

pub(super) fn unusable(root: &Path, why: impl Into<String>) -> StoreError {
    StoreError::Unusable {
        store: name(root),
        why: why.into(),
        remedy: "make its directory writable, choose another, or go on without a cache".to_owned(),
    }
}

fn is_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

/// Makes a directory if it is missing, and refuses a link in its place.
fn own_directory(root: &Path, path: &Path) -> Result<(), StoreError> {
    private::make_directory(path).map_err(|error| unusable(root, error.to_string()))?;
    if is_directory(path) {
        return Ok(());
    }
    let why = format!("{} is a link, or not a directory", path.display());
    Err(unusable(root, why))
}

/// Makes a file if it is missing and opens it, unless it is a link.
fn own_file(root: &Path, path: &Path) -> Result<File, StoreError> {
    let open = || {
        private::make_file(path)?;
        let mut options = File::options();
        options.read(true).write(true);
        options.custom_flags(libc::O_NOFOLLOW).open(path)
    };
    open().map_err(|error| unusable(root, format!("{}: {error}", path.display())))
}

impl CacheLayout {
    /// Opens the directory, and makes what is missing.
    pub(super) fn open(directory: &Path) -> Result<Self, StoreError> {
        let failed = |error: io::Error| unusable(directory, error.to_string());
        private::make_directory(directory).map_err(failed)?;
        if let Some(system) = network_of(directory) {
            let why = format!(
                "it lies on a network file system ({system}), \
                 where SQLite's write-ahead log is not safe"
            );
            return Err(unusable(directory, why));
        }
        // The user may link the cache to another disk; below it, nothing is linked.
        let root = fs::canonicalize(directory).map_err(failed)?.join("v1");
        own_directory(&root, &root)?;
        let lock = Mutex::new(own_file(&root, &root.join("lock"))?);
        Ok(Self { root, lock })
    }

    /// Makes the directories that are missing.
    pub(super) fn make_directories(&self) -> Result<(), StoreError> {
        for path in [
            &self.root,
            &self.root.join("bodies"),
            &self.root.join("tmp"),
        ] {
            own_directory(&self.root, path)?;
        }
        Ok(())
    }

    pub(super) fn index(&self) -> PathBuf {
        self.root.join("index.sqlite")
    }

    /// Opens the file of the counters.
    pub(super) fn changes(&self) -> Result<File, StoreError> {
        own_file(&self.root, &self.root.join("changes"))
    }

    /// Waits for the lock of the directory.
    pub(super) fn lock(&self) -> Result<DirectoryLock<'_>, StoreError> {
        let (lock, mut waited) = (self.lock.lock(), Duration::ZERO);
        loop {
            match flock(&*lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(DirectoryLock(lock)),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::WOULDBLOCK) if waited < LOCK_TIMEOUT => {
                    #[expect(
                        clippy::disallowed_methods,
                        reason = "a thread of the store waits for another process, in real time"
                    )]
                    std::thread::sleep(LOCK_INTERVAL);
                    waited += LOCK_INTERVAL;
                }
                Err(error) => {
                    return Err(StoreError::Unavailable {
                        store: name(&self.root),
                        why: format!("its lock file cannot be locked: {error}"),
                    });
                }
            }
        }
    }

    /// Returns which file the path of the index leads to.
    pub(super) fn index_inode(&self) -> Option<u64> {
        fs::symlink_metadata(self.index())
            .ok()
            .map(|found| found.ino())
    }

    /// Moves the index away; the one before is dropped, so that they do not pile up. The caller
    /// holds the lock of the directory.
    pub(super) fn set_index_aside(&self) -> io::Result<()> {
        let index = self.index();
        let moved = fs::rename(&index, self.root.join("damaged.sqlite"));
        for part in ["-wal", "-shm", "-journal"] {
            let mut path = index.clone().into_os_string();
            path.push(part);
            remove_if_there(Path::new(&path))?;
        }
        match moved {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            moved => moved,
        }
    }

    fn body(&self, body: BodyName) -> PathBuf {
        let hex = body.hex();
        self.root.join("bodies").join(&hex[..2]).join(hex)
    }

    /// Opens a body for reading.
    pub(super) fn open_body(&self, body: BodyName) -> io::Result<File> {
        let mut options = File::options();
        // Without blocking: the name may lead to a pipe.
        options
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        options.open(self.body(body))
    }

    /// Removes a body. One that stays is an orphan, and swept later.
    pub(super) fn remove_body(&self, body: BodyName) {
        let _ = fs::remove_file(self.body(body));
    }

    /// Makes a temporary file for a body.
    pub(super) fn temporary(&self) -> io::Result<TemporaryBody> {
        let name = BodyName::random()?;
        let path = self.root.join("tmp").join(name.hex());
        private::make_file(&path)?;
        let mut options = File::options();
        options.write(true).custom_flags(libc::O_NOFOLLOW);
        let file = options.open(&path)?;
        Ok(TemporaryBody {
            name,
            path,
            file: Some(file),
            length: 0,
        })
    }

    /// Gives a complete body its final name.
    pub(super) fn keep(&self, mut body: TemporaryBody) -> io::Result<BodyName> {
        let path = self.body(body.name);
        if let Err(error) = fs::rename(&body.path, &path) {
            if error.kind() != io::ErrorKind::NotFound {
                return Err(error);
            }
            // The first body of its subdirectory.
            let directory = path.parent().unwrap_or(&self.root);
            private::make_directory(directory)?;
            if !is_directory(directory) {
                return Err(io::Error::other("a link lies where a directory belongs"));
            }
            fs::rename(&body.path, &path)?;
        }
        body.file = None;
        Ok(body.name)
    }

    /// Lists the body files last written before `seconds` of wall time, one subdirectory at a time,
    /// and then the temporary files as old.
    pub(super) fn files_before(
        &self,
        seconds: i64,
        mut each: impl FnMut(&Path, Option<BodyName>),
    ) -> io::Result<()> {
        let mut visit = |directory: &Path, is_body: bool| -> io::Result<()> {
            for found in fs::read_dir(directory)? {
                let found = found?;
                let Ok(meta) = found.metadata() else {
                    continue;
                };
                if !meta.is_dir() && meta.mtime() < seconds {
                    let name = found.file_name();
                    let body = name.to_str().and_then(BodyName::parse);
                    each(&found.path(), body.filter(|_| is_body));
                }
            }
            Ok(())
        };
        for shard in fs::read_dir(self.root.join("bodies"))? {
            let shard = shard?;
            if shard.file_type()?.is_dir() {
                visit(&shard.path(), true)?;
            }
        }
        visit(&self.root.join("tmp"), false)
    }
}

/// Removes a file that may not be there.
pub(super) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A body that is being written. Dropping it removes its file.
pub(in super::super) struct TemporaryBody {
    name: BodyName,
    path: PathBuf,
    /// `None` once the file has its final name.
    file: Option<File>,
    length: u64,
}

impl TemporaryBody {
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(file) = &mut self.file else {
            return Err(io::Error::other("the body is complete"));
        };
        file.write_all(bytes)?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }
}

impl Drop for TemporaryBody {
    fn drop(&mut self) {
        if self.file.is_some() {
            let _ = fs::remove_file(&self.path);
        }
    }
}
