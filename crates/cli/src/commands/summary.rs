//! `docstokg summary`: the figures of a run.

mod directory_works;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use docstokg_bulk::run_snapshot::RunSnapshot;
use docstokg_hub::files::write_whole;
use docstokg_telemetry::config::SloSettings;
use docstokg_telemetry::report;
use docstokg_telemetry::sink::sqlite::{Database, open_to_read};
use docstokg_telemetry::summary::{self, RunChoice, RunListing, RunSummary, TargetCheck, table};
use serde_json::json;

use super::status::{outcome_word, run_id_of};
use crate::arguments::{GlobalArguments, SummaryArguments};
use crate::configuration::LoadedConfig;
use crate::exit::{self, CommandFailure};
use crate::{output, run_registry, state, telemetry};
use directory_works::DirectoryWorks;

/// Runs the command.
pub(crate) fn run(
    global: &GlobalArguments,
    arguments: &SummaryArguments,
) -> Result<ExitCode, CommandFailure> {
    let loaded = global.load()?;
    let configured = &loaded.settings.telemetry.slo;
    let targets = match &arguments.slo {
        Some(Some(file)) => Some(SloSettings::from_file(file, configured)?),
        Some(None) => Some(configured.clone()),
        None => None,
    };
    if arguments.list {
        let database = open(global, arguments, &loaded, None)?;
        list(global, &summary::list(&database).map_err(failed)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let directory = arguments.run.as_deref().map(Path::new);
    let directory = directory.filter(|path| path.is_dir());
    let works = directory.map(DirectoryWorks::read).transpose()?;
    if let (Some(works), false) = (&works, global.json) {
        works.print();
    }
    let run_id = works.as_ref().and_then(DirectoryWorks::run_id);
    let choice = RunChoice::parse(run_id.or(arguments.run.as_deref()));
    let opened = open(global, arguments, &loaded, works.as_ref());
    let read = opened.and_then(|database| {
        let found = summary::load(&database, &choice).map_err(failed)?;
        Ok((database, found))
    });
    let (database, found) = match (read, &works) {
        (Ok(read), _) => read,
        // The works of a directory are known without its telemetry.
        (Err(failure), Some(works)) => return Ok(works.end_alone(global, &failure)),
        (Err(failure), None) => return Err(failure),
    };
    let before = arguments.compare.as_ref().map(|named| {
        let choice = compared(named)?;
        summary::load(&database, &choice).map_err(failed)
    });
    if let Some(file) = &arguments.html {
        let page = report::page(&database, &found);
        write_page(file, &page.map_err(failed)?)?;
    }
    let checks = targets.map_or_else(Vec::new, |targets| summary::check(&found, &targets));
    let ok = checks.iter().all(|check| check.ok);
    let shown = SummaryView {
        found,
        checks,
        before: before.transpose()?,
        works,
    };
    show(global, arguments, shown)?;
    Ok(if ok {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(exit::EXIT_FAILED)
    })
}

/// Opens the database of runs: the one that is named, that of the directory, or that of the state
/// directory.
fn open(
    global: &GlobalArguments,
    arguments: &SummaryArguments,
    loaded: &LoadedConfig,
    works: Option<&DirectoryWorks>,
) -> Result<Database, CommandFailure> {
    let path = arguments.telemetry.clone();
    let path = path.or_else(|| works.and_then(DirectoryWorks::telemetry));
    let path = match path {
        Some(path) => Some(path),
        None => telemetry::database(global, &loaded.telemetry)?,
    };
    let Some(path) = path else {
        let message = "telemetry.sqlite is off, so there is nothing to summarise; \
                       --telemetry FILE names another database";
        return Err(CommandFailure::Usage(message.to_owned()));
    };
    open_to_read(&path).map_err(failed)
}

/// The data of a summary.
struct SummaryView {
    found: RunSummary,
    checks: Vec<TargetCheck>,
    before: Option<RunSummary>,
    works: Option<DirectoryWorks>,
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> CommandFailure {
    CommandFailure::Failed(error.into())
}

/// Reads the run to compare with: its id, or a directory.
fn compared(named: &str) -> Result<RunChoice, CommandFailure> {
    let path = Path::new(named);
    if path.is_dir() {
        return Ok(RunChoice::Named(run_id_of(path)?));
    }
    Ok(RunChoice::Named(named.to_owned()))
}

fn list(global: &GlobalArguments, runs: &[RunListing]) -> Result<(), CommandFailure> {
    if global.json {
        let ids: Vec<&str> = runs.iter().map(|run| run.run.run_id.as_str()).collect();
        output::json(&json!(ids));
        return Ok(());
    }
    let known = run_registry::list(&state::directory(global)?);
    let rows: Vec<Vec<String>> = runs.iter().map(|run| row(run, &known)).collect();
    output::text(&table(
        &[
            "run",
            "started",
            "state",
            "command",
            "requests",
            "directory",
        ],
        &rows,
    ));
    Ok(())
}

/// Formats a run of the list. Its end and its directory are known if it downloaded works.
fn row(listed: &RunListing, known: &[RunSnapshot]) -> Vec<String> {
    let run = &listed.run;
    let snapshot = known.iter().find(|snapshot| snapshot.run_id == run.run_id);
    let end = snapshot.and_then(|snapshot| snapshot.end);
    let started: String = run.started_at.chars().take(16).collect();
    vec![
        run.run_id.clone(),
        format!("{} UTC", started.replace('T', " ")),
        end.map_or(run.state, outcome_word).to_owned(),
        run.command.clone(),
        listed.requests.to_string(),
        snapshot.map_or_else(String::new, |snapshot| {
            snapshot.directory.display().to_string()
        }),
    ]
}

fn show(
    global: &GlobalArguments,
    arguments: &SummaryArguments,
    shown: SummaryView,
) -> Result<(), CommandFailure> {
    let SummaryView {
        found,
        checks,
        before,
        works,
    } = shown;
    let compared = before
        .as_ref()
        .map(|before| summary::compare(before, &found));
    if global.json {
        let mut shown =
            serde_json::to_value(&found).context("the summary cannot be written as JSON")?;
        if let Some(works) = works {
            works.add_to(&mut shown);
        }
        if arguments.slo.is_some() {
            shown["slo"] = json!({ "ok": checks.iter().all(|check| check.ok), "checks": checks });
        }
        if let (Some(before), Some(compared)) = (&before, &compared) {
            shown["compare"] = json!({ "before": before.run, "figures": compared });
        }
        output::json(&shown);
        return Ok(());
    }
    let mut text = summary::text(&found, &checks);
    if let (Some(before), Some(compared)) = (before, compared) {
        text.push('\n');
        text.push_str(&summary::comparison_text(
            &before.run.run_id,
            &found.run.run_id,
            &compared,
        ));
    }
    output::text(&text);
    if let (Some(file), false) = (&arguments.html, global.quiet) {
        output::tell(&format!("the report is in {}", file.display()));
    }
    Ok(())
}

/// Writes a page, which appears at its path only when complete.
pub(crate) fn write_page(file: &Path, page: &str) -> Result<(), CommandFailure> {
    write_whole(file, page).map_err(|error| {
        CommandFailure::Failed(anyhow::anyhow!(
            "{} cannot be written: {error}",
            file.display()
        ))
    })
}
