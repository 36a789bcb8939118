//! A pull: ontologies in, versions of the library out, as fast as the limits allow.
//!
//! An ontology is an item of the bulk engine:
//! - `state` decides the next step: query a source, or fetch a file.
//! - `lookup` queries sources and `fetch` fetches files, both through the hub. The hub uses the
//!   budget
//!   of the source's service and that of the host in one step.
//! - `examine` reads a downloaded file, and `store` makes a version of it.
//! - `finish` records the result of an ontology.
//!
//! A plan is the same run without downloads.

mod address;
pub mod catalog;
mod checksum;
mod describe;
pub mod examine;
mod fetch;
mod fetch_failure;
mod filename;
mod finish;
pub mod imports;
mod lookup;
mod ontologies;
mod outcome;
mod probe;
mod saved_file;
mod state;
mod store;
mod version;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use docstokg_bulk::directory::{Directory, DirectoryError, UnfinishedFiles};
use docstokg_bulk::job::{BoxFuture, JobState};
use docstokg_bulk::queue::{CommitMode, NewItem, WorkQueue};
use docstokg_bulk::run_context::RunContext;
use docstokg_bulk::scheduler::{ItemFeed, RunBounds, RunEnd, RunError, RunMode, Scheduler};
use docstokg_hub::clock::Timestamp;
use serde::Serialize;

pub use outcome::{PullEnding, PullOutcome};
pub use state::{PullState, PullStep};
pub(crate) use version::is_same_version;

use crate::config::OntologyConfig;
use crate::library::{Library, LibraryError, WORKPLACE};
use crate::lock::{LockEntry, LockFile};
use crate::wanted_ontology::WantedOntology;
use examine::FileExaminer;
use ontologies::OntologiesJob;

/// Options of a [`Pull`].
#[derive(Clone, Debug)]
pub struct PullOptions {
    /// The mode: with downloads, or with look-ups only.
    pub mode: RunMode,
    /// The [`ProbeMode`] of a plan.
    pub probes: ProbeMode,
    /// Ontologies that have not changed since this time are not downloaded.
    pub since: Option<Timestamp>,
    /// True to download also files that seem unchanged.
    pub force: bool,
    /// Maximum number of ontologies that are worked on at once.
    pub workers: usize,
    /// Maximum wait for paused hosts if nothing else is left to do.
    pub max_wait: Duration,
}

/// The way in which size and date of a file are found before its download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeMode {
    /// By a HEAD request for each file.
    Send,
    /// Without a request for each file.
    Skip,
}

impl Default for PullOptions {
    fn default() -> Self {
        Self {
            mode: RunMode::Full,
            probes: ProbeMode::Skip,
            since: None,
            force: false,
            workers: 32,
            max_wait: Duration::from_secs(3_600),
        }
    }
}

/// The reason why a pull failed.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// The working directory cannot be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// Another process works on the library.
    #[error("{by} works on the library at {path}; wait for it, or choose another --library")]
    Busy {
        /// The path of the library.
        path: String,
        /// The other process, if that is known.
        by: String,
    },
    /// The [`Library`] cannot be used.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The run cannot continue.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// The working directory of a pull. A library has one at a time.
pub struct Workplace(Directory);

impl Workplace {
    /// Locks the working directory of a library, and with it the right to change the library.
    /// Unfinished work of an interrupted pull is continued; its finished work is removed.
    ///
    /// # Errors
    /// [`PullError`] if the directory cannot be written, or another pull works on the library.
    pub async fn open(library: &Library, mode: CommitMode) -> Result<Self, PullError> {
        let path = library.root().join(WORKPLACE);
        let workplace = Self::take(&path, mode).await.map_err(|error| match error {
            PullError::Directory(DirectoryError::Busy { by, .. }) => PullError::Busy {
                path: library.root().display().to_string(),
                by: format!("another run{by}"),
            },
            other => other,
        })?;
        library.remove_unfinished()?;
        Ok(workplace)
    }

    /// Creates a working directory that is removed afterwards, for a plan.
    ///
    /// # Errors
    /// [`PullError`] if the directory cannot be written.
    pub async fn temporary(path: &Path, mode: CommitMode) -> Result<Self, PullError> {
        Self::take(path, mode).await
    }

    async fn take(path: &Path, mode: CommitMode) -> Result<Self, PullError> {
        let workplace = Self(Directory::open_private(path, mode, &[])?);
        workplace.begin_round().await?;
        Ok(workplace)
    }

    /// Removes finished items, so that the next round has only its own results.
    ///
    /// # Errors
    /// [`PullError`] if the queue cannot be written.
    pub async fn begin_round(&self) -> Result<(), PullError> {
        let queue = &self.0.queue;
        let counts = queue.counts().await.map_err(RunError::from)?;
        if counts.left() > 0 {
            queue.forget_ended().await.map_err(RunError::from)?;
        } else if counts.ended() > 0 {
            queue.clear().await.map_err(RunError::from)?;
        }
        Ok(())
    }

    /// Returns the number of ontologies that an interrupted pull left to do.
    ///
    /// # Errors
    /// [`PullError`] if the queue cannot be read.
    pub async fn left(&self) -> Result<u64, PullError> {
        let counts = self.0.queue.counts().await.map_err(RunError::from)?;
        Ok(counts.left())
    }

    /// Returns the [`Directory`] with the queue of the pull.
    #[must_use]
    pub const fn directory(&self) -> &Directory {
        &self.0
    }

