//! The records of items: attempts, manifest records and the end of an item, each in one commit.

use std::collections::HashMap;
use std::sync::Arc;

use docstokg_policy::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{ItemState, QueueError, WorkQueue};
use crate::digest::Fingerprint;
use crate::lane::WorkLaneKey;

/// An attempt, as a row and as the JSON for `manifest.jsonl`.
#[derive(Clone, Debug)]
pub struct AttemptRow {
    /// The time of the attempt.
    pub at: Timestamp,
    /// The id of the run.
    pub run_id: Arc<str>,
    /// The name of the item.
    pub name: String,
    /// The source that was queried, or that named the URL.
    pub source: &'static str,
    /// The requested URL, without secrets.
    pub url: Option<String>,
    /// The result: `found`, `saved`, `failed`, `skipped`, ...
    pub status: &'static str,
    /// The HTTP status of the response.
    pub http_status: Option<u16>,
    /// The reason of a failure.
    pub reason: Option<&'static str>,
    /// The complete record as JSON text.
    pub record: Arc<str>,
}

/// A manifest record: a file, or the reason why there is no file.
#[derive(Clone, Debug)]
pub struct ManifestRow {
    /// The time of the record.
    pub at: Timestamp,
    /// The id of the run.
    pub run_id: Arc<str>,
    /// The number of the item.
    pub item: i64,
    /// The name of the item.
    pub name: String,
    /// `pdf`, `xml`, `html`, `miss`, ...
    pub classification: String,
    /// The reason why there is no file.
    pub reason: Option<&'static str>,
    /// The reason as a sentence.
    pub detail: Option<String>,
    /// The URL of the file, without secrets.
    pub url: Option<String>,
    /// The path of the file, below the output directory.
    pub path: Option<String>,
    /// The SHA-256 of the file.
    pub sha256: Option<String>,
    /// The size of the file in bytes.
    pub bytes: Option<u64>,
    /// The [`Fingerprint`] by which the URL is recognised again.
    pub fingerprint: Option<Fingerprint>,
    /// The complete record as JSON text.
    pub record: Arc<str>,
}

/// The end of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemEnd {
    /// The item has a file, after this number of attempts.
    Done(i64, u32),
    /// The item has no file, after this number of attempts.
    Failed(i64, u32),
}

/// The statement of one source about an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataRow {
    /// The source.
    pub source: &'static str,
    /// When it said so.
    pub at: Timestamp,
    /// The statement, as JSON text.
    pub payload: String,
}

/// The state of one item, with its latest manifest record.
#[derive(Clone, Debug)]
pub struct ItemRow {
    /// The item.
    pub id: i64,
    /// The item's name.
    pub name: String,
    /// Requests made for it so far.
    pub attempts: u32,
    /// Its state between two steps as JSON of its job, if it has not ended.
    pub saved_state: Option<String>,
    /// Its state.
    pub state: ItemState,
    /// The reason why there is no file.
    pub reason: Option<String>,
    /// The reason as a sentence.
    pub detail: Option<String>,
    /// The latest manifest record, as JSON text.
    pub record: Option<String>,
    /// The manifest records of its files, as a JSON array of texts, if it has any.
    pub files: Option<String>,
}

/// A file that an item has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRow {
    /// The number of the item.
    pub item: i64,
    /// The path below the output directory.
    pub path: String,
    /// The SHA-256 of the file.
    pub sha256: String,
    /// The kind of the file.
    pub classification: String,
    /// The size of the file in bytes.
    pub bytes: u64,
    /// The time of the record.
    pub recorded_at: Timestamp,
}

const SELECT_FILES: &str =
    "SELECT item, path, sha256, classification, coalesce(content_length, 0), timestamp FROM manifests
                     WHERE path IS NOT NULL AND sha256 IS NOT NULL";

/// Reads items with their latest manifest records; [`read_item`] reads the rows.
pub(super) const SELECT_ITEMS: &str = "SELECT items.id, work_id, attempts, CASE WHEN state IN ('queued', 'leased') THEN progress END, state, reason, detail,
                     (SELECT payload FROM manifests WHERE item = items.id ORDER BY id DESC LIMIT 1),
                     CASE WHEN state = 'done' THEN (SELECT json_group_array(payload) FROM manifests WHERE item = items.id AND (path IS NOT NULL OR classification = 'cached')) END
                     FROM items";

/// Reads a row of [`SELECT_ITEMS`].
pub(super) fn read_item(row: &Row<'_>) -> rusqlite::Result<ItemRow> {
    Ok(ItemRow {
        id: row.get(0)?,
        name: row.get(1)?,
        attempts: row.get(2)?,
        saved_state: row.get(3)?,
        state: ItemState::decode(row.get_ref(4)?.as_str().unwrap_or_default()),
        reason: row.get(5)?,
        detail: row.get(6)?,
        record: row.get(7)?,
        files: row.get(8)?,
    })
}

