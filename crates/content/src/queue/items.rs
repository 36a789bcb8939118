//! Works in the queue.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Queue, QueueError};
use crate::digest::Fingerprint;
use crate::pursuit::Pursuit;
use crate::run::Deferral;

/// A work that is to be queued.
#[derive(Clone, Debug)]
pub struct NewItem {
    /// A fingerprint of what it is found again by.
    pub key_hash: [u8; 16],
    /// The id under which it is recorded, without secrets.
    pub work_id: String,
    /// Where it was read: a file, `-`, `command line`, or a query.
    pub source: String,
    /// In which line.
    pub line: u64,
    /// Whether the line has to be read again to know it.
    pub hidden: bool,
    /// Which line of the scheduler it stands in first.
    pub lane: String,
    /// What is known of it beyond its id, as JSON.
    pub progress: Option<String>,
}

/// What became of works that were to be queued.
#[derive(Clone, Debug, Default)]
pub struct Added {
    /// One answer for each, in order.
    pub each: Vec<Filed>,
}

/// What became of one work that was to be queued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filed {
    /// It is queued under this number.
    New(i64),
    /// It was there already: its number and state.
    Known(i64, ItemState),
}

/// How a work stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemState {
    /// To do.
    Queued,
    /// In hand.
    Leased,
    /// A file is there.
    Done,
    /// Nothing could be got.
    Failed,
}

impl ItemState {
    pub(crate) fn read(word: &str) -> Self {
        match word {
            "leased" => Self::Leased,
            "done" => Self::Done,
            "failed" => Self::Failed,
            _ => Self::Queued,
        }
    }
}

/// A work that was taken in hand.
#[derive(Clone, Debug)]
pub struct Item {
    /// Its number.
    pub id: i64,
    /// The id under which it is recorded.
    pub work_id: String,
    /// Whether its input line has to be read again.
    pub hidden: bool,
    /// What is known about it, as JSON.
    pub progress: Option<String>,
    /// Requests made for it so far.
    pub attempts: u32,
    /// A fingerprint of what it is found again by.
    pub key_hash: [u8; 16],
}

/// What is to do in one line of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The line.
    pub lane: String,
    /// How many works.
    pub works: u64,
}

fn item(row: &Row<'_>) -> rusqlite::Result<Item> {
    Ok(Item {
        id: row.get(0)?,
        work_id: row.get(1)?,
        hidden: row.get(2)?,
        progress: row.get(3)?,
        attempts: row.get(4)?,
        key_hash: row.get(5)?,
    })
}

impl Queue {
    /// Adds works. Those that are there already are not added again.
    ///
    /// # Errors
    /// The file cannot be written.
    pub async fn add(&self, items: Vec<NewItem>, now: f64) -> Result<Added, QueueError> {
        self.change(move |to| {
            let mut added = Added::default();
            let mut insert = to.prepare_cached(
                "INSERT INTO items (key_hash, work_id, source, line, hidden, state, lane, progress, updated_at)
                 VALUES (?1, ?2, ?3, ?4, ?5, 'queued', ?6, ?7, ?8) ON CONFLICT (key_hash) DO NOTHING RETURNING id",
            )?;
            let mut known = to.prepare_cached("SELECT id, state FROM items WHERE key_hash = ?1")?;
            for item in items {
                let line = i64::try_from(item.line).unwrap_or(i64::MAX);
                let values = params![item.key_hash, item.work_id, item.source, line, item.hidden, item.lane, item.progress, now];
                let id: Option<i64> = insert.query_row(values, |row| row.get(0)).optional()?;
                added.each.push(match id {
                    Some(id) => Filed::New(id),
                    None => {
                        known.query_row(params![item.key_hash], |row| Ok(Filed::Known(row.get(0)?, ItemState::read(&row.get::<_, String>(1)?))))?
                    }
                });
            }
            Ok(added)
        })
        .await
    }

    /// Takes up to `most` works of a line in hand, oldest first.
    ///
    /// # Errors
    /// The file cannot be written.
    pub async fn take(&self, lane: String, most: usize) -> Result<Vec<Item>, QueueError> {
        self.change(move |to| {
            let mut query = to.prepare_cached(
                "UPDATE items SET state = 'leased' WHERE id IN
                 (SELECT id FROM items WHERE state = 'queued' AND lane = ?1 AND not_before = 0 ORDER BY id LIMIT ?2)
                 RETURNING id, work_id, hidden, progress, attempts, key_hash",
            )?;
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            let mut items = query.query_map(params![lane, most], item)?.collect::<rusqlite::Result<Vec<_>>>()?;
            items.sort_by_key(|item| item.id);
            Ok(items)
        })
        .await
    }

    /// Takes works whose time has come in hand.
    ///
    /// # Errors
    /// The file cannot be written.
    pub async fn take_due(&self, now: f64, most: usize) -> Result<Vec<Item>, QueueError> {
        self.change(move |to| {
            let mut query = to.prepare_cached(
                "UPDATE items SET state = 'leased', not_before = 0 WHERE id IN
                 (SELECT id FROM items INDEXED BY items_later WHERE state = 'queued' AND not_before > 0 AND not_before <= ?1 ORDER BY not_before LIMIT ?2)
                 RETURNING id, work_id, hidden, progress, attempts, key_hash",
            )?;
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            query.query_map(params![now, most], item)?.collect()
        })
        .await
    }

