//! The queue of a run as another process reads it: while the run works, after it was killed, and in
//! a directory that cannot be written. Nothing is changed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use docstokg_policy::time::Timestamp;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use super::{ItemState, OLDEST_SUPPORTED_VERSION, QUEUE_FILE, QueueError, TABLES_VERSION, failure};
use crate::deferral::Deferral;

/// A queue that is read.
pub struct QueueReader {
    database: Connection,
    path: PathBuf,
    /// A copy that is removed when this is dropped.
    _copy: Option<CopiedQueue>,
}

/// Items by state, as a reader sees them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredCounts {
    /// Items with a file.
    pub done: u64,
    /// Of these, those that had one before the run began.
    pub done_before: u64,
    /// Items without a file.
    pub failed: u64,
    /// Items that are deferred.
    pub deferred: u64,
    /// Items that a run has taken from the queue.
    pub claimed: u64,
    /// Items that are to do and not deferred.
    pub queued: u64,
}

/// Items without a file for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFailures {
    /// The reason.
    pub reason: String,
    /// The status that the reason is about.
    pub http_status: Option<u16>,
    /// The number of items.
    pub items: u64,
}

/// Items that wait for one host for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredWait {
    /// The wait of the first of them; `None` if that was not kept.
    pub deferral: Option<Deferral>,
    /// When the first of them is due.
    pub until: Timestamp,
    /// The number of items.
    pub items: u64,
}

/// An item, as a reader sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredItem {
    /// Its name.
    pub name: String,
    /// The file or query that named it.
    pub source: String,
    /// The line in that file.
    pub line: u64,
    /// Its state.
    pub state: ItemState,
    /// The time at which it is due, if it is deferred.
    pub due: Option<Timestamp>,
    /// Its wait, if it is deferred.
    pub deferral: Option<Deferral>,
    /// The latest manifest record, as JSON text.
    pub record: Option<String>,
}

impl QueueReader {
    /// Opens the queue of a directory.
    ///
    /// # Errors
    /// The file is missing or cannot be read, or another version made it.
    pub fn open(directory: &Path) -> Result<Self, QueueError> {
        let path = directory.join(QUEUE_FILE);
        let failed = |error: rusqlite::Error| failure(&path, &error);
        let (database, copy) = open_to_read(&path).map_err(failed)?;
        let found: i64 = database
            .query_row("PRAGMA user_version", [], |row| row.get(0))
            .map_err(failed)?;
        if !(OLDEST_SUPPORTED_VERSION..=TABLES_VERSION).contains(&found) {
            let path = path.display().to_string();
            return Err(QueueError::Version { path, found });
        }
        Ok(Self {
            database,
            path,
            _copy: copy,
        })
    }

    fn read<T>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, QueueError> {
        query(&self.database).map_err(|error| failure(&self.path, &error))
    }

