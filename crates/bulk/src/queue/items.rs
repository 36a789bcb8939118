//! Items in the queue.

use rusqlite::{Connection, OptionalExtension, Row, Statement, params};

use docstokg_policy::time::Timestamp;

use super::lines::{LineWriter, NewLine};
use super::records::{MetadataRow, insert_metadata};
use super::{QueueError, WorkQueue};
use crate::deferral::Deferral;
use crate::job::JobState;
use crate::lane::WorkLaneKey;

/// An item to add to the queue.
#[derive(Clone, Debug)]
pub struct NewItem {
    /// A fingerprint of the key by which the item is found again.
    pub key_hash: [u8; 16],
    /// The name under which the item is recorded, without secrets.
    pub name: String,
    /// The origin of the item: a file, `-`, `command line`, or a query.
    pub source: String,
    /// The number of the line.
    pub line: u64,
    /// The line as it is recorded; `None` if lines are not recorded.
    pub recorded_line: Option<NewLine>,
    /// The statement of its input about it, if that is kept.
    pub metadata: Option<MetadataRow>,
    /// The name is redacted, so the line must be read again to know the item.
    pub hidden: bool,
    /// Set if other people wrote the input: its URLs must not lead into the private network.
    pub untrusted: bool,
    /// The first [`WorkLaneKey`] of the item.
    pub lane: WorkLaneKey,
    /// The state beyond the name, as JSON.
    pub saved_state: Option<String>,
}

/// The result of adding an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddedItem {
    /// The item is queued under this number.
    New(i64),
    /// The item was already known, with this number and state.
    Known(i64, ItemState),
}

impl AddedItem {
    /// Returns the number of the item.
    #[must_use]
    pub const fn id(&self) -> i64 {
        match self {
            Self::New(id) | Self::Known(id, _) => *id,
        }
    }
}

/// The state of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemState {
    /// The item waits for a worker.
    Queued,
    /// The item is active.
    Leased,
    /// The item has a file.
    Done,
    /// The item ended without a file.
    Failed,
}

impl ItemState {
    pub(super) fn decode(word: &str) -> Self {
        match word {
            "leased" => Self::Leased,
            "done" => Self::Done,
            "failed" => Self::Failed,
            _ => Self::Queued,
        }
    }
}

/// An item that a worker has taken from the queue.
#[derive(Clone, Debug)]
pub struct ClaimedItem {
    /// The number of the item.
    pub id: i64,
    /// The name under which the item is recorded.
    pub name: String,
    /// The name is redacted, so the input line must be read again.
    pub hidden: bool,
    /// Set if other people wrote the input of the item.
    pub untrusted: bool,
    /// The state of the item, as JSON.
    pub saved_state: Option<String>,
    /// The number of requests made for the item.
    pub attempts: u32,
    /// A fingerprint of the key by which the item is found again.
    pub key_hash: [u8; 16],
}

/// An item that returns to the queue.
#[derive(Clone, Debug)]
pub struct PutBack {
    /// The number of the item.
    pub id: i64,
    /// The [`WorkLaneKey`] of its next step.
    pub lane: WorkLaneKey,
    /// The state of the item, as JSON.
    pub saved_state: Option<String>,
    /// The number of requests made for the item.
    pub attempts: u32,
    /// The due time, if the item is deferred.
    pub not_before: Option<Timestamp>,
}

/// The number of waiting items in a lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneBacklog {
    /// The key of the lane.
    pub lane: WorkLaneKey,
    /// The number of items.
    pub items: u64,
}

fn item(row: &Row<'_>) -> rusqlite::Result<ClaimedItem> {
    Ok(ClaimedItem {
        id: row.get(0)?,
        name: row.get(1)?,
        hidden: row.get(2)?,
        saved_state: row.get(3)?,
        attempts: row.get(4)?,
        key_hash: row.get(5)?,
        untrusted: row.get::<_, Option<bool>>(6)?.unwrap_or(false),
    })
}

fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    Ok(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0))
}

