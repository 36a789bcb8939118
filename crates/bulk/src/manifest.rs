//! Writing `manifest.jsonl`: one JSON object per line.
//!
//! The queue's file is the truth; the lines are written after it and written anew from it whenever
//! a run begins, so that a killed process leaves neither half a line nor one too many.

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
    /// Writes the file anew from the queue's records, and goes on at its end.
    ///
    /// # Errors
    /// The queue cannot be read, or the file cannot be written.
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

    /// Records attempts and manifest records, and with `end` the end of an item: in the queue in
    /// one commit, then as lines.
    ///
    /// # Errors
    /// The queue cannot be written.
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

    /// Records as [`ManifestWriter::record`] does, in the queue only, and returns the lines: for a
    /// file that gets its name between the commit and the lines.
    ///
    /// # Errors
    /// The queue cannot be written.
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

    /// Appends records that are in the queue already.
    pub fn append(&self, records: &[Arc<str>]) {
        let mut file = self.file.lock();
        for record in records {
            // A line that is not written is there when the file is written anew.
            let _ = writeln!(file, "{record}");
        }
    }

    /// Writes what is buffered.
    pub fn flush(&self) {
        let _ = self.file.lock().flush();
    }
}
