//! Writes `manifest.jsonl`, with one JSON object per line.
//!
//! The queue's file is authoritative: a record is committed there before its line is written, and a
//! run begins by rewriting all lines from the queue. So a killed process leaves no incomplete line
//! and no line without a record.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use docstokg_hub::files::beside;
use parking_lot::Mutex;

use crate::queue::{AttemptRow, ItemEnd, ManifestRow, QueueError, WorkQueue};

/// Writes `manifest.jsonl` beside the queue. Cheap to clone.
#[derive(Clone)]
pub struct ManifestWriter {
    queue: WorkQueue,
    file: Arc<Mutex<BufWriter<File>>>,
}

impl ManifestWriter {
    /// Rewrites the file at `path` from the records of the [`WorkQueue`], and opens it to append
    /// lines.
    ///
    /// # Errors
    /// Returns a [`QueueError`] if the queue cannot be read, or the file cannot be written.
    pub async fn begin(path: &Path, queue: &WorkQueue) -> Result<Self, QueueError> {
        let failed = |error: io::Error| QueueError::Sqlite {
            path: path.display().to_string(),
            why: error.to_string(),
        };
        let beside = beside(path);
        let writer = Arc::new(Mutex::new((
            BufWriter::new(File::create(&beside).map_err(failed)?),
            None::<io::Error>,
        )));
        let side = Arc::clone(&writer);
        queue
            .each_record(move |line| {
                let (file, error) = &mut *side.lock();
                if error.is_none() {
                    *error = writeln!(file, "{line}").err();
                }
            })
            .await?;
        {
            let (file, error) = &mut *writer.lock();
            if let Some(error) = error.take() {
                return Err(failed(error));
            }
            file.flush().map_err(failed)?;
        }
        std::fs::rename(&beside, path).map_err(failed)?;
        let file = OpenOptions::new().append(true).open(path).map_err(failed)?;
        Ok(Self {
            queue: queue.clone(),
            file: Arc::new(Mutex::new(BufWriter::new(file))),
        })
    }

    /// Records attempts and manifest lines, and the end of an item if `end` is given. The queue is
    /// written in a single commit; then the lines are appended to the file.
    ///
    /// # Errors
    /// Returns a [`QueueError`] if the queue cannot be written.
    pub async fn record(
        &self,
        attempts: Vec<AttemptRow>,
        manifests: Vec<ManifestRow>,
        end: Option<ItemEnd>,
    ) -> Result<(), QueueError> {
        let records = self.commit(attempts, manifests, end).await?;
        self.append(&records);
        Ok(())
    }

    /// Records in the queue like [`ManifestWriter::record`], and returns the lines without
    /// appending them. Use this if a file must be renamed after the commit and before its line is
    /// visible.
    ///
    /// # Errors
    /// Returns a [`QueueError`] if the queue cannot be written.
    pub async fn commit(
        &self,
        attempts: Vec<AttemptRow>,
        manifests: Vec<ManifestRow>,
        end: Option<ItemEnd>,
    ) -> Result<Vec<Arc<str>>, QueueError> {
        let of_attempts = attempts.iter().map(|row| Arc::clone(&row.record));
        let of_manifests = manifests.iter().map(|row| Arc::clone(&row.record));
        let records = of_attempts.chain(of_manifests).collect();
        self.queue.record(attempts, manifests, end).await?;
        Ok(records)
    }

    /// Appends lines whose records are already committed in the queue.
    pub fn append(&self, records: &[Arc<str>]) {
        let mut file = self.file.lock();
        for record in records {
            // If this write fails, the next run writes the line from the queue's record.
            let _ = writeln!(file, "{record}");
        }
    }

    /// Writes buffered lines to the file.
    pub fn flush(&self) {
        let _ = self.file.lock().flush();
    }
}
