//! `docstokg download`: works in, files out.

mod final_report;
mod resume;
mod terminal;

use std::num::NonZero;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use docstokg_bulk::connectivity::Reachability;
use docstokg_bulk::directory::{Directory, DirectoryError, verify};
use docstokg_bulk::progress::RunProgress;
use docstokg_bulk::queue::CommitMode;
use docstokg_bulk::run_context::RunContext;
use docstokg_bulk::scheduler::{RunEnd, RunError, RunMode};
use docstokg_content::config::ResolverConfig;
use docstokg_content::input::ListFormat;
use docstokg_content::layout::FileLayout;
use docstokg_content::run::inputs::{ChainedInputs, InputThread, UserInput, WorkInputs};
use docstokg_content::run::query::QueryPages;
use docstokg_content::run::{self, RunOptions, RunReport, WorksRun};
use docstokg_content::work_sender::WorkSender;
use docstokg_content::work_state::ArtifactKind;
use docstokg_hub::clock::{Runtime, TokioRuntime};
use docstokg_hub::config::{CacheAccess, Config};
use docstokg_hub::{Hub, RobotsPolicy};

use super::limits;
use crate::arguments::{DownloadArguments, GlobalArguments};
use crate::configuration::LoadedConfig;
use crate::exit::CommandFailure;
use crate::session::{Session, TaskThreads};
use crate::telemetry::{MetricsReader, RunRecording};
use crate::view::{ProgressView, plural};
use crate::{output, services};
use terminal::introduce;

/// Runs the command.
pub(crate) fn run(
    global: &GlobalArguments,
    arguments: &DownloadArguments,
) -> Result<ExitCode, CommandFailure> {
    let mut loaded = global.load()?;
    services::check_mailto(arguments.choice.mailto.as_deref())?;
    if arguments.choice.mailto.is_some() {
        let identity = &mut loaded.config.identity;
        identity.mailto.clone_from(&arguments.choice.mailto);
    }
    if (arguments.dry_run || arguments.list_only)
        && (arguments.resume || arguments.retry_failed || arguments.verify)
    {
        return Err(usage(
            "--dry-run and --list-only look at inputs and not at an earlier run: \
             leave out --resume, --retry-failed and --verify",
        ));
    }
    if let (Some(first), Some(last)) = (arguments.year_start, arguments.year_end)
        && first > last
    {
        return Err(usage(format!(
            "--year-start {first} is after --year-end {last}: no work is from a year between them"
        )));
    }
    if arguments.dry_run && (arguments.topic.is_some() || arguments.filter.is_some()) {
        return Err(usage(
            "--dry-run sends no request, and a query needs one: \
             --list-only looks works up and downloads no file",
        ));
    }
    let job = DownloadJob {
        inputs: inputs(arguments)?,
        format: format(&arguments.format)?,
        options: options(arguments, &loaded.resolvers)?,
        arguments,
    };
    execute(global, loaded, job)
}

/// A download: its inputs and options.
pub(crate) struct DownloadJob<'a> {
    pub(crate) inputs: Vec<UserInput>,
    pub(crate) format: ListFormat,
    pub(crate) options: RunOptions,
    pub(crate) arguments: &'a DownloadArguments,
}

fn usage(message: impl Into<String>) -> CommandFailure {
    CommandFailure::Usage(message.into())
}

fn inputs(arguments: &DownloadArguments) -> Result<Vec<UserInput>, CommandFailure> {
    let query = arguments.topic.is_some() || arguments.filter.is_some();
    if arguments.inputs.is_empty()
        && !query
        && !arguments.resume
        && !arguments.retry_failed
        && !arguments.verify
    {
        return Err(usage(
            "nothing to download: give URLs, DOIs, other identifiers, a file of them or - for \
             stdin; or --topic, --filter, --resume",
        ));
    }
    // The manifest of another program may be the run to continue.
    let resumes_input = arguments.resume && !arguments.inputs.is_empty();
    if (arguments.resume || arguments.retry_failed || arguments.verify)
        && !resumes_input
        && !Directory::was_used(&arguments.out)
    {
        return Err(usage(format!(
            "{} holds no earlier run to continue",
            arguments.out.display()
        )));
    }
    if !query
        && (arguments.year_start.is_some()
            || arguments.year_end.is_some()
            || arguments.max.is_some())
    {
        return Err(usage(
            "--year-start, --year-end and --max belong to a query: add --topic or --filter",
        ));
    }
    arguments
        .inputs
        .iter()
        .map(|text| UserInput::parse(text).map_err(usage))
        .collect()
}

