//! What became of works: attempts, manifests, and the end of an item, each in one commit.

use std::collections::BTreeMap;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};

use super::{ItemState, Queue, QueueError};
use crate::reason::Reason;
use crate::resolver::ResolverId;

/// What stands for all inputs among the cursors. No query is called so.
const INPUTS: &str = "inputs";

/// One attempt, as a row and as the JSON that goes into `manifest.jsonl`.
#[derive(Clone, Debug)]
pub struct AttemptRow {
    /// When, in seconds since 1970.
    pub at: f64,
    /// The run.
    pub run_id: Arc<str>,
    /// The work.
    pub work_id: String,
    /// Who asked.
    pub resolver: ResolverId,
    /// What was asked for, without secrets.
    pub url: Option<String>,
    /// `found`, `saved`, `failed`, `skipped`, ...
    pub status: &'static str,
    /// The status of the answer.
    pub http_status: Option<u16>,
    /// Why it did not succeed.
    pub reason: Option<Reason>,
    /// Everything, as JSON text.
    pub record: Arc<str>,
}

/// One manifest record: a file that is there, or why there is none.
#[derive(Clone, Debug)]
pub struct ManifestRow {
    /// When.
    pub at: f64,
    /// The run.
    pub run_id: Arc<str>,
    /// The item.
    pub item: i64,
    /// The work.
    pub work_id: String,
    /// `pdf`, `xml`, `html`, `miss`, ...
    pub classification: String,
    /// Why there is no file.
    pub reason: Option<Reason>,
    /// The same as a sentence.
    pub detail: Option<String>,
    /// Where it came from, without secrets.
    pub url: Option<String>,
    /// Where it is, below the out directory.
    pub path: Option<String>,
    /// Its SHA-256.
    pub sha256: Option<String>,
    /// Its size.
    pub bytes: Option<u64>,
    /// The URL's index form, by which it is known when it comes again.
    pub canonical: Option<String>,
    /// Everything, as JSON text.
    pub record: Arc<str>,
}

/// Sums of what became of works and attempts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Records by classification.
    pub classifications: BTreeMap<String, u64>,
    /// Works without a file by reason.
    pub reasons: BTreeMap<String, u64>,
    /// Attempts by resolver.
    pub attempts: BTreeMap<String, u64>,
    /// Of these, successful.
    pub successes: BTreeMap<String, u64>,
    /// Attempts by status.
    pub statuses: BTreeMap<String, u64>,
    /// Attempts by reason.
    pub errors: BTreeMap<String, u64>,
    /// Works that have a page and nothing else.
    pub html_only: u64,
    /// Works that have XML and nothing else.
    pub xml_only: u64,
}

/// How one work stands, with its latest manifest record.
#[derive(Clone, Debug)]
pub struct WorkRow {
    /// The work.
    pub work_id: String,
    /// How it stands.
    pub state: ItemState,
    /// Why it has no file.
    pub reason: Option<String>,
    /// The same as a sentence.
    pub detail: Option<String>,
    /// Its manifest record, as JSON text.
    pub payload: Option<String>,
}

/// How many works stand how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// To do.
    pub queued: u64,
    /// In hand.
    pub leased: u64,
    /// With a file.
    pub done: u64,
    /// Without.
    pub failed: u64,
}

