//! `docstokg why ID [DIR]`: what happened to one work, why it has no file, and what could be done.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use docstokg_bulk::queue::QueueReader;
use docstokg_bulk::run_snapshot::RunSnapshot;
use docstokg_content::results::ResultStatus;
use docstokg_content::work_history::{HistorySearch, WorkHistory, history};
use docstokg_hub::clock::{Clock, SystemClock};
use serde_json::json;

use super::status::command_for;
use crate::arguments::{GlobalArguments, WhyArguments};
use crate::exit::CommandFailure;
use crate::view::status::moment;
use crate::view::{length, plural};
use crate::{output, run_registry, state};

/// Runs the command.
pub(crate) fn run(
    global: &GlobalArguments,
    arguments: &WhyArguments,
) -> Result<ExitCode, CommandFailure> {
    let wanted = arguments.id.as_str();
    let (directory, found) = match &arguments.directory {
        Some(directory) => (directory.clone(), search(directory, wanted)?),
        None => search_all(global, wanted)?,
    };
    let history = match found {
        HistorySearch::Found(history) => history,
        HistorySearch::Unknown(similar) => {
            let names = similar.join(", ");
            let meant = if similar.is_empty() {
                String::new()
            } else {
                format!("; similar: {names}")
            };
            return Err(CommandFailure::Usage(format!(
                "{} has no work '{wanted}'{meant}",
                directory.display()
            )));
        }
    };
    let command = again(&directory, &history);
    if global.json {
        let mut shown = json!(history);
        shown["directory"] = json!(directory);
        shown["command"] = json!(command);
        output::json(&shown);
    } else {
        output::line(&text(&history, &directory, command.as_deref()));
    }
    Ok(ExitCode::SUCCESS)
}

fn search(directory: &Path, wanted: &str) -> Result<HistorySearch, CommandFailure> {
    let failed = |error: docstokg_bulk::queue::QueueError| CommandFailure::Failed(error.into());
    if !docstokg_bulk::directory::Directory::was_used(directory) {
        return Err(CommandFailure::Usage(format!(
            "{} has no run; docstokg status lists the runs",
            directory.display()
        )));
    }
    let queue = QueueReader::open(directory).map_err(failed)?;
    history(&queue, wanted).map_err(failed)
}

/// Searches the directories of all runs of the state directory, the latest first.
fn search_all(
    global: &GlobalArguments,
    wanted: &str,
) -> Result<(PathBuf, HistorySearch), CommandFailure> {
    let mut directories: Vec<PathBuf> = Vec::new();
    for run in run_registry::list(&state::directory(global)?) {
        if !directories.contains(&run.directory) {
            directories.push(run.directory);
        }
    }
    let mut latest = None;
    for directory in directories {
        let Ok(found) = search(&directory, wanted) else {
            // A directory that is gone.
            continue;
        };
        if matches!(found, HistorySearch::Found(_)) {
            return Ok((directory, found));
        }
        latest.get_or_insert((directory, found));
    }
    latest.ok_or_else(|| {
        CommandFailure::Usage(
            "no run is known to this state directory: name the directory of the download"
                .to_owned(),
        )
    })
}

/// Returns the command that tries the work again, where that may help.
fn again(directory: &Path, history: &WorkHistory) -> Option<String> {
    let options = &history.decisive.as_ref()?.options;
    if options.is_empty() {
        return None;
    }
    let out = directory.display().to_string();
    let words = [&["download"], options.as_slice(), &["--out", &out]].concat();
    let snapshot = RunSnapshot::read(directory);
    let state_directory = snapshot.map(|snapshot| snapshot.state_directory);
    command_for(state_directory.as_deref(), &words)
}

fn text(history: &WorkHistory, directory: &Path, command: Option<&str>) -> String {
    let mut lines = vec![format!("{}: {}", history.work_id, headline(history))];
    if let Some(title) = &history.title {
        lines.push(format!("  {title}"));
    }
    let line = match history.line {
        0 => String::new(),
        line => format!(", line {line}"),
    };
    lines.push(format!("  from {}{line}", history.input));
    if let Some(path) = &history.path {
        lines.push(format!("  file: {}", directory.join(path).display()));
    }
    if !history.attempts.is_empty() {
        lines.push(plural(history.attempts.len() as u64, "attempt"));
    }
    for attempt in &history.attempts {
        let at: String = attempt.timestamp.chars().take(19).collect();
        let took = attempt.elapsed_ms / 1_000.0;
        lines.push(format!(
            "  {} UTC  {} [{took:.1} s]",
            at.replace('T', " "),
            attempt.sentence
        ));
    }
    if let Some(decisive) = &history.decisive {
        let detail = decisive
            .detail
            .as_ref()
            .map_or_else(String::new, |detail| format!(": {detail}"));
        lines.push(format!(
            "reason: {} ({}){detail}",
            decisive.meaning, decisive.reason
        ));
        match command {
            Some(command) => {
                lines.push(format!("what can be done: {}:", decisive.advice));
                lines.push(format!("  {command}"));
            }
            None => lines.push(format!("what can be done: {}", decisive.advice)),
        }
        if !history.link.is_empty() {
            lines.push(format!("link: {}", history.link));
        }
    }
    lines.join("\n")
}

fn headline(history: &WorkHistory) -> String {
    let now = SystemClock.wall();
    match (&history.waiting, history.standing) {
        (Some(wait), _) => {
            let host = wait.host.as_deref().unwrap_or("its host");
            let until = moment(wait.until, now);
            let left = length(wait.until.since(now));
            format!("waits for {host} until {until} (in {left}): {}", wait.why)
        }
        (None, ResultStatus::Waiting) if history.was_tried => {
            "queued; its next step has not begun".to_owned()
        }
        (None, ResultStatus::Waiting) => "not yet tried".to_owned(),
        (None, ResultStatus::Downloaded) => "its file is there".to_owned(),
        (None, standing) => format!("no file, {}", standing.words()),
    }
}
