//! State in a database of the state directory, shared by all processes of a machine. The default of
//! the programs.
//!
//! An operation is one immediate transaction behind a lock file, and takes microseconds: it appends
//! to the write-ahead log, which a separate thread checkpoints. A caller that finds the lock free
//! runs its operation at once; one that would have to wait queues it for the thread, so that no
//! caller blocks the executor. See `replica.rs` for what an operation reads and writes.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use docstokg_policy::breaker::{OpenReason, Transition};
use docstokg_policy::classify::Outcome;
use docstokg_policy::site::{
    Ask, Condition, Entered, Entry, Permit, Report, Settled, Site, Standing,
};
use docstokg_policy::time::{BootInstant, Clock};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::error::StoreError;
use crate::handle::{
    Answer, BudgetKey, HeartbeatObserver, SiteHandle, SiteKey, SiteView, StateStore,
    changes_nothing,
};
use crate::multiprocess::PerProcess;
use crate::peers::Peers;
use crate::process;
use crate::replica::{Names, Replica};

mod database;
mod lock;
mod record;

use database::{Database, SiteCopy, Turn, Wal};

/// A job for the thread; `None` asks for a checkpoint.
type Job = Option<Box<dyn FnOnce(&mut Database) + Send>>;

/// A store in a SQLite database.
pub struct SqliteStore {
    worker: Arc<PerProcess<Worker>>,
    path: PathBuf,
    peers: Mutex<Option<Peers>>,
}

/// The database, and the thread that waits for its lock. A child process has none of its parent's
/// threads, and must not use its connection: it opens its own.
struct Worker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What callers and the thread share.
struct Shared {
    database: Mutex<Result<Database, StoreError>>,
    jobs: Mutex<Result<Sender<Job>, StoreError>>,
    /// How many jobs wait for the thread: later callers must not overtake them.
    waiting: AtomicUsize,
}

impl SqliteStore {
    /// Opens the database at `path`, and makes it if it is not there.
    ///
    /// # Errors
    /// It cannot be written, is on a network file system, is damaged, or was written by another
    /// version.
    pub fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        Self::open_after_boot(path, clock, &process::boot_id())
    }

    /// Opens the database as [`SqliteStore::open`] does, in the boot of the machine with this id.
    ///
    /// # Errors
    /// As [`SqliteStore::open`].
    pub fn open_after_boot(
        path: &Path,
        clock: Arc<dyn Clock>,
        boot_id: &str,
    ) -> Result<Self, StoreError> {
        let worker = Worker::start(path, Arc::clone(&clock), boot_id)?;
        let (path_again, boot_id) = (path.to_owned(), boot_id.to_owned());
        let again = move || {
            Worker::start(&path_again, Arc::clone(&clock), &boot_id).unwrap_or_else(Worker::broken)
        };
        Ok(Self {
            worker: Arc::new(PerProcess::new(worker, again)),
            path: path.to_owned(),
            peers: Mutex::new(None),
        })
    }
}

impl Worker {
    fn start(path: &Path, clock: Arc<dyn Clock>, boot_id: &str) -> Result<Self, StoreError> {
        let database = Database::open(path, clock, boot_id)?;
        let wal = database.wal();
        let (jobs, queue) = mpsc::channel::<Job>();
        let shared = Arc::new(Shared {
            database: Mutex::new(Ok(database)),
            jobs: Mutex::new(Ok(jobs)),
            waiting: AtomicUsize::new(0),
        });
        let mine = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("docstokg-state".to_owned())
            .spawn(move || serve(&mine, &queue, wal));
        let thread = thread.map_err(|error| StoreError::Unavailable {
            store: "the state database".to_owned(),
            why: error.to_string(),
        })?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    fn broken(error: StoreError) -> Self {
        let shared = Shared {
            database: Mutex::new(Err(error.clone())),
            jobs: Mutex::new(Err(error)),
            waiting: AtomicUsize::new(0),
        };
        Self {
            shared: Arc::new(shared),
            thread: None,
        }
    }
}

/// Runs the jobs of callers that would have to wait, and checkpoints the write-ahead log.
fn serve(shared: &Shared, queue: &Receiver<Job>, mut wal: Wal) {
    while let Ok(job) = queue.recv() {
        let Some(job) = job else {
            wal.checkpoint();
            continue;
        };
        let done = Done(&shared.waiting);
        let needs_checkpoint = match &mut *shared.database.lock() {
            Ok(database) => {
                // A job that panics is a bug, and must not end the thread that other callers wait
                // for.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job(database)));
                database.needs_checkpoint()
            }
            Err(_) => false,
        };
        drop(done);
        if needs_checkpoint {
            wal.checkpoint();
        }
    }
}

/// A job that the thread has taken. Counts as waiting until it is done, however it ends.
struct Done<'a>(&'a AtomicUsize);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        *self.shared.jobs.lock() = Err(thread_ended());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn thread_ended() -> StoreError {
    StoreError::Unavailable {
        store: "the state database".to_owned(),
        why: "its thread has ended".to_owned(),
    }
}

