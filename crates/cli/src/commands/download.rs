//! `docstokg download`: works in, files out.

mod execution;
mod final_report;
mod input_list;
mod job;
mod options;
mod publication;
mod resume;
mod terminal;

use std::num::NonZero;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use docstokg_bulk::directory::{Directory, DirectoryError};
use docstokg_bulk::progress::RunProgress;
use docstokg_bulk::queue::CommitMode;
use docstokg_bulk::scheduler::RunMode;
use docstokg_content::config::ResolverConfig;
use docstokg_content::input::ListFormat;
use docstokg_content::layout::FileLayout;
use docstokg_content::run::inputs::{InputThread, UserInput};
use docstokg_content::run::{self, RunOptions};
use docstokg_content::work_state::ArtifactKind;
use docstokg_hub::clock::TokioRuntime;
use docstokg_hub::config::{CacheAccess, Config};

use super::limits;
use crate::arguments::{DownloadArguments, GlobalArguments};
use crate::configuration::LoadedConfig;
use crate::exit::CommandFailure;
use crate::session::{Session, TaskThreads};
use crate::telemetry::MetricsReader;
use crate::view::{ProgressView, publish_end};
use crate::{interrupts, services};
use execution::{JobNotices, run_to_end};
use job::{JobOptions, JobPlan};
use terminal::introduce;

/// Runs the command.
pub(crate) fn run(
    global: &GlobalArguments,
    arguments: &DownloadArguments,
) -> Result<ExitCode, CommandFailure> {
    let mut loaded = global.load()?;
    services::check_mailto(arguments.choice.mailto.as_deref())?;
    check_out(&arguments.out)?;
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
    let (inputs, format) = (inputs(arguments)?, format(arguments.list_format())?);
    let plan = JobPlan::join(arguments, JobOptions::read(&arguments.out)?)?;
    if plan.options.mailto.is_some() {
        let identity = &mut loaded.config.identity;
        identity.mailto.clone_from(&plan.options.mailto);
    }
    let job = DownloadJob {
        inputs,
        lists: None,
        format,
        options: options(arguments, &plan.options, &loaded.resolvers)?,
        arguments,
        plan,
        is_input_lost: false,
    };
    execute(global, loaded, job)
}

/// Refuses an output that is a file.
fn check_out(out: &Path) -> Result<(), CommandFailure> {
    if out.exists() && !out.is_dir() {
        return Err(usage(format!(
            "--out: {} is a file; name a directory, which is created if it is missing",
            out.display()
        )));
    }
    Ok(())
}

/// A download: its inputs and options.
pub(crate) struct DownloadJob<'a> {
    pub(crate) inputs: Vec<UserInput>,
    /// The inputs, after their reading has begun.
    pub(crate) lists: Option<InputThread>,
    pub(crate) format: ListFormat,
    pub(crate) options: RunOptions,
    pub(crate) arguments: &'a DownloadArguments,
    plan: JobPlan,
    /// An input that was not read to its end cannot be read again.
    is_input_lost: bool,
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
        "titles" => Ok(ListFormat::Titles),
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
            "--format: '{other}' is not auto, lines, titles, csv, jsonl, bibtex, ris, csl-json, enw, \
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
    job: &JobOptions,
    resolvers: &ResolverConfig,
) -> Result<RunOptions, CommandFailure> {
    Ok(RunOptions {
        kinds: job.kinds.clone(),
        choice: services::choice(&job.resolver_flags(), resolvers)?,
        workers: arguments.workers as usize,
        role: job.role(),
        layout: if job.content_addressed {
            FileLayout::ContentAddressed
        } else {
            FileLayout::ByKind
        },
        max_attempts: job.max_attempts,
        item_deadline: job.item_deadline_s.map(length),
        max_bytes: arguments.max_bytes,
        min_free: arguments.min_free,
        min_pdf_bytes: job.min_pdf_bytes,
        ignore_robots: job.ignore_robots,
        untrusted_input: arguments.untrusted_input,
        cookies: true,
        keeps_recorded_files: arguments.resume,
        mode: match (arguments.dry_run, arguments.list_only) {
            (true, _) => RunMode::DryRun,
            (_, true) => RunMode::ListOnly,
            _ => RunMode::Full,
        },
        max_wait: length(job.max_wait_s),
        ..RunOptions::new(arguments.out.clone())
    })
}

/// Returns a stored number of seconds as a duration.
fn length(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// Runs a download to its end.
pub(crate) fn execute(
    global: &GlobalArguments,
    loaded: LoadedConfig,
    mut job: DownloadJob<'_>,
) -> Result<ExitCode, CommandFailure> {
    read_inputs(&mut job)?;
    // A run that is not full leaves no files behind.
    let is_partial = job.options.mode != RunMode::Full;
    if is_partial {
        // A signal from here on is kept until the directory can be removed.
        interrupts::keep();
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
        job.plan.options.mailto.as_deref(),
    ));
    let directory = run::open_directory(&job.options.out, CommitMode::Thread).map_err(failed)?;
    let recording = session.record(
        publication::command_name(job.options.mode),
        MetricsReader::None,
    )?;
    introduce(global, config, &services, &job.options.choice);
    let notices = JobNotices {
        is_quiet: global.quiet,
    };
    let publisher =
        (!is_partial).then(|| publication::begin(global, &session, &directory, &recording));
    let publisher = publisher.transpose()?;
    let mut view = ProgressView::new(global, config).publishing(publisher);
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
        notices,
        (&recording, &progress),
        session.reachability(),
    );
    let outcome = session.show_run(&view, &hub, &progress, work);
    let last = view.take_publisher();
    let last = last.map(|publisher| publisher.stop(&progress, &TokioRuntime::default()));
    let end = final_report::outcome_of(outcome.as_ref());
    let ended = final_report::finish(
        global, &directory, &progress, &recording, is_partial, outcome,
    );
    if let Some(snapshot) = last {
        publish_end(snapshot, end);
    }
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

/// Begins to read the inputs of the command line, and waits for the first line.
fn read_inputs(job: &mut DownloadJob<'_>) -> Result<(), CommandFailure> {
    if job.inputs.is_empty() {
        return Ok(());
    }
    let mut lists = InputThread::start(std::mem::take(&mut job.inputs), job.format)
        .context("inputs cannot be read")?;
    if lists.is_empty() {
        return Err(usage(
            "the inputs are empty: they name no work; nothing was sent",
        ));
    }
    job.lists = Some(lists);
    Ok(())
}
