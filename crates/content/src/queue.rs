//! The queue of a run, in its SQLite file: what is to do, what is in hand, what became of every
//! work.
//!
//! Only one process works on a directory at a time (a lock file sees to that), so what is in hand
//! needs no lease that runs out: whatever a killed process had in hand is queued again when the
//! next one opens the queue. Many small changes are committed together: a thread takes what has
//! gathered while the last batch was written, and tells everybody when theirs is safe. Under
//! simulated time the same is done at once, without a thread.

mod items;
mod journal;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::reason::Reason;

pub use items::{Added, Filed, Found, Item, ItemState, NewItem};
pub use journal::{AttemptRow, Counts, ManifestRow, Totals, WorkRow};

/// The version of the tables, as `PRAGMA user_version` has it.
const VERSION: i64 = 9;

/// The oldest version whose files are taken up.
const OLDEST: i64 = 8;

/// How long a commit waits for the next change to join it, and how many changes it waits for at
/// most.
const GATHER: Duration = Duration::from_millis(4);
const MOST_GATHERED: usize = 24;

/// Why the queue cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum QueueError {
    /// `SQLite` says no.
    #[error("the run's file {path} cannot be used: {why}")]
    Sqlite {
        /// The file.
        path: String,
        /// What it says.
        why: String,
    },
    /// It was made by another version.
    #[error(
        "the run's file {path} has format {found}, this program knows {VERSION}; finish that run with the program that began it, or choose another --out"
    )]
    Version {
        /// The file.
        path: String,
        /// Its version.
        found: i64,
    },
}

/// A change of the queue, and whom to tell what came of it.
trait Change: Send {
    /// Makes it, within a transaction.
    fn make(&mut self, to: &Connection) -> rusqlite::Result<()>;
    /// Tells what came of it: it is committed, or nothing was written for this reason.
    fn tell(self: Box<Self>, failed: Option<rusqlite::Error>);
}

/// A change that somebody waits for.
struct Waited<F, T> {
    change: Option<F>,
    made: Option<T>,
    tell: oneshot::Sender<rusqlite::Result<T>>,
}

impl<T: Send, F: FnOnce(&Connection) -> rusqlite::Result<T> + Send> Change for Waited<F, T> {
    fn make(&mut self, to: &Connection) -> rusqlite::Result<()> {
        self.made = self.change.take().map(|change| change(to)).transpose()?;
        Ok(())
    }

    fn tell(self: Box<Self>, failed: Option<rusqlite::Error>) {
        let told = match (failed, self.made) {
            (None, Some(made)) => Ok(made),
            (failed, _) => Err(failed.unwrap_or(rusqlite::Error::InvalidQuery)),
        };
        // Whoever asked may have gone; the change is made all the same.
        let _ = self.tell.send(told);
    }
}

/// The queue. Cheap to clone.
#[derive(Clone)]
pub struct Queue {
    shared: Arc<Shared>,
}

struct Shared {
    path: PathBuf,
    /// Where changes are made at once.
    inline: Option<Mutex<Connection>>,
    state: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    work: Vec<Box<dyn Change>>,
    closed: bool,
}

/// How changes are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// By a thread, many at a time.
    Thread,
    /// At once, by whoever asks: for simulated time.
    Inline,
}

