//! `docstokg status [DIR]`: how a run stands, for any process and at any time.

mod advice;
mod watch;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;

use docstokg_bulk::directory::Directory;
use docstokg_bulk::run_snapshot::RunSnapshot;
use docstokg_content::run_status::{RunState, RunStatus};
use docstokg_hub::clock::{Clock, SystemClock};
use docstokg_telemetry::summary::table;
use serde_json::json;

use crate::arguments::{GlobalArguments, StatusArguments};
use crate::exit::CommandFailure;
use crate::view::status::{lines, moment};
use crate::view::terminal_width;
use crate::{output, run_registry, state};
pub(crate) use advice::command_for;

/// Maximum runs that the list shows.
const MAX_LISTED_RUNS: usize = 20;

/// Runs the command.
pub(crate) fn run(
    global: &GlobalArguments,
    arguments: &StatusArguments,
) -> Result<ExitCode, CommandFailure> {
    match &arguments.directory {
        Some(directory) if arguments.watch => {
            watch::watch(global, || Ok(vec![of_directory(directory)?]))
        }
        Some(directory) => {
            let status = of_directory(directory)?;
            show(global, &status);
            Ok(ExitCode::SUCCESS)
        }
        None => {
            let runs = all(global)?;
            let working = running(&runs);
            if arguments.watch && !working.is_empty() {
                let again = |status: &RunStatus| of_directory(&status.directory);
                return watch::watch(global, || working.iter().map(again).collect());
            }
            list(global, &runs);
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Reads how the run of a directory stands.
pub(crate) fn of_directory(directory: &Path) -> Result<RunStatus, CommandFailure> {
    if !Directory::was_used(directory) && RunSnapshot::read(directory).is_none() {
        return Err(CommandFailure::Usage(format!(
            "{} has no run; docstokg status without a directory lists the runs",
            directory.display()
        )));
    }
    let status = RunStatus::read(directory, SystemClock.wall());
    let mut status = status.map_err(|error| CommandFailure::Failed(error.into()))?;
    advice::advise(&mut status);
    Ok(status)
}

/// Returns the id of the latest run of a directory.
pub(crate) fn run_id_of(directory: &Path) -> Result<String, CommandFailure> {
    let run = of_directory(directory)?.run;
    run.map(|run| run.run_id).ok_or_else(|| {
        let directory = directory.display();
        CommandFailure::Usage(format!("the latest run of {directory} is not known"))
    })
}

/// Prints how a run stands.
fn show(global: &GlobalArguments, status: &RunStatus) {
    if global.json {
        output::json(&json!(status));
    } else {
        let lines = lines(status, terminal_width(&std::io::stdout()));
        output::line(&lines.join("\n"));
    }
}

/// A run of the state directory.
struct ListedRun {
    snapshot: RunSnapshot,
    /// The status of its directory; `None` if a later run works there, or it cannot be read.
    status: Option<RunStatus>,
}

/// Reads the runs of the state directory, the newest first.
fn all(global: &GlobalArguments) -> Result<Vec<ListedRun>, CommandFailure> {
    let mut seen = BTreeSet::new();
    let runs = run_registry::list(&state::directory(global)?).into_iter();
    Ok(runs
        .map(|snapshot| {
            let is_latest = seen.insert(snapshot.directory.clone());
            let status = is_latest
                .then(|| of_directory(&snapshot.directory).ok())
                .flatten();
            let is_same = |status: &RunStatus| {
                status
                    .run
                    .as_ref()
                    .is_some_and(|run| run.run_id == snapshot.run_id)
            };
            ListedRun {
                status: status.filter(is_same),
                snapshot,
            }
        })
        .collect())
}

/// Returns how those runs stand that work.
fn running(runs: &[ListedRun]) -> Vec<RunStatus> {
    let statuses = runs.iter().filter_map(|run| run.status.clone());
    statuses
        .filter(|status| status.state == RunState::Running)
        .collect()
}

fn list(global: &GlobalArguments, runs: &[ListedRun]) {
    if global.json {
        let runs: Vec<_> = runs
            .iter()
            .map(|run| {
                json!({
                    "run_id": run.snapshot.run_id,
                    "command": run.snapshot.command,
                    "directory": run.snapshot.directory,
                    "started_at": run.snapshot.started_at.as_secs_f64(),
                    "end": run.snapshot.end,
                    "status": run.status,
                })
            })
            .collect();
        return output::json(&json!({ "runs": runs }));
    }
    if runs.is_empty() {
        return output::line("no run is known to this state directory");
    }
    for status in running(runs) {
        let lines = lines(&status, terminal_width(&std::io::stdout()));
        output::line(&(lines.join("\n") + "\n"));
    }
    let rows: Vec<Vec<String>> = runs.iter().take(MAX_LISTED_RUNS).map(row).collect();
    output::text(&table(
        &[
            "started",
            "state",
            "downloaded",
            "without",
            "left",
            "directory",
        ],
        &rows,
    ));
    if runs.len() > MAX_LISTED_RUNS {
        let more = runs.len() - MAX_LISTED_RUNS;
        output::line(&format!("{more} more (--json has all)"));
    }
}

fn row(run: &ListedRun) -> Vec<String> {
    let snapshot = &run.snapshot;
    let state = match (&run.status, snapshot.end) {
        (Some(status), _) => state_word(status).to_owned(),
        (None, Some(end)) => outcome_word(end).to_owned(),
        (None, None) => "killed".to_owned(),
    };
    let count = |count: fn(&RunStatus) -> u64| {
        let status = run.status.as_ref();
        status.map_or_else(|| "-".to_owned(), |status| count(status).to_string())
    };
    vec![
        moment(snapshot.started_at, SystemClock.wall()),
        state,
        count(|status| status.works.downloaded),
        count(|status| status.works.without_file),
        count(|status| status.works.waiting + status.works.queued + status.works.running),
        snapshot.directory.display().to_string(),
    ]
}

/// Returns one word for the state of a run.
fn state_word(status: &RunStatus) -> &'static str {
    match status.state {
        RunState::Running => "running",
        RunState::Elsewhere => "elsewhere",
        RunState::Killed => "killed",
        RunState::Idle => "ended",
        RunState::Ended => {
            let end = status.run.as_ref().and_then(|run| run.end);
            end.map_or("ended", outcome_word)
        }
    }
}

/// Returns one word for the end of a run.
pub(crate) const fn outcome_word(end: docstokg_bulk::run_snapshot::RunOutcome) -> &'static str {
    use docstokg_bulk::run_snapshot::RunOutcome;
    match end {
        RunOutcome::Complete => "finished",
        RunOutcome::Stopped => "stopped",
        RunOutcome::Offline => "offline",
        RunOutcome::Waiting => "waiting",
        RunOutcome::BytesSpent => "max-bytes",
        RunOutcome::Failed => "failed",
    }
}
