//! State in a mapped file, shared by all processes of a machine, for those who ask very often.
//!
//! Each site lies under a robust lock of its own in the file: a process that is killed while it
//! holds one leaves the record as it was before its step, and the next process goes on. See
//! `replica.rs` for what a step reads and writes, and `sys.rs` for everything unsafe.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::breaker::{OpenReason, Transition};
use docstokg_policy::classify::Outcome;
use docstokg_policy::site::{Ask, Condition, Entered, Permit, Report, Settled, Site, Standing};
use docstokg_policy::time::{BootInstant, Clock};
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};

use crate::KEEP;
use crate::error::StoreError;
use crate::handle::{Answer, BudgetKey, Heard, SiteHandle, SiteKey, SiteView, StateStore};
use crate::peers::Peers;
use crate::replica::{Corrupt, Names, Replica};
use crate::{private, process};

mod arena;
mod record;
mod sys;

use arena::{Arena, PATIENCE, Refused, VERSION, block};
use record::Mapped;
pub(crate) use sys::PerProcess;
use sys::{Brief, Held, truncation};

/// The name of the file in a state directory: another layout has another file, so that programs of
/// two versions can run side by side, each with limits of its own.
pub const FILE_NAME: &str = "limits-4.shm";

/// Survives a mapped file that is cut short while it is in use, which would end the process with
/// SIGBUS: the store says that it is damaged instead. Likewise a file that grows beyond the limit
/// of the process (SIGXFSZ) is a failed write. Installs signal handlers for the whole process;
/// programs ask for it, the library does not.
///
/// # Errors
/// The handler cannot be installed.
pub fn survive_file_signals() -> std::io::Result<()> {
    truncation::survive()
}

/// The segments from which on idle sites are dropped before another one is made.
const SWEEP_FROM: usize = 64;

/// A store in a mapped file.
pub struct MultiprocessStore {
    arena: Arc<Arena>,
    clock: Arc<dyn Clock>,
    peers: Mutex<Option<Peers>>,
}

impl MultiprocessStore {
    /// Opens the file at `path`, and makes it if it is not there.
    ///
    /// # Errors
    /// It cannot be written, is damaged, or was written by another version.
    pub fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        Self::open_after_boot(path, clock, &process::boot_id())
    }

    /// Opens the file as [`MultiprocessStore::open`] does, in a start of the machine of this name.
    ///
    /// # Errors
    /// As [`MultiprocessStore::open`].
    pub fn open_after_boot(
        path: &Path,
        clock: Arc<dyn Clock>,
        boot_id: &str,
    ) -> Result<Self, StoreError> {
        let arena = open(path, &*clock, boot_id).map_err(|refused| told(path, refused))?;
        Ok(Self {
            arena: Arc::new(arena),
            clock,
            peers: Mutex::new(None),
        })
    }
}