    /// Ends the work. Unfinished items are kept for the next pull, unless nothing is left to do.
    pub fn close(self, ended: Option<&RunEnd>) {
        self.0.queue.close();
        let files = ended.map_or(UnfinishedFiles::Keep, UnfinishedFiles::after);
        self.0.clean_up(files);
    }
}

/// A requested ontology, perhaps pinned.
#[derive(Clone, Debug)]
pub struct RequestedOntology {
    /// The [`WantedOntology`] to pull.
    pub wanted: WantedOntology,
    /// The entry of a lock file, if the ontology is pinned.
    pub pin: Option<LockEntry>,
    /// Number of imports between the user's request and this ontology.
    pub import_depth: u32,
}

impl RequestedOntology {
    /// Requests an ontology that is not pinned.
    #[must_use]
    pub fn new(wanted: WantedOntology) -> Self {
        Self {
            wanted,
            pin: None,
            import_depth: 0,
        }
    }

    /// Requests every ontology of a [`LockFile`].
    #[must_use]
    pub fn of_lock(lock: &LockFile) -> Vec<Self> {
        let asked = |entry: &LockEntry| Self {
            wanted: WantedOntology::new(entry.id.clone()),
            pin: Some(entry.clone()),
            import_depth: 0,
        };
        lock.entries.iter().map(asked).collect()
    }
}

/// A pull of ontologies into a [`Library`], or its plan.
pub struct Pull {
    scheduler: Arc<Scheduler<OntologiesJob>>,
}

impl Pull {
    /// Creates a pull from its parts.
    #[must_use]
    pub fn new(
        context: RunContext,
        config: Arc<OntologyConfig>,
        library: Library,
        examiner: Arc<dyn FileExaminer>,
        options: PullOptions,
    ) -> Self {
        let scheduler = Scheduler {
            limits: RunBounds {
                workers: options.workers,
                max_bytes: None,
                max_wait: options.max_wait,
            },
            mode: options.mode,
            job: Arc::new(OntologiesJob::new(
                context.clone(),
                config,
                library,
                examiner,
                options,
            )),
            context,
        };
        Self {
            scheduler: Arc::new(scheduler),
        }
    }

    /// Runs until nothing is left to do, or the run is cancelled.
    ///
    /// # Errors
    /// [`PullError::Run`] if the run cannot continue; unfinished items stay queued.
    pub async fn run(&self, asked: Vec<RequestedOntology>) -> Result<RunEnd, PullError> {
        let job = &self.scheduler.job;
        let items: Vec<NewItem> = asked.into_iter().map(|asked| job.item(asked)).collect();
        // The state of an interrupted pull applies only to the same request.
        let anew = self.queue().begin_again(items.clone(), |item, saved| {
            let decode = <PullState as JobState>::decode;
            let now = item.saved_state.as_deref().and_then(decode);
            let known = decode(saved);
            now.zip(known)
                .is_some_and(|(now, known)| known.is_same_request(&now))
        });
        anew.await.map_err(RunError::from)?;
        let feed = OnceFeed(Some(items).filter(|items| !items.is_empty()));
        Ok(self.scheduler.run(Box::new(feed)).await?)
    }

    fn queue(&self) -> &WorkQueue {
        &self.scheduler.context.queue
    }

    /// Returns the [`PullOutcome`] of each ontology in the order of the requests, including
    /// ontologies that an interrupted pull left to do.
    ///
    /// # Errors
    /// [`PullError`] if the queue cannot be read.
    pub async fn results(&self) -> Result<Vec<PullOutcome>, PullError> {
        let found = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let side = Arc::clone(&found);
        let read = self.queue().each_item(move |item| {
            let record = item
                .record
                .as_deref()
                .and_then(|text| serde_json::from_str(text).ok());
            side.lock().extend(record);
        });
        read.await.map_err(RunError::from)?;
        Ok(std::mem::take(&mut found.lock()))
    }

    /// Returns the ontologies that wait for a host.
    ///
    /// # Errors
    /// [`PullError`] if the queue cannot be read.
    pub async fn deferred(&self) -> Result<Vec<DeferredOntology>, PullError> {
        let found = self.queue().deferrals::<PullState>().await;
        let found = found.map_err(RunError::from)?.into_iter();
        let described = found.map(|(id, deferral)| DeferredOntology {
            id,
            until: deferral.ready_at(),
            host: deferral.host,
            why: deferral.why,
        });
        Ok(described.collect())
    }
}

/// An ontology that waits for a host when a [`Pull`] ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeferredOntology {
    /// The name of the ontology.
    pub id: String,
    /// The host that the ontology waits for.
    pub host: String,
    /// The time of the next request to the host.
    #[serde(serialize_with = "as_text")]
    pub until: Timestamp,
    /// The reason, as a sentence.
    pub why: String,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes fields by reference"
)]
fn as_text<S: serde::Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(at)
}

/// A feed that delivers all items at once.
struct OnceFeed(Option<Vec<NewItem>>);

impl ItemFeed for OnceFeed {
    fn next(&mut self) -> BoxFuture<'_, Option<Vec<NewItem>>> {
        Box::pin(std::future::ready(self.0.take()))
    }
}

/// Returns the hosts of services, which certainly exist: a failure to resolve them means that the
/// network is unavailable.
#[must_use]
pub fn certain_hosts(config: &OntologyConfig) -> Vec<String> {
    let mut hosts = Vec::new();
    for name in &config.prefer_source {
        let Some(source) = config.sources.source(name) else {
            continue;
        };
        for endpoint in source.spec().endpoints {
            let url = config.sources.base(endpoint);
            hosts.extend(url.and_then(|url| url.host_str().map(str::to_owned)));
        }
    }
    hosts
}
