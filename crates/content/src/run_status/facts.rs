//! What is known about a directory of a run: the queue, and what the run says about itself.

use std::path::Path;

use docstokg_bulk::directory::Directory;
use docstokg_bulk::queue::{QueueError, QueueReader, StoredCounts, StoredFailures, StoredWait};
use docstokg_bulk::run_process::ProcessLife;
use docstokg_bulk::run_snapshot::RunSnapshot;
use docstokg_bulk::staging::working_directory;
use docstokg_hub::clock::Timestamp;
use docstokg_hub::stores::process::{may_run, signature};

/// The facts about a directory, before they are put together.
#[derive(Clone, Debug, Default)]
pub struct StatusFacts {
    /// The figures that the run publishes.
    pub snapshot: Option<RunSnapshot>,
    /// The life of its process.
    pub life: Option<ProcessLife>,
    /// Works by where they stand.
    pub counts: StoredCounts,
    /// Works without a file by reason.
    pub failures: Vec<StoredFailures>,
    /// The waits of deferred works.
    pub waits: Vec<StoredWait>,
    /// Files and their bytes.
    pub files: (u64, u64),
    /// The run that was summed up last, and when.
    pub last_summary: Option<(String, Timestamp)>,
}

impl StatusFacts {
    /// Reads what is known about a directory.
    ///
    /// # Errors
    /// Its queue cannot be read.
    pub fn read(directory: &Path) -> Result<Self, QueueError> {
        let snapshot = RunSnapshot::read(directory);
        let life = match &snapshot {
            Some(snapshot) => Some(snapshot.process.life()),
            None => lock_life(directory),
        };
        let queue = match QueueReader::open(directory) {
            Ok(queue) => queue,
            // A run that has just begun has no queue yet.
            Err(_) if snapshot.is_some() && !Directory::was_used(directory) => {
                return Ok(Self {
                    snapshot,
                    life,
                    ..Self::default()
                });
            }
            Err(error) => return Err(error),
        };
        let since = snapshot.as_ref().map(|snapshot| snapshot.started_at);
        Ok(Self {
            life,
            counts: queue.counts(since.unwrap_or(Timestamp::EPOCH))?,
            failures: queue.failures()?,
            waits: queue.waits()?,
            files: queue.files()?,
            last_summary: queue.last_summary()?,
            snapshot,
        })
    }
}

/// Tells whether the process runs that the lock of a directory names: a run of an earlier version
/// says nothing else about itself.
fn lock_life(directory: &Path) -> Option<ProcessLife> {
    let lock = std::fs::read_to_string(working_directory(directory).join("lock")).ok()?;
    let pid: u32 = lock.trim().parse().ok()?;
    let this_process = signature();
    let (_, node) = this_process.split_once(" on ")?;
    Some(if may_run(&format!("pid {pid} on {node}")) {
        ProcessLife::Running
    } else {
        ProcessLife::Ended
    })
}