/// Opens or makes the file, one process at a time. It gets its name when it is whole.
fn open(path: &Path, clock: &dyn Clock, boot_id: &str) -> Result<Arena, Refused> {
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
    // What an interrupted attempt left behind means nothing.
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

/// Copies what an earlier start of the machine wrote into a fresh file, on the clock of this start.
///
/// Nobody uses the old file, and its locks mean nothing any more.
fn carry_over(
    old: &Arena,
    fresh: &Arena,
    now: BootInstant,
    shift: &dyn Fn(BootInstant) -> BootInstant,
) -> Result<(), Refused> {
    for (key, offset) in old.list()? {
        let (segment, place) = old.at(offset)?;
        let mut replica = Replica::new(0, process::signature());
        replica.read(&mut Mapped::new(old, segment, place, now))?;
        let offset = fresh.add(&key)?;
        let (segment, place) = fresh.at(offset)?;
        replica.rebase(&mut Mapped::new(fresh, segment, place, now), shift, now)?;
    }
    Ok(())
}

/// Says what is wrong, for a person.
fn told(path: &Path, refused: Refused) -> StoreError {
    let store = format!("the shared memory file {}", path.display());
    let unusable = |why: String, remedy: &str| StoreError::Unusable {
        store: store.clone(),
        why,
        remedy: remedy.to_owned(),
    };
    let fresh = "end the programs that use it and remove the file to start with fresh limits";
    match refused {
        Refused::Damaged(why) => unusable(why.to_owned(), fresh),
        Refused::Version(other) => unusable(
            format!(
                "it was written by another version of the program (its layout is version {other}, this one reads {VERSION})"
            ),
            "run the version that wrote it, or end the programs that use it and remove the file to start with fresh limits",
        ),
        Refused::Full => unusable("it has no room for another site".to_owned(), fresh),
        Refused::Io(error) if error.kind() == std::io::ErrorKind::TimedOut => {
            StoreError::Unavailable {
                store,
                why: error.to_string(),
            }
        }
        Refused::Io(error) => unusable(
            error.to_string(),
            "make it and its directory writable and make room on the disk, or choose another with --state-dir or --rate-dsn",
        ),
    }
}

impl StateStore for MultiprocessStore {
    fn site(&self, key: &SiteKey) -> Arc<dyn SiteHandle> {
        let names = Names::default();
        let inherited = Arc::clone(&names);
        Arc::new(MultiprocessSite {
            arena: Arc::clone(&self.arena),
            clock: Arc::clone(&self.clock),
            key: Arc::clone(key),
            local: PerProcess::new(Brief::new(Local::new(&names)), move || {
                Brief::new(Local::new(&inherited))
            }),
            names,
        })
    }

    fn list(&self) -> Answer<Vec<SiteKey>> {
        let list = || {
            let _directory = self.lock_whole()?;
            Ok(self
                .arena
                .list()?
                .into_iter()
                .map(|(key, _)| SiteKey::from(key))
                .collect())
        };
        Answer::Ready(list().map_err(|refused| told(self.arena.path(), refused)))
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn peers(&self) -> Option<u32> {
        self.peers.lock().as_ref().map(Peers::count)
    }

    fn rank(&self) -> u32 {
        self.peers.lock().as_ref().map_or(0, Peers::rank)
    }

    fn watch_peers(&self, _heard: Heard) {
        *self.peers.lock() = Peers::join(self.arena.path());
    }

    fn flush(&self) -> Answer<()> {
        // Nothing is ever on its way; but a lock that nobody frees is worth knowing of.
        Answer::Ready(
            self.lock_whole()
                .map(drop)
                .map_err(|refused| told(self.arena.path(), refused)),
        )
    }
}

impl MultiprocessStore {
    /// Locks the directory of a file that was not cut short.
    fn lock_whole(&self) -> Result<Held<'_>, Refused> {
        let held = self.arena.lock()?;
        if truncation::was_seen() {
            return Err(Refused::Damaged("it was cut short while it was in use"));
        }
        Ok(held)
    }
}

/// What a process knows of a site.
struct Local {
    replica: Replica,
    /// The place of the block, and its generation when that was looked up.
    block: Option<(u64, u64)>,
}

impl Local {
    fn new(names: &Names) -> Self {
        Self {
            replica: Replica::naming(names),
            block: None,
        }
    }
}

/// One site of the file.
struct MultiprocessSite {
    arena: Arc<Arena>,
    clock: Arc<dyn Clock>,
    key: SiteKey,
    local: PerProcess<Brief<Local>>,
    names: Names,
}

impl MultiprocessSite {
    /// Runs one step under the site's lock, with the time read inside it.
    #[inline]
    fn step<T>(&self, step: impl FnOnce(&mut Site, BootInstant) -> T) -> Answer<T> {
        let mut local = self.local.get().take();
        // What is decided goes where it is wanted at once, and is not handed from one to the other
        // with what may go wrong.
        let mut answer = None;
        match self.try_step(&mut local, |site, now| {
            answer = Some(Answer::now(step(site, now)))
        }) {
            Ok(()) => answer.unwrap_or_else(|| Answer::Ready(Err(self.told(Corrupt.into())))),
            Err(refused) => Answer::Ready(Err(self.told(refused))),
        }
    }

    #[cold]
    fn told(&self, refused: Refused) -> StoreError {
        told(self.arena.path(), refused)
    }

    #[inline]
    fn try_step<T>(
        &self,
        local: &mut Local,
        step: impl FnOnce(&mut Site, BootInstant) -> T,
    ) -> Result<T, Refused> {
        loop {
            let (offset, generation) = match local.block {
                Some(block) => block,
                None => self.look_up(local)?,
            };
            let (segment, place) = self.arena.at(offset)?;
            let held = segment.mutex(place + block::LOCK).lock(PATIENCE)?;
            if segment
                .word(place + block::GENERATION)
                .load(std::sync::atomic::Ordering::Relaxed)
                != generation
            {
                drop(held);
                local.block = None;
                local.replica.distrust();
                continue;
            }
            let now = self.clock.boot();
            let done = local
                .replica
                .run(&mut Mapped::new(&self.arena, segment, place, now), |site| {
                    step(site, now)
                });
            if truncation::was_seen() {
                local.replica.distrust();
                return Err(Refused::Damaged("it was cut short while it was in use"));
            }
            return done;
        }
    }

    #[cold]
    fn look_up(&self, local: &mut Local) -> Result<(u64, u64), Refused> {
        let _directory = self.arena.lock()?;
        let offset = if let Some(offset) = self.arena.find(&self.key)? {
            offset
        } else {
            let used = self.arena.segments_used()?;
            if used >= SWEEP_FROM && used.is_power_of_two() {
                let now = self.clock.boot();
                self.arena
                    .sweep((now - KEEP).as_micros(), now.as_micros())?;
            }
            self.arena.add(&self.key)?
        };
        let (segment, place) = self.arena.at(offset)?;
        let block = (
            offset,
            segment
                .word(place + block::GENERATION)
                .load(std::sync::atomic::Ordering::Relaxed),
        );
        local.block = Some(block);
        Ok(block)
    }
}

impl SiteHandle for MultiprocessSite {
    fn budget(&self, key: &BudgetKey) -> usize {
        self.local
            .get()
            .take()
            .replica
            .name(&self.names, &key.to_string())
    }

    fn enter(&self, ask: &Ask<'_>) -> Answer<Entered> {
        self.step(|site, now| site.enter(ask, now))
    }

    fn confirm(&self, ask: &Ask<'_>, id: u64) -> Answer<Entered> {
        self.step(|site, now| site.confirm(ask, id, now))
    }

    fn leave(&self, ask: &Ask<'_>, id: u64, spent_at: Option<BootInstant>) -> Answer<bool> {
        self.step(|site, _| site.leave(ask, id, spent_at))
    }

    fn hold(&self, ask: &Ask<'_>, permit: &Permit, longest: Duration) -> Answer<()> {
        self.step(|site, now| site.hold(ask, permit, now + longest))
    }

    fn sent(&self, ask: &Ask<'_>, permit: &Permit, longest: Duration) -> Answer<Standing> {
        self.step(|site, now| site.sent(ask, permit, longest, now))
    }

    fn stamp(&self, ask: &Ask<'_>, permit: &Permit) -> Answer<()> {
        self.step(|site, now| site.stamp(ask, permit, now))
    }

    fn settle_headers(&self, ask: &Ask<'_>, permit: &Permit, outcome: Outcome) -> Answer<Settled> {
        self.step(|site, now| site.settle_headers(ask, permit, outcome, now))
    }

    fn settle(&self, ask: &Ask<'_>, permit: &Permit, report: &Report) -> Answer<Settled> {
        self.step(|site, now| site.settle(ask, permit, report, now))
    }

    fn renew(&self, ids: &[u64], length: Duration) -> Answer<Condition> {
        self.step(|site, now| site.renew(ids, length, now))
    }

    fn block(&self, length: Duration, reason: &OpenReason) -> Answer<Option<Transition>> {
        self.step(|site, now| site.block(now + length, reason, now))
    }

    fn unblock(&self) -> Answer<Option<Transition>> {
        self.step(Site::unblock)
    }

    fn view(&self) -> Answer<SiteView> {
        let mut local = self.local.get().take();
        let now = self
            .try_step(&mut local, |_, now| now)
            .map_err(|refused| self.told(refused));
        Answer::Ready(now.map(|now| local.replica.view(now)))
    }
}
