//! The record of a site as rows of the database.

use docstokg_policy::time::{BootInstant, Clock};
use rusqlite::{OptionalExtension, Transaction, params};

use super::database::StepError;
use crate::handle::SiteKey;
use crate::replica::{Commit, ENTRY, Position, Record};

/// A site within a transaction.
pub(super) struct Row<'a> {
    transaction: &'a Transaction<'a>,
    key: &'a SiteKey,
    clock: &'a dyn Clock,
    now: BootInstant,
    id: i64,
    position: Position,
    log: Vec<u8>,
}

impl<'a> Row<'a> {
    pub(super) fn new(transaction: &'a Transaction<'a>, key: &'a SiteKey, clock: &'a dyn Clock, now: BootInstant) -> Self {
        Self { transaction, key, clock, now, id: 0, position: Position::default(), log: Vec::new() }
    }

    fn wall(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "microseconds of today fit")]
        let micros = self.clock.wall().as_micros() as f64;
        micros / 1e6
    }
}

impl Record for Row<'_> {
    type Error = StepError;

    fn position(&mut self) -> Result<Position, StepError> {
        let mut select = self.transaction.prepare_cached("SELECT id, page_no, head_no, log FROM sites WHERE key = ?1")?;
        let found = select
            .query_row([&**self.key], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?, row.get::<_, Vec<u8>>(3)?)))
            .optional()?;
        let (id, page, head, log) = if let Some(found) = found {
            found
        } else {
            // Drawn, so that nobody's old copy of a forgotten site is taken for a copy of this one.
            let page = i64::from(fastrand::u32(..)) << 20;
            let mut insert =
                self.transaction.prepare_cached("INSERT INTO sites (key, page_no, head_no, head, log, used) VALUES (?1, ?2, 0, x'', x'', ?3)")?;
            insert.execute(params![&**self.key, page, self.now.as_micros().cast_signed()])?;
            (self.transaction.last_insert_rowid(), page, 0, Vec::new())
        };
        self.id = id;
        self.position = Position { page: page.cast_unsigned(), head: head.cast_unsigned(), logged: log.len() / ENTRY };
        self.log = log;
        Ok(self.position)
    }

    fn head(&mut self) -> Result<Vec<u8>, StepError> {
        Ok(self.transaction.prepare_cached("SELECT head FROM sites WHERE id = ?1")?.query_row([self.id], |row| row.get(0))?)
    }

    fn page(&mut self) -> Result<Vec<u8>, StepError> {
        let page = self.transaction.prepare_cached("SELECT page FROM pages WHERE site = ?1")?.query_row([self.id], |row| row.get(0)).optional()?;
        Ok(page.unwrap_or_default())
    }

    fn log(&mut self, from: usize) -> Result<Vec<u8>, StepError> {
        Ok(self.log.get(from * ENTRY..).unwrap_or_default().to_vec())
    }

    fn write(&mut self, commit: &Commit<'_>) -> Result<Position, StepError> {
        let used = self.now.as_micros().cast_signed();
        if let Some(page) = commit.page {
            self.transaction.prepare_cached("INSERT OR REPLACE INTO pages (site, page) VALUES (?1, ?2)")?.execute(params![self.id, page])?;
            self.position.page += 1;
            self.log.clear();
        }
        self.log.extend_from_slice(commit.log);
        self.position.logged = self.log.len() / ENTRY;
        let page_no = self.position.page.cast_signed();
        match commit.head {
            None => {
                let mut update = self.transaction.prepare_cached("UPDATE sites SET page_no = ?2, log = ?3, used = ?4 WHERE id = ?1")?;
                update.execute(params![self.id, page_no, self.log, used])?;
            }
            Some(head) => {
                self.position.head += 1;
                let mut update = self.transaction.prepare_cached(
                    "UPDATE sites SET page_no = ?2, log = ?3, used = ?4, head_no = ?5, head = ?6, updated_at = ?7, until_wall = ?8, reason = ?9 WHERE id = ?1",
                )?;
                let wall = self.wall();
                let until = commit.open.as_ref().map(|(until, _)| wall + until.since(self.now).as_secs_f64() - self.now.since(*until).as_secs_f64());
                let reason = commit.open.as_ref().map(|(_, reason)| reason);
                update.execute(params![self.id, page_no, self.log, used, self.position.head.cast_signed(), head, wall, until, reason])?;
            }
        }
        Ok(self.position)
    }
}
