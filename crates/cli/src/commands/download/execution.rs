//! A download as the scheduler runs it: its job is stored, its directory prepared, its inputs are
//! opened, and what it came to is summed up.

use std::sync::Arc;

use docstokg_bulk::connectivity::Reachability;
use docstokg_bulk::directory::{Directory, DirectoryError, verify};
use docstokg_bulk::progress::RunProgress;
use docstokg_bulk::run_context::RunContext;
use docstokg_bulk::scheduler::{RunEnd, RunError, RunMode};
use docstokg_content::resolver::settings::Settings as Services;
use docstokg_content::run::inputs::{ChainedInputs, InputThread, LostInput, WorkInputs};
use docstokg_content::run::query::QueryPages;
use docstokg_content::run::{self, RunOptions, RunReport, WorksRun};
use docstokg_content::work_sender::WorkSender;
use docstokg_hub::clock::{Clock as _, Runtime, TokioRuntime};
use docstokg_hub::{Hub, RobotsPolicy};

use super::job::JOB_SETTING;
use super::{DownloadJob, final_report, format};
use crate::arguments::DownloadArguments;
use crate::output;
use crate::telemetry::RunRecording;
use crate::view::plural;

/// Runs a download to its end.
pub(super) async fn run_to_end(
    hub: &Hub,
    directory: &Directory,
    services: Arc<Services>,
    mut job: DownloadJob<'_>,
    notices: JobNotices,
    (recording, progress): (&RunRecording, &Arc<RunProgress>),
    reachability: Option<Arc<dyn Reachability>>,
) -> Result<(RunEnd, RunReport), RunError> {
    let runtime: Arc<dyn Runtime> = Arc::new(TokioRuntime::default());
    directory.recover().await.map_err(halted)?;
    begin_job(directory, &mut job, &notices).await?;
    prepare(directory, job.arguments).await?;
    let (run_id, certain) = (&recording.run.id, services.service_hosts());
    let context = RunContext::begin(hub, Arc::clone(&runtime), directory, progress, run_id);
    let context = context.await?.with_reachability(reachability, certain);
    let inputs = open_inputs(&context, &services, &mut job)?;
    let options = job.options.clone();
    let run = WorksRun::new(context, services, job.options).await?;
    let inputs = ChainedInputs::new(inputs, directory.queue.clone());
    let ended = run.run(Box::new(inputs)).await;
    if ended.is_err() {
        // The report says what is done, if there is room for it.
        let _ = sum_up(directory, &options, recording, progress).await;
    }
    let ended = ended?;
    let report = sum_up(directory, &options, recording, progress).await?;
    if options.mode == RunMode::DryRun {
        progress.notify(final_report::dry_run(
            &progress.counters(),
            &report.results,
            run.least_time_of_planned().await,
        ));
    }
    Ok((ended, report))
}

/// Sums up what the directory has, and writes the files for readers.
async fn sum_up(
    directory: &Directory,
    options: &RunOptions,
    recording: &RunRecording,
    progress: &RunProgress,
) -> Result<RunReport, RunError> {
    let (queue, now) = (&directory.queue, TokioRuntime::default().wall());
    let counters = progress.counters();
    let report = run::report(queue, options, &recording.run.id, &counters, now).await?;
    if options.mode == RunMode::Full {
        run::deliver(queue, options, &report).await?;
    }
    Ok(report)
}

/// The messages about the job of a run, which `--quiet` suppresses.
pub(super) struct JobNotices {
    pub(super) is_quiet: bool,
}

impl JobNotices {
    fn tell(&self, text: &str) {
        if !self.is_quiet {
            output::print_note(text);
        }
    }
}

