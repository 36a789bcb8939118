//! The writer of `manifest.jsonl`, with one JSON object per line.
//!
//! The queue's file is authoritative. Lines are written after it, and all lines are rewritten from
//! it when a run begins. So a killed process leaves neither a partial line nor an additional line.

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
    /// Rewrites the file from the records of the [`WorkQueue`], and continues at its end.
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

    /// Records attempts and manifest records, and with `end` the end of an item. The queue is
    /// written in one commit, then the lines are appended.
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
    /// appending them. The caller renames a file between the commit and the lines.
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

    /// Appends records that are already in the queue.
    pub fn append(&self, records: &[Arc<str>]) {
        let mut file = self.file.lock();
        for record in records {
            // If the write fails, the next run adds the line from the queue.
            let _ = writeln!(file, "{record}");
        }
    }

    /// Writes buffered lines to the file.
    pub fn flush(&self) {
        let _ = self.file.lock().flush();
    }
}
