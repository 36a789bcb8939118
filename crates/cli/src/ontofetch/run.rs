//! A run of the bulk engine over ontologies, for `pull` and `plan`.

use std::path::PathBuf;
use std::sync::Arc;

use docstokg_bulk::progress::RunProgress;
use docstokg_bulk::queue::CommitMode;
use docstokg_bulk::run_context::RunContext;
use docstokg_bulk::scheduler::{RunEnd, RunError, RunMode};
use docstokg_hub::Hub;
use docstokg_hub::clock::TokioRuntime;
use docstokg_ontology::contexts::HubContexts;
use docstokg_ontology::examiner::FormatExaminer;
use docstokg_ontology::format::ContextLoader;
use docstokg_ontology::library::Library;
use docstokg_ontology::pull::catalog::write_catalogs;
use docstokg_ontology::pull::imports::{ImportRounds, MAX_IMPORTS};
use docstokg_ontology::pull::{
    DeferredOntology, Pull, PullError, PullOptions, PullOutcome, RequestedOntology, Workplace,
    certain_hosts,
};

use super::report;
use crate::arguments::GlobalArguments;
use crate::commands::limits;
use crate::configuration::LoadedConfig;
use crate::exit::CommandFailure;
use crate::session::{Session, TaskThreads};
use crate::telemetry::{self, MetricsReader};
use crate::view::ProgressView;
use crate::{command_line, output};

/// The ontologies and options of a run.
pub(super) struct PullJob {
    pub(super) command: &'static str,
    pub(super) asked: Vec<RequestedOntology>,
    pub(super) imports: ImportRounds,
    pub(super) library: Library,
    pub(super) options: PullOptions,
}

/// The result of a run.
pub(super) struct PullResult {
    pub(super) ended: RunEnd,
    pub(super) results: Vec<PullOutcome>,
    /// The ontologies that wait for a host.
    pub(super) deferred: Vec<DeferredOntology>,
    pub(super) run_id: String,
    /// The path of the page of a pull.
    pub(super) report: Option<PathBuf>,
}

impl PullResult {
    /// Returns the number of unfinished ontologies.
    pub(super) const fn left(&self) -> u64 {
        match self.ended {
            RunEnd::Complete => 0,
            RunEnd::Stopped { left }
            | RunEnd::Offline { left }
            | RunEnd::BytesSpent { left }
            | RunEnd::Deferred { left, .. } => left,
        }
    }
}

/// Runs a job to its end.
pub(super) fn execute(
    global: &GlobalArguments,
    mut loaded: LoadedConfig,
    job: PullJob,
) -> Result<PullResult, CommandFailure> {
    loaded.config.limits.prepare_for_lists();
    if global.verbose && !global.quiet {
        limits::announce(&loaded.config, None);
        output::tell(&limits::services(&loaded.config));
    }
    let session = Session::open(global, loaded, TaskThreads::Two)?;
    let recording = session.record(job.command, MetricsReader::None)?;
    let mut config = session.loaded.config.clone();
    let view = ProgressView::new(global, &config);
    // Requests for ontologies are validated with the facts of stored versions, so the cache is not
    // used.
    config.cache.enabled = false;
    let hub = session.hub(config, [recording.observer(), view.observer()])?;
    let library = job.library.root().to_owned();
    let has_report = job.options.mode == RunMode::Full;
    let progress = Arc::new(RunProgress::default());
    let run_id = recording.run.id.clone();
    let ontology = &session.loaded.ontology;
    let rounds = RoundContext {
        hub: hub.clone(),
        config: Arc::new(ontology.clone()),
        progress: Arc::clone(&progress),
        reachability: session.reachability(),
        run_id: run_id.clone(),
        contexts: Arc::new(HubContexts::new(
            hub.clone(),
            Arc::clone(&ontology.gate),
            session.runtime.handle().clone(),
        )),
    };
    let database = telemetry::database(global, &session.loaded.telemetry)?;
    let outcome = session.show_run(&view, &hub, &progress, rounds.work(job));
    recording.close();
    match outcome {
        Some(Ok(worked)) => {
            let written =
                has_report.then(|| report::write(&library, &worked, &run_id, database.as_deref()));
            Ok(PullResult {
                ended: worked.ended,
                results: worked.results,
                deferred: worked.deferred,
                run_id,
                report: written.transpose()?,
            })
        }
        Some(Err(error)) => Err(CommandFailure::Failed(error.into())),
        None => {
            let command = command_line::same();
            let command = command.unwrap_or_else(|| "the same command".to_owned());
            let stopped = CommandFailure::Interrupted("stopped at once".to_owned());
            Err(stopped.with_hint(format!("continue with: {command}")))
        }
    }
}

