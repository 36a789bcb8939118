//! The figures that a run publishes while it works, in a small file that any other process can read:
//! the figures that only the process itself knows. What became of every item is in the queue.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use docstokg_policy::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::run_process::RunProcess;
use crate::seconds;
use crate::staging::working_directory;

/// The name of the file in the directory of a run.
pub const SNAPSHOT_FILE: &str = "manifest.status.json";
/// The name under which it is written in the working directory before it is complete.
const UNFINISHED_SNAPSHOT: &str = "status.part";
/// The largest file that is read.
const MAX_SNAPSHOT_BYTES: u64 = 4 << 20;

/// The figures of a run that its own process publishes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSnapshot {
    /// The run.
    pub run_id: String,
    /// `download`, `demo`.
    pub command: String,
    /// The directory that it works in.
    pub directory: PathBuf,
    /// The state directory that it uses.
    pub state_directory: PathBuf,
    /// The database of its telemetry; `None` where it is not recorded.
    #[serde(default)]
    pub telemetry: Option<PathBuf>,
    /// Its process.
    pub process: RunProcess,
    /// When it began.
    #[serde(with = "seconds")]
    pub started_at: Timestamp,
    /// When this was written.
    #[serde(with = "seconds")]
    pub updated_at: Timestamp,
    /// Its end; `None` while it runs, and for ever if it was killed.
    #[serde(default)]
    pub end: Option<RunOutcome>,
    /// The whole command that continues it.
    #[serde(default)]
    pub continue_with: Option<String>,
    /// The directory that the command is for.
    #[serde(default)]
    pub working_directory: Option<PathBuf>,
    /// Figures of its work.
    #[serde(default)]
    pub progress: LiveProgress,
    /// The busiest hosts.
    #[serde(default)]
    pub hosts: Vec<HostActivity>,
    /// Long waits in line for a host, without the items that are deferred.
    #[serde(default)]
    pub queues: Vec<HostQueue>,
}

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// All items have ended.
    Complete,
    /// A stop by the user.
    Stopped,
    /// The machine had no network.
    Offline,
    /// Items wait for longer than the run waited.
    Waiting,
    /// The bytes that it may fetch were used up.
    BytesSpent,
    /// A failure that ended the run.
    Failed,
}

/// The figures that only the process of a run knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LiveProgress {
    /// True if all inputs have been read.
    pub all_read: bool,
    /// Requests on the wire.
    pub running: u64,
    /// Files of this run.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Lines that name no item.
    pub bad_lines: u64,
    /// Lines that name an item which is there already.
    pub duplicates: u64,
    /// Items that ended in the last minute, per minute; `None` in the first seconds.
    pub per_minute: Option<f64>,
    /// Bytes of files in the last minute, per second.
    pub bytes_per_second: Option<f64>,
    /// The remaining time; `None` where it is not known.
    pub left_s: Option<f64>,
}

/// A host, as a run sees it: the role that waits longest, or else the one that sends most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostActivity {
    /// The host.
    pub host: String,
    /// `metadata`, `landing` or `artifact`.
    pub role: String,
    /// Requests per second.
    pub rate: f64,
    /// The rate that the binding limit allows, per second.
    pub allowed: Option<f64>,
    /// The limit that requests wait for, in words.
    pub limit: Option<String>,
    /// The window of that limit.
    pub window: Option<String>,
    /// The limit that the rate is shown beside, in words.
    pub limited_to: Option<String>,
    /// The wait of the last request in line.
    pub waits_s: f64,
    /// For how long the host is paused.
    pub open_s: Option<f64>,
    /// The number of requests that it refused with 429.
    pub status_429: u64,
}

/// A long wait in line for a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostQueue {
    /// The host.
    pub host: String,
    /// Until when the last request in line waits.
    #[serde(with = "seconds")]
    pub until: Timestamp,
    /// The limit, in words.
    pub why: String,
    /// The way to change the limit.
    #[serde(default)]
    pub hint: Option<String>,
}

impl RunSnapshot {
    /// Reads the snapshot of a directory; `None` if it has none, or one that cannot be read.
    #[must_use]
    pub fn read(directory: &Path) -> Option<Self> {
        Self::read_file(&directory.join(SNAPSHOT_FILE))
    }

    /// Reads a snapshot from a file.
    #[must_use]
    pub fn read_file(path: &Path) -> Option<Self> {
        let length = std::fs::metadata(path).ok()?.len();
        if length > MAX_SNAPSHOT_BYTES {
            return None;
        }
        serde_json::from_slice(&std::fs::read(path).ok()?).ok()
    }

    /// Writes the snapshot into its directory. A reader sees the earlier one or this one, never a
    /// part.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self) -> io::Result<()> {
        let working = working_directory(&self.directory);
        let part = if working.is_dir() {
            working.join(UNFINISHED_SNAPSHOT)
        } else {
            docstokg_hub::files::beside(&self.directory.join(SNAPSHOT_FILE))
        };
        self.write_by(&part, &self.directory.join(SNAPSHOT_FILE))
    }

    /// Writes the snapshot to a file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_file(&self, path: &Path) -> io::Result<()> {
        self.write_by(&docstokg_hub::files::beside(path), path)
    }

    fn write_by(&self, part: &Path, path: &Path) -> io::Result<()> {
        let text = serde_json::to_vec_pretty(self).unwrap_or_default();
        std::fs::write(part, text)
            .and_then(|()| std::fs::rename(part, path))
            .inspect_err(|_| {
                // A part that cannot be removed is written again by the next run.
                let _ = std::fs::remove_file(part);
            })
    }
}

/// Writes snapshots on a thread of its own: a slow disk must not delay the run.
pub struct SnapshotWriter {
    snapshots: Option<SyncSender<RunSnapshot>>,
    thread: Option<JoinHandle<()>>,
}

impl SnapshotWriter {
    /// Starts the thread. Without one nothing is written, and the run continues.
    #[must_use]
    pub fn start() -> Self {
        let (snapshots, received) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("status".to_owned())
            .spawn(move || write_all(&received));
        Self {
            snapshots: Some(snapshots),
            thread: thread.ok(),
        }
    }

    /// Hands a snapshot to the thread. While the thread is still busy with the ones before, the
    /// snapshot is left out: a newer one follows.
    pub fn push(&self, snapshot: RunSnapshot) {
        if let Some(snapshots) = &self.snapshots {
            let _ = snapshots.try_send(snapshot);
        }
    }
}

/// Writes what is pushed. A snapshot that cannot be written leaves the one before.
fn write_all(received: &Receiver<RunSnapshot>) {
    while let Ok(snapshot) = received.recv() {
        let _ = snapshot.write();
    }
}

impl Drop for SnapshotWriter {
    fn drop(&mut self) {
        self.snapshots = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