fn file(row: &Row<'_>) -> rusqlite::Result<FileRow> {
    Ok(FileRow {
        item: row.get(0)?,
        path: row.get(1)?,
        sha256: row.get(2)?,
        classification: row.get(3)?,
        bytes: u64::try_from(row.get::<_, i64>(4)?).unwrap_or(0),
        recorded_at: Timestamp::from_secs_f64(row.get(5)?),
    })
}

impl WorkQueue {
    /// Records attempts and manifest records in one commit, and with `end` also the end of the
    /// item.
    ///
    /// # Errors
    /// Returns a [`QueueError`] if the file cannot be written.
    pub async fn record(
        &self,
        attempts: Vec<AttemptRow>,
        manifests: Vec<ManifestRow>,
        end: Option<ItemEnd>,
    ) -> Result<(), QueueError> {
        self.change(move |to| {
            insert_attempts(to, attempts)?;
            insert_manifests(to, manifests, end)
        })
        .await
    }

    /// Returns the latest file that an item has.
    ///
    /// # Errors
    /// Returns a [`QueueError`] if the file cannot be read.
    pub async fn file_of(&self, item: i64) -> Result<Option<FileRow>, QueueError> {
        self.change(move |to| {
            to.prepare_cached(&format!(
                "{SELECT_FILES} AND item = ?1 ORDER BY id DESC LIMIT 1"
            ))?
            .query_row([item], file)
            .optional()
        })
        .await
    }

    /// Returns the files that an item has.
    ///
    /// # Errors
    /// Returns a [`QueueError`] if the file cannot be read.
    pub async fn files_of(&self, item: i64) -> Result<Vec<FileRow>, QueueError> {
        self.change(move |to| {
            let mut query = to.prepare_cached(&format!("{SELECT_FILES} AND item = ?1"))?;
            query.query_map([item], file)?.collect()
        })
        .await
    }

    /// Returns every file that the directory has.
    ///
    /// # Errors
    /// Returns a [`QueueError`] if the file cannot be read.
    pub async fn files(&self) -> Result<Vec<FileRow>, QueueError> {
        self.change(|to| {
            let mut query = to.prepare(&format!("{SELECT_FILES} ORDER BY id"))?;
            query.query_map([], file)?.collect()
        })
        .await
    }

    /// Returns the [`Fingerprint`]s of URLs that led to a file, with the items that own the files.
    ///
    /// # Errors
    /// Returns a [`QueueError`] if the file cannot be read.
    pub async fn owners(&self) -> Result<HashMap<Fingerprint, i64>, QueueError> {
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

    /// Passes manifest records and attempts to `take` as JSON text, in the order of their writing.
    ///
    /// # Errors
    /// Returns a [`QueueError`] if the file cannot be read.
    pub async fn each_record(
        &self,
        mut take: impl FnMut(&str) + Send + 'static,
    ) -> Result<(), QueueError> {
        self.change(move |to| {
            let mut query = to.prepare(
                "SELECT payload FROM (SELECT timestamp, 0 AS kind, id, payload FROM attempts UNION ALL SELECT timestamp, 1, id, payload FROM manifests)
                 ORDER BY timestamp, kind, id",
            )?;
            let mut rows = query.query([])?;
            while let Some(row) = rows.next()? {
                take(row.get_ref(0)?.as_str().unwrap_or_default());
            }
            Ok(())
        })
        .await
    }

    /// Passes each item as an [`ItemRow`] to `take`, in the order of their reading.
    ///
    /// # Errors
    /// Returns a [`QueueError`] if the file cannot be read.
    pub async fn each_item(
        &self,
        mut take: impl FnMut(ItemRow) + Send + 'static,
    ) -> Result<(), QueueError> {
        self.change(move |to| {
            let mut query = to.prepare(&format!("{SELECT_ITEMS} ORDER BY items.id"))?;
            let mut rows = query.query([])?;
            while let Some(row) = rows.next()? {
                take(read_item(row)?);
            }
            Ok(())
        })
        .await
    }

    /// Calls `take` with each item that no recorded line names.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn each_unlisted_item(
        &self,
        mut take: impl FnMut(ItemRow) + Send + 'static,
    ) -> Result<(), QueueError> {
        self.change(move |to| {
            let mut query = to.prepare(&format!(
                "{SELECT_ITEMS} WHERE items.id NOT IN (SELECT item FROM lines WHERE item IS NOT NULL) ORDER BY items.id"
            ))?;
            let mut rows = query.query([])?;
            while let Some(row) = rows.next()? {
                take(read_item(row)?);
            }
            Ok(())
        })
        .await
    }

    /// Keeps what a source says about items, each by its number. What it said before is replaced.
    ///
    /// # Errors
    /// The file cannot be written.
    pub async fn add_metadata(&self, rows: Vec<(i64, MetadataRow)>) -> Result<(), QueueError> {
        if rows.is_empty() {
            return Ok(());
        }
        self.change(move |to| {
            rows.iter()
                .try_for_each(|(item, row)| insert_metadata(to, *item, row))
        })
        .await
    }

