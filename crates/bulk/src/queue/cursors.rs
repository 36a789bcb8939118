//! Stores how far the inputs of a directory have been read, and the summaries of its runs.

use docstokg_policy::time::Timestamp;
use rusqlite::{OptionalExtension, params};

use super::{QueueError, WorkQueue};

/// The row of the table `cursors` that is for all inputs together. No query has this name.
const INPUTS_ROW: &str = "inputs";

/// The reading progress of a query that has several pages of results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryCursor {
    /// The position of the next page, as the service returned it; `None` after the last page.
    pub position: Option<String>,
    /// The number of pages read.
    pub page: u64,
    /// The number of items found.
    pub found: u64,
}

impl WorkQueue {
    /// Stores the summary of a run.
    ///
    /// # Errors
    /// Returns a [`QueueError`] if the file cannot be written.
    pub async fn summarise(
        &self,
        run_id: String,
        at: Timestamp,
        payload: String,
    ) -> Result<(), QueueError> {
        self.change(move |to| {
            to.execute(
                "INSERT OR REPLACE INTO summaries VALUES (?1, ?2, ?3)",
                params![run_id, at.as_secs_f64(), payload],
            )
            .map(|_| ())
        })
        .await
    }

    /// Records whether inputs exist that were not read to their end.
    ///
    /// # Errors
    /// Returns a [`QueueError`] if the file cannot be written.
    pub async fn set_unread(&self, unread: bool) -> Result<(), QueueError> {
        self.change(move |to| {
            let change = if unread {
                "INSERT OR REPLACE INTO cursors VALUES (?1, NULL, 0, 0)"
            } else {
                "DELETE FROM cursors WHERE query = ?1"
            };
            to.execute(change, [INPUTS_ROW]).map(|_| ())
        })
        .await
    }

    /// Tells whether inputs exist that were not read to their end.
    ///
    /// # Errors
    /// Returns a [`QueueError`] if the file cannot be read.
    pub async fn is_unread(&self) -> Result<bool, QueueError> {
        self.change(|to| {
            to.prepare("SELECT 1 FROM cursors WHERE query = ?1")?
                .exists([INPUTS_ROW])
        })
        .await
    }

    /// Returns the [`QueryCursor`] of a query; `None` for a new query.
    ///
    /// # Errors
    /// Returns a [`QueueError`] if the file cannot be read.
    pub async fn cursor(&self, query: String) -> Result<Option<QueryCursor>, QueueError> {
        self.change(move |to| {
            to.query_row(
                "SELECT cursor, page, found FROM cursors WHERE query = ?1",
                [query],
                |row| {
                    let number = |column| {
                        row.get::<_, i64>(column)
                            .map(|number| u64::try_from(number).unwrap_or(0))
                    };
                    Ok(QueryCursor {
                        position: row.get(0)?,
                        page: number(1)?,
                        found: number(2)?,
                    })
                },
            )
            .optional()
        })
        .await
    }

    /// Stores the [`QueryCursor`] of a query.
    ///
    /// # Errors
    /// Returns a [`QueueError`] if the file cannot be written.
    pub async fn set_cursor(&self, query: String, cursor: QueryCursor) -> Result<(), QueueError> {
        self.change(move |to| {
            let number = |number| i64::try_from(number).unwrap_or(i64::MAX);
            to.execute(
                "INSERT OR REPLACE INTO cursors VALUES (?1, ?2, ?3, ?4)",
                params![
                    query,
                    cursor.position,
                    number(cursor.page),
                    number(cursor.found)
                ],
            )
            .map(|_| ())
        })
        .await
    }
}