/// Stores the job with its directory, and takes up what an earlier run of it has left unread.
async fn begin_job(
    directory: &Directory,
    job: &mut DownloadJob<'_>,
    notices: &JobNotices,
) -> Result<(), RunError> {
    let (queue, plan) = (&directory.queue, &job.plan);
    for notice in &plan.notices {
        notices.tell(notice);
    }
    let counts = queue.counts().await?;
    if !plan.is_stored && counts.left() + counts.ended() > 0 {
        notices.tell(&format!(
            "an earlier version began {} and did not store its options: those of this command apply",
            job.arguments.out.display()
        ));
    }
    if job.arguments.untrusted_input {
        queue.distrust_unrecorded().await?;
        if plan.is_continuation {
            queue.distrust_unfinished().await?;
        }
    }
    if job.options.mode == RunMode::Full {
        queue
            .set_setting(JOB_SETTING, plan.options.to_text())
            .await?;
    }
    if plan.is_continuation && queue.is_unread().await? {
        reopen_inputs(job, notices);
    }
    Ok(())
}

/// Opens the inputs of the job again, which were not read to their end.
fn reopen_inputs(job: &mut DownloadJob<'_>, notices: &JobNotices) {
    let inputs = job.plan.options.inputs();
    job.options.untrusted_input |= inputs.is_untrusted;
    job.plan.query = job.plan.options.query().cloned();
    job.is_input_lost = !inputs.is_whole;
    match (inputs.reopen(), format(&inputs.format)) {
        (Ok(opened), Ok(read_as)) => (job.inputs, job.format) = (opened, read_as),
        (Err(problem), _) => {
            job.is_input_lost = true;
            notices.tell(&format!("an input cannot be read to its end: {problem}"));
        }
        (_, Err(_)) => job.is_input_lost = true,
    }
    if !job.inputs.is_empty() {
        let texts = inputs.texts.join(", ");
        notices.tell(&format!(
            "reading again what was not read to its end: {texts}"
        ));
    }
}

fn halted(error: DirectoryError) -> RunError {
    RunError::Halted(format!("{:#}", anyhow::Error::from(error)))
}

/// Checks files and queues failed works again, if the arguments say so.
async fn prepare(directory: &Directory, arguments: &DownloadArguments) -> Result<(), RunError> {
    if arguments.verify {
        let verified = verify(directory).await.map_err(halted)?;
        for (path, flaw) in &verified.wrong {
            output::tell(&format!("docstokg: {path}: {flaw}; downloading again"));
        }
        for path in &verified.unreadable {
            output::tell(&format!(
                "docstokg: {path}: it cannot be read, so it was not checked; make it readable and verify again"
            ));
        }
        output::tell(&format!(
            "docstokg: {} checked, {} changed or missing",
            plural(verified.checked, "file"),
            verified.wrong.len()
        ));
    }
    if arguments.resume && !arguments.verify {
        let damaged = run::requeue_damaged(directory).await;
        for (path, flaw) in damaged.map_err(halted)? {
            output::print_note(&format!("{path}: {flaw}; downloading again"));
        }
    }
    if arguments.retry_failed {
        let works = directory.queue.retry_failed().await?;
        output::tell(&format!(
            "docstokg: trying {} again that failed",
            plural(works, "work")
        ));
    }
    Ok(())
}

/// Opens the inputs of the command line and the query.
fn open_inputs(
    context: &RunContext,
    services: &Arc<Services>,
    job: &mut DownloadJob<'_>,
) -> Result<Vec<Box<dyn WorkInputs>>, RunError> {
    let mut inputs: Vec<Box<dyn WorkInputs>> = Vec::new();
    if let Some(lists) = job.lists.take() {
        inputs.push(Box::new(lists));
    }
    if !job.inputs.is_empty() {
        inputs.push(Box::new(
            InputThread::start(std::mem::take(&mut job.inputs), job.format)
                .map_err(|error| RunError::Halted(format!("inputs cannot be read: {error}")))?,
        ));
    }
    if let Some(query) = job.plan.query.take() {
        // Queries go to APIs only, so robots.txt does not apply.
        let web = WorkSender::new(context.clone(), RobotsPolicy::Ignore);
        inputs.push(Box::new(QueryPages::new(
            web,
            Arc::clone(context.clock.runtime()),
            context.queue.clone(),
            Arc::clone(services),
            query,
        )));
    }
    if job.is_input_lost {
        inputs.push(Box::new(LostInput));
    }
    Ok(inputs)
}
