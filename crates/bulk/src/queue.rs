//! The queue of a run in its SQLite file, with the state of every item and the records of its
//! results.
//!
//! A lock file ensures that only one process works on a directory at a time. So an active item
//! needs no lease: the active items of a killed process are queued again when the next process
//! opens the queue. A thread groups many small changes into one commit. Under simulated time each
//! change is committed at once, without a thread.

mod commit;
mod cursors;
mod items;
mod lines;
mod migrate;
mod reader;
mod records;
mod settings;
mod totals;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use docstokg_stores::private;
use parking_lot::Mutex;
use rusqlite::{Connection, TransactionBehavior};

use commit::Batches;

pub use cursors::QueryCursor;
pub use items::{AddedItem, ClaimedItem, ItemState, LaneBacklog, NewItem, PutBack};
pub use lines::{LineCounts, LineRow, NewLine, UnrecognisedLine};
pub use migrate::Respelling;
pub use reader::{QueueReader, StoredCounts, StoredFailures, StoredItem, StoredWait};
pub use records::{AttemptRow, FileRow, ItemEnd, ItemRow, ManifestRow, MetadataRow};
pub use totals::{ItemCounts, OutcomeTotal, QueueTotals};

/// The name of the queue's file.
pub(crate) const QUEUE_FILE: &str = "manifest.sqlite3";

/// The version of the tables, as `PRAGMA user_version` has it.
const TABLES_VERSION: i64 = 12;

/// The oldest version whose files can be migrated.
const OLDEST_SUPPORTED_VERSION: i64 = 8;

/// The error of a queue that cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum QueueError {
    /// `SQLite` or the file system refused an operation.
    #[error("the run's file {path} cannot be used: {why}")]
    Sqlite {
        /// The file.
        path: String,
        /// The error message.
        why: String,
    },
    /// Another version of the program created the file.
    #[error(
        "the run's file {path} has format {found}, this program knows {TABLES_VERSION}; finish that run with the program that began it, or choose another --out"
    )]
    Version {
        /// The file.
        path: String,
        /// The version of the file.
        found: i64,
    },
}

/// The queue of a run. Cheap to clone.
///
/// ```
/// use docstokg_bulk::digest::Fingerprint;
/// use docstokg_bulk::queue::{CommitMode, NewItem, WorkQueue};
/// use docstokg_bulk::lane::WorkLaneKey;
/// use docstokg_policy::time::Timestamp;
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("run.sqlite3");
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let queue = WorkQueue::open(&path, CommitMode::Inline, &[])?;
/// let item = NewItem {
///     key_hash: Fingerprint::of("doi:10.1000/1").bytes(),
///     name: "doi:10.1000/1".to_owned(),
///     source: "works.txt".to_owned(),
///     line: 1,
///     recorded_line: None,
///     metadata: None,
///     hidden: false,
///     untrusted: false,
///     lane: WorkLaneKey::Start,
///     saved_state: None,
/// };
/// queue.add(vec![item], Timestamp::from_micros(0)).await?;
/// let claimed = queue.claim(WorkLaneKey::Start, 10).await?;
/// assert_eq!(claimed[0].name, "doi:10.1000/1");
/// assert_eq!(queue.counts().await?.leased, 1);
/// # Ok::<(), docstokg_bulk::queue::QueueError>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct WorkQueue {
    shared: Arc<SharedQueue>,
}

struct SharedQueue {
    path: PathBuf,
    /// The connection that commits at once, with [`CommitMode::Inline`].
    inline: Option<Mutex<Connection>>,
    batches: Batches,
}

/// The execution of commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitMode {
    /// A thread commits many changes at a time.
    Thread,
    /// The caller commits each change at once, for simulated time.
    Inline,
}