impl WorkQueue {
    /// Adds items, and returns an [`AddedItem`] for each, in order. Known items are not added
    /// again.
    ///
    /// # Errors
    /// Returns a [`QueueError`] if the file cannot be written.
    pub async fn add(
        &self,
        items: Vec<NewItem>,
        now: Timestamp,
    ) -> Result<Vec<AddedItem>, QueueError> {
        self.change(move |to| {
            let mut insert = to.prepare_cached(
                "INSERT INTO items (key_hash, work_id, source, line, hidden, state, lane, progress, updated_at, untrusted)
                 VALUES (?1, ?2, ?3, ?4, ?5, 'queued', ?6, ?7, ?8, ?9) ON CONFLICT (key_hash) DO NOTHING RETURNING id",
            )?;
            let mut known = to.prepare_cached("SELECT id, state FROM items WHERE key_hash = ?1")?;
            let mut lines = LineWriter::new(to, now)?;
            let mut add = |mut item: NewItem| {
                let (recorded, metadata) = (item.recorded_line.take(), item.metadata.take());
                let source = item.source.clone();
                let added = insert_item(&mut insert, &mut known, &item, now)?;
                if let Some(line) = recorded {
                    lines.insert(&source, &line, Ok(added.id()))?;
                }
                if let Some(metadata) = metadata {
                    insert_metadata(to, added.id(), &metadata)?;
                }
                Ok(added)
            };
            items.into_iter().map(&mut add).collect()
        })
        .await
    }

    /// Claims up to `most` items of a lane, oldest first.
    ///
    /// # Errors
    /// Returns a [`QueueError`] if the file cannot be written.
    pub async fn claim(
        &self,
        lane: WorkLaneKey,
        most: usize,
    ) -> Result<Vec<ClaimedItem>, QueueError> {
        self.change(move |to| {
            let mut query = to.prepare_cached(
                "UPDATE items SET state = 'leased' WHERE id IN
                 (SELECT id FROM items WHERE state = 'queued' AND lane = ?1 AND not_before = 0 ORDER BY id LIMIT ?2)
                 RETURNING id, work_id, hidden, progress, attempts, key_hash, untrusted",
            )?;
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            let items = query.query_map(params![lane, most], item)?;
            let mut items = items.collect::<rusqlite::Result<Vec<_>>>()?;
            items.sort_by_key(|item| item.id);
            Ok(items)
        })
        .await
    }

    /// Claims deferred items that are due.
    ///
    /// # Errors
    /// Returns a [`QueueError`] if the file cannot be written.
    pub async fn claim_due(
        &self,
        now: Timestamp,
        most: usize,
    ) -> Result<Vec<ClaimedItem>, QueueError> {
        self.change(move |to| {
            let mut query = to.prepare_cached(
                "UPDATE items SET state = 'leased', not_before = 0 WHERE id IN
                 (SELECT id FROM items INDEXED BY items_later WHERE state = 'queued' AND not_before > 0 AND not_before <= ?1 ORDER BY not_before LIMIT ?2)
                 RETURNING id, work_id, hidden, progress, attempts, key_hash, untrusted",
            )?;
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            query
                .query_map(params![now.as_secs_f64(), most], item)?
                .collect()
        })
        .await
    }

    /// Returns an item to the queue, in a lane or deferred.
    ///
    /// # Errors
    /// Returns a [`QueueError`] if the file cannot be written.
    pub async fn put_back(&self, item: PutBack, now: Timestamp) -> Result<(), QueueError> {
        self.change(move |to| {
            let not_before = item.not_before.map_or(0.0, Timestamp::as_secs_f64);
            to.prepare_cached(
                "UPDATE items SET state = 'queued', lane = ?2, progress = ?3, attempts = ?4, not_before = ?5, updated_at = ?6 WHERE id = ?1",
            )?
            .execute(params![
                item.id,
                item.lane,
                item.saved_state,
                item.attempts,
                not_before,
                now.as_secs_f64()
            ])
            .map(|_| ())
        })
        .await
    }