impl Queue {
    /// Writes down attempts and manifest records in one go, and with `end` also the end of the
    /// item.
    ///
    /// # Errors
    /// The file cannot be written.
    pub async fn note_attempts_and_file(
        &self,
        attempts: Vec<AttemptRow>,
        files: Vec<ManifestRow>,
        end: Option<(i64, &'static str, u32)>,
    ) -> Result<(), QueueError> {
        self.change(move |to| {
            note_attempts(to, attempts)?;
            file(to, files, end)
        })
        .await
    }

    /// Writes down manifest records, and with `end` also the end of the item.
    ///
    /// # Errors
    /// The file cannot be written.
    pub async fn file(
        &self,
        rows: Vec<ManifestRow>,
        end: Option<(i64, &'static str, u32)>,
    ) -> Result<(), QueueError> {
        self.change(move |to| file(to, rows, end)).await
    }

    /// Returns the file that an item has: path, SHA-256 and kind.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn file_of(&self, item: i64) -> Result<Option<(String, String, String)>, QueueError> {
        self.change(move |to| {
            to.prepare_cached("SELECT path, sha256, classification FROM manifests WHERE item = ?1 AND path IS NOT NULL ORDER BY id DESC LIMIT 1")?
                .query_row([item], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
                .optional()
        })
        .await
    }

    /// Returns the files that an item is known to have: path, SHA-256, size.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn files_of(&self, item: i64) -> Result<Vec<(String, String, u64)>, QueueError> {
        self.change(move |to| {
            let mut query = to.prepare_cached(
                "SELECT path, sha256, coalesce(content_length, 0) FROM manifests WHERE item = ?1 AND path IS NOT NULL AND sha256 IS NOT NULL",
            )?;
            query.query_map([item], |row| Ok((row.get(0)?, row.get(1)?, u64::try_from(row.get::<_, i64>(2)?).unwrap_or(0))))?.collect()
        })
        .await
    }

    /// Counts works by how they stand.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn counts(&self) -> Result<Counts, QueueError> {
        self.change(|to| {
            let mut counts = Counts::default();
            let mut query =
                to.prepare_cached("SELECT state, count(*) FROM items GROUP BY state")?;
            let mut rows = query.query([])?;
            while let Some(row) = rows.next()? {
                let number = u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0);
                match row.get::<_, String>(0)?.as_str() {
                    "queued" => counts.queued = number,
                    "leased" => counts.leased = number,
                    "done" => counts.done = number,
                    _ => counts.failed = number,
                }
            }
            Ok(counts)
        })
        .await
    }

    /// Sums up manifests and attempts.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn totals(&self) -> Result<Totals, QueueError> {
        self.change(|to| {
            let pairs = |sql: &str| -> rusqlite::Result<BTreeMap<String, u64>> {
                let mut query = to.prepare(sql)?;
                let rows = query.query_map([], |row| Ok((row.get(0)?, u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0))))?;
                rows.collect()
            };
            let one = |sql: &str| to.query_row(sql, [], |row| row.get::<_, i64>(0)).map(|number| u64::try_from(number).unwrap_or(0));
            let only = "SELECT count(*) FROM (SELECT item FROM manifests WHERE path IS NOT NULL GROUP BY item HAVING min(classification) = max(classification) \
                        AND min(classification) = ";
            Ok(Totals {
                classifications: pairs("SELECT classification, count(*) FROM manifests GROUP BY classification")?,
                reasons: pairs("SELECT reason, count(*) FROM items WHERE state = 'failed' AND reason IS NOT NULL GROUP BY reason")?,
                attempts: pairs("SELECT resolver_name, count(*) FROM attempts GROUP BY resolver_name")?,
                successes: pairs("SELECT resolver_name, count(*) FROM attempts WHERE status IN ('found', 'saved') GROUP BY resolver_name")?,
                statuses: pairs("SELECT status, count(*) FROM attempts GROUP BY status")?,
                errors: pairs("SELECT reason, count(*) FROM attempts WHERE reason IS NOT NULL GROUP BY reason")?,
                html_only: one(&format!("{only}'html')"))?,
                xml_only: one(&format!("{only}'xml')"))?,
            })
        })
        .await
    }

    /// Goes through the records of manifest and attempts in the order they were written, as JSON
    /// text.
    ///
    /// # Errors
    /// The file cannot be read.
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

    /// Goes through all works in the order in which they were read, each with its latest manifest
    /// record.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn each_work(
        &self,
        mut take: impl FnMut(WorkRow) + Send + 'static,
    ) -> Result<(), QueueError> {
        self.change(move |to| {
            let mut query = to.prepare(
                "SELECT work_id, state, reason, detail, (SELECT payload FROM manifests WHERE item = items.id ORDER BY id DESC LIMIT 1) FROM items ORDER BY id",
            )?;
            let mut rows = query.query([])?;
            while let Some(row) = rows.next()? {
                let state = ItemState::read(row.get_ref(1)?.as_str().unwrap_or_default());
                take(WorkRow { work_id: row.get(0)?, state, reason: row.get(2)?, detail: row.get(3)?, payload: row.get(4)? });
            }
            Ok(())
        })
        .await
    }

    /// Returns every file that the run is known to have: item, path, SHA-256, size.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn files(&self) -> Result<Vec<(i64, String, String, u64)>, QueueError> {
        self.change(|to| {
            let mut query = to.prepare(
                "SELECT item, path, sha256, coalesce(content_length, 0) FROM manifests WHERE path IS NOT NULL AND sha256 IS NOT NULL ORDER BY id",
            )?;
            let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, u64::try_from(row.get::<_, i64>(3)?).unwrap_or(0))))?;
            rows.collect()
        })
        .await
    }

    /// Takes a file out of the manifest and queues its work anew: it is not what it was.
    ///
    /// # Errors
    /// The file cannot be written.
    pub async fn disown(&self, item: i64, path: String, lane: String) -> Result<(), QueueError> {
        self.change(move |to| {
            to.execute("DELETE FROM manifests WHERE item = ?1 AND path = ?2", params![item, path])?;
            to.execute("DELETE FROM urls WHERE item = ?1", [item])?;
            to.execute(
                "UPDATE items SET state = 'queued', lane = ?2, attempts = 0, progress = NULL, not_before = 0 WHERE id = ?1",
                params![item, lane],
            )?;
            Ok(())
        })
        .await
    }

    /// Keeps the summary of a run.
    ///
    /// # Errors
    /// The file cannot be written.
    pub async fn summarise(
        &self,
        run_id: String,
        at: f64,
        payload: String,
    ) -> Result<(), QueueError> {
        self.change(move |to| {
            to.execute(
                "INSERT OR REPLACE INTO summaries VALUES (?1, ?2, ?3)",
                params![run_id, at, payload],
            )
            .map(|_| ())
        })
        .await
    }

    /// Writes down whether there are inputs that have not been read to their end.
    ///
    /// # Errors
    /// The file cannot be written.
    pub async fn set_unread(&self, unread: bool) -> Result<(), QueueError> {
        self.change(move |to| {
            let change = if unread {
                "INSERT OR REPLACE INTO cursors VALUES (?1, NULL, 0, 0)"
            } else {
                "DELETE FROM cursors WHERE query = ?1"
            };
            to.execute(change, [INPUTS]).map(|_| ())
        })
        .await
    }

    /// Tells whether there are inputs that have not been read to their end.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn is_unread(&self) -> Result<bool, QueueError> {
        self.change(|to| {
            to.prepare("SELECT 1 FROM cursors WHERE query = ?1")?
                .exists([INPUTS])
        })
        .await
    }

    /// Returns where reading a query stands: cursor, page, works found.
    ///
    /// # Errors
    /// The file cannot be read.
    pub async fn cursor(
        &self,
        query: String,
    ) -> Result<Option<(Option<String>, u64, u64)>, QueueError> {
        self.change(move |to| {
            to.query_row(
                "SELECT cursor, page, found FROM cursors WHERE query = ?1",
                [query],
                |row| {
                    let number = |place| {
                        row.get::<_, i64>(place)
                            .map(|number| u64::try_from(number).unwrap_or(0))
                    };
                    Ok((row.get(0)?, number(1)?, number(2)?))
                },
            )
            .optional()
        })
        .await
    }

    /// Writes down where reading a query stands.
    ///
    /// # Errors
    /// The file cannot be written.
    pub async fn set_cursor(
        &self,
        query: String,
        cursor: Option<String>,
        page: u64,
        found: u64,
    ) -> Result<(), QueueError> {
        self.change(move |to| {
            let (page, found) = (
                i64::try_from(page).unwrap_or(i64::MAX),
                i64::try_from(found).unwrap_or(i64::MAX),
            );
            to.execute(
                "INSERT OR REPLACE INTO cursors VALUES (?1, ?2, ?3, ?4)",
                params![query, cursor, page, found],
            )
            .map(|_| ())
        })
        .await
    }
}

