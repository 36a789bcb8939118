//! The queries of operators: a check of every body, the list of entries, and totals.

use std::os::unix::fs::FileExt;

use docstokg_policy::time::Timestamp;
use rusqlite::params;
use xxhash_rust::xxh3::Xxh3;

use super::DiskCore;
use super::index::DiskIndex;
use super::row::{EntryDamage, IndexRow, SELECT_PAGE};
use crate::cache::admin::{
    CacheStats, DamagedEntry, ListPosition, ListedEntry, MAX_DAMAGED_LISTED, VerificationReport,
};
use crate::cache::body::READ_CHUNK_BYTES;
use crate::error::StoreError;

/// The number of rows that are read at once. The number is small, because each row may have 256 KiB
/// of metadata.
const VERIFY_PAGE_ROWS: i64 = 16;

impl DiskCore {
    /// Checks the [`DiskIndex`] and every body. Removes damaged entries, and files without an
    /// entry.
    pub(in super::super) fn verify(
        &self,
        index: &mut DiskIndex,
    ) -> Result<VerificationReport, StoreError> {
        let mut verified = VerificationReport::default();
        let check = index.read(self, |connection| {
            connection.query_row("PRAGMA integrity_check(1)", [], |row| {
                row.get::<_, String>(0)
            })
        });
        match check {
            Ok(answer) if answer == "ok" => {}
            Ok(answer) => {
                index.replace(self, &format!("is damaged ({answer})"));
                verified.index_replaced = true;
            }
            Err(StoreError::Forgot { .. }) => verified.index_replaced = true,
            Err(error) => return Err(error),
        }
        let mut last = i64::MIN;
        loop {
            let rows = index.read(self, |connection| {
                let mut page = connection.prepare_cached(SELECT_PAGE)?;
                let rows = page.query_map([last, VERIFY_PAGE_ROWS], |row| {
                    let url = row.get_ref(3)?.as_str().unwrap_or_default().to_owned();
                    Ok((row.get::<_, i64>(0)?, url, IndexRow::read(row)))
                })?;
                rows.collect::<rusqlite::Result<Vec<_>>>()
            })?;
            let Some((id, ..)) = rows.last() else {
                break;
            };
            last = *id;
            for (id, url, row) in rows {
                self.verify_entry(index, id, url, row, &mut verified)?;
            }
        }
        verified.orphans = self.sweep(index)?;
        Ok(verified)
    }

    /// Checks one entry, and removes it if it is damaged.
    fn verify_entry(
        &self,
        index: &mut DiskIndex,
        id: i64,
        url: String,
        row: Option<IndexRow>,
        verified: &mut VerificationReport,
    ) -> Result<(), StoreError> {
        verified.entries += 1;
        let (why, removed) = match row {
            None => {
                let removed = self.remove_row(index, id)?;
                self.marks.purged();
                ("its row cannot be decoded".to_owned(), removed)
            }
            Some(row) => match self.verify_body(&row) {
                Ok(()) => {
                    verified.bytes += row.length;
                    return Ok(());
                }
                Err(damage) => (damage, self.remove(index, &row.id)?),
            },
        };
        // An entry that another process has replaced meanwhile was not damaged.
        if removed {
            verified.damaged += 1;
            if verified.list.len() < MAX_DAMAGED_LISTED {
                verified.list.push(DamagedEntry { url, why });
            }
        }
        Ok(())
    }

    fn verify_body(&self, row: &IndexRow) -> Result<(), String> {
        let mut hasher = Xxh3::new();
        if let Some(body) = &row.body {
            if body.len() as u64 != row.length {
                return Err(format!(
                    "its body has {} bytes, not {}",
                    body.len(),
                    row.length
                ));
            }
            hasher.update(body);
        } else {
            let file = row.open_file(self).map_err(|damage| match damage {
                EntryDamage::Missing => "its body file is missing".to_owned(),
                EntryDamage::Wrong(why) => format!("its body file {why}"),
            })?;
            let mut chunk = vec![0; READ_CHUNK_BYTES];
            let mut offset = 0;
            while offset < row.length {
                let wanted = usize::try_from(row.length - offset)
                    .unwrap_or(READ_CHUNK_BYTES)
                    .min(READ_CHUNK_BYTES);
                file.read_exact_at(&mut chunk[..wanted], offset)
                    .map_err(|error| format!("its body file cannot be read ({error})"))?;
                hasher.update(&chunk[..wanted]);
                offset += wanted as u64;
            }
        }
        if hasher.digest() == row.id.checksum {
            return Ok(());
        }
        Err("its body does not match its checksum".to_owned())
    }

    /// Lists entries after a [`ListPosition`].
    pub(in super::super) fn list(
        &self,
        index: &mut DiskIndex,
        host: Option<&str>,
        after: ListPosition,
        limit: usize,
    ) -> Result<Vec<ListedEntry>, StoreError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        index.read(self, |connection| {
            let mut page = connection.prepare_cached(
                "SELECT id, url, host, length, stored_at, coalesce(used_at, stored_at), metadata \
                 FROM entries LEFT JOIN uses ON entry = id \
                 WHERE id > ?1 AND (?2 IS NULL OR host = ?2) ORDER BY id LIMIT ?3",
            )?;
            let rows = page.query_map(params![after.0, host, limit], |row| {
                let text = |column| {
                    let text = row.get_ref(column)?.as_bytes().unwrap_or_default();
                    Ok::<_, rusqlite::Error>(String::from_utf8_lossy(text).into_owned())
                };
                let integer = |column| {
                    let number = row.get_ref(column)?.as_i64().unwrap_or_default();
                    Ok::<_, rusqlite::Error>(number)
                };
                let metadata = row.get_ref(6)?.as_bytes().unwrap_or_default();
                Ok(ListedEntry {
                    position: ListPosition(integer(0)?),
                    url: text(1)?,
                    host: text(2)?,
                    body_length: integer(3)?.max(0).unsigned_abs(),
                    stored_at: Timestamp::from_micros(integer(4)?),
                    used_at: Timestamp::from_micros(integer(5)?),
                    metadata: bytes::Bytes::copy_from_slice(metadata),
                })
            })?;
            rows.collect()
        })
    }

    pub(in super::super) fn stats(&self, index: &mut DiskIndex) -> Result<CacheStats, StoreError> {
        let (entries, bytes) = index.read(self, |connection| {
            connection.query_row("SELECT entries, bytes FROM totals", [], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
            })
        })?;
        let memory = self.memory.lock();
        Ok(CacheStats {
            entries: entries.max(0).unsigned_abs(),
            bytes: bytes.max(0).unsigned_abs(),
            max_bytes: self.options.max_bytes,
            memory_keys: memory.len() as u64,
            memory_bytes: memory.bytes(),
        })
    }
}
