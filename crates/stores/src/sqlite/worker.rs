//! The thread that waits for the lock of the database, and the replies of its jobs.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::task::{Context, Poll};
use std::thread::JoinHandle;

use docstokg_policy::time::Clock;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::database::{Database, LockMode, WriteAheadLog};
use crate::error::StoreError;
use crate::handle::StoreReply;
use crate::multiprocess::PerProcess;

/// A job for the thread; `None` requests a checkpoint.
type DatabaseJob = Option<Box<dyn FnOnce(&mut Database) + Send>>;

/// The database, and the thread that waits for its lock. A child process lacks the threads of its
/// parent, and must not use its connection, so it opens its own.
pub(super) struct DatabaseWorker {
    shared: Arc<WorkerState>,
    thread: Option<JoinHandle<()>>,
}

/// The state that callers and the thread share.
struct WorkerState {
    database: Mutex<Result<Database, StoreError>>,
    jobs: Mutex<Result<Sender<DatabaseJob>, StoreError>>,
    /// The number of jobs that wait for the thread. Later callers must not overtake them.
    waiting: AtomicUsize,
}

impl DatabaseWorker {
    pub(super) fn start(
        path: &Path,
        clock: Arc<dyn Clock>,
        boot_id: &str,
    ) -> Result<Self, StoreError> {
        let database = Database::open(path, clock, boot_id)?;
        let wal = database.wal();
        let (jobs, queue) = mpsc::channel::<DatabaseJob>();
        let shared = Arc::new(WorkerState {
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

    pub(super) fn broken(error: StoreError) -> Self {
        let shared = WorkerState {
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

/// Runs the jobs of callers that would have to wait, and checkpoints the [`WriteAheadLog`].
fn serve(shared: &WorkerState, queue: &Receiver<DatabaseJob>, mut wal: WriteAheadLog) {
    while let Ok(job) = queue.recv() {
        let Some(job) = job else {
            wal.checkpoint();
            continue;
        };
        let done = TakenJob(&shared.waiting);
        let needs_checkpoint = match &mut *shared.database.lock() {
            Ok(database) => {
                // A job that panics is a bug, but must not end the thread for which other callers
                // wait.
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

/// A job that the thread has taken. The job counts as waiting until its end, even by a panic.
struct TakenJob<'a>(&'a AtomicUsize);

impl Drop for TakenJob<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for DatabaseWorker {
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

/// Runs a job at once if the lock is free. Returns `None` if the job would have to wait: then it
/// did not run.
pub(super) fn at_once<T>(
    worker: &PerProcess<DatabaseWorker>,
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

/// Runs a job at once if the lock is free; otherwise the thread runs it, and the [`StoreReply`] is
/// pending.
pub(super) fn ask<T: Send + 'static>(
    worker: &PerProcess<DatabaseWorker>,
    job: impl FnOnce(&mut Database, LockMode) -> Result<Option<T>, StoreError> + Clone + Send + 'static,
) -> StoreReply<T> {
    let first = job.clone();
    match at_once(worker, |database| first(database, LockMode::IfFree)) {
        Some(done) => StoreReply::Ready(done),
        None => in_turn(worker, job, |_, _| ()),
    }
}

/// Queues a job for the thread, with a pending [`StoreReply`].
pub(super) fn in_turn<T: Send + 'static>(
    worker: &PerProcess<DatabaseWorker>,
    job: impl FnOnce(&mut Database, LockMode) -> Result<Option<T>, StoreError> + Send + 'static,
    unwanted: impl FnOnce(&mut Database, T) + Send + 'static,
) -> StoreReply<T> {
    let shared = &worker.get().shared;
    let (reply, answer) = oneshot::channel();
    let unwanted: UndoOperation<T> = Arc::new(Mutex::new(Some(Box::new(unwanted))));
    let undo = Arc::clone(&unwanted);
    let queued = shared.queue(Box::new(move |database: &mut Database| {
        let done = job(database, LockMode::Wait).and_then(|done| done.ok_or_else(thread_ended));
        if let Err(Ok(done)) = reply.send(done)
            && let Some(undo) = undo.lock().take()
        {
            undo(database, done);
        }
    }));
    match queued {
        Ok(()) => StoreReply::Later(Box::pin(PendingReply {
            answer,
            unwanted,
            shared: Arc::clone(shared),
        })),
        Err(error) => StoreReply::Ready(Err(error)),
    }
}

/// The function that reverts an operation whose reply was dropped. The function runs once, on the
/// side that notices first.
type UndoOperation<T> = Arc<Mutex<Option<Box<dyn FnOnce(&mut Database, T) + Send>>>>;

impl WorkerState {
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

/// A pending reply of the thread. If it is dropped before it is read, its permit is given back.
struct PendingReply<T: Send + 'static> {
    answer: oneshot::Receiver<Result<T, StoreError>>,
    unwanted: UndoOperation<T>,
    shared: Arc<WorkerState>,
}

impl<T: Send + 'static> Future for PendingReply<T> {
    type Output = Result<T, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = Pin::new(&mut self.answer).poll(context);
        answer.map(|result| result.unwrap_or_else(|_| Err(thread_ended())))
    }
}

impl<T: Send + 'static> Drop for PendingReply<T> {
    fn drop(&mut self) {
        // From now on the thread notices the drop itself. A reply that was already sent, but not
        // read, is reverted here.
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
