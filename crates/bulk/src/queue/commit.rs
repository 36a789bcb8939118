//! Committing many small changes together: a thread takes what has gathered while the last batch
//! was written, and answers each caller when its change is safe.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::oneshot;

/// How long a commit waits for the next change to join it, and how many changes it waits for at
/// most.
const COMMIT_GATHER_INTERVAL: Duration = Duration::from_millis(4);
const MAX_GATHERED_CHANGES: usize = 24;

/// A change of the queue, and the caller that waits for its result.
trait QueueChange: Send {
    /// Makes it, within a transaction.
    fn make(&mut self, to: &Connection) -> rusqlite::Result<()>;
    /// Answers the caller: the change is committed, or nothing was written for this reason.
    fn answer(self: Box<Self>, failed: Option<rusqlite::Error>);
}

struct AwaitedChange<F, T> {
    change: Option<F>,
    made: Option<T>,
    caller: oneshot::Sender<rusqlite::Result<T>>,
}

impl<T: Send, F: FnOnce(&Connection) -> rusqlite::Result<T> + Send> QueueChange
    for AwaitedChange<F, T>
{
    fn make(&mut self, to: &Connection) -> rusqlite::Result<()> {
        self.made = self.change.take().map(|change| change(to)).transpose()?;
        Ok(())
    }

    fn answer(self: Box<Self>, failed: Option<rusqlite::Error>) {
        let answer = match (failed, self.made) {
            (None, Some(made)) => Ok(made),
            (failed, _) => Err(failed.unwrap_or(rusqlite::Error::InvalidQuery)),
        };
        // The caller may have gone; the change is made all the same.
        let _ = self.caller.send(answer);
    }
}

/// Changes that wait for the thread.
#[derive(Default)]
pub(super) struct Batches {
    state: Mutex<GatheredChanges>,
    changed: Condvar,
}

#[derive(Default)]
struct GatheredChanges {
    changes: Vec<Box<dyn QueueChange>>,
    closed: bool,
}

impl Batches {
    /// Hands a change to the thread. The receiver fails if the thread has ended.
    pub(super) fn push<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> oneshot::Receiver<rusqlite::Result<T>> {
        let (caller, answer) = oneshot::channel();
        let gathered = {
            let mut state = self.state.lock();
            state.changes.push(Box::new(AwaitedChange {
                change: Some(change),
                made: None,
                caller,
            }));
            state.changes.len()
        };
        // Changes in between find the thread awake, or waiting for more.
        if gathered == 1 || gathered == MAX_GATHERED_CHANGES {
            self.changed.notify_one();
        }
        answer
    }

    /// Ends the thread when every change that was handed over is committed.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_one();
    }

    /// Commits batch after batch until the queue is closed.
    pub(super) fn commit_all(&self, mut database: Connection) {
        let mut last = 0;
        loop {
            let batch = {
                let mut state = self.state.lock();
                while state.changes.is_empty() && !state.closed {
                    self.changed.wait(&mut state);
                }
                if state.changes.is_empty() {
                    return;
                }
                // A commit costs as much as many changes: where more than one comes at a time, it
                // waits a little for others to join.
                if last > 1 && state.changes.len() < MAX_GATHERED_CHANGES && !state.closed {
                    let _ = self.changed.wait_for(&mut state, COMMIT_GATHER_INTERVAL);
                }
                std::mem::take(&mut state.changes)
            };
            last = batch.len();
            commit(&mut database, batch);
        }
    }
}

/// Commits a batch. A change that fails takes its batch along: nothing of it is written, and every
/// caller gets the error. A run whose queue cannot be written ends, and the next one goes on from
/// what was committed.
fn commit(database: &mut Connection, mut batch: Vec<Box<dyn QueueChange>>) {
    let outcome = database
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .and_then(|transaction| {
            batch
                .iter_mut()
                .try_for_each(|change| change.make(&transaction))?;
            transaction.commit()
        });
    let failed = outcome.err();
    for change in batch {
        change.answer(failed.as_ref().map(copy_of));
    }
}

/// Copies an error for one more caller.
fn copy_of(error: &rusqlite::Error) -> rusqlite::Error {
    let code = error
        .sqlite_error()
        .copied()
        .unwrap_or(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR));
    rusqlite::Error::SqliteFailure(code, Some(error.to_string()))
}
