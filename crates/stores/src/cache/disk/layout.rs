//! The files of a cache directory. All files are below `v1/`, so that versions of the program with
//! another format use another directory.
//!
//! ```text
//! v1/index.sqlite     rows: hashes, redacted URLs, metadata, small bodies, leases
//! v1/bodies/ab/ab…    larger bodies, under random names; they never change
//! v1/tmp/             bodies that are being written
//! v1/changes          counters that processes map (see marks.rs)
//! v1/lock             held while the index is opened or replaced
//! v1/damaged.sqlite   the last index that was moved aside
//! ```
//!
//! Bodies are not synced to the disk. If a process is killed, no data that the system has accepted
//! is lost. After a loss of power a body may be short or wrong. Its length and checksum show that,
//! and the response is requested again. A sync of every body would cost far more than these
//! requests. The index is consistent by its write-ahead log, and may lose its latest commits.

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

/// The longest wait for the lock file, which is held for milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(3);
/// The time between two attempts to lock the lock file.
const LOCK_INTERVAL: Duration = Duration::from_millis(5);

/// The random name of a body file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in super::super) struct BodyName(pub(super) [u8; 16]);

impl BodyName {
    /// Returns a name from the system's generator, because a forked child must not repeat the names
    /// of its parent.
    fn random() -> io::Result<Self> {
        let mut name = [0; 16];
        File::open("/dev/urandom")?.read_exact(&mut name)?;
        Ok(Self(name))
    }

    fn hex(self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }

    /// Parses the name of a file.
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
    /// The lock file. The system locks the file for a process; the mutex locks it for a thread.
    lock: Mutex<File>,
}

/// The lock of the directory, until the guard is dropped.
pub(super) struct DirectoryLock<'a>(MutexGuard<'a, File>);

impl Drop for DirectoryLock<'_> {
    fn drop(&mut self) {
        let _ = flock(&*self.0, FlockOperation::Unlock);
    }
}

/// Returns the name of the cache for messages.
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

/// Creates a directory if it is missing, and refuses a link in its place.
fn own_directory(root: &Path, path: &Path) -> Result<(), StoreError> {
    private::make_directory(path).map_err(|error| unusable(root, error.to_string()))?;
    if is_directory(path) {
        return Ok(());
    }
    let why = format!("{} is a link, or not a directory", path.display());
    Err(unusable(root, why))
}

/// Creates a file if it is missing, and opens it unless it is a link.
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
    /// Opens the directory, and creates the missing parts.
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
        // The user may link the cache to another disk, but links below the directory are refused.
        let root = fs::canonicalize(directory).map_err(failed)?.join("v1");
        own_directory(&root, &root)?;
        let lock = Mutex::new(own_file(&root, &root.join("lock"))?);
        Ok(Self { root, lock })
    }

    /// Creates the missing directories.
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

    /// Waits for the [`DirectoryLock`] of the directory.
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

    /// Returns the inode of the file at the path of the index.
    pub(super) fn index_inode(&self) -> Option<u64> {
        fs::symlink_metadata(self.index())
            .ok()
            .map(|found| found.ino())
    }

    /// Moves the index aside, and drops an earlier index that was moved aside. The caller holds the
    /// lock of the directory.
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
        // Without O_NONBLOCK, a pipe with this name would block the thread.
        options
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        options.open(self.body(body))
    }

    /// Removes a body. If that fails, the body is an orphan that is swept later.
    pub(super) fn remove_body(&self, body: BodyName) {
        let _ = fs::remove_file(self.body(body));
    }

    /// Creates a temporary file for a [`TemporaryBody`].
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

    /// Gives a complete [`TemporaryBody`] its final name.
    pub(super) fn keep(&self, mut body: TemporaryBody) -> io::Result<BodyName> {
        let path = self.body(body.name);
        if let Err(error) = fs::rename(&body.path, &path) {
            if error.kind() != io::ErrorKind::NotFound {
                return Err(error);
            }
            // This is the first body of its subdirectory.
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
    /// and then the temporary files of the same age.
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

/// Removes a file that may not exist.
pub(super) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// A body that is being written. Its file is removed when this is dropped.
pub(in super::super) struct TemporaryBody {
    name: BodyName,
    path: PathBuf,
    /// The file; `None` once it has its final name.
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
