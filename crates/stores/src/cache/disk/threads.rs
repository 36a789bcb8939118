//! The threads of a cache: one thread writes the index, the others read the index, and read and
//! write files. No caller blocks its executor.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{JoinHandle, Thread};

use parking_lot::Mutex;

use super::DiskCore;
use super::index::DiskIndex;
use super::layout::unusable;
use crate::error::StoreError;

/// The number of reading threads.
const READER_THREADS: usize = 2;

/// A job for a thread.
pub(in super::super) type IndexJob = Box<dyn FnOnce(&mut DiskIndex) + Send>;

/// The jobs that wait for a thread.
pub(in super::super) struct IndexQueue {
    waiting: Mutex<WaitingJobs>,
    /// The process that started the threads, because a child process does not have them.
    process: u32,
}

#[derive(Default)]
struct WaitingJobs {
    jobs: VecDeque<IndexJob>,
    /// The threads without a job. The thread that became idle last is woken first, because its
    /// caches are warm.
    idle: Vec<Thread>,
    is_closed: bool,
}

impl IndexQueue {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            waiting: Mutex::new(WaitingJobs::default()),
            process: std::process::id(),
        })
    }

    /// Queues an [`IndexJob`].
    ///
    /// # Errors
    /// Returns the job if the threads have ended.
    pub(in super::super) fn queue(&self, job: IndexJob) -> Result<(), IndexJob> {
        // A lock that another thread held during a fork stays locked in the child.
        if self.process != std::process::id() {
            return Err(job);
        }
        let mut waiting = self.waiting.lock();
        if waiting.is_closed {
            return Err(job);
        }
        waiting.jobs.push_back(job);
        let idle = waiting.idle.pop();
        drop(waiting);
        if let Some(thread) = idle {
            thread.unpark();
        }
        Ok(())
    }

    /// Waits for an [`IndexJob`]. Returns `None` if the queue is closed and empty.
    fn take(&self) -> Option<IndexJob> {
        let this = std::thread::current();
        loop {
            let mut waiting = self.waiting.lock();
            // A thread may wake spuriously.
            waiting.idle.retain(|thread| thread.id() != this.id());
            if let Some(job) = waiting.jobs.pop_front() {
                return Some(job);
            }
            if waiting.is_closed {
                return None;
            }
            waiting.idle.push(this.clone());
            drop(waiting);
            std::thread::park();
        }
    }

    fn close(&self) {
        let mut waiting = self.waiting.lock();
        waiting.is_closed = true;
        for thread in waiting.idle.drain(..) {
            thread.unpark();
        }
    }
}

/// The running threads. When this value is dropped, the threads complete the queued jobs and end.
pub(super) struct IndexThreads {
    pub(super) core: Arc<DiskCore>,
    running: Vec<JoinHandle<()>>,
}

impl IndexThreads {
    pub(super) fn start(core: &Arc<DiskCore>) -> Result<Self, StoreError> {
        let mut threads = Self {
            core: Arc::clone(core),
            running: Vec::new(),
        };
        let readers = std::iter::repeat_n(("cache-files", &core.files), READER_THREADS);
        for (name, jobs) in readers.chain([("cache-index", &core.index)]) {
            let jobs = Arc::clone(jobs);
            let mut index = DiskIndex::open(core)?;
            let thread = std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || serve(&jobs, &mut index))
                .map_err(|error| unusable(&core.layout.root, error.to_string()))?;
            threads.running.push(thread);
        }
        Ok(threads)
    }
}

fn serve(jobs: &IndexQueue, index: &mut DiskIndex) {
    while let Some(job) = jobs.take() {
        // A job that panics is a bug, but must not end the thread for which other callers wait.
        let _ = catch_unwind(AssertUnwindSafe(|| job(index)));
    }
}

impl Drop for IndexThreads {
    fn drop(&mut self) {
        self.core.flush_uses();
        // Jobs of the readers may queue others for the writer, so the readers end first.
        self.core.files.close();
        let writer = self.running.pop();
        for thread in self.running.drain(..) {
            let _ = thread.join();
        }
        self.core.index.close();
        if let Some(writer) = writer {
            let _ = writer.join();
        }
    }
}