/// Runs a job at once if the lock is free. `None` if it has to wait: then nothing has happened.
fn at_once<T>(
    worker: &PerProcess<Worker>,
    job: impl FnOnce(&mut Database) -> Result<Option<T>, StoreError>,
) -> Option<Result<T, StoreError>> {
    let shared = &worker.get().shared;
    if shared.waiting.load(Ordering::Acquire) > 0 {
        return None;
    }
    let mut database = shared.database.try_lock()?;
    let database = match &mut *database {
        Ok(database) => database,
        Err(error) => return Some(Err(error.clone())),
    };
    let done = job(database).transpose()?;
    if database.needs_checkpoint()
        && let Ok(jobs) = &*shared.jobs.lock()
    {
        let _ = jobs.send(None);
    }
    Some(done)
}

/// Runs a job at once if the lock is free; otherwise the thread runs it, and the answer comes when
/// it is complete.
fn ask<T: Send + 'static>(
    worker: &PerProcess<Worker>,
    job: impl FnOnce(&mut Database, Turn) -> Result<Option<T>, StoreError> + Clone + Send + 'static,
) -> Answer<T> {
    let first = job.clone();
    match at_once(worker, |database| first(database, Turn::IfFree)) {
        Some(done) => Answer::Ready(done),
        None => in_turn(worker, job, |_, _| ()),
    }
}

/// Queues a job for the thread, and answers when it is complete.
fn in_turn<T: Send + 'static>(
    worker: &PerProcess<Worker>,
    job: impl FnOnce(&mut Database, Turn) -> Result<Option<T>, StoreError> + Send + 'static,
    unwanted: impl FnOnce(&mut Database, T) + Send + 'static,
) -> Answer<T> {
    let shared = &worker.get().shared;
    let (reply, answer) = oneshot::channel();
    let unwanted: Unwanted<T> = Arc::new(Mutex::new(Some(Box::new(unwanted))));
    let undo = Arc::clone(&unwanted);
    let queued = shared.queue(Box::new(move |database: &mut Database| {
        let done = job(database, Turn::Wait).and_then(|done| done.ok_or_else(thread_ended));
        if let Err(Ok(done)) = reply.send(done)
            && let Some(undo) = undo.lock().take()
        {
            undo(database, done);
        }
    }));
    match queued {
        Ok(()) => Answer::Later(Box::pin(Waiting {
            answer,
            unwanted,
            shared: Arc::clone(shared),
        })),
        Err(error) => Answer::Ready(Err(error)),
    }
}

/// Undoes an operation whose answer was dropped. Runs once, on the side that notices first.
type Unwanted<T> = Arc<Mutex<Option<Box<dyn FnOnce(&mut Database, T) + Send>>>>;

impl Shared {
    /// Queues a job for the thread.
    fn queue(&self, job: Box<dyn FnOnce(&mut Database) + Send>) -> Result<(), StoreError> {
        match &*self.jobs.lock() {
            Ok(jobs) => {
                self.waiting.fetch_add(1, Ordering::AcqRel);
                // The thread ends with the store; until then it takes every job.
                let _ = jobs.send(Some(job));
                Ok(())
            }
            Err(error) => Err(error.clone()),
        }
    }
}

