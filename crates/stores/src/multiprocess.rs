//! State in a mapped file, shared by all processes of a machine, for very many requests.
//!
//! Each site has its own robust lock in the file. If a process is killed while it holds the lock,
//! the record stays as before its operation, and the next process continues. `crate::record_copy`
//! describes the reads and writes of an operation. `sys` contains all unsafe code.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use docstokg_policy::time::{BootInstant, Clock};
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};

use crate::error::StoreError;
use crate::handle::{HeartbeatObserver, SiteHandle, SiteKey, StateStore, StoreReply};
use crate::peers::StorePeers;
use crate::record_copy::Replica;
use crate::{private, process};

mod arena;
mod record;
mod site;
mod sys;

use arena::{ARENA_LAYOUT_VERSION, Arena, ArenaError};
use record::MappedRecord;
use site::MultiprocessSite;
pub use sys::PerProcess;
pub(crate) use sys::Segment;
use sys::{SharedMutexGuard, truncation};

/// The name of the file in a state directory. Another layout has another file, so that two versions
/// of a program can run side by side, each with its own limits.
pub const FILE_NAME: &str = "limits-4.shm";

/// Installs signal handlers for the whole process, so only programs call this function. The
/// handlers convert two signals into errors:
///
/// - SIGBUS, if a mapped file is truncated while it is in use: the store reports the damage.
/// - SIGXFSZ, if a file exceeds the limit of the process: the write fails.
///
/// # Errors
/// Returns an error if a handler cannot be installed.
pub fn survive_file_signals() -> std::io::Result<()> {
    truncation::survive()
}

/// A store in a mapped file.
pub struct MultiprocessStore {
    arena: Arc<Arena>,
    clock: Arc<dyn Clock>,
    peers: Mutex<Option<StorePeers>>,
}

impl MultiprocessStore {
    /// Opens the file at `path`, or creates it.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the file cannot be written, is damaged, or was written by another
    /// version.
    pub fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        Self::open_after_boot(path, clock, &process::boot_id())
    }

    /// Opens the file as [`MultiprocessStore::open`] does, in the boot with this id.
    ///
    /// # Errors
    /// Returns [`StoreError`] in the same cases as [`MultiprocessStore::open`].
    pub fn open_after_boot(
        path: &Path,
        clock: Arc<dyn Clock>,
        boot_id: &str,
    ) -> Result<Self, StoreError> {
        let arena = open(path, &*clock, boot_id).map_err(|error| explain(path, error))?;
        Ok(Self {
            arena: Arc::new(arena),
            clock,
            peers: Mutex::new(None),
        })
    }
}

/// Opens or creates the file, one process at a time. A new file is renamed to its path when it is
/// complete.
fn open(path: &Path, clock: &dyn Clock, boot_id: &str) -> Result<Arena, ArenaError> {
    if let Some(directory) = path
        .parent()
        .filter(|directory| !directory.as_os_str().is_empty())
    {
        private::make_directory(directory)?;
    }
    let lock_path = path.with_extension("lock");
    private::make_file(&lock_path)?;
    let lock = File::options().write(true).open(&lock_path)?;
    flock(&lock, FlockOperation::LockExclusive).map_err(std::io::Error::from)?;
    let (now, wall) = (clock.boot(), clock.wall().as_micros());
    let fresh = path.with_extension("new");
    // An interrupted attempt may have left a file.
    let _ = std::fs::remove_file(&fresh);
    let arena = match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Arena::create(&fresh, boot_id, (now.as_micros(), wall))?;
            std::fs::rename(&fresh, path)?;
            Arena::open(path)?
        }
        Err(error) => return Err(error.into()),
        Ok(_) => {
            let arena = Arena::open(path)?;
            let (written, anchor) = arena.boot()?;
            if written == boot_id {
                arena
            } else {
                let moved = Arena::create(&fresh, boot_id, (now.as_micros(), wall))?;
                carry_over(
                    &arena,
                    &moved,
                    now,
                    &crate::clock::shift(anchor, (now, wall)),
                )?;
                std::fs::rename(&fresh, path)?;
                Arena::open(path)?
            }
        }
    };
    Ok(arena)
}