impl WorkQueue {
    /// Opens the queue in a file, after creating it if missing. Active items are queued again.
    /// `reasons` are the words that a file of an earlier version may spell differently.
    ///
    /// # Errors
    /// Returns a [`QueueError`] if the file cannot be used, or has an unsupported version.
    pub fn open(path: &Path, mode: CommitMode, reasons: &[Respelling]) -> Result<Self, QueueError> {
        let database = open_database(path, reasons)?;
        let (inline, for_thread) = match mode {
            CommitMode::Inline => (Some(Mutex::new(database)), None),
            CommitMode::Thread => (None, Some(database)),
        };
        let shared = Arc::new(SharedQueue {
            path: path.to_owned(),
            inline,
            batches: Batches::default(),
        });
        if let Some(database) = for_thread {
            let side = Arc::clone(&shared);
            let started = std::thread::Builder::new()
                .name("queue".to_owned())
                .spawn(move || side.batches.commit_all(database));
            started.map_err(|error| QueueError::Sqlite {
                path: path.display().to_string(),
                why: format!("no thread for it: {error}"),
            })?;
        }
        Ok(Self { shared })
    }

    /// Copies the present content of a queue into a new file.
    ///
    /// # Errors
    /// Returns a [`QueueError`] if the file cannot be read, or the copy cannot be written.
    pub fn copy(from: &Path, to: &Path) -> Result<(), QueueError> {
        let failed = |error| failure(from, &error);
        let database = Connection::open(from).map_err(failed)?;
        database
            .busy_timeout(Duration::from_secs(10))
            .map_err(failed)?;
        database
            .execute("VACUUM INTO ?1", [to.display().to_string()])
            .map_err(failed)
            .map(|_| ())
    }

    /// Makes a change, and returns after its commit.
    pub(crate) async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, QueueError> {
        let failed = |error| failure(&self.shared.path, &error);
        if let Some(database) = &self.shared.inline {
            let mut database = database.lock();
            let transaction = database
                .transaction_with_behavior(TransactionBehavior::Immediate)
                .map_err(failed)?;
            let value = change(&transaction).map_err(failed)?;
            transaction.commit().map_err(failed)?;
            return Ok(value);
        }
        match self.shared.batches.push(change).await {
            Ok(answer) => answer.map_err(failed),
            Err(_) => Err(QueueError::Sqlite {
                path: self.shared.path.display().to_string(),
                why: "a change was refused".to_owned(),
            }),
        }
    }

    /// Ends the thread after all requested changes are committed.
    pub fn close(&self) {
        self.shared.batches.close();
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shared.path
    }
}

fn open_database(path: &Path, reasons: &[Respelling]) -> Result<Connection, QueueError> {
    let failed = |error| failure(path, &error);
    private::refuse_link(path).map_err(|error| QueueError::Sqlite {
        path: path.display().to_string(),
        why: format!("{error}; remove the link, or choose another --out"),
    })?;
    let mut database = Connection::open(path).map_err(failed)?;
    database
        .busy_timeout(Duration::from_secs(10))
        .map_err(failed)?;
    let found: i64 = database
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .map_err(failed)?;
    if found != 0 && !(OLDEST_SUPPORTED_VERSION..=TABLES_VERSION).contains(&found) {
        let path = path.display().to_string();
        return Err(QueueError::Version { path, found });
    }
    for (name, value) in [("journal_mode", "WAL"), ("synchronous", "NORMAL")] {
        database.pragma_update(None, name, value).map_err(failed)?;
    }
    if found == 0 {
        let schema = format!(
            "BEGIN IMMEDIATE; {} {} PRAGMA user_version = {TABLES_VERSION}; COMMIT;",
            include_str!("queue/schema.sql"),
            include_str!("queue/lines.sql")
        );
        database.execute_batch(&schema).map_err(failed)?;
    }
    database
        .execute(
            "UPDATE items SET state = 'queued' WHERE state = 'leased'",
            [],
        )
        .map_err(failed)?;
    if (OLDEST_SUPPORTED_VERSION..TABLES_VERSION).contains(&found) {
        migrate::migrate(&mut database, found, reasons).map_err(failed)?;
    }
    Ok(database)
}

fn failure(path: &Path, error: &rusqlite::Error) -> QueueError {
    QueueError::Sqlite {
        path: path.display().to_string(),
        why: sentence(error),
    }
}

/// Describes an error so that a person knows what to do.
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