/// An answer that the thread will give. If it is dropped before it is read, its permit is given
/// back.
struct Waiting<T: Send + 'static> {
    answer: oneshot::Receiver<Result<T, StoreError>>,
    unwanted: Unwanted<T>,
    shared: Arc<Shared>,
}

impl<T: Send + 'static> Future for Waiting<T> {
    type Output = Result<T, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = Pin::new(&mut self.answer).poll(context);
        answer.map(|result| result.unwrap_or_else(|_| Err(thread_ended())))
    }
}

impl<T: Send + 'static> Drop for Waiting<T> {
    fn drop(&mut self) {
        // From now on the thread notices by itself; an answer that it has sent already and that was
        // not read is undone here.
        self.answer.close();
        if let Ok(Ok(unheard)) = self.answer.try_recv()
            && let Some(undo) = self.unwanted.lock().take()
        {
            let _ = self
                .shared
                .queue(Box::new(move |database| undo(database, unheard)));
        }
    }
}

impl StateStore for SqliteStore {
    fn site(&self, key: &SiteKey) -> Arc<dyn SiteHandle> {
        let names = Names::default();
        let inherited = Arc::clone(&names);
        let copy = PerProcess::new(fresh_copy(&names), move || fresh_copy(&inherited));
        Arc::new(SqliteSite {
            key: Arc::clone(key),
            worker: Arc::clone(&self.worker),
            copy,
            names,
        })
    }

    fn list(&self) -> Answer<Vec<SiteKey>> {
        ask(&self.worker, Database::list)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn check(&self) -> Answer<()> {
        // Checks are repeated: this one does not wait for the lock.
        let taken = || {
            Err(StoreError::Unavailable {
                store: "the state database".to_owned(),
                why: "another process holds its lock".to_owned(),
            })
        };
        Answer::Ready(
            at_once(&self.worker, |database| database.touch(Turn::IfFree)).unwrap_or_else(taken),
        )
    }

    fn peers(&self) -> Option<u32> {
        self.peers.lock().as_ref().map(Peers::count)
    }

    fn rank(&self) -> u32 {
        self.peers.lock().as_ref().map_or(0, Peers::rank)
    }

    fn watch_peers(&self, _observer: HeartbeatObserver) {
        *self.peers.lock() = Peers::join(&self.path);
    }

    fn flush(&self) -> Answer<()> {
        // Queued jobs run in turn before it, and all others are complete.
        ask(&self.worker, Database::touch)
    }
}

/// One site of the database.
struct SqliteSite {
    key: SiteKey,
    worker: Arc<PerProcess<Worker>>,
    copy: PerProcess<Arc<Mutex<SiteCopy>>>,
    names: Names,
}

fn fresh_copy(names: &Names) -> Arc<Mutex<SiteCopy>> {
    Arc::new(Mutex::new(SiteCopy {
        replica: Replica::naming(names),
        row: 0,
    }))
}

impl SqliteSite {
    /// Runs one operation in one transaction.
    fn step<T: Send + 'static>(
        &self,
        step: impl FnOnce(&mut Site, BootInstant) -> T + Clone + Send + 'static,
    ) -> Answer<T> {
        let (key, copy) = (Arc::clone(&self.key), Arc::clone(self.copy.get()));
        ask(&self.worker, move |database, turn| {
            database.step(turn, &key, &mut copy.lock(), step)
        })
    }

