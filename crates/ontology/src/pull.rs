//! A pull: ontologies in, versions of the library out, politely and as fast as the limits allow.
//!
//! An ontology is an item of the bulk engine. `state` says what comes next for one: ask a source,
//! fetch a file. `lookup` asks sources and `fetch` fetches, both through the hub, which charges the
//! budget of the source's service and that of the host in one step. `examine` reads what came,
//! `store` makes a version of it, `finish` records what an ontology came to. A plan is the same run
//! in which nothing is fetched.

mod address;
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
use crate::library::{Library, LibraryError};
use crate::lock::{LockEntry, LockFile};
use crate::wanted_ontology::WantedOntology;
use examine::FileExaminer;
use ontologies::OntologiesJob;

/// How a pull goes about it.
#[derive(Clone, Debug)]
pub struct PullOptions {
    /// Whether files are fetched, or only looked up.
    pub mode: RunMode,
    /// Whether a plan asks servers for size and date of files.
    pub probes: ProbeMode,
    /// Ontologies that have not changed since then are left as they are.
    pub since: Option<Timestamp>,
    /// Fetch also what seems not to have changed.
    pub force: bool,
    /// The most ontologies worked on at once.
    pub workers: usize,
    /// The longest wait for paused hosts when nothing else is left to do.
    pub max_wait: Duration,
}

/// Whether servers are asked for size and date before a file is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeMode {
    /// With a HEAD request each.
    Send,
    /// Not at all.
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

/// Why a pull could not be done.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// Its working directory cannot be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// Another process works on the library.
    #[error("{by} works on the library at {path}; wait for it, or choose another --library")]
    Busy {
        /// The library.
        path: String,
        /// Which process, where that is known.
        by: String,
    },
    /// The library cannot be used.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// It could not go on.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// The working directory of a pull: one at a time in a library.
pub struct Workplace(Directory);

/// The name of the working directory in a library.
const WORKPLACE: &str = ".ontofetch";

impl Workplace {
    /// Takes the working directory of a library, and with it the right to change the library. What
    /// an interrupted pull left to do is there again; what it finished is forgotten.
    ///
    /// # Errors
    /// It cannot be written, or another pull works on the library.
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

    /// Makes a working directory that is removed afterwards, for a plan.
    ///
    /// # Errors
    /// It cannot be written.
    pub async fn temporary(path: &Path, mode: CommitMode) -> Result<Self, PullError> {
        Self::take(path, mode).await
    }

    async fn take(path: &Path, mode: CommitMode) -> Result<Self, PullError> {
        let workplace = Self(Directory::open_private(path, mode, &[])?);
        workplace.begin_round().await?;
        Ok(workplace)
    }

    /// Forgets what has ended, so that the results of the next round are its own.
    ///
    /// # Errors
    /// The queue cannot be written.
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

    /// Returns how many ontologies an interrupted pull left to do.
    ///
    /// # Errors
    /// The queue cannot be read.
    pub async fn left(&self) -> Result<u64, PullError> {
        let counts = self.0.queue.counts().await.map_err(RunError::from)?;
        Ok(counts.left())
    }

    /// Returns the directory.
    #[must_use]
    pub const fn directory(&self) -> &Directory {
        &self.0
    }

    /// Ends the work. What is unfinished is kept for the next pull unless nothing is left to do.
    pub fn close(self, ended: Option<&RunEnd>) {
        self.0.queue.close();
        let files = ended.map_or(UnfinishedFiles::Keep, UnfinishedFiles::after);
        self.0.clean_up(files);
    }
}

/// What is asked for: ontologies, each perhaps pinned.
#[derive(Clone, Debug)]
pub struct RequestedOntology {
    /// The ontology.
    pub wanted: WantedOntology,
    /// What a lock file pins it to.
    pub pin: Option<LockEntry>,
    /// How many imports away from what the user asked for.
    pub import_depth: u32,
}

impl RequestedOntology {
    /// Asks for an ontology that is not pinned.
    #[must_use]
    pub fn new(wanted: WantedOntology) -> Self {
        Self {
            wanted,
            pin: None,
            import_depth: 0,
        }
    }

    /// Asks for everything that a lock file pins.
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

/// A pull.
pub struct Pull {
    scheduler: Arc<Scheduler<OntologiesJob>>,
}

impl Pull {
    /// Puts a pull together.
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

    /// Works until nothing is left to do, or the run is cancelled.
    ///
    /// # Errors
    /// The run cannot go on; what is left stays queued.
    pub async fn run(&self, asked: Vec<RequestedOntology>) -> Result<RunEnd, PullError> {
        let job = &self.scheduler.job;
        let items: Vec<NewItem> = asked.into_iter().map(|asked| job.item(asked)).collect();
        // What an interrupted pull knows serves the same request, and no other.
        let anew = self.queue().begin_anew(items.clone(), |item, saved| {
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

    /// Returns what each ontology came to, in the order in which they were asked for; those that
    /// an interrupted pull left to do are among them.
    ///
    /// # Errors
    /// The queue cannot be read.
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
    /// The queue cannot be read.
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

/// An ontology that waits for a host when a pull ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeferredOntology {
    /// The ontology.
    pub id: String,
    /// The host.
    pub host: String,
    /// When the host may be asked again.
    #[serde(serialize_with = "as_text")]
    pub until: Timestamp,
    /// Why, as a sentence.
    pub why: String,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes fields by reference"
)]
fn as_text<S: serde::Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(at)
}

/// All items at once.
struct OnceFeed(Option<Vec<NewItem>>);

impl ItemFeed for OnceFeed {
    fn next(&mut self) -> BoxFuture<'_, Option<Vec<NewItem>>> {
        Box::pin(std::future::ready(self.0.take()))
    }
}

/// Returns the hosts of services, which exist for certain.
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
