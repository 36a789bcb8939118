//! The threads of a cache: one writes the index, the others read it and read and write files. No
//! caller blocks its executor.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

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
    /// Wakes one thread per job: no thread wakes another before it begins.
    changed: Condvar,
    /// A child process has none of its parent's threads.
    process: u32,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    is_closed: bool,
}

impl Queue {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            waiting: Mutex::new(Waiting::default()),
            changed: Condvar::new(),
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
        drop(waiting);
        self.changed.notify_one();
        Ok(())
    }

    /// Waits for a job. `None` when the queue is closed and empty.
    fn take(&self) -> Option<Job> {
        let mut waiting = self.waiting.lock();
        loop {
            if let Some(job) = waiting.jobs.pop_front() {
                return Some(job);
            }
            if waiting.is_closed {
                return None;
            }
            self.changed.wait(&mut waiting);
        }
    }

    fn close(&self) {
        self.waiting.lock().is_closed = true;
        self.changed.notify_all();
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
