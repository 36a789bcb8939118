//! The removal of files without an entry: leftovers of killed processes, and the bodies of an index
//! that was moved aside.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use docstokg_policy::time::micros;
use rusqlite::OptionalExtension;

use super::DiskCore;
use super::index::DiskIndex;
use super::layout::remove_if_there;
use crate::error::StoreError;

/// The age from which a file without an entry is an orphan. By then its writer has committed its
/// row, or has ended.
pub(super) const ORPHAN_AGE: Duration = Duration::from_secs(3_600);
/// The number of written rows between two checkpoints. A checkpoint waits for the disk, so it does
/// not run on the writing thread.
const CHECKPOINT_ROWS: u32 = 128;
/// The number of written rows between two checks for expired leases and orphans.
const MAINTENANCE_ROWS: u32 = 8 * CHECKPOINT_ROWS;
/// The time between two sweeps of the directory.
const SWEEP_INTERVAL: Duration = Duration::from_secs(6 * 3_600);

impl DiskCore {
    /// Counts a written row. At intervals, checkpoints the log of the [`DiskIndex`] and drops
    /// expired leases. Files are swept if a sweep is due.
    pub(in super::super) fn maintain(self: &Arc<Self>, index: &mut DiskIndex) {
        let written = self.written.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        if written.is_multiple_of(CHECKPOINT_ROWS) {
            self.checkpoint();
        }
        if written.is_multiple_of(MAINTENANCE_ROWS) {
            let _ = self.drop_expired_leases(index);
            self.sweep_if_due();
        }
    }

    /// Queues a checkpoint on a reading thread, unless one is running.
    fn checkpoint(self: &Arc<Self>) {
        if self.is_checkpointing.swap(true, Ordering::AcqRel) {
            return;
        }
        let core = Arc::clone(self);
        self.in_files(Box::new(move |index| {
            // A checkpoint that fails now succeeds later.
            let _ = index.read(&core, |connection| {
                connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
            });
            core.is_checkpointing.store(false, Ordering::Release);
        }));
    }

    /// Sweeps the directory if no process has done so for [`SWEEP_INTERVAL`].
    pub(super) fn sweep_if_due(self: &Arc<Self>) {
        let core = Arc::clone(self);
        self.in_files(Box::new(move |index| {
            if core.take_sweep(index).unwrap_or(false) {
                let _ = core.sweep(index);
            }
        }));
    }

    /// Claims the next sweep, if it is due.
    fn take_sweep(&self, index: &mut DiskIndex) -> Result<bool, StoreError> {
        let now = self.clock.wall().as_micros();
        let interval = micros(SWEEP_INTERVAL).cast_signed();
        let is_due = index.read(self, |connection| {
            let swept_at: i64 =
                connection.query_row("SELECT swept_at FROM totals", [], |row| row.get(0))?;
            // A time ahead of the clock was written on another clock.
            Ok(now - swept_at >= interval || swept_at > now)
        })?;
        if !is_due {
            return Ok(false);
        }
        let taken = index.write(self, |connection| {
            connection.execute(
                "UPDATE totals SET swept_at = ?1 WHERE swept_at <= ?1 - ?2 OR swept_at > ?1",
                [now, interval],
            )
        })?;
        Ok(taken > 0)
    }

    /// Removes old files that no row names, and expired leases. Returns the number of removed
    /// files.
    pub(super) fn sweep(&self, index: &mut DiskIndex) -> Result<u64, StoreError> {
        self.drop_expired_leases(index)?;
        let before = self.clock.wall().as_micros() / 1_000_000 - ORPHAN_AGE.as_secs().cast_signed();
        let mut old = Vec::new();
        // Files that cannot be listed now are swept later.
        let _ = self
            .layout
            .files_before(before, |path, body| old.push((path.to_owned(), body)));
        let mut removed = 0;
        for (path, body) in old {
            let is_used = match body {
                None => false,
                Some(name) => index.read(self, |connection| {
                    let row = connection
                        .prepare_cached("SELECT 1 FROM entries WHERE file = ?1")?
                        .query_row([&name.0[..]], |_| Ok(()))
                        .optional()?;
                    Ok(row.is_some())
                })?,
            };
            if !is_used && remove_if_there(&path).is_ok() {
                removed += 1;
            }
        }
        Ok(removed)
    }
}
