//! `ontofetch pull`: ontologies in, versions of the library out.

use std::process::ExitCode;

use docstokg_bulk::scheduler::{RunEnd, RunMode};
use docstokg_hub::clock::{Clock, SystemClock, Timestamp};
use docstokg_hub::json::whole_millis;
use docstokg_ontology::pull::imports::ImportRounds;
use docstokg_ontology::pull::{
    DeferredOntology, ProbeMode, PullEnding, PullOptions, PullOutcome, RequestedOntology,
};
use docstokg_telemetry::summary::bytes as bytes_text;
use serde_json::{Value, json};

use super::arguments::PullArguments;
use super::run::{self, PullJob, PullResult};
use super::{library_directory, lock_file, plan, selection};
use crate::arguments::GlobalArguments;
use crate::command_line;
use crate::exit::{self, CommandFailure};
use crate::output;
use crate::view::{clock_time, length};

/// Runs the command.
pub(super) fn run(
    global: &GlobalArguments,
    arguments: &PullArguments,
) -> Result<ExitCode, CommandFailure> {
    let done = execute(global, arguments)?;
    show(global, &done);
    Ok(code(&done))
}

/// Runs a pull, and writes the requested lock file.
pub(super) fn execute(
    global: &GlobalArguments,
    arguments: &PullArguments,
) -> Result<PullResult, CommandFailure> {
    let mut loaded = global.load()?;
    let asked = asked(global, arguments, &mut loaded.ontology)?;
    let library =
        library_directory::library(global, &arguments.selection.library, &loaded.ontology);
    let options = PullOptions {
        mode: if arguments.dry_run {
            RunMode::ListOnly
        } else {
            RunMode::Full
        },
        probes: ProbeMode::Skip,
        since: selection::since(arguments.selection.since.as_deref())?,
        force: arguments.force,
        workers: arguments.workers as usize,
        max_wait: arguments.max_wait,
    };
    let done = run::execute(
        global,
        loaded,
        PullJob {
            command: "pull",
            imports: ImportRounds::new(arguments.imports, &asked),
            asked,
            library,
            options,
        },
    )?;
    if let Some(path) = &arguments.lock_output {
        lock_file::write(global, &done, path)?;
    }
    Ok(done)
}

fn asked(
    global: &GlobalArguments,
    arguments: &PullArguments,
    config: &mut docstokg_ontology::config::OntologyConfig,
) -> Result<Vec<RequestedOntology>, CommandFailure> {
    let Some(path) = &arguments.lock else {
        return selection::asked(&arguments.selection, config);
    };
    let selection = &arguments.selection;
    let flags = [
        ("--url", selection.url.is_some()),
        ("--resolver", !selection.resolver.is_empty()),
        ("--target-formats", selection.target_formats.is_some()),
    ];
    if let Some((flag, _)) = flags.iter().find(|(_, is_set)| *is_set) {
        return Err(CommandFailure::Usage(format!(
            "--lock says where everything comes from: leave {flag} out"
        )));
    }
    let lock = lock_file::read(global, path)?;
    selection::apply_flags(selection, config)?;
    let mut asked = RequestedOntology::of_lock(&lock);
    if arguments.selection.ids.is_empty() {
        if arguments.selection.spec.is_some() {
            return Err(CommandFailure::Usage(
                "--lock says what to download, and so does --spec: leave one out".to_owned(),
            ));
        }
        return Ok(asked);
    }
    let mut named = Vec::new();
    for text in &arguments.selection.ids {
        let id = selection::id(text)?;
        let Some(index) = asked.iter().position(|asked| asked.wanted.id == id) else {
            return Err(CommandFailure::Usage(format!(
                "{id} is not in {}",
                path.display()
            )));
        };
        named.push(asked.swap_remove(index));
    }
    Ok(named)
}

/// Returns the exit code: 3 if the unfinished ontologies only wait, 130 if a signal stopped the run,
/// 1 if something failed.
pub(super) fn code(done: &PullResult) -> ExitCode {
    let has_failed = done.results.iter().any(|result| !result.status.is_good());
    match &done.ended {
        RunEnd::Complete if !has_failed => ExitCode::SUCCESS,
        RunEnd::Deferred { .. } if !has_failed => ExitCode::from(exit::EXIT_REFUSED),
        RunEnd::Stopped { .. } => ExitCode::from(exit::EXIT_INTERRUPTED),
        _ => ExitCode::from(exit::EXIT_FAILED),
    }
}