fn note_attempts(to: &Connection, rows: Vec<AttemptRow>) -> rusqlite::Result<()> {
    let mut insert = to.prepare_cached(
        "INSERT INTO attempts (timestamp, run_id, work_id, resolver_name, url, status, http_status, reason, payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    for row in rows {
        insert.execute(params![
            row.at,
            row.run_id,
            row.work_id,
            row.resolver.as_str(),
            row.url,
            row.status,
            row.http_status,
            row.reason.map(Reason::as_str),
            row.record
        ])?;
    }
    Ok(())
}

fn file(
    to: &Connection,
    rows: Vec<ManifestRow>,
    end: Option<(i64, &'static str, u32)>,
) -> rusqlite::Result<()> {
    let mut insert = to.prepare_cached(
        "INSERT INTO manifests (timestamp, run_id, item, work_id, classification, reason, url, path, sha256, content_length, payload)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?;
    let mut last = (None, None, 0.0);
    for row in rows {
        if let Some(canonical) = &row.canonical {
            to.prepare_cached("INSERT OR IGNORE INTO urls (canonical, item) VALUES (?1, ?2)")?
                .execute(params![canonical, row.item])?;
        }
        let bytes = row.bytes.and_then(|bytes| i64::try_from(bytes).ok());
        let values = params![
            row.at,
            row.run_id,
            row.item,
            row.work_id,
            row.classification,
            row.reason.map(Reason::as_str),
            row.url,
            row.path,
            row.sha256,
            bytes,
            row.record
        ];
        insert.execute(values)?;
        last = (row.reason, row.detail, row.at);
    }
    if let Some((id, state, attempts)) = end {
        to.prepare_cached(
            "UPDATE items SET state = ?2, attempts = ?3, progress = NULL, reason = ?4, detail = ?5, updated_at = max(updated_at, ?6) WHERE id = ?1",
        )?
        .execute(params![id, state, attempts, last.0.map(Reason::as_str), last.1, last.2])?;
    }
    Ok(())
}
