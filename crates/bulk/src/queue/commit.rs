//! Groups many small changes into few commits. A thread commits the changes that arrived during the
//! previous commit, and replies to each caller when its change is on disk.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::oneshot;

/// Maximum time that a commit waits for further changes to join it.
const COMMIT_GATHER_INTERVAL: Duration = Duration::from_millis(4);
/// A commit waits for further changes only until this many have been collected.
const MAX_GATHERED_CHANGES: usize = 24;

/// A change of the queue, with the channel to the caller that waits for its result.
trait QueueChange: Send {
    /// Makes the change, within a transaction.
    fn make(&mut self, to: &Connection) -> rusqlite::Result<()>;
    /// Replies to the caller: `None` means that the change is committed, an error that nothing was
    /// written.
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
        // The caller may be gone; the change is made anyway.
        let _ = self.caller.send(answer);
    }
}

/// The changes that wait for the committing thread.
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
    /// Adds a change, and returns the receiver of its result. The receiver fails if the thread has
    /// ended.
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
        // Between these two counts, the thread need not be woken: it is running, or waits for
        // further changes for a limited time.
        if gathered == 1 || gathered == MAX_GATHERED_CHANGES {
            self.changed.notify_one();
        }
        answer
    }

    /// Ends the thread after all added changes are committed.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_one();
    }

    /// Commits batches until the queue is closed.
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
                // A commit costs as much as many changes. If the last batch had several changes,
                // wait a little for others to join.
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

/// Commits a batch of [`QueueChange`]s. If one change fails, nothing of the batch is written, and
/// every caller gets the error. The run then ends, and the next run continues from the last commit.
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

/// Copies an error, so that each caller of a failed batch can get it.
fn copy_of(error: &rusqlite::Error) -> rusqlite::Error {
    let code = error
        .sqlite_error()
        .copied()
        .unwrap_or(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR));
    rusqlite::Error::SqliteFailure(code, Some(error.to_string()))
}
