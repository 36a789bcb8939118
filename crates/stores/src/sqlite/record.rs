//! The record of a site as rows of the database.

use docstokg_policy::time::{BootInstant, Clock};
use rusqlite::{Connection, OptionalExtension, params};

use super::database::StepError;
use crate::handle::SiteKey;
use crate::record_copy::{Commit, LOG_ENTRY_BYTES, RecordPosition, SiteRecord};

/// A site within a transaction.
pub(super) struct SiteRow<'a> {
    transaction: &'a Connection,
    key: &'a SiteKey,
    /// The id of the row, if known. Queries compare id and key, because the row of a removed site
    /// may belong to another one now.
    id: &'a mut i64,
    clock: &'a dyn Clock,
    now: BootInstant,
    position: RecordPosition,
}

impl<'a> SiteRow<'a> {
    pub(super) fn new(
        transaction: &'a Connection,
        key: &'a SiteKey,
        id: &'a mut i64,
        clock: &'a dyn Clock,
        now: BootInstant,
    ) -> Self {
        Self {
            transaction,
            key,
            id,
            clock,
            now,
            position: RecordPosition::default(),
        }
    }

    fn wall(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "microseconds of today fit")]
        let micros = self.clock.wall().as_micros() as f64;
        micros / 1e6
    }

    /// Finds the row by the key, or inserts it.
    #[cold]
    fn find(&mut self) -> Result<(i64, i64, i64), StepError> {
        let mut select = self
            .transaction
            .prepare_cached("SELECT id, page_no, head_no, length(log) FROM sites WHERE key = ?1")?;
        let read =
            |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
        let (id, snapshot, header, length) =
            if let Some(found) = select.query_row([&**self.key], read).optional()? {
                found
            } else {
                // A random number, so that an old copy of a removed site does not match this one.
                let snapshot = i64::from(fastrand::u32(..)) << 20;
                let mut insert = self.transaction.prepare_cached(
                    "INSERT INTO sites (key, page_no, head_no, head, log, used) \
                     VALUES (?1, ?2, 0, x'', x'', ?3)",
                )?;
                insert.execute(params![
                    &**self.key,
                    snapshot,
                    self.now.as_micros().cast_signed()
                ])?;
                (self.transaction.last_insert_rowid(), snapshot, 0, 0)
            };
        *self.id = id;
        Ok((snapshot, header, length))
    }
}

impl SiteRecord for SiteRow<'_> {
    type Error = StepError;

    /// Returns a small number, because SQLite writes the whole log with every change, together with
    /// the rest of its page.
    fn log_entries(&self) -> usize {
        64
    }

    fn position(&mut self) -> Result<RecordPosition, StepError> {
        let mut select = self.transaction.prepare_cached(
            "SELECT page_no, head_no, length(log) FROM sites WHERE id = ?1 AND key = ?2",
        )?;
        let found = select
            .query_row(params![*self.id, &**self.key], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })
            .optional()?;
        let (snapshot, header, length): (i64, i64, i64) = if let Some(found) = found {
            found
        } else {
            self.find()?
        };
        let logged = usize::try_from(length).unwrap_or(0) / LOG_ENTRY_BYTES;
        self.position = RecordPosition {
            snapshot: snapshot.cast_unsigned(),
            header: header.cast_unsigned(),
            logged,
        };
        Ok(self.position)
    }

    fn header(&mut self) -> Result<Vec<u8>, StepError> {
        Ok(self
            .transaction
            .prepare_cached("SELECT head FROM sites WHERE id = ?1")?
            .query_row([*self.id], |row| row.get(0))?)
    }

    fn snapshot(&mut self) -> Result<Vec<u8>, StepError> {
        let snapshot = self
            .transaction
            .prepare_cached("SELECT page FROM pages WHERE site = ?1")?
            .query_row([*self.id], |row| row.get(0))
            .optional()?;
        Ok(snapshot.unwrap_or_default())
    }

    fn log(&mut self, from: usize) -> Result<Vec<u8>, StepError> {
        let mut log: Vec<u8> = self
            .transaction
            .prepare_cached("SELECT log FROM sites WHERE id = ?1")?
            .query_row([*self.id], |row| row.get(0))?;
        Ok(log.split_off((from * LOG_ENTRY_BYTES).min(log.len())))
    }

    fn write(&mut self, commit: &Commit<'_>) -> Result<RecordPosition, StepError> {
        let used = self.now.as_micros().cast_signed();
        let id = *self.id;
        if let Some(snapshot) = commit.snapshot {
            self.transaction
                .prepare_cached("INSERT OR REPLACE INTO pages (site, page) VALUES (?1, ?2)")?
                .execute(params![id, snapshot])?;
            self.transaction
                .prepare_cached("UPDATE sites SET page_no = page_no + 1, log = x'' WHERE id = ?1")?
                .execute([id])?;
            self.position.snapshot += 1;
            self.position.logged = 0;
        }
        self.position.logged += commit.log.len() / LOG_ENTRY_BYTES;
        match commit.header {
            None => {
                let mut update = self.transaction.prepare_cached(
                    "UPDATE sites SET log = CAST(log || ?2 AS BLOB), used = ?3 WHERE id = ?1",
                )?;
                update.execute(params![id, commit.log, used])?;
            }
            Some(header) => {
                self.position.header += 1;
                let mut update = self.transaction.prepare_cached(
                    "UPDATE sites SET log = CAST(log || ?2 AS BLOB), used = ?3, head_no = ?4, \
                     head = ?5, updated_at = ?6, until_wall = ?7, reason = ?8 WHERE id = ?1",
                )?;
                let wall = self.wall();
                let until = commit.open.as_ref().map(|(until, _)| {
                    wall + until.since(self.now).as_secs_f64()
                        - self.now.since(*until).as_secs_f64()
                });
                let reason = commit.open.as_ref().map(|(_, reason)| reason);
                update.execute(params![
                    id,
                    commit.log,
                    used,
                    self.position.header.cast_signed(),
                    header,
                    wall,
                    until,
                    reason
                ])?;
            }
        }
        Ok(self.position)
    }
}