/// Prints the result of each ontology.
pub(super) fn show(global: &GlobalArguments, done: &PullResult) {
    if global.json {
        let mut shown = json!({
            "ok": done.results.iter().all(|result| result.status.is_good()) && done.ended == RunEnd::Complete,
            "run_id": done.run_id,
            "ended": ended(&done.ended),
            "results": done.results,
            "report": done.report,
        });
        add_deferred(&mut shown, done);
        output::json(&shown);
        return;
    }
    for result in &done.results {
        output::line(&line(result));
        for note in &result.notes {
            output::line(&format!("    note: {note}"));
        }
    }
    show_deferred(done);
    output::print_note(&summary(done));
    tell_continuation(done);
}

/// Adds the deferred ontologies with their hosts, and the command that continues the pull.
pub(super) fn add_deferred(shown: &mut Value, done: &PullResult) {
    shown["deferred"] = json!(done.deferred);
    if done.ended != RunEnd::Complete {
        shown["continue_with"] = json!(command_line::same());
    }
}

/// Prints the deferred ontologies with their hosts.
pub(super) fn show_deferred(done: &PullResult) {
    let now = SystemClock.wall();
    for waiting in &done.deferred {
        let sentence = wait_sentence(waiting, now);
        output::line(&format!("{}: {sentence}", waiting.id));
    }
}

/// Describes the wait of a deferred ontology: host, time and reason.
pub(super) fn wait_sentence(waiting: &DeferredOntology, now: Timestamp) -> String {
    format!(
        "waiting for {} until {} (in {}): {}",
        waiting.host,
        clock_time(waiting.until),
        length(waiting.until.since(now)),
        waiting.why
    )
}

/// Prints the command that continues an unfinished pull.
pub(super) fn tell_continuation(done: &PullResult) {
    if done.ended != RunEnd::Complete {
        let command = command_line::same();
        let command = command.unwrap_or_else(|| "the same command".to_owned());
        output::hint(&format!("continue with: {command}"));
    }
}

fn ended(ended: &RunEnd) -> Value {
    match ended {
        RunEnd::Complete => json!({ "how": "complete" }),
        RunEnd::Stopped { left } => json!({ "how": "stopped", "left": left }),
        RunEnd::Offline { left } => json!({ "how": "offline", "left": left }),
        RunEnd::BytesSpent { left } => json!({ "how": "bytes_spent", "left": left }),
        RunEnd::Deferred { left, due_in } => json!({
            "how": "deferred",
            "left": left,
            "cooldown_remaining_ms": whole_millis(*due_in),
        }),
    }
}

/// Formats the result of one ontology.
fn line(result: &PullOutcome) -> String {
    match result.status {
        PullEnding::Failed => format!(
            "{}: failed ({}): {}",
            result.id,
            result.reason.map_or("unknown", |reason| reason.as_str()),
            result.detail.as_deref().unwrap_or_default()
        ),
        PullEnding::Planned => plan::line(result),
        _ => {
            let size = result
                .content_length
                .map_or_else(String::new, |bytes| format!(", {}", bytes_text(bytes)));
            let terms = result
                .terms
                .map_or_else(String::new, |terms| format!(", {terms} terms"));
            let place = result
                .path
                .as_deref()
                .map_or_else(String::new, |path| format!(" -> {path}"));
            format!(
                "{}: {} {} from {}{size}{terms}{place}",
                result.id,
                result.status.as_str(),
                result.version.as_deref().unwrap_or("(no version)"),
                result.resolver.as_deref().unwrap_or("nowhere"),
            )
        }
    }
}

fn summary(done: &PullResult) -> String {
    let count = |wanted: PullEnding| {
        done.results
            .iter()
            .filter(|result| result.status == wanted)
            .count()
    };
    let program = crate::program::running();
    let total = program.count(done.results.len() as u64 + done.left());
    let mut text = format!(
        "{total}: {} new, {} updated, {} unchanged, {} failed",
        count(PullEnding::Fresh),
        count(PullEnding::Updated),
        count(PullEnding::Cached) + count(PullEnding::Skipped),
        count(PullEnding::Failed)
    );
    match &done.ended {
        RunEnd::Complete => {}
        RunEnd::Stopped { left } => {
            text += &format!("; stopped, {left} remaining");
        }
        RunEnd::Offline { left } => {
            text += &format!("; this machine has no network, {left} remaining");
        }
        RunEnd::BytesSpent { left } => text += &format!("; {left} remaining"),
        RunEnd::Deferred { left, due_in } => {
            text += &format!(
                ", {left} waiting for paused hosts (the first for {})",
                length(*due_in)
            );
        }
    }
    if let Some(page) = &done.report {
        text += &format!("; report: {}", page.display());
    }
    let details = command_line::command(&["summary", &done.run_id]);
    text + &format!("; details: {details}")
}