/// The result of all rounds of a run.
pub(super) struct RoundsResult {
    pub(super) ended: RunEnd,
    pub(super) results: Vec<PullOutcome>,
    pub(super) deferred: Vec<DeferredOntology>,
}

/// The context that all rounds of a run share.
struct RoundContext {
    hub: Hub,
    config: Arc<docstokg_ontology::config::OntologyConfig>,
    progress: Arc<RunProgress>,
    reachability: Option<Arc<dyn docstokg_bulk::connectivity::Reachability>>,
    run_id: String,
    contexts: Arc<dyn ContextLoader>,
}

impl RoundContext {
    /// Pulls the requested ontologies, then their imports, until a round finds nothing new.
    async fn work(&self, mut job: PullJob) -> Result<RoundsResult, PullError> {
        let temporary = (job.options.mode != RunMode::Full).then(temporary_directory);
        // Kept to the end, so that no other process changes the library between two rounds.
        let workplace = match &temporary {
            Some(path) => Workplace::temporary(path, CommitMode::Thread).await?,
            None => Workplace::open(&job.library, CommitMode::Thread).await?,
        };
        let left = workplace.left().await?;
        if left > 0 {
            self.progress.notify(format!(
                "going on with {} of an interrupted pull",
                crate::program::running().count(left)
            ));
        }
        let mut outcome = self.rounds(&mut job, &workplace).await;
        if let Ok(worked) = &outcome
            && temporary.is_none()
            && job.imports.are_followed()
            && let Err(error) = write_catalogs(&job.library, &worked.results)
        {
            outcome = Err(error.into());
        }
        workplace.close(outcome.as_ref().ok().map(|worked| &worked.ended));
        if let Some(path) = temporary {
            let _ = std::fs::remove_dir_all(path);
        }
        outcome
    }

    async fn rounds(
        &self,
        job: &mut PullJob,
        workplace: &Workplace,
    ) -> Result<RoundsResult, PullError> {
        let mut results: Vec<PullOutcome> = Vec::new();
        let mut asked = std::mem::take(&mut job.asked);
        loop {
            let pull = self.pull(job, workplace).await?;
            let ended = pull.run(std::mem::take(&mut asked)).await?;
            let round = pull.results().await?;
            asked = job.imports.next(&round);
            results.extend(round);
            if asked.is_empty() || ended != RunEnd::Complete {
                if job.imports.left_out() > 0 {
                    self.progress.notify(format!(
                        "{} imports were not followed: a run follows {MAX_IMPORTS} at most",
                        job.imports.left_out()
                    ));
                }
                return Ok(RoundsResult {
                    ended,
                    results,
                    deferred: pull.deferred().await?,
                });
            }
            workplace.begin_round().await?;
        }
    }

    /// Creates the [`Pull`] of a round.
    async fn pull(&self, job: &PullJob, workplace: &Workplace) -> Result<Pull, RunError> {
        let runtime = Arc::new(TokioRuntime::default());
        let (directory, progress) = (workplace.directory(), &self.progress);
        let context = RunContext::begin(&self.hub, runtime, directory, progress, &self.run_id);
        let certain = certain_hosts(&self.config);
        let context = context
            .await?
            .with_reachability(self.reachability.clone(), certain);
        let examiner = FormatExaminer::with_contexts(Arc::clone(&self.contexts));
        Ok(Pull::new(
            context,
            Arc::clone(&self.config),
            job.library.clone(),
            Arc::new(examiner),
            job.options.clone(),
        ))
    }
}

fn temporary_directory() -> PathBuf {
    std::env::temp_dir().join(format!(
        "ontofetch-plan-{}-{:08x}",
        std::process::id(),
        fastrand::u32(..)
    ))
}