    /// Puts a work back: into a line, or away until a time.
    ///
    /// # Errors
    /// The file cannot be written.
    pub async fn put_back(
        &self,
        id: i64,
        lane: String,
        progress: Option<String>,
        attempts: u32,
        not_before: f64,
        now: f64,
    ) -> Result<(), QueueError> {
        self.change(move |to| {
            to.prepare_cached(
                "UPDATE items SET state = 'queued', lane = ?2, progress = ?3, attempts = ?4, not_before = ?5, updated_at = ?6 WHERE id = ?1",
            )?
            .execute(params![id, lane, progress, attempts, not_before, now])
            .map(|_| ())
        })
        .await
    }

    /// Lists what is to do in the lines whose names come after `after`, in the order of their
    /// names, up to `most` lines.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn to_do(&self, after: String, most: usize) -> Result<Vec<Found>, QueueError> {
        self.change(move |to| {
            let mut query = to.prepare_cached(
                "SELECT lane, count(*) FROM items WHERE state = 'queued' AND lane > ?1 AND not_before = 0 GROUP BY lane ORDER BY lane LIMIT ?2",
            )?;
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            let found = query
                .query_map(params![after, most], |row| Ok(Found { lane: row.get(0)?, works: u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0) }))?;
            found.collect()
        })
        .await
    }

    /// Returns the earliest time at which something put away is due.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn next_due(&self) -> Result<Option<f64>, QueueError> {
        self.change(earliest).await
    }

    /// Plans the works anew that wait for a host, into a line of the scheduler: it may be asked
    /// again. Returns how many, and what they were deferred for.
    ///
    /// # Errors
    /// The file cannot be written.
    pub async fn reopen(
        &self,
        host: String,
        lane: String,
    ) -> Result<(u64, Vec<Deferral>), QueueError> {
        self.change(move |to| {
            let mut deferred = to.prepare(
                "SELECT id, progress FROM items WHERE state = 'queued' AND not_before > 0",
            )?;
            let rows = deferred.query_map([], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, Option<String>>(1)?))
            })?;
            let rows = rows.collect::<rusqlite::Result<Vec<_>>>()?;
            let mut update = to.prepare(
                "UPDATE items SET lane = ?2, progress = ?3, not_before = 0 WHERE id = ?1",
            )?;
            let mut ended = Vec::new();
            for (id, progress) in &rows {
                let Some(mut pursuit) = progress
                    .as_deref()
                    .and_then(|text| serde_json::from_str::<Pursuit>(text).ok())
                else {
                    continue;
                };
                let Some(deferral) = pursuit
                    .deferral
                    .take()
                    .filter(|deferral| deferral.host == host)
                else {
                    continue;
                };
                pursuit.reopen(deferral.until);
                update.execute(params![
                    id,
                    lane,
                    pursuit.to_text().as_ref().or(progress.as_ref())
                ])?;
                ended.push(deferral);
            }
            Ok((ended.len() as u64, ended))
        })
        .await
    }

    /// Plans all deferred works anew, into a line of the scheduler. Returns how many.
    ///
    /// # Errors
    /// The file cannot be written.
    pub async fn plan_anew(&self, lane: String) -> Result<u64, QueueError> {
        self.change(move |to| {
            let mut deferred = to.prepare(
                "SELECT id, progress FROM items WHERE state = 'queued' AND not_before > 0",
            )?;
            let rows = deferred.query_map([], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, Option<String>>(1)?))
            })?;
            let rows = rows.collect::<rusqlite::Result<Vec<_>>>()?;
            let mut update = to.prepare(
                "UPDATE items SET lane = ?2, progress = ?3, not_before = 0 WHERE id = ?1",
            )?;
            for (id, progress) in &rows {
                let planned = progress
                    .as_deref()
                    .and_then(|text| serde_json::from_str::<Pursuit>(text).ok())
                    .and_then(|mut pursuit| {
                        pursuit.plan_anew();
                        pursuit.to_text()
                    });
                update.execute(params![id, lane, planned.as_ref().or(progress.as_ref())])?;
            }
            Ok(rows.len() as u64)
        })
        .await
    }

    /// Queues works anew that failed. Returns how many.
    ///
    /// # Errors
    /// The file cannot be written.
    pub async fn retry_failed(&self, lane: String) -> Result<u64, QueueError> {
        self.change(move |to| {
            let changed = to.execute(
                "UPDATE items SET state = 'queued', lane = ?1, attempts = 0, progress = NULL, not_before = 0, reason = NULL WHERE state = 'failed'",
                [lane],
            )?;
            Ok(changed as u64)
        })
        .await
    }

    /// Lists the URLs that gave a file, by their fingerprints, and whose they are.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) async fn owners(&self) -> Result<HashMap<Fingerprint, i64>, QueueError> {
        self.change(|to| {
            let mut query = to.prepare("SELECT canonical, item FROM urls")?;
            let mut rows = query.query([])?;
            let mut owners = HashMap::new();
            while let Some(row) = rows.next()? {
                if let Some(url) = row.get_ref(0)?.as_str().ok().and_then(Fingerprint::read) {
                    owners.insert(url, row.get(1)?);
                }
            }
            Ok(owners)
        })
        .await
    }
}

fn earliest(to: &Connection) -> rusqlite::Result<Option<f64>> {
    to.prepare_cached("SELECT min(not_before) FROM items INDEXED BY items_later WHERE state = 'queued' AND not_before > 0")?
        .query_row([], |row| row.get(0))
}
