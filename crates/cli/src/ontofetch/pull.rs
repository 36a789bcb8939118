//! `ontofetch pull`: ontologies in, versions of the library out.

use std::process::ExitCode;
use std::time::Duration;

use docstokg_bulk::scheduler::{Ended, RunMode};
use docstokg_hub::clock::{Clock, SystemClock};
use docstokg_hub::json::whole_millis;
use docstokg_ontology::lock::LockFile;
use docstokg_ontology::pull::imports::ImportRounds;
use docstokg_ontology::pull::{Asked, Ending, Options, Probes, Pulled};
use serde_json::{Value, json};

use super::arguments::Pull;
use super::run::{self, Done, Job};
use super::{plan, selection};
use crate::arguments::Global;
use crate::command_line;
use crate::exit::{self, Failure};
use crate::output;
use crate::view::{clock_time, length, mebibytes};

/// Runs the command.
pub(super) fn run(global: &Global, arguments: &Pull) -> Result<ExitCode, Failure> {
    let done = execute(global, arguments)?;
    show(global, &done);
    Ok(code(&done))
}

/// Pulls, and writes the lock file that is asked for.
pub(super) fn execute(global: &Global, arguments: &Pull) -> Result<Done, Failure> {
    let mut loaded = global.load()?;
    let asked = asked(arguments, &mut loaded.ontology)?;
    let library = selection::library(&arguments.selection.library, &loaded.ontology);
    let options = Options {
        mode: if arguments.dry_run {
            RunMode::ListOnly
        } else {
            RunMode::Full
        },
        probes: Probes::Skip,
        since: selection::since(arguments.selection.since.as_deref())?,
        force: arguments.force,
        workers: arguments.workers as usize,
        max_wait: Duration::from_secs(arguments.max_wait),
    };
    let done = run::execute(
        global,
        loaded,
        Job {
            command: "pull",
            imports: ImportRounds::new(arguments.imports, &asked),
            asked,
            library,
            options,
        },
    )?;
    if let Some(path) = &arguments.lock_output {
        let lock = LockFile::of(&done.results, &SystemClock.wall().to_string());
        lock.write(path)
            .map_err(|error| Failure::Failed(error.into()))?;
    }
    Ok(done)
}

fn asked(
    arguments: &Pull,
    config: &mut docstokg_ontology::config::OntologyConfig,
) -> Result<Vec<Asked>, Failure> {
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
        return Err(Failure::Usage(format!(
            "--lock says where everything comes from: leave {flag} out"
        )));
    }
    let lock = LockFile::read(path).map_err(|error| Failure::Usage(error.to_string()))?;
    selection::apply_flags(selection, config)?;
    let mut asked = Asked::of_lock(&lock);
    if arguments.selection.ids.is_empty() {
        if arguments.selection.spec.is_some() {
            return Err(Failure::Usage(
                "--lock says what to download, and so does --spec: leave one out".to_owned(),
            ));
        }
        return Ok(asked);
    }
    let mut named = Vec::new();
    for text in &arguments.selection.ids {
        let id = selection::id(text)?;
        let Some(index) = asked.iter().position(|asked| asked.wanted.id == id) else {
            return Err(Failure::Usage(format!("{id} is not in {}", path.display())));
        };
        named.push(asked.swap_remove(index));
    }
    Ok(named)
}

/// Returns the exit code: 3 where the rest only waits, 1 where something failed.
pub(super) fn code(done: &Done) -> ExitCode {
    let has_failed = done.results.iter().any(|result| !result.status.is_good());
    match &done.ended {
        Ended::Complete if !has_failed => ExitCode::SUCCESS,
        Ended::Deferred { .. } if !has_failed => ExitCode::from(exit::REFUSED),
        _ => ExitCode::from(exit::FAILED),
    }
}

/// Shows what each ontology came to.
pub(super) fn show(global: &Global, done: &Done) {
    if global.json {
        let mut shown = json!({
            "ok": done.results.iter().all(|result| result.status.is_good()) && done.ended == Ended::Complete,
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
    output::note(&summary(done));
    tell_continuation(done);
}

/// Adds what waits for a host, and the command that continues.
pub(super) fn add_deferred(shown: &mut Value, done: &Done) {
    shown["deferred"] = json!(done.deferred);
    if done.ended != Ended::Complete {
        shown["continue_with"] = json!(command_line::same());
    }
}

/// Shows what waits for a host.
pub(super) fn show_deferred(done: &Done) {
    let now = SystemClock.wall();
    for waiting in &done.deferred {
        output::line(&format!(
            "{}: waiting for {} until {} (in {}): {}",
            waiting.id,
            waiting.host,
            clock_time(waiting.until),
            length(waiting.until.since(now)),
            waiting.why
        ));
    }
}

/// Prints the command that continues what has not come to its end.
pub(super) fn tell_continuation(done: &Done) {
    if done.ended != Ended::Complete {
        let command = command_line::same();
        let command = command.unwrap_or_else(|| "the same command".to_owned());
        output::hint(&format!("continue with: {command}"));
    }
}

fn ended(ended: &Ended) -> Value {
    match ended {
        Ended::Complete => json!({ "how": "complete" }),
        Ended::Stopped { left } => json!({ "how": "stopped", "left": left }),
        Ended::Offline { left } => json!({ "how": "offline", "left": left }),
        Ended::BytesSpent { left } => json!({ "how": "bytes_spent", "left": left }),
        Ended::Deferred { left, due_in } => json!({
            "how": "deferred",
            "left": left,
            "cooldown_remaining_ms": whole_millis(*due_in),
        }),
    }
}

/// Describes what one ontology came to.
fn line(result: &Pulled) -> String {
    match result.status {
        Ending::Failed => format!(
            "{}: failed ({}): {}",
            result.id,
            result.reason.map_or("unknown", |reason| reason.as_str()),
            result.detail.as_deref().unwrap_or_default()
        ),
        Ending::Planned => plan::line(result),
        _ => {
            let size = result.content_length.map_or_else(String::new, |bytes| {
                format!(", {:.1} MiB", mebibytes(bytes))
            });
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

fn summary(done: &Done) -> String {
    let count = |wanted: Ending| {
        done.results
            .iter()
            .filter(|result| result.status == wanted)
            .count()
    };
    let program = crate::program::running();
    let total = program.count(done.results.len() as u64);
    let mut text = format!(
        "{total}: {} new, {} updated, {} unchanged, {} failed",
        count(Ending::Fresh),
        count(Ending::Updated),
        count(Ending::Cached) + count(Ending::Skipped),
        count(Ending::Failed)
    );
    match &done.ended {
        Ended::Complete => {}
        Ended::Stopped { left } => {
            text += &format!("; stopped, {left} remaining: run it again to go on");
        }
        Ended::Offline { left } => {
            text += &format!("; this machine has no network, {left} remaining");
        }
        Ended::BytesSpent { left } => text += &format!("; {left} remaining"),
        Ended::Deferred { left, due_in } => {
            text += &format!(
                "; {left} wait for paused hosts, the first for {}",
                length(*due_in)
            );
        }
    }
    if let Some(page) = &done.report {
        text += &format!("; report: {}", page.display());
    }
    text + &format!("; details: ontofetch summary {}", done.run_id)
}