    /// Returns the [`LaneBacklog`] of up to `most` lanes whose keys come after `after`, in the
    /// order of their texts.
    ///
    /// # Errors
    /// Returns a [`QueueError`] if the file cannot be read.
    pub async fn backlog(
        &self,
        after: Option<WorkLaneKey>,
        most: usize,
    ) -> Result<Vec<LaneBacklog>, QueueError> {
        self.change(move |to| {
            let mut query = to.prepare_cached(
                "SELECT lane, count(*) FROM items WHERE state = 'queued' AND lane > ?1 AND not_before = 0 GROUP BY lane ORDER BY lane LIMIT ?2",
            )?;
            let after = after.map_or_else(String::new, |after| after.to_string());
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            let found = query.query_map(params![after, most], |row| {
                Ok(LaneBacklog { lane: row.get(0)?, items: count(row, 1)? })
            })?;
            found.collect()
        })
        .await
    }

    /// Returns the earliest time at which a deferred item is due.
    ///
    /// # Errors
    /// Returns a [`QueueError`] if the file cannot be read.
    pub async fn next_due(&self) -> Result<Option<Timestamp>, QueueError> {
        self.change(|to| {
            let earliest: Option<f64> = to
                .prepare_cached("SELECT min(not_before) FROM items INDEXED BY items_later WHERE state = 'queued' AND not_before > 0")?
                .query_row([], |row| row.get(0))?;
            Ok(earliest.map(Timestamp::from_secs_f64))
        })
        .await
    }

    /// Moves deferred items of a host into the first lane, because the host is available. Returns
    /// their [`Deferral`]s.
    ///
    /// # Errors
    /// Returns a [`QueueError`] if the file cannot be written.
    pub async fn reopen<S: JobState>(&self, host: String) -> Result<Vec<Deferral>, QueueError> {
        self.change(move |to| {
            let mut ended = Vec::new();
            for (id, saved) in deferred(to)? {
                let Some(mut state) = saved.as_deref().and_then(S::decode) else {
                    continue;
                };
                let waited_for = |deferral: &Deferral| deferral.host == host;
                let Some(deferral) = state.deferral().take().filter(waited_for) else {
                    continue;
                };
                state.reopen(deferral.ready_at());
                resume(to, id, state.encode().or(saved).as_deref())?;
                ended.push(deferral);
            }
            Ok(ended)
        })
        .await
    }

    /// Returns the names of deferred items with their [`Deferral`]s, in the order in which they
    /// were added.
    ///
    /// # Errors
    /// Returns a [`QueueError`] if the file cannot be read.
    pub async fn deferrals<S: JobState>(&self) -> Result<Vec<(String, Deferral)>, QueueError> {
        self.change(move |to| {
            let mut query = to.prepare(
                "SELECT work_id, progress FROM items WHERE state = 'queued' AND not_before > 0 ORDER BY id",
            )?;
            let mut rows = query.query([])?;
            let mut deferrals = Vec::new();
            while let Some(row) = rows.next()? {
                let saved: Option<String> = row.get(1)?;
                let state = saved.as_deref().and_then(S::decode);
                if let Some(deferral) = state.and_then(|mut state| state.deferral().take()) {
                    deferrals.push((row.get(0)?, deferral));
                }
            }
            Ok(deferrals)
        })
        .await
    }

    /// Plans all deferred items again, in the first lane. Returns their number.
    ///
    /// # Errors
    /// Returns a [`QueueError`] if the file cannot be written.
    pub async fn replan<S: JobState>(&self) -> Result<u64, QueueError> {
        self.change(move |to| {
            let items = deferred(to)?;
            let replanned = items.len() as u64;
            for (id, saved) in items {
                let state = saved.as_deref().and_then(S::decode);
                let planned = state.and_then(|mut state| {
                    state.replan();
                    state.encode()
                });
                resume(to, id, planned.or(saved).as_deref())?;
            }
            Ok(replanned)
        })
        .await
    }

    /// Removes all items and their records, so that the next run begins from nothing.
    ///
    /// # Errors
    /// Returns a [`QueueError`] if the file cannot be written.
    pub async fn clear(&self) -> Result<(), QueueError> {
        self.change(|to| {
            to.execute_batch(
                "DELETE FROM items; DELETE FROM urls; DELETE FROM attempts; DELETE FROM manifests; DELETE FROM summaries; DELETE FROM cursors; DELETE FROM lines; DELETE FROM sources; DELETE FROM metadata;",
            )
        })
        .await
    }