impl Queue {
    /// Opens the queue in a file, making it where it is missing. What was in hand is queued again.
    ///
    /// # Errors
    /// The file cannot be used, or is of another version.
    pub fn open(path: &Path, mode: Mode) -> Result<Self, QueueError> {
        let shown = path.display().to_string();
        let failed = |error: rusqlite::Error| QueueError::Sqlite {
            path: shown.clone(),
            why: sentence(&error),
        };
        let database = Connection::open(path).map_err(failed)?;
        database
            .busy_timeout(Duration::from_secs(10))
            .map_err(failed)?;
        let found: i64 = database
            .query_row("PRAGMA user_version", [], |row| row.get(0))
            .map_err(failed)?;
        if found != 0 && !(OLDEST..=VERSION).contains(&found) {
            return Err(QueueError::Version { path: shown, found });
        }
        database
            .pragma_update(None, "journal_mode", "WAL")
            .map_err(failed)?;
        database
            .pragma_update(None, "synchronous", "NORMAL")
            .map_err(failed)?;
        if found == 0 {
            let schema = format!(
                "BEGIN IMMEDIATE; {} PRAGMA user_version = {VERSION}; COMMIT;",
                include_str!("queue/schema.sql")
            );
            database.execute_batch(&schema).map_err(failed)?;
        }
        if (OLDEST..VERSION).contains(&found) {
            migrate(&database).map_err(failed)?;
        }
        database
            .execute(
                "UPDATE items SET state = 'queued' WHERE state = 'leased'",
                [],
            )
            .map_err(failed)?;
        let (inline, for_thread) = match mode {
            Mode::Inline => (Some(Mutex::new(database)), None),
            Mode::Thread => (None, Some(database)),
        };
        let shared = Arc::new(Shared {
            path: path.to_owned(),
            inline,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        if let Some(database) = for_thread {
            let side = Arc::clone(&shared);
            let started = std::thread::Builder::new()
                .name("queue".to_owned())
                .spawn(move || side.work(database));
            started.map_err(|error| QueueError::Sqlite {
                path: shown,
                why: format!("no thread for it: {error}"),
            })?;
        }
        Ok(Self { shared })
    }

    /// Copies a queue into a new file, as it is at this moment.
    ///
    /// # Errors
    /// The file cannot be read, or the copy cannot be written.
    pub fn copy(from: &Path, to: &Path) -> Result<(), QueueError> {
        let failed = |error: rusqlite::Error| QueueError::Sqlite {
            path: from.display().to_string(),
            why: sentence(&error),
        };
        let database = Connection::open(from).map_err(failed)?;
        database
            .busy_timeout(Duration::from_secs(10))
            .map_err(failed)?;
        database
            .execute("VACUUM INTO ?1", [to.display().to_string()])
            .map_err(failed)
            .map(|_| ())
    }

    /// Makes a change, and returns when it is committed.
    pub(crate) async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, QueueError> {
        let failed = |error: rusqlite::Error| QueueError::Sqlite {
            path: self.shared.path.display().to_string(),
            why: sentence(&error),
        };
        if let Some(database) = &self.shared.inline {
            let mut database = database.lock();
            let transaction = database
                .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
                .map_err(failed)?;
            let value = change(&transaction).map_err(failed)?;
            transaction.commit().map_err(failed)?;
            return Ok(value);
        }
        let (tell, told) = oneshot::channel();
        let gathered = {
            let mut waiting = self.shared.state.lock();
            waiting.work.push(Box::new(Waited {
                change: Some(change),
                made: None,
                tell,
            }));
            waiting.work.len()
        };
        // Those in between find the thread awake, or waiting for more.
        if gathered == 1 || gathered == MOST_GATHERED {
            self.shared.changed.notify_one();
        }
        match told.await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(failed(error)),
            Err(_) => Err(QueueError::Sqlite {
                path: self.shared.path.display().to_string(),
                why: "a change was refused".to_owned(),
            }),
        }
    }

    /// Ends the thread when everything that was asked for is done.
    pub fn close(&self) {
        self.shared.state.lock().closed = true;
        self.shared.changed.notify_one();
    }

    /// Returns the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shared.path
    }
}

/// Brings the file of an earlier version into the present one: reasons get their one spelling.
fn migrate(database: &Connection) -> rusqlite::Result<()> {
    let mut changes = String::from("BEGIN IMMEDIATE;");
    for reason in Reason::all() {
        let word = reason.as_str();
        for earlier in reason.earlier_words() {
            changes.push_str(&format!(
                "UPDATE items SET reason = '{word}' WHERE reason = '{earlier}';"
            ));
            for table in ["manifests", "attempts"] {
                let payload = format!("json_set(payload, '$.reason', '{word}')");
                changes.push_str(&format!("UPDATE {table} SET reason = '{word}', payload = {payload} WHERE reason = '{earlier}';"));
            }
        }
    }
    changes.push_str(&format!("PRAGMA user_version = {VERSION}; COMMIT;"));
    database.execute_batch(&changes)
}

impl Shared {
    fn work(&self, mut database: Connection) {
        let mut last = 0;
        loop {
            let batch = {
                let mut waiting = self.state.lock();
                while waiting.work.is_empty() && !waiting.closed {
                    self.changed.wait(&mut waiting);
                }
                if waiting.work.is_empty() {
                    return;
                }
                // What comes within a moment is written with it, where more than one comes at a
                // time: a commit costs as much as many changes.
                if last > 1 && waiting.work.len() < MOST_GATHERED && !waiting.closed {
                    let _ = self.changed.wait_for(&mut waiting, GATHER);
                }
                std::mem::take(&mut waiting.work)
            };
            last = batch.len();
            commit(&mut database, batch);
        }
    }
}

/// Commits a batch. A change that fails takes its batch along: nothing of it is written, and all
/// who asked hear why. A run whose queue cannot be written ends, and the next one goes on from what
/// was committed.
fn commit(database: &mut Connection, mut batch: Vec<Box<dyn Change>>) {
    let outcome = database
        .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
        .and_then(|transaction| {
            batch
                .iter_mut()
                .try_for_each(|change| change.make(&transaction))?;
            transaction.commit()
        });
    let failed = outcome.err();
    for change in batch {
        change.tell(failed.as_ref().map(again));
    }
}

/// Makes an error anew for one more listener.
fn again(error: &rusqlite::Error) -> rusqlite::Error {
    let code = error
        .sqlite_error()
        .copied()
        .unwrap_or(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR));
    rusqlite::Error::SqliteFailure(code, Some(error.to_string()))
}

/// Says what is wrong, so that a person knows what to do.
fn sentence(error: &rusqlite::Error) -> String {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DiskFull) => "the disk is full".to_owned(),
        Some(rusqlite::ErrorCode::ReadOnly | rusqlite::ErrorCode::CannotOpen) => {
            "it cannot be written; check the directory and its permissions".to_owned()
        }
        Some(rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase) => {
            "it is not a database, or a damaged one".to_owned()
        }
        _ => error.to_string(),
    }
}