fn format(text: &str) -> Result<ListFormat, CommandFailure> {
    match text {
        "auto" => Ok(ListFormat::Auto),
        "lines" => Ok(ListFormat::Lines),
        "csv" => Ok(ListFormat::Csv),
        "jsonl" => Ok(ListFormat::Jsonl),
        "bibtex" => Ok(ListFormat::Bibtex),
        "ris" => Ok(ListFormat::Ris),
        "csl-json" => Ok(ListFormat::CslJson),
        "enw" => Ok(ListFormat::Enw),
        "endnote-xml" => Ok(ListFormat::EndnoteXml),
        "nbib" => Ok(ListFormat::Nbib),
        "wos" => Ok(ListFormat::Wos),
        other => Err(usage(format!(
            "--format: '{other}' is not auto, lines, csv, jsonl, bibtex, ris, csl-json, enw, \
             endnote-xml, nbib or wos"
        ))),
    }
}

fn kinds(text: &str) -> Result<std::collections::BTreeSet<ArtifactKind>, CommandFailure> {
    let read = |word: &str| match word.trim().to_ascii_lowercase().as_str() {
        "pdf" => Ok(ArtifactKind::Pdf),
        "xml" => Ok(ArtifactKind::Xml),
        "html" => Ok(ArtifactKind::Html),
        other => Err(usage(format!("--kinds: '{other}' is not pdf, xml or html"))),
    };
    text.split(',').map(read).collect()
}

fn options(
    arguments: &DownloadArguments,
    resolvers: &ResolverConfig,
) -> Result<RunOptions, CommandFailure> {
    Ok(RunOptions {
        kinds: kinds(&arguments.kinds)?,
        choice: services::choice(&arguments.choice, resolvers)?,
        workers: arguments.workers as usize,
        role: arguments.role,
        layout: if arguments.content_addressed {
            FileLayout::ContentAddressed
        } else {
            FileLayout::ByKind
        },
        max_attempts: arguments.max_attempts,
        item_deadline: arguments.item_deadline.map(Duration::from_secs),
        max_bytes: arguments.max_bytes,
        min_free: arguments.min_free << 20,
        min_pdf_bytes: arguments.min_pdf_bytes,
        ignore_robots: arguments.ignore_robots,
        untrusted_input: arguments.untrusted_input,
        cookies: true,
        parquet: arguments.parquet,
        keeps_recorded_files: arguments.resume,
        mode: match (arguments.dry_run, arguments.list_only) {
            (true, _) => RunMode::DryRun,
            (_, true) => RunMode::ListOnly,
            _ => RunMode::Full,
        },
        max_wait: Duration::from_secs(arguments.max_wait),
        ..RunOptions::new(arguments.out.clone())
    })
}

/// Runs a download to its end.
pub(crate) fn execute(
    global: &GlobalArguments,
    loaded: LoadedConfig,
    mut job: DownloadJob<'_>,
) -> Result<ExitCode, CommandFailure> {
    // A run that is not full leaves no files behind.
    let is_partial = job.options.mode != RunMode::Full;
    if is_partial {
        job.options.out = std::env::temp_dir().join(format!(
            "docstokg-dry-run-{}-{:08x}",
            std::process::id(),
            fastrand::u32(..)
        ));
        if Directory::was_used(&job.arguments.out) {
            Directory::copy_queue(&job.arguments.out, &job.options.out)
                .map_err(|error| CommandFailure::Failed(error.into()))?;
        }
        job.options.min_free = 0;
    }
    let out = job.options.out.clone();
    let done = execute_in(global, loaded, job);
    if is_partial {
        let _ = std::fs::remove_dir_all(out);
    }
    done
}