    /// Removes finished items and their records, so that a run can continue only the unfinished
    /// items.
    ///
    /// # Errors
    /// Returns a [`QueueError`] if the file cannot be written.
    pub async fn forget_ended(&self) -> Result<(), QueueError> {
        self.change(|to| {
            to.execute_batch(
                "DELETE FROM manifests WHERE item IN (SELECT id FROM items WHERE state IN ('done', 'failed'));
                 DELETE FROM metadata WHERE item IN (SELECT id FROM items WHERE state IN ('done', 'failed'));
                 DELETE FROM lines WHERE item IN (SELECT id FROM items WHERE state IN ('done', 'failed'));
                 DELETE FROM attempts WHERE work_id IN (SELECT work_id FROM items WHERE state IN ('done', 'failed'));
                 DELETE FROM items WHERE state IN ('done', 'failed');",
            )
        })
        .await
    }

    /// Restarts queued items that are now requested in another way under the same key. `is_same`
    /// compares the new request with the saved state of the known item.
    ///
    /// # Errors
    /// Returns a [`QueueError`] if the file cannot be written.
    pub async fn begin_again(
        &self,
        items: Vec<NewItem>,
        is_same: impl Fn(&NewItem, &str) -> bool + Send + 'static,
    ) -> Result<(), QueueError> {
        self.change(move |to| {
            let mut known = to.prepare_cached(
                "SELECT id, progress FROM items WHERE key_hash = ?1 AND state = 'queued'",
            )?;
            let mut renew = to.prepare_cached(
                "UPDATE items SET lane = ?2, progress = ?3, hidden = ?4, attempts = 0, not_before = 0 WHERE id = ?1",
            )?;
            for item in items {
                let row = known.query_row(params![item.key_hash], |row| {
                    Ok((row.get::<_, i64>(0)?, row.get::<_, Option<String>>(1)?))
                });
                let Some((id, saved)) = row.optional()? else {
                    continue;
                };
                if !saved.is_some_and(|saved| is_same(&item, &saved)) {
                    renew.execute(params![id, item.lane, item.saved_state, item.hidden])?;
                }
            }
            Ok(())
        })
        .await
    }

    /// Queues failed items again, in the first lane. Returns their number.
    ///
    /// # Errors
    /// Returns a [`QueueError`] if the file cannot be written.
    pub async fn retry_failed(&self) -> Result<u64, QueueError> {
        self.change(move |to| {
            let changed = to.execute(
                "UPDATE items SET state = 'queued', lane = ?1, attempts = 0, progress = NULL, not_before = 0, reason = NULL WHERE state = 'failed'",
                [WorkLaneKey::Start],
            )?;
            Ok(changed as u64)
        })
        .await
    }
}

/// Inserts an item, unless one with its key is there.
fn insert_item(
    insert: &mut Statement<'_>,
    known: &mut Statement<'_>,
    item: &NewItem,
    now: Timestamp,
) -> rusqlite::Result<AddedItem> {
    let line = i64::try_from(item.line).unwrap_or(i64::MAX);
    let values = params![
        item.key_hash,
        item.name,
        item.source,
        line,
        item.hidden,
        item.lane,
        item.saved_state,
        now.as_secs_f64(),
        item.untrusted
    ];
    let id: Option<i64> = insert.query_row(values, |row| row.get(0)).optional()?;
    if let Some(id) = id {
        return Ok(AddedItem::New(id));
    }
    known.query_row(params![item.key_hash], |row| {
        let state = ItemState::decode(&row.get::<_, String>(1)?);
        Ok(AddedItem::Known(row.get(0)?, state))
    })
}

/// Lists deferred items with the saved state of each.
fn deferred(to: &Connection) -> rusqlite::Result<Vec<(i64, Option<String>)>> {
    let mut query =
        to.prepare("SELECT id, progress FROM items WHERE state = 'queued' AND not_before > 0")?;
    let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// Moves a deferred item into the first lane.
fn resume(to: &Connection, id: i64, saved_state: Option<&str>) -> rusqlite::Result<()> {
    to.prepare_cached("UPDATE items SET lane = ?2, progress = ?3, not_before = 0 WHERE id = ?1")?
        .execute(params![id, WorkLaneKey::Start, saved_state])
        .map(|_| ())
}