    /// Returns what sources said about an item: the source, when, and the JSON text.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn metadata_of(
        &self,
        item: i64,
    ) -> Result<Vec<(String, Timestamp, String)>, QueueError> {
        self.change(move |to| read_metadata(to, item)).await
    }

    /// Passes all items to `take` as [`WorkQueue::each_item`] does, each with what sources said about
    /// it.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn each_described_item(
        &self,
        mut take: impl FnMut(ItemRow, Vec<(String, Timestamp, String)>) + Send + 'static,
    ) -> Result<(), QueueError> {
        self.change(move |to| {
            let mut query = to.prepare(&format!("{SELECT_ITEMS} ORDER BY items.id"))?;
            let mut rows = query.query([])?;
            while let Some(row) = rows.next()? {
                let item = read_item(row)?;
                let metadata = read_metadata(to, item.id)?;
                take(item, metadata);
            }
            Ok(())
        })
        .await
    }

    /// Removes a file from the manifest and queues its item again, because the file is changed or
    /// missing.
    ///
    /// # Errors
    /// Returns a [`QueueError`] if the file cannot be written.
    pub async fn disown(&self, item: i64, path: String) -> Result<(), QueueError> {
        self.change(move |to| {
            to.execute(
                "DELETE FROM manifests WHERE item = ?1 AND path = ?2",
                params![item, path],
            )?;
            to.execute("DELETE FROM urls WHERE item = ?1", [item])?;
            let mut queue = to.prepare(
                "UPDATE items SET state = 'queued', lane = ?2, attempts = 0, progress = NULL, not_before = 0 WHERE id = ?1",
            )?;
            queue.execute(params![item, WorkLaneKey::Start])?;
            // Items that share the file have a record of the file without owning it.
            let mut shared = to.prepare(
                "DELETE FROM manifests WHERE path IS NULL AND classification = 'cached' AND payload ->> '$.path' = ?1 RETURNING item",
            )?;
            let mut sharing = shared.query([&path])?;
            while let Some(row) = sharing.next()? {
                queue.execute(params![row.get::<_, i64>(0)?, WorkLaneKey::Start])?;
            }
            Ok(())
        })
        .await
    }
}

pub(super) fn insert_metadata(
    to: &Connection,
    item: i64,
    row: &MetadataRow,
) -> rusqlite::Result<()> {
    to.prepare_cached(
        "INSERT OR REPLACE INTO metadata (item, source, timestamp, payload) VALUES (?1, ?2, ?3, ?4)",
    )?
    .execute(params![item, row.source, row.at.as_secs_f64(), row.payload])
    .map(|_| ())
}

fn read_metadata(to: &Connection, item: i64) -> rusqlite::Result<Vec<(String, Timestamp, String)>> {
    let mut query =
        to.prepare_cached("SELECT source, timestamp, payload FROM metadata WHERE item = ?1")?;
    let rows = query.query_map([item], |row| {
        let at = Timestamp::from_secs_f64(row.get(1)?);
        Ok((row.get(0)?, at, row.get(2)?))
    })?;
    rows.collect()
}

fn insert_attempts(to: &Connection, rows: Vec<AttemptRow>) -> rusqlite::Result<()> {
    let mut insert = to.prepare_cached(
        "INSERT INTO attempts (timestamp, run_id, work_id, resolver_name, url, status, http_status, reason, payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    for row in rows {
        insert.execute(params![
            row.at.as_secs_f64(),
            row.run_id,
            row.name,
            row.source,
            row.url,
            row.status,
            row.http_status,
            row.reason,
            row.record
        ])?;
    }
    Ok(())
}

fn insert_manifests(
    to: &Connection,
    rows: Vec<ManifestRow>,
    end: Option<ItemEnd>,
) -> rusqlite::Result<()> {
    let mut insert = to.prepare_cached(
        "INSERT INTO manifests (timestamp, run_id, item, work_id, classification, reason, url, path, sha256, content_length, payload)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?;
    let mut last = (None, None, 0.0);
    for row in rows {
        if let Some(url) = row.fingerprint {
            to.prepare_cached("INSERT OR IGNORE INTO urls (canonical, item) VALUES (?1, ?2)")?
                .execute(params![url.to_string(), row.item])?;
        }
        let bytes = row.bytes.and_then(|bytes| i64::try_from(bytes).ok());
        insert.execute(params![
            row.at.as_secs_f64(),
            row.run_id,
            row.item,
            row.name,
            row.classification,
            row.reason,
            row.url,
            row.path,
            row.sha256,
            bytes,
            row.record
        ])?;
        last = (row.reason, row.detail, row.at.as_secs_f64());
    }
    let (id, state, attempts) = match end {
        Some(ItemEnd::Done(id, attempts)) => (id, "done", attempts),
        Some(ItemEnd::Failed(id, attempts)) => (id, "failed", attempts),
        None => return Ok(()),
    };
    to.prepare_cached(
        "UPDATE items SET state = ?2, attempts = ?3, progress = NULL, reason = ?4, detail = ?5, updated_at = max(updated_at, ?6) WHERE id = ?1",
    )?
    .execute(params![id, state, attempts, last.0, last.1, last.2])
    .map(|_| ())
}
