//! A run: works in, files out, as fast as the limits allow.
//!
//! Works are one [`Job`](docstokg_bulk::job::Job) of the bulk engine.
//!
//! - `works` describes the needs of a work, and `lanes` the site of its next step.
//! - `lookup`, `fetch` and `save` run the step, and `finish` records the end.
//! - [`inputs`] and [`query`] read works, and `feed` queues them.
//! - `mod@report` and `deliverables` summarise the run.

mod damaged_files;
mod deliverables;
mod feed;
mod fetch;
mod files;
mod finish;
pub mod inputs;
mod lanes;
mod lookup;
pub mod query;
mod recorded_files;
mod report;
mod save;
mod works;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use docstokg_bulk::directory::{Directory, DirectoryError, refuse_links};
use docstokg_bulk::queue::{CommitMode, Respelling};
use docstokg_bulk::run_context::RunContext;
use docstokg_bulk::scheduler::{RunBounds, RunEnd, RunError, RunMode, Scheduler};
use docstokg_hub::Role;
use docstokg_hub::forecast::{RoleDemand, SiteForecast};
use docstokg_hub::stores::SiteKey;

pub use damaged_files::requeue_damaged;
pub use deliverables::deliver;
pub use report::{RunReport, report};

use crate::layout::{self, FileLayout};
use crate::reason::Reason;
use crate::resolver::order::ResolverChoice;
use crate::resolver::settings::Settings;
use crate::work_state::ArtifactKind;
use feed::WorkFeed;
use inputs::WorkInputs;
use works::WorksJob;

/// The options of a run, as its user chose them.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "choices of a user, each independent of the others"
)]
pub struct RunOptions {
    /// The output directory.
    pub out: PathBuf,
    /// The wanted kinds of files.
    pub kinds: BTreeSet<ArtifactKind>,
    /// The resolvers to query.
    pub choice: ResolverChoice,
    /// Maximum number of concurrent steps.
    pub workers: usize,
    /// The role of requests for files.
    pub role: Role,
    /// The [`FileLayout`] below the output directory.
    pub layout: FileLayout,
    /// Maximum number of requests for one work.
    pub max_attempts: u32,
    /// Maximum time of one work from its first step on, deferred or not.
    pub item_deadline: Option<Duration>,
    /// Maximum size of all files of one run, in bytes.
    pub max_bytes: Option<u64>,
    /// The disk space that stays free, in bytes.
    pub min_free: u64,
    /// Minimum size of a PDF, in bytes.
    pub min_pdf_bytes: u64,
    /// robots.txt is ignored.
    pub ignore_robots: bool,
    /// URLs of inputs are not trusted: they must not lead into the private network, in this run and
    /// in later ones.
    pub untrusted_input: bool,
    /// Cookies that sites set are returned to them, in memory and for this run only.
    pub cookies: bool,
    /// Files that manifests among the inputs record are reused and not downloaded again.
    pub keeps_recorded_files: bool,
    /// The extent of a run, such as a dry run.
    pub mode: RunMode,
    /// Maximum wait for paused hosts when no other step is left.
    pub max_wait: Duration,
    /// The limits in force, for the record of the run.
    pub limits: serde_json::Value,
}

impl RunOptions {
    /// Returns the usual options for an output directory.
    #[must_use]
    pub fn new(out: PathBuf) -> Self {
        Self {
            out,
            kinds: BTreeSet::from([ArtifactKind::Pdf]),
            choice: ResolverChoice::default(),
            workers: 2_000,
            role: Role::Artifact,
            layout: FileLayout::ByKind,
            max_attempts: 20,
            item_deadline: None,
            max_bytes: None,
            min_free: 64 << 20,
            min_pdf_bytes: crate::sniff::MIN_PDF_BYTES,
            ignore_robots: false,
            untrusted_input: false,
            cookies: false,
            keeps_recorded_files: false,
            mode: RunMode::Full,
            max_wait: Duration::from_secs(3_600),
            limits: serde_json::Value::Null,
        }
    }
}

/// A run of works.
pub struct WorksRun {
    scheduler: Arc<Scheduler<WorksJob>>,
}

impl WorksRun {
    /// Creates a run. `settings` contain the addresses of services and the user's credentials.
    ///
    /// # Errors
    /// The queue cannot be read.
    pub async fn new(
        context: RunContext,
        settings: Arc<Settings>,
        options: RunOptions,
    ) -> Result<Self, RunError> {
        let limits = RunBounds {
            workers: options.workers,
            max_bytes: options.max_bytes,
            max_wait: options.max_wait,
        };
        let mode = options.mode;
        let works = WorksJob::new(context.clone(), settings, options).await?;
        let scheduler = Scheduler {
            job: Arc::new(works),
            context,
            limits,
            mode,
        };
        Ok(Self {
            scheduler: Arc::new(scheduler),
        })
    }

    /// Works until no step is left, or the run is cancelled.
    ///
    /// # Errors
    /// Returns a [`RunError`] if the run cannot continue. Unfinished works stay queued.
    pub async fn run(&self, inputs: Box<dyn WorkInputs>) -> Result<RunEnd, RunError> {
        let feed = WorkFeed::new(Arc::clone(&self.scheduler.job), inputs);
        self.scheduler.run(Box::new(feed)).await
    }

    /// Returns the [`SiteForecast`] with the longest minimum time for the works of a dry run.
    /// Returns `None` if no limit is known.
    pub async fn least_time_of_planned(&self) -> Option<SiteForecast> {
        use docstokg_bulk::job::Job as _;
        let job = &self.scheduler.job;
        let mut sites: BTreeMap<SiteKey, Vec<RoleDemand>> = BTreeMap::new();
        for (lane, works) in self.scheduler.context.progress.planned() {
            let batch = job.bounds(&lane).batch.max(1) as u64;
            if let Some((site, role)) = job.site(&lane) {
                let demand = RoleDemand::of(role, works.div_ceil(batch));
                sites.entry(site).or_default().push(demand);
            }
        }
        let mut longest: Option<SiteForecast> = None;
        for (site, demands) in sites {
            let found = self
                .scheduler
                .context
                .hub
                .forecast(&site, &demands, Duration::ZERO)
                .await;
            if let Ok(Some(found)) = found
                && longest.as_ref().is_none_or(|it| it.after < found.after)
            {
                longest = Some(found);
            }
        }
        longest
    }
}

/// Locks an output directory, after creating it if missing.
///
/// # Errors
/// Returns a [`DirectoryError`] in these cases:
///
/// - The directory cannot be written.
/// - Another run works on the directory.
/// - A directory below it is a symbolic link.
pub fn open_directory(path: &Path, mode: CommitMode) -> Result<Directory, DirectoryError> {
    refuse_links(layout::directories(path))?;
    Directory::open(path, mode, &earlier_reasons())
}

/// Returns the [`Reason`]s that queues of earlier versions spell differently.
#[must_use]
pub fn earlier_reasons() -> Vec<Respelling> {
    let respellings = |reason: Reason| {
        let earlier = reason.earlier_words().iter();
        earlier.map(move |earlier| Respelling {
            earlier,
            now: reason.as_str(),
        })
    };
    Reason::all().flat_map(respellings).collect()
}