/// Copies the state of an earlier boot into a fresh file, on the clock of this boot.
///
/// No process uses the old file, and its locks are void.
fn carry_over(
    old: &Arena,
    fresh: &Arena,
    now: BootInstant,
    shift: &dyn Fn(BootInstant) -> BootInstant,
) -> Result<(), ArenaError> {
    for (key, offset) in old.list()? {
        let (segment, base) = old.at(offset)?;
        let mut replica = Replica::new(0, process::signature());
        replica.read(&mut MappedRecord::new(old, segment, base, now))?;
        let offset = fresh.add(&key)?;
        let (segment, base) = fresh.at(offset)?;
        replica.rebase(
            &mut MappedRecord::new(fresh, segment, base, now),
            shift,
            now,
        )?;
    }
    Ok(())
}

/// Returns the [`StoreError`] for an error of the file, with the action for the user.
fn explain(path: &Path, error: ArenaError) -> StoreError {
    let store = format!("the shared memory file {}", path.display());
    let unusable = |why: String, remedy: &str| StoreError::Unusable {
        store: store.clone(),
        why,
        remedy: remedy.to_owned(),
    };
    let fresh = "end the programs that use it and remove the file to start with fresh limits";
    match error {
        ArenaError::Damaged(why) => unusable(why.to_owned(), fresh),
        ArenaError::Version(other) => unusable(
            format!(
                "it was written by another version of the program \
                 (its layout is version {other}, this one reads {ARENA_LAYOUT_VERSION})"
            ),
            "run the version that wrote it, or end the programs that use it \
             and remove the file to start with fresh limits",
        ),
        ArenaError::Full => unusable("it has no room for another site".to_owned(), fresh),
        ArenaError::Io(error) if error.kind() == std::io::ErrorKind::TimedOut => {
            StoreError::Unavailable {
                store,
                why: error.to_string(),
            }
        }
        ArenaError::Io(error) => unusable(
            error.to_string(),
            "make it and its directory writable and make room on the disk, \
             or choose another with --state-dir or --rate-dsn",
        ),
    }
}

impl StateStore for MultiprocessStore {
    fn site(&self, key: &SiteKey) -> Arc<dyn SiteHandle> {
        Arc::new(MultiprocessSite::new(&self.arena, &self.clock, key))
    }

    fn list(&self) -> StoreReply<Vec<SiteKey>> {
        let list = || {
            let _directory = self.lock_undamaged()?;
            Ok(self
                .arena
                .list()?
                .into_iter()
                .map(|(key, _)| SiteKey::from(key))
                .collect())
        };
        StoreReply::Ready(list().map_err(|error| explain(self.arena.path(), error)))
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn peers(&self) -> Option<u32> {
        self.peers.lock().as_ref().map(StorePeers::count)
    }

    fn rank(&self) -> u32 {
        self.peers.lock().as_ref().map_or(0, StorePeers::rank)
    }

    fn watch_peers(&self, _observer: HeartbeatObserver) {
        *self.peers.lock() = StorePeers::join(self.arena.path());
    }

    fn flush(&self) -> StoreReply<()> {
        // Every operation is complete, but a lock that is never released must be detected.
        StoreReply::Ready(
            self.lock_undamaged()
                .map(drop)
                .map_err(|error| explain(self.arena.path(), error)),
        )
    }
}

impl MultiprocessStore {
    /// Locks the directory of the file. Returns an [`ArenaError`] if the file was truncated.
    fn lock_undamaged(&self) -> Result<SharedMutexGuard<'_>, ArenaError> {
        let guard = self.arena.lock()?;
        if truncation::was_seen() {
            return Err(ArenaError::Damaged("it was cut short while it was in use"));
        }
        Ok(guard)
    }
}
