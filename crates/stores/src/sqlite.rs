//! State in a database of the state directory, shared by all processes of a machine. The programs' default.
//!
//! One thread of the process owns the database, so that nothing of it runs on the executor; a step is one immediate
//! transaction behind a lock file. See `replica.rs` for what a step reads and writes.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use docstokg_policy::breaker::{OpenReason, Transition};
use docstokg_policy::classify::Outcome;
use docstokg_policy::site::{Ask, Entered, Entry, OwnedAsk, Pass, Report, Settled, Site, Standing};
use docstokg_policy::time::{BootInstant, Clock};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::error::StoreError;
use crate::handle::{Answer, BudgetKey, SiteHandle, SiteKey, SiteView, StateStore, changes_nothing};
use crate::multiprocess::PerProcess;
use crate::process;
use crate::replica::Replica;

mod database;
mod record;

use database::Database;

type Job = Box<dyn FnOnce(&mut Database) + Send>;

/// A store in a SQLite database.
pub struct SqliteStore {
    worker: Arc<PerProcess<Worker>>,
}

/// The thread that owns the database. A child process has none of its parent's threads, and must not use its
/// connection: it starts its own.
struct Worker {
    jobs: Mutex<Result<Sender<Job>, StoreError>>,
    thread: Option<JoinHandle<()>>,
}

impl SqliteStore {
    /// Opens the database at `path`, and makes it if it is not there.
    ///
    /// # Errors
    /// It cannot be written, lies on a network file system, is damaged, or was written by another version.
    pub fn open(path: &Path, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        Self::open_after_boot(path, clock, &process::boot_id())
    }

    /// Opens the database as [`SqliteStore::open`] does, in a start of the machine of this name.
    ///
    /// # Errors
    /// As [`SqliteStore::open`].
    pub fn open_after_boot(path: &Path, clock: Arc<dyn Clock>, boot_id: &str) -> Result<Self, StoreError> {
        let worker = Worker::start(path, Arc::clone(&clock), boot_id)?;
        let (path, boot_id) = (path.to_owned(), boot_id.to_owned());
        let again = move || {
            let broken = |error| Worker { jobs: Mutex::new(Err(error)), thread: None };
            Worker::start(&path, Arc::clone(&clock), &boot_id).unwrap_or_else(broken)
        };
        Ok(Self { worker: Arc::new(PerProcess::new(worker, again)) })
    }
}

impl Worker {
    fn start(path: &Path, clock: Arc<dyn Clock>, boot_id: &str) -> Result<Self, StoreError> {
        let mut database = Database::open(path, clock, boot_id)?;
        let (jobs, queue) = mpsc::channel::<Job>();
        let thread = std::thread::Builder::new().name("docstokg-state".to_owned()).spawn(move || {
            while let Ok(job) = queue.recv() {
                job(&mut database);
            }
        });
        let thread = thread.map_err(|error| StoreError::Away { store: "the state database".to_owned(), why: error.to_string() })?;
        Ok(Self { jobs: Mutex::new(Ok(jobs)), thread: Some(thread) })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        *self.jobs.lock() = Err(away());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn away() -> StoreError {
    StoreError::Away { store: "the state database".to_owned(), why: "its thread has ended".to_owned() }
}

/// Runs a job on the thread, and answers when it is done.
fn ask<T: Send + 'static>(
    worker: &PerProcess<Worker>,
    job: impl FnOnce(&mut Database) -> Result<T, StoreError> + Send + 'static,
    unwanted: impl FnOnce(&mut Database, T) + Send + 'static,
) -> Answer<T> {
    let (reply, answer) = oneshot::channel();
    let job = move |database: &mut Database| {
        let done = job(database);
        if let Err(Ok(done)) = reply.send(done) {
            unwanted(database, done);
        }
    };
    match &*worker.get().jobs.lock() {
        // The thread ends with the store; until then it takes every job.
        Ok(jobs) => drop(jobs.send(Box::new(job))),
        Err(error) => return Answer::Ready(Err(error.clone())),
    }
    Answer::Later(Box::pin(async move { answer.await.unwrap_or_else(|_| Err(away())) }))
}

impl StateStore for SqliteStore {
    fn site(&self, key: &SiteKey) -> Arc<dyn SiteHandle> {
        Arc::new(SqliteSite { key: Arc::clone(key), worker: Arc::clone(&self.worker), replica: PerProcess::new(fresh_replica(), fresh_replica) })
    }

