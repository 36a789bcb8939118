//! Sums over the queue: the number of items in each state, and of their results.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::{ItemState, QueueError, WorkQueue};

/// The number of items in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemCounts {
    /// The number of waiting items.
    pub queued: u64,
    /// The number of active items.
    pub leased: u64,
    /// The number of finished items with a file.
    pub done: u64,
    /// The number of finished items without a file.
    pub failed: u64,
}

impl ItemCounts {
    /// Returns the number of unfinished items.
    #[must_use]
    pub const fn left(self) -> u64 {
        self.queued + self.leased
    }

    /// Returns the number of finished items.
    #[must_use]
    pub const fn ended(self) -> u64 {
        self.done + self.failed
    }
}

/// Items of one outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutcomeTotal {
    /// Their state.
    pub state: ItemState,
    /// The reason why they have no file.
    pub reason: Option<String>,
    /// The status that the reason is about.
    pub http_status: Option<u16>,
    /// Their end was recorded by an earlier run.
    pub is_earlier: bool,
    /// The number of items.
    pub items: u64,
}

/// Sums of the results of items and attempts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueTotals {
    /// The number of records, by classification.
    pub classifications: BTreeMap<String, u64>,
    /// The number of items whose files have only one classification, by that classification.
    pub only: BTreeMap<String, u64>,
    /// The number of items without a file, by reason.
    pub reasons: BTreeMap<String, u64>,
    /// The number of attempts, by source.
    pub attempts: BTreeMap<String, u64>,
    /// The number of successful attempts, by source.
    pub successes: BTreeMap<String, u64>,
    /// The number of attempts, by status.
    pub statuses: BTreeMap<String, u64>,
    /// The number of attempts, by reason.
    pub errors: BTreeMap<String, u64>,
}

impl WorkQueue {
    /// Returns the number of items in each state.
    ///
    /// # Errors
    /// Returns a [`QueueError`] if the file cannot be read.
    pub async fn counts(&self) -> Result<ItemCounts, QueueError> {
        self.change(|to| {
            let by_state = pairs(to, "SELECT state, count(*) FROM items GROUP BY state")?;
            let of = |state| by_state.get(state).copied().unwrap_or(0);
            Ok(ItemCounts {
                queued: of("queued"),
                leased: of("leased"),
                done: of("done"),
                failed: of("failed"),
            })
        })
        .await
    }

    /// Counts items by state, reason and status, and by whether `run_id` recorded their end.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn outcomes(&self, run_id: String) -> Result<Vec<OutcomeTotal>, QueueError> {
        self.change(move |to| {
            let mut query = to.prepare(
                "SELECT state, reason, status, is_earlier, count(*) FROM (
                   SELECT items.state AS state, CASE WHEN items.state = 'failed' THEN items.reason END AS reason,
                          CASE WHEN items.state = 'failed' THEN latest.payload ->> '$.http_status' END AS status,
                          items.state IN ('done', 'failed') AND latest.run_id IS NOT ?1 AS is_earlier
                   FROM items LEFT JOIN manifests AS latest
                   ON latest.id = (SELECT max(id) FROM manifests WHERE item = items.id))
                 GROUP BY state, reason, status, is_earlier",
            )?;
            let rows = query.query_map([run_id], |row| {
                Ok(OutcomeTotal {
                    state: ItemState::decode(row.get_ref(0)?.as_str().unwrap_or_default()),
                    reason: row.get(1)?,
                    http_status: row.get(2)?,
                    is_earlier: row.get(3)?,
                    items: row.get::<_, i64>(4)?.unsigned_abs(),
                })
            })?;
            rows.collect()
        })
        .await
    }

    /// Sums up manifest records and attempts as [`QueueTotals`].
    ///
    /// # Errors
    /// Returns a [`QueueError`] if the file cannot be read.
    pub async fn totals(&self) -> Result<QueueTotals, QueueError> {
        self.change(|to| {
            let of = |sql| pairs(to, sql);
            Ok(QueueTotals {
                classifications: of("SELECT classification, count(*) FROM manifests GROUP BY classification")?,
                only: of(
                    "SELECT classification, count(*) FROM (SELECT min(classification) AS classification FROM manifests WHERE path IS NOT NULL
                     GROUP BY item HAVING min(classification) = max(classification)) GROUP BY classification",
                )?,
                reasons: of("SELECT reason, count(*) FROM items WHERE state = 'failed' AND reason IS NOT NULL GROUP BY reason")?,
                attempts: of("SELECT resolver_name, count(*) FROM attempts GROUP BY resolver_name")?,
                successes: of("SELECT resolver_name, count(*) FROM attempts WHERE status IN ('found', 'saved') GROUP BY resolver_name")?,
                statuses: of("SELECT status, count(*) FROM attempts GROUP BY status")?,
                errors: of("SELECT reason, count(*) FROM attempts WHERE reason IS NOT NULL GROUP BY reason")?,
            })
        })
        .await
    }
}

fn pairs(from: &Connection, sql: &str) -> rusqlite::Result<BTreeMap<String, u64>> {
    let mut query = from.prepare_cached(sql)?;
    let rows = query.query_map([], |row| {
        let number = u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0);
        Ok((row.get(0)?, number))
    })?;
    rows.collect()
}