    /// Counts items by where they stand. `since` is when the run began.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn counts(&self, since: Timestamp) -> Result<StoredCounts, QueueError> {
        self.read(|from| {
            let mut query = from.prepare(
                "SELECT state, state = 'queued' AND not_before > 0, count(*), sum(updated_at < ?1)
                 FROM items GROUP BY 1, 2",
            )?;
            let mut rows = query.query([since.as_secs_f64()])?;
            let mut counts = StoredCounts::default();
            while let Some(row) = rows.next()? {
                let state = ItemState::decode(row.get_ref(0)?.as_str().unwrap_or_default());
                let (is_deferred, items) = (row.get::<_, bool>(1)?, number(row.get(2)?));
                match (state, is_deferred) {
                    (ItemState::Done, _) => {
                        counts.done += items;
                        counts.done_before += number(row.get(3)?);
                    }
                    (ItemState::Failed, _) => counts.failed += items,
                    (ItemState::Leased, _) => counts.claimed += items,
                    (ItemState::Queued, true) => counts.deferred += items,
                    (ItemState::Queued, false) => counts.queued += items,
                }
            }
            Ok(counts)
        })
    }

    /// Counts items without a file by reason and status.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn failures(&self) -> Result<Vec<StoredFailures>, QueueError> {
        self.read(|from| {
            let mut query = from.prepare(
                "SELECT coalesce(i.reason, ''), m.payload ->> '$.http_status', count(*) FROM items i
                 LEFT JOIN manifests m ON m.id = (SELECT max(id) FROM manifests WHERE item = i.id)
                 WHERE i.state = 'failed' GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2",
            )?;
            let found = query.query_map([], |row| {
                let status: Option<i64> = row.get(1)?;
                Ok(StoredFailures {
                    reason: row.get(0)?,
                    http_status: status.and_then(|status| u16::try_from(status).ok()),
                    items: number(row.get(2)?),
                })
            })?;
            found.collect()
        })
    }

    /// Lists what deferred items wait for, by host and reason, the first due first.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn waits(&self) -> Result<Vec<StoredWait>, QueueError> {
        self.read(|from| {
            let mut query = from.prepare(
                "SELECT min(not_before), progress -> '$.deferral', count(*) FROM items
                 WHERE state = 'queued' AND not_before > 0
                 GROUP BY progress ->> '$.deferral.host', progress ->> '$.deferral.why' ORDER BY 1",
            )?;
            let found = query.query_map([], |row| {
                let deferral: Option<String> = row.get(1)?;
                Ok(StoredWait {
                    deferral: deferral.as_deref().and_then(read_deferral),
                    until: Timestamp::from_secs_f64(row.get(0)?),
                    items: number(row.get(2)?),
                })
            })?;
            found.collect()
        })
    }

    /// Returns how many files the directory has, and their bytes.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn files(&self) -> Result<(u64, u64), QueueError> {
        self.read(|from| {
            from.query_row(
                "SELECT count(*), coalesce(sum(content_length), 0) FROM manifests WHERE path IS NOT NULL",
                [],
                |row| Ok((number(row.get(0)?), number(row.get(1)?))),
            )
        })
    }

    /// Returns the run that was summed up last, and when.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn last_summary(&self) -> Result<Option<(String, Timestamp)>, QueueError> {
        self.read(|from| {
            from.query_row(
                "SELECT run_id, timestamp FROM summaries ORDER BY timestamp DESC LIMIT 1",
                [],
                |row| Ok((row.get(0)?, Timestamp::from_secs_f64(row.get(1)?))),
            )
            .optional()
        })
    }

    /// Finds the item of a name, or the one whose records have this DOI.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn item(&self, name: &str, doi: Option<&str>) -> Result<Option<StoredItem>, QueueError> {
        self.read(|from| {
            let mut query = from.prepare(
                "SELECT work_id, source, line, state, not_before, progress -> '$.deferral',
                 (SELECT payload FROM manifests WHERE item = items.id ORDER BY id DESC LIMIT 1)
                 FROM items WHERE work_id = ?1 OR (?2 IS NOT NULL AND id IN
                 (SELECT item FROM manifests WHERE payload ->> '$.doi' = ?2))
                 ORDER BY work_id = ?1 DESC, id LIMIT 1",
            )?;
            query
                .query_row(params![name, doi], |row| {
                    let due: f64 = row.get(4)?;
                    let deferral: Option<String> = row.get(5)?;
                    let state = ItemState::decode(row.get_ref(3)?.as_str().unwrap_or_default());
                    Ok(StoredItem {
                        name: row.get(0)?,
                        source: row.get(1)?,
                        line: number(row.get(2)?),
                        state,
                        due: (state == ItemState::Queued && due > 0.0)
                            .then(|| Timestamp::from_secs_f64(due)),
                        deferral: deferral.as_deref().and_then(read_deferral),
                        record: row.get(6)?,
                    })
                })
                .optional()
        })
    }

    /// Passes the name of every item to `take`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn each_name(&self, mut take: impl FnMut(&str)) -> Result<(), QueueError> {
        self.read(|from| {
            let mut query = from.prepare("SELECT work_id FROM items ORDER BY id")?;
            let mut rows = query.query([])?;
            while let Some(row) = rows.next()? {
                take(row.get_ref(0)?.as_str().unwrap_or_default());
            }
            Ok(())
        })
    }

    /// Returns the records of the attempts of an item, as JSON text, in the order of time.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn attempts(&self, name: &str) -> Result<Vec<String>, QueueError> {
        self.read(|from| {
            let mut query = from.prepare(
                "SELECT payload FROM attempts WHERE work_id = ?1 ORDER BY timestamp, id",
            )?;
            query.query_map([name], |row| row.get(0))?.collect()
        })
    }
}

fn number(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

fn read_deferral(text: &str) -> Option<Deferral> {
    serde_json::from_str(text).ok()
}

/// The longest wait of a reader for a lock.
const READ_BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// A copy of a queue in a directory of its own.
struct CopiedQueue {
    directory: PathBuf,
}

impl Drop for CopiedQueue {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Opens a queue to read it. Without a write-ahead log no process writes, and the file is
/// complete.
/// With one, `SQLite` needs the index of the log; where the index can neither be found nor made, a
/// copy is read.
fn open_to_read(path: &Path) -> rusqlite::Result<(Connection, Option<CopiedQueue>)> {
    let log = with_suffix(path, "-wal");
    if !std::fs::metadata(&log).is_ok_and(|log| log.len() > 0) {
        return open_checked(path, "immutable=1").map(|database| (database, None));
    }
    match open_checked(path, "mode=ro") {
        Ok(database) => Ok((database, None)),
        Err(error) => match copied(path, &log) {
            Ok((copy, directory)) => Ok((open_checked(&copy, "mode=rw")?, Some(directory))),
            Err(_) => Err(error),
        },
    }
}

fn open_checked(path: &Path, mode: &str) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let flags = if mode == "mode=rw" {
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_URI
    } else {
        flags
    };
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let name: String = absolute
        .display()
        .to_string()
        .replace('%', "%25")
        .replace('?', "%3f")
        .replace('#', "%23");
    let database = Connection::open_with_flags(format!("file:{name}?{mode}"), flags)?;
    database.busy_timeout(READ_BUSY_TIMEOUT)?;
    // The file is opened by the first query.
    database.query_row("SELECT count(*) FROM sqlite_master", [], |_| Ok(()))?;
    Ok(database)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Copies a queue and its log into a private directory.
fn copied(path: &Path, log: &Path) -> std::io::Result<(PathBuf, CopiedQueue)> {
    let name = format!(
        "docstokg-status-{}-{:08x}",
        std::process::id(),
        fastrand::u32(..)
    );
    let directory = std::env::temp_dir().join(name);
    docstokg_stores::private::make_directory(&directory)?;
    let copy = CopiedQueue { directory };
    let to = copy.directory.join(QUEUE_FILE);
    std::fs::copy(path, &to)?;
    std::fs::copy(log, with_suffix(&to, "-wal"))?;
    Ok((to, copy))
}