fn execute_in(
    global: &GlobalArguments,
    mut loaded: LoadedConfig,
    mut job: DownloadJob<'_>,
) -> Result<ExitCode, CommandFailure> {
    let failed = |error: DirectoryError| CommandFailure::Failed(error.into());
    let is_partial = job.options.mode != RunMode::Full;
    loaded.config.limits.prepare_for_lists();
    let session = Session::open(global, loaded, TaskThreads::Two)?;
    let config = &session.loaded.config;
    job.options.limits = limits::record(config);
    let services = Arc::new(services::settings(
        config,
        &session.loaded.resolvers,
        job.arguments.choice.mailto.as_deref(),
    ));
    let directory = run::open_directory(&job.options.out, CommitMode::Thread).map_err(failed)?;
    let recording = session.record("download", MetricsReader::None)?;
    introduce(global, config, &services, &job.options.choice);
    let view = ProgressView::new(global, config);
    let mut config = config.clone();
    bound_requests(&mut config, job.arguments.workers);
    if job.arguments.retry_failed && config.cache.access == CacheAccess::Normal {
        // An earlier "not found" may be out of date.
        config.cache.access = CacheAccess::SkipErrors;
    }
    let hub = session.hub(config, [recording.observer(), view.observer()])?;
    let progress = Arc::new(RunProgress::default());
    let work = run_to_end(
        &hub,
        &directory,
        services,
        job,
        &recording,
        &progress,
        session.reachability(),
    );
    let outcome = session.show_run(&view, &hub, &progress, work);
    let ended = final_report::finish(
        global, &directory, &progress, &recording, is_partial, outcome,
    );
    recording.close();
    ended
}

/// Limits the concurrent requests to the number of workers. Works that wait for their hosts occupy
/// no worker, and could otherwise all be admitted at the same time.
fn bound_requests(config: &mut Config, workers: u32) {
    let configured = config.limits.max_inflight.value;
    let workers = NonZero::new(workers);
    config.limits.max_inflight.value = configured.into_iter().chain(workers).min();
}

async fn run_to_end(
    hub: &Hub,
    directory: &Directory,
    services: Arc<docstokg_content::resolver::settings::Settings>,
    mut job: DownloadJob<'_>,
    recording: &RunRecording,
    progress: &Arc<RunProgress>,
    reachability: Option<Arc<dyn Reachability>>,
) -> Result<(RunEnd, RunReport), RunError> {
    let runtime: Arc<dyn Runtime> = Arc::new(TokioRuntime::default());
    directory.recover().await.map_err(halted)?;
    prepare(directory, job.arguments).await?;
    let (run_id, certain) = (&recording.run.id, services.service_hosts());
    let context = RunContext::begin(hub, Arc::clone(&runtime), directory, progress, run_id);
    let context = context.await?.with_reachability(reachability, certain);
    let inputs = open_inputs(&context, &services, &mut job)?;
    let options = job.options.clone();
    let run = WorksRun::new(context, services, job.options).await?;
    let ended = run
        .run(Box::new(ChainedInputs::new(
            inputs,
            directory.queue.clone(),
        )))
        .await?;
    let now = runtime.wall();
    let report = run::report(
        &directory.queue,
        &options,
        &recording.run.id,
        &progress.counters(),
        now,
    )
    .await?;
    if options.mode == RunMode::DryRun {
        progress.notify(final_report::dry_run(
            &progress.counters(),
            &report.results,
            run.least_time_of_planned().await,
        ));
    }
    if options.mode == RunMode::Full {
        run::deliver(&directory.queue, &options, &report).await?;
    }
    Ok((ended, report))
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
    services: &Arc<docstokg_content::resolver::settings::Settings>,
    job: &mut DownloadJob<'_>,
) -> Result<Vec<Box<dyn WorkInputs>>, RunError> {
    let mut inputs: Vec<Box<dyn WorkInputs>> = Vec::new();
    if !job.inputs.is_empty() {
        inputs.push(Box::new(
            InputThread::start(std::mem::take(&mut job.inputs), job.format)
                .map_err(|error| RunError::Halted(format!("inputs cannot be read: {error}")))?,
        ));
    }
    if let Some(query) = services::query(job.arguments) {
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
    Ok(inputs)
}
