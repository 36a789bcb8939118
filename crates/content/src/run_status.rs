//! How a run stands: one value that the terminal, JSON and pages show. Put together from the queue
//! of the directory and from what the run says about itself, by any process and at any time.

mod assembly;
mod facts;

use std::path::{Path, PathBuf};

use docstokg_bulk::queue::QueueError;
use docstokg_bulk::run_snapshot::{HostActivity, LiveProgress, RunOutcome};
use docstokg_bulk::seconds;
use docstokg_hub::StatedBy;
use docstokg_hub::clock::Timestamp;
use serde::Serialize;

use crate::results::ResultStatus;
pub use facts::StatusFacts;

/// The status of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunStatus {
    /// The directory of the run.
    pub directory: PathBuf,
    /// The state of the run.
    pub state: RunState,
    /// The time that this is about.
    #[serde(with = "seconds")]
    pub at: Timestamp,
    /// The latest run; `None` in a directory of an earlier version of the program.
    pub run: Option<StatusRun>,
    /// Works by where they stand.
    pub works: WorkCounts,
    /// Reasons of works without a file, the most frequent first.
    pub reasons: Vec<ReasonCount>,
    /// Files of all runs in the directory.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The figures that the process of the run knows; the last ones if it does not run.
    pub progress: Option<LiveProgress>,
    /// The waits of works, and those of the run in line.
    pub waits: Vec<StatusWait>,
    /// The busiest hosts of a run that works.
    pub hosts: Vec<HostActivity>,
    /// Advice for the next step.
    pub advice: Vec<StatusAdvice>,
}

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// A run whose process runs.
    Running,
    /// A run that has ended by itself.
    Ended,
    /// A run whose process is gone without an end.
    Killed,
    /// A run on another machine, which cannot be checked.
    Elsewhere,
    /// No process works here, and the end of the last run is not known.
    Idle,
}

/// The latest run of a directory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StatusRun {
    /// Its id.
    pub run_id: String,
    /// `download`, `demo`; empty if it is not known.
    pub command: String,
    /// Its process.
    pub pid: Option<u32>,
    /// The machine and process, in words.
    pub process: Option<String>,
    /// When it began.
    #[serde(with = "seconds::option")]
    pub started_at: Option<Timestamp>,
    /// When it last said something about itself, or ended.
    #[serde(with = "seconds")]
    pub updated_at: Timestamp,
    /// Its end.
    pub end: Option<RunOutcome>,
    /// The state directory that it used.
    pub state_directory: Option<PathBuf>,
    /// The database of its telemetry.
    pub telemetry: Option<PathBuf>,
    /// The whole command that continues it.
    pub continue_with: Option<String>,
    /// The directory that the command is for.
    pub working_directory: Option<PathBuf>,
}

/// Works by where they stand. The sum of `downloaded`, `without_file`, `waiting`, `queued` and
/// `running` is `all`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WorkCounts {
    /// All works that have been read so far.
    pub all: u64,
    /// True if all inputs have been read.
    pub all_read: bool,
    /// Works with a file.
    pub downloaded: u64,
    /// Of these, those with a file from an earlier run.
    pub known: u64,
    /// Works without a file.
    pub without_file: u64,
    /// Of these, those that are not openly available.
    pub not_open: u64,
    /// Of these, those that programs are kept from.
    pub blocked: u64,
    /// Of these, those that could not be got.
    pub failed: u64,
    /// Works that wait for a host, a limit or the network.
    pub waiting: u64,
    /// Works that are to do, in line for their hosts or not begun.
    pub queued: u64,
    /// Works with a request on the wire, as far as requests are for one work.
    pub running: u64,
}

/// Works without a file for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReasonCount {
    /// The word of the reason.
    pub reason: String,
    /// Its meaning.
    pub meaning: String,
    /// The result of these works.
    #[serde(serialize_with = "crate::work_history::serialize_status")]
    pub standing: ResultStatus,
    /// The number of works.
    pub works: u64,
}

/// A wait of works or of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StatusWait {
    /// The host; `None` if that was not kept.
    pub host: Option<String>,
    /// The number of deferred works; `None` for a wait in line, which is not counted.
    pub works: Option<u64>,
    /// Until when the first of them waits.
    #[serde(with = "seconds")]
    pub until: Timestamp,
    /// The cause, in a few words.
    pub why: String,
    /// The authority that set the time, where it is known.
    pub set_by: Option<StatedBy>,
    /// The source whose own breaker is the reason.
    pub resolver: Option<String>,
    /// Advice about the wait.
    pub advice: Option<StatusAdvice>,
}

/// Advice for a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StatusAdvice {
    /// The advice, in a sentence.
    pub text: String,
    /// The whole command that does it.
    pub command: Option<String>,
}

impl RunStatus {
    /// Reads how the run of a directory stands.
    ///
    /// # Errors
    /// Its queue cannot be read.
    pub fn read(directory: &Path, now: Timestamp) -> Result<Self, QueueError> {
        Ok(Self::of(directory, StatusFacts::read(directory)?, now))
    }
}