    /// Runs an operation whose permit is given back if its answer is dropped.
    fn step_in(
        &self,
        ask: &Ask<'_>,
        step: impl Fn(&mut Site, &Ask<'_>, BootInstant) -> Entered + Send + 'static,
    ) -> Answer<Entered> {
        let now = |database: &mut Database| {
            database.step(
                Turn::IfFree,
                &self.key,
                &mut self.copy.get().lock(),
                |site, now| step(site, ask, now),
            )
        };
        if let Some(entered) = at_once(&self.worker, now) {
            return Answer::Ready(entered);
        }
        let (key, copy, question) = (
            Arc::clone(&self.key),
            Arc::clone(self.copy.get()),
            ask.to_owned(),
        );
        let (again, asked) = ((Arc::clone(&key), Arc::clone(&copy)), question.clone());
        let unwanted = move |database: &mut Database, entered: Entered| {
            let (id, spent) = match entered.entry {
                Entry::Go(permit) => (permit.id, Some(permit.stamp)),
                Entry::Wait(reserved) => (reserved.id, None),
                Entry::WaitForSlot { id, .. } => (id, None),
                _ => return,
            };
            let _ = database.step(Turn::Wait, &again.0, &mut again.1.lock(), |site, _| {
                site.leave(&asked.as_ask(), id, spent)
            });
        };
        let later = move |database: &mut Database, turn| {
            database.step(turn, &key, &mut copy.lock(), |site, now| {
                step(site, &question.as_ask(), now)
            })
        };
        in_turn(&self.worker, later, unwanted)
    }
}

impl SiteHandle for SqliteSite {
    fn budget(&self, key: &BudgetKey) -> usize {
        self.copy
            .get()
            .lock()
            .replica
            .name(&self.names, &key.to_string())
    }

    fn enter(&self, ask: &Ask<'_>) -> Answer<Entered> {
        self.step_in(ask, Site::enter)
    }

    fn confirm(&self, ask: &Ask<'_>, id: u64) -> Answer<Entered> {
        self.step_in(ask, move |site, ask, now| site.confirm(ask, id, now))
    }

    fn leave(&self, ask: &Ask<'_>, id: u64, spent_at: Option<BootInstant>) -> Answer<bool> {
        let ask = ask.to_owned();
        self.step(move |site, _| site.leave(&ask.as_ask(), id, spent_at))
    }

    fn hold(&self, ask: &Ask<'_>, permit: &Permit, longest: Duration) -> Answer<()> {
        let (ask, permit) = (ask.to_owned(), permit.clone());
        self.step(move |site, now| site.hold(&ask.as_ask(), &permit, now + longest))
    }

    fn sent(&self, ask: &Ask<'_>, permit: &Permit, longest: Duration) -> Answer<Standing> {
        let (ask, permit) = (ask.to_owned(), permit.clone());
        self.step(move |site, now| site.sent(&ask.as_ask(), &permit, longest, now))
    }

    fn stamp(&self, ask: &Ask<'_>, permit: &Permit) -> Answer<()> {
        let (ask, permit) = (ask.to_owned(), permit.clone());
        self.step(move |site, now| site.stamp(&ask.as_ask(), &permit, now))
    }

    fn settle_headers(&self, ask: &Ask<'_>, permit: &Permit, outcome: Outcome) -> Answer<Settled> {
        let (ask, permit) = (ask.to_owned(), permit.clone());
        self.step(move |site, now| site.settle_headers(&ask.as_ask(), &permit, outcome, now))
    }

    fn settle(&self, ask: &Ask<'_>, permit: &Permit, report: &Report) -> Answer<Settled> {
        if changes_nothing(ask, permit, report) {
            return Answer::now(Settled::default());
        }
        let (ask, permit, report) = (ask.to_owned(), permit.clone(), *report);
        self.step(move |site, now| site.settle(&ask.as_ask(), &permit, &report, now))
    }

    fn renew(&self, ids: &[u64], length: Duration) -> Answer<Condition> {
        let ids = ids.to_vec();
        self.step(move |site, now| site.renew(&ids, length, now))
    }

    fn block(&self, length: Duration, reason: &OpenReason) -> Answer<Option<Transition>> {
        let reason = reason.clone();
        self.step(move |site, now| site.block(now + length, &reason, now))
    }

    fn unblock(&self) -> Answer<Option<Transition>> {
        self.step(Site::unblock)
    }

    fn view(&self) -> Answer<SiteView> {
        let (key, copy) = (Arc::clone(&self.key), Arc::clone(self.copy.get()));
        ask(&self.worker, move |database, turn| {
            database.view(turn, &key, &mut copy.lock())
        })
    }
}