    fn list(&self) -> Answer<Vec<SiteKey>> {
        ask(&self.worker, Database::list, |_, _| ())
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn flush(&self) -> Answer<()> {
        ask(&self.worker, |_| Ok(()), |_, ()| ())
    }
}

/// One site of the database.
struct SqliteSite {
    key: SiteKey,
    worker: Arc<PerProcess<Worker>>,
    replica: PerProcess<Arc<Mutex<Replica>>>,
}

fn fresh_replica() -> Arc<Mutex<Replica>> {
    Arc::new(Mutex::new(Replica::new(process::first_name(), process::signature())))
}

impl SqliteSite {
    /// Runs one step in one transaction.
    fn step<T: Send + 'static>(&self, step: impl FnOnce(&mut Site, BootInstant) -> T + Send + 'static) -> Answer<T> {
        let (key, replica) = (Arc::clone(&self.key), Arc::clone(self.replica.get()));
        ask(&self.worker, move |database| database.step(&key, &mut replica.lock(), step), |_, _| ())
    }

    /// Runs a step whose grant is given back if nobody waits for it any more.
    fn step_in(&self, question: OwnedAsk, step: impl FnOnce(&mut Site, &OwnedAsk, BootInstant) -> Entered + Send + 'static) -> Answer<Entered> {
        let (key, replica) = (Arc::clone(&self.key), Arc::clone(self.replica.get()));
        let (again, copy) = ((Arc::clone(&key), Arc::clone(&replica)), question.clone());
        let unwanted = move |database: &mut Database, entered: Entered| {
            let (id, spent) = match entered.entry {
                Entry::Go(pass) => (pass.id, Some(pass.stamp)),
                Entry::Wait(ticket) => (ticket.id, None),
                _ => return,
            };
            let _ = database.step(&again.0, &mut again.1.lock(), |site, _| site.leave(&copy.as_ask(), id, spent));
        };
        ask(&self.worker, move |database| database.step(&key, &mut replica.lock(), |site, now| step(site, &question, now)), unwanted)
    }
}

impl SiteHandle for SqliteSite {
    fn budget(&self, key: &BudgetKey) -> usize {
        self.replica.get().lock().budget(&key.to_string())
    }

    fn enter(&self, ask: &Ask<'_>) -> Answer<Entered> {
        self.step_in(ask.to_owned(), |site, ask, now| site.enter(&ask.as_ask(), now))
    }

    fn confirm(&self, ask: &Ask<'_>, ticket: u64) -> Answer<Entered> {
        self.step_in(ask.to_owned(), move |site, ask, now| site.confirm(&ask.as_ask(), ticket, now))
    }

    fn leave(&self, ask: &Ask<'_>, id: u64, spent_at: Option<BootInstant>) -> Answer<bool> {
        let ask = ask.to_owned();
        self.step(move |site, _| site.leave(&ask.as_ask(), id, spent_at))
    }

    fn hold(&self, ask: &Ask<'_>, pass: &Pass, longest: Duration) -> Answer<()> {
        let (ask, pass) = (ask.to_owned(), pass.clone());
        self.step(move |site, now| site.hold(&ask.as_ask(), &pass, now + longest))
    }

    fn sent(&self, ask: &Ask<'_>, pass: &Pass, longest: Duration) -> Answer<Standing> {
        let (ask, pass) = (ask.to_owned(), pass.clone());
        self.step(move |site, now| site.sent(&ask.as_ask(), &pass, longest, now))
    }

    fn stamp(&self, ask: &Ask<'_>, pass: &Pass) -> Answer<()> {
        let (ask, pass) = (ask.to_owned(), pass.clone());
        self.step(move |site, now| site.stamp(&ask.as_ask(), &pass, now))
    }

    fn settle_headers(&self, ask: &Ask<'_>, pass: &Pass, outcome: Outcome) -> Answer<Settled> {
        let (ask, pass) = (ask.to_owned(), pass.clone());
        self.step(move |site, now| site.settle_headers(&ask.as_ask(), &pass, outcome, now))
    }

    fn settle(&self, ask: &Ask<'_>, pass: &Pass, report: &Report) -> Answer<Settled> {
        if changes_nothing(ask, pass, report) {
            return Answer::now(Settled::default());
        }
        let (ask, pass, report) = (ask.to_owned(), pass.clone(), *report);
        self.step(move |site, now| site.settle(&ask.as_ask(), &pass, &report, now))
    }

    fn renew(&self, ids: &[u64], length: Duration) -> Answer<()> {
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
        let (key, replica) = (Arc::clone(&self.key), Arc::clone(self.replica.get()));
        ask(&self.worker, move |database| database.view(&key, &mut replica.lock()), |_, _| ())
    }
}
