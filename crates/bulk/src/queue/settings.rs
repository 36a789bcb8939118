//! What later runs in a directory need to know of earlier ones: named texts, such as the options of
//! a job; and the trust in the inputs of items.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension};

use super::{QueueError, WorkQueue};

/// Maximum wait of a reader for a writer of the queue's file.
const READ_PATIENCE: Duration = Duration::from_secs(10);

impl WorkQueue {
    /// Returns the text of a setting; `None` if no run has written it.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn setting(&self, name: &'static str) -> Result<Option<String>, QueueError> {
        self.change(move |to| find_setting(to, name)).await
    }

    /// Writes the text of a setting.
    ///
    /// # Errors
    /// The file cannot be written.
    pub async fn set_setting(&self, name: &'static str, value: String) -> Result<(), QueueError> {
        self.change(move |to| {
            to.execute(
                "INSERT OR REPLACE INTO settings VALUES (?1, ?2)",
                [name, &value],
            )
            .map(|_| ())
        })
        .await
    }

    /// Reads a setting of a queue that another process may have open. `None` if there is no such
    /// file, or if an earlier version wrote it.
    pub(crate) fn read_setting(path: &Path, name: &str) -> Option<String> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let database = Connection::open_with_flags(path, flags).ok()?;
        database.busy_timeout(READ_PATIENCE).ok()?;
        find_setting(&database, name).ok().flatten()
    }

    /// Marks items of which an earlier version did not record it as items of an untrusted input.
    ///
    /// # Errors
    /// The file cannot be written.
    pub async fn distrust_unrecorded(&self) -> Result<(), QueueError> {
        self.mark_untrusted("untrusted IS NULL").await
    }

    /// Marks all items without a file as items of an untrusted input.
    ///
    /// # Errors
    /// The file cannot be written.
    pub async fn distrust_unfinished(&self) -> Result<(), QueueError> {
        self.mark_untrusted("state <> 'done'").await
    }

    async fn mark_untrusted(&self, condition: &'static str) -> Result<(), QueueError> {
        self.change(move |to| {
            let change = format!("UPDATE items SET untrusted = 1 WHERE {condition}");
            to.execute(&change, []).map(|_| ())
        })
        .await
    }
}

fn find_setting(from: &Connection, name: &str) -> rusqlite::Result<Option<String>> {
    from.query_row(
        "SELECT value FROM settings WHERE name = ?1",
        [name],
        |row| row.get(0),
    )
    .optional()
}
