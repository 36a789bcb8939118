//! The threads of a cache: one writes the index, the others read it and read and write files. No
//! caller blocks its executor.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{JoinHandle, Thread};

use parking_lot::Mutex;

use super::Core;
use super::index::Index;
use super::layout::unusable;
use crate::error::StoreError;

/// How many threads read.
const READERS: usize = 2;

/// Work for a thread.
pub(in super::super) type Job = Box<dyn FnOnce(&mut Index) + Send>;

/// Work that waits for a thread.
pub(in super::super) struct Queue {
    waiting: Mutex<Waiting>,
    /// A child process has none of its parent's threads.
    process: u32,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    /// The threads without a job. The last one to become idle is woken first: its caches are warm.
    idle: Vec<Thread>,
    is_closed: bool,
}

impl Queue {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            waiting: Mutex::new(Waiting::default()),
            process: std::process::id(),
        })
    }

    /// Queues a job.
    ///
    /// # Errors
    /// The threads have ended; the job is handed back.
    pub(in super::super) fn queue(&self, job: Job) -> Result<(), Job> {
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

    /// Waits for a job. `None` when the queue is closed and empty.
    fn take(&self) -> Option<Job> {
        let this = std::thread::current();
        loop {
            let mut waiting = self.waiting.lock();
            // A thread may wake without being woken.
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

/// The running threads. Dropping this ends them when they have done what is queued.
pub(super) struct Threads {
    pub(super) core: Arc<Core>,
    running: Vec<JoinHandle<()>>,
}

impl Threads {
    pub(super) fn start(core: &Arc<Core>) -> Result<Self, StoreError> {
        let mut threads = Self {
            core: Arc::clone(core),
            running: Vec::new(),
        };
        let readers = std::iter::repeat_n(("cache-files", &core.files), READERS);
        for (name, jobs) in readers.chain([("cache-index", &core.index)]) {
            let jobs = Arc::clone(jobs);
            let mut index = Index::open(core)?;
            let thread = std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || serve(&jobs, &mut index))
                .map_err(|error| unusable(&core.layout.root, error.to_string()))?;
            threads.running.push(thread);
        }
        Ok(threads)
    }
}

fn serve(jobs: &Queue, index: &mut Index) {
    while let Some(job) = jobs.take() {
        // A job that panics is a bug, and must not end the thread that other callers wait for.
        let _ = catch_unwind(AssertUnwindSafe(|| job(index)));
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.core.flush_uses();
        // Jobs of the readers may queue others for the writer.
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
