//! The removal of many entries: the least recently used entries above the size limit, those of a
//! host, or all.
//!
//! Each batch is one write transaction that reads the totals again. Processes that evict at the
//! same time therefore wait for each other, and remove no more than necessary.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{Connection, params};

use super::DiskCore;
use super::index::DiskIndex;
use super::layout::BodyName;
use super::put::{delete, file_of};
use crate::cache::admin::RemovedEntries;
use crate::error::StoreError;

/// The number of entries that one transaction removes.
const EVICTION_BATCH_ROWS: i64 = 128;

/// The entries and files that a batch removed.
#[derive(Default)]
struct EvictedBatch {
    removed: RemovedEntries,
    files: Vec<BodyName>,
}

impl EvictedBatch {
    /// Removes the rows of a query `SELECT file, id, size` until `enough` returns true.
    fn remove(
        connection: &Connection,
        query: &str,
        parameters: impl rusqlite::Params,
        mut enough: impl FnMut(&RemovedEntries) -> bool,
    ) -> rusqlite::Result<Self> {
        let rows = connection
            .prepare_cached(query)?
            .query_map(parameters, |row| {
                let size = row.get_ref(2)?.as_i64().unwrap_or_default();
                Ok((
                    file_of(row)?,
                    row.get::<_, i64>(1)?,
                    size.max(0).unsigned_abs(),
                ))
            })?
            .collect::<rusqlite::Result<Vec<_>>>()?;
        let mut batch = Self::default();
        for (file, id, size) in rows {
            if enough(&batch.removed) {
                break;
            }
            delete(connection, id)?;
            batch.files.extend(file);
            batch.removed.entries += 1;
            batch.removed.bytes += size;
        }
        Ok(batch)
    }
}

impl DiskCore {
    /// Removes the least recently used entries until the rest has at most `to_bytes`.
    pub(in super::super) fn evict(
        &self,
        index: &mut DiskIndex,
        to_bytes: u64,
    ) -> Result<RemovedEntries, StoreError> {
        self.write_uses(index)?;
        self.in_batches(index, |connection| {
            let total: i64 = connection
                .prepare_cached("SELECT bytes FROM totals")?
                .query_row([], |row| row.get(0))?;
            let excess = total.max(0).unsigned_abs().saturating_sub(to_bytes);
            let oldest = "SELECT file, id, size FROM uses JOIN entries ON id = entry \
                          ORDER BY used_at, entry LIMIT ?1";
            EvictedBatch::remove(connection, oldest, [EVICTION_BATCH_ROWS], |removed| {
                removed.bytes >= excess
            })
        })
    }

    /// Removes the entries of a host, or all entries.
    pub(in super::super) fn purge(
        &self,
        index: &mut DiskIndex,
        host: Option<&str>,
    ) -> Result<RemovedEntries, StoreError> {
        self.marks.purged();
        let removed = self.in_batches(index, |connection| {
            let query = "SELECT file, id, size FROM entries WHERE ?1 IS NULL OR host = ?1 LIMIT ?2";
            EvictedBatch::remove(
                connection,
                query,
                params![host, EVICTION_BATCH_ROWS],
                |_| false,
            )
        });
        self.marks.purged();
        self.memory.lock().clear();
        removed
    }

    /// Runs batches until an [`EvictedBatch`] removes no entry, and returns freed pages to the
    /// disk.
    fn in_batches(
        &self,
        index: &mut DiskIndex,
        batch: impl Fn(&Connection) -> rusqlite::Result<EvictedBatch>,
    ) -> Result<RemovedEntries, StoreError> {
        let mut all = RemovedEntries::default();
        loop {
            let EvictedBatch { removed, files } = index.write(self, &batch)?;
            for file in files {
                self.layout.remove_body(file);
            }
            all.entries += removed.entries;
            all.bytes += removed.bytes;
            if removed.entries == 0 {
                break;
            }
        }
        if all.entries > 0 {
            // The next entries use the pages that stay free.
            index.read(self, |connection| {
                let mut vacuum = connection.prepare_cached("PRAGMA incremental_vacuum(4096)")?;
                let mut pages = vacuum.query([])?;
                while pages.next()?.is_some() {}
                Ok(())
            })?;
        }
        Ok(all)
    }

    /// Queues a write of the recorded uses to the index.
    pub(super) fn flush_uses(self: &Arc<Self>) {
        let core = Arc::clone(self);
        self.in_index(Box::new(move |index| {
            let _ = core.write_uses(index);
        }));
    }

    fn write_uses(&self, index: &mut DiskIndex) -> Result<(), StoreError> {
        let noted = std::mem::take(&mut self.uses.lock().pending);
        if noted.is_empty() {
            return Ok(());
        }
        let latest: HashMap<i64, i64> = noted.into_iter().collect();
        index.write(self, |connection| {
            let mut update = connection
                .prepare_cached("UPDATE uses SET used_at = ?2 WHERE entry = ?1 AND used_at < ?2")?;
            for (entry, used_at) in &latest {
                update.execute([entry, used_at])?;
            }
            Ok(())
        })
    }
}
