//! The output of a download when it ends: figures, reasons, and how to continue.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use docstokg_bulk::directory::{Directory, UnfinishedFiles};
use docstokg_bulk::progress::{Counters, RunProgress};
use docstokg_bulk::run_snapshot::RunOutcome;
use docstokg_bulk::scheduler::{RunEnd, RunError};
use docstokg_content::reason::Reason;
use docstokg_content::results::{ResultCounts, ResultStatus};
use docstokg_content::run::RunReport;
use docstokg_hub::clock::{Clock, TokioRuntime};
use docstokg_hub::config::show::change_hint;
use docstokg_hub::forecast::SiteForecast;
use docstokg_hub::json::whole_millis;
use docstokg_hub::policy::rate::limit_in_words;
use docstokg_telemetry::summary::bytes;
use serde_json::{Value, json};

use super::resume;
use crate::arguments::GlobalArguments;
use crate::exit::{self, CommandFailure};
use crate::telemetry::RunRecording;
use crate::view::{clock_time, length, plural};
use crate::{command_line, output};

/// Prints how a run ended, and returns its exit code.
pub(super) fn finish(
    global: &GlobalArguments,
    directory: &Directory,
    progress: &RunProgress,
    recording: &RunRecording,
    is_partial: bool,
    outcome: Option<Result<(RunEnd, RunReport), RunError>>,
) -> Result<ExitCode, CommandFailure> {
    // A list that was not read to its end is read again, and its known works are skipped.
    let is_read = matches!(&outcome, Some(Ok((_, report))) if !report.inputs_unread);
    let command = resume::command(is_read, &directory.path);
    let resume = (command.as_deref()).unwrap_or("the same command with --resume");
    let (ended, report) = match outcome {
        Some(Ok(done)) => done,
        Some(Err(error)) => {
            directory.queue.close();
            directory.clean_up(UnfinishedFiles::Keep);
            let hint = format!("finished downloads are kept; continue with: {resume}");
            let done = standing(&progress.counters());
            let failure = anyhow::Error::from(error).context(done);
            return Err(CommandFailure::Failed(failure).with_hint(hint));
        }
        None => {
            directory.clean_up(UnfinishedFiles::Keep);
            let message = format!("stopped at once; {}", standing(&progress.counters()));
            let hint = format!("continue with: {resume}");
            return Err(CommandFailure::Interrupted(message).with_hint(hint));
        }
    };
    directory.queue.close();
    directory.clean_up(UnfinishedFiles::after(&ended));
    let code = exit_code(&ended, &report, is_partial);
    if global.json {
        let mut shown =
            serde_json::to_value(&report).context("the report cannot be written as JSON")?;
        let manifest = directory.path.join("manifest.jsonl").display().to_string();
        shown["ok"] = json!(code == ExitCode::SUCCESS);
        shown["manifest"] = json!((!is_partial).then_some(manifest));
        shown["telemetry_run"] = json!(recording.run.id);
        add_end(&mut shown, &ended, &progress.listed());
        if !matches!(ended, RunEnd::Complete) {
            shown["continue_with"] = json!(command);
        }
        output::json(&shown);
    } else {
        for (work, url) in &progress.listed() {
            output::line(&format!("{work}\t{url}"));
        }
    }
    if let RunEnd::Offline { left } = &ended {
        output::complain(&offline(*left, report.inputs_unread));
        output::hint(&format!("continue with: {resume}"));
        return Ok(code);
    }
    if !global.quiet && !is_partial {
        tell_results(directory, &ended, &report);
    } else if global.quiet && report.bad_lines_read > 0 {
        // The run fails by these lines, so that they are an error.
        let lines = plural(report.bad_lines_read, "line");
        output::complain(&format!("{lines} not recognised"));
    }
    if let RunEnd::Deferred { due_in, .. } = &ended {
        tell_waits(progress, *due_in);
    }
    if !matches!(ended, RunEnd::Complete) {
        output::hint(&format!("continue with: {resume}"));
    } else if !global.quiet && !is_partial {
        tell_earlier_failures(directory, &progress.counters(), &report);
    }
    Ok(code)
}

/// Prints how to try works again that failed in an earlier run, and that this one left as they were.
fn tell_earlier_failures(directory: &Directory, counters: &Counters, report: &RunReport) {
    let of_this_run: u64 = counters.reasons.values().sum();
    let earlier = report.failed.saturating_sub(of_this_run);
    if earlier > 0 {
        let out = directory.path.display().to_string();
        let command = command_line::command(&["download", "--retry-failed", "--out", &out]);
        output::hint(&format!(
            "{} failed in an earlier run; try again with: {command}",
            plural(earlier, "work")
        ));
    }
}

/// Formats how far a run has come that ended early.
fn standing(counters: &Counters) -> String {
    let all = plural(counters.items, "work");
    format!(
        "{} of {all} have their files ({} of this run)",
        counters.done,
        plural(counters.files, "file")
    )
}

/// Prints the result of a run, and the paths of its files.
fn tell_results(directory: &Directory, ended: &RunEnd, report: &RunReport) {
    output::tell(&sentence(ended, report));
    if report.results.number(ResultStatus::Unrecognised) > 0 {
        let list = directory.path.join("unrecognised.csv");
        output::tell(&format!(
            "docstokg: lines that were not recognised: {}",
            list.display()
        ));
    }
    let page = directory.path.join("report.html");
    let out = directory.path.display().to_string();
    output::tell(&format!(
        "docstokg: results: {}   details: {}",
        page.display(),
        command_line::command(&["summary", &out])
    ));
}

/// Adds the end of the run, and the locations found by `--list-only`.
fn add_end(shown: &mut Value, ended: &RunEnd, listed: &[(String, String)]) {
    shown["offline"] = json!(matches!(ended, RunEnd::Offline { .. }));
    if let RunEnd::Deferred { due_in, .. } = ended {
        shown["cooldown_remaining_ms"] = json!(whole_millis(*due_in));
    }
    if !listed.is_empty() {
        let listed = listed
            .iter()
            .map(|(work, url)| json!({ "work_id": work, "url": url }));
        shown["listed"] = json!(listed.collect::<Vec<_>>());
    }
}

/// Returns the end of a run for other processes.
pub(super) fn outcome_of(outcome: Option<&Result<(RunEnd, RunReport), RunError>>) -> RunOutcome {
    match outcome {
        None => RunOutcome::Stopped,
        Some(Err(_)) => RunOutcome::Failed,
        Some(Ok((ended, _))) => match ended {
            RunEnd::Complete => RunOutcome::Complete,
            RunEnd::Stopped { .. } => RunOutcome::Stopped,
            RunEnd::Offline { .. } => RunOutcome::Offline,
            RunEnd::Deferred { .. } => RunOutcome::Waiting,
            RunEnd::BytesSpent { .. } => RunOutcome::BytesSpent,
        },
    }
}

fn exit_code(ended: &RunEnd, report: &RunReport, is_partial: bool) -> ExitCode {
    match ended {
        RunEnd::Complete if report.inputs_unread => ExitCode::from(exit::EXIT_FAILED),
        RunEnd::Complete if report.bad_lines_read > 0 => ExitCode::from(exit::EXIT_FAILED),
        RunEnd::Complete if is_partial || report.failed == 0 => ExitCode::SUCCESS,
        RunEnd::Deferred { .. } => ExitCode::from(exit::EXIT_REFUSED),
        RunEnd::Stopped { .. } => ExitCode::from(exit::EXIT_INTERRUPTED),
        _ => ExitCode::from(exit::EXIT_FAILED),
    }
}

/// Formats what a run would do: how many works are known, how many are to download, and how long
/// that takes at least.
pub(super) fn dry_run(
    counters: &Counters,
    counts: &ResultCounts,
    least: Option<SiteForecast>,
) -> String {
    let to_do = (counters.done + counters.failed).saturating_sub(counts.known);
    let least = least.map_or_else(
        || "time unknown".to_owned(),
        |least| format!("at least {}{}", length(least.after), binding(&least)),
    );
    let lines = counts.lines_in_words();
    let lines = lines.map_or_else(String::new, |lines| format!(", {lines}"));
    format!(
        "dry run: {}{lines}; {to_do} to download ({least}); nothing was sent",
        plural(counters.items, "work")
    )
}

/// Formats the limit with the longest wait in a dry run, and the way to change it.
fn binding(least: &SiteForecast) -> String {
    let Some(limit) = &least.because else {
        return String::new();
    };
    let (words, host) = (limit_in_words(&limit.window, limit.basis), &limit.host);
    let hint = change_hint(host.as_str(), limit.role);
    let hint = (limit.basis.is_configured()).then(|| format!("; {hint}"));
    format!(", set by {words} at {host}{}", hint.unwrap_or_default())
}

/// Formats the message that there is no network, in one line.
fn offline(left: u64, inputs_unread: bool) -> String {
    let works = plural(left, "work");
    let unread = if inputs_unread {
        " so far, and the inputs were not read to their end"
    } else {
        ""
    };
    format!(
        "no network: names cannot be resolved or there is no route; nothing was sent, \
         {works} remaining{unread}"
    )
}

/// Prints the hosts that unfinished works wait for.
fn tell_waits(progress: &RunProgress, due_in: Duration) {
    let now = TokioRuntime::default().wall();
    for wait in progress.waiting().into_iter().take(5) {
        let works = plural(wait.items, "work");
        output::hint(&format!(
            "{}: {}; next try at {} ({works})",
            wait.host,
            wait.why,
            clock_time(wait.until)
        ));
    }
    let until = clock_time(now + due_in);
    let left = length(due_in);
    output::hint(&format!("the next work is due at {until} (in {left})"));
}

fn sentence(ended: &RunEnd, report: &RunReport) -> String {
    let (counts, left) = (&report.results, report.left);
    let mut text = format!(
        "docstokg: downloaded {} of {} ({}); {}",
        counts.number(ResultStatus::Downloaded),
        plural(counts.works(), "work"),
        bytes(report.bytes_downloaded),
        counts.without_file_in_words()
    );
    if let Some(lines) = counts.lines_in_words() {
        text.push_str(&format!("; {lines}"));
    }
    match ended {
        RunEnd::Complete | RunEnd::Offline { .. } => {}
        RunEnd::Stopped { .. } if report.inputs_unread => {
            text.push_str(&format!("; stopped; {left} remaining"));
        }
        RunEnd::Stopped { .. } => text.push_str(&format!("; stopped; {left} remaining")),
        RunEnd::Deferred { .. } => text.push_str(&format!("; {left} waiting (retry later)")),
        RunEnd::BytesSpent { .. } => {
            text.push_str(&format!("; stopped at --max-bytes; {left} remaining"));
        }
    }
    if report.inputs_unread {
        text.push_str(
            "; the inputs were not read to their end: \
             give them again to continue, known works are skipped",
        );
    }
    for (reason, works) in &report.reason_totals {
        let meaning = Reason::read(reason)
            .map_or_else(|| reason.clone(), |known| known.sentence().to_owned());
        text.push_str(&format!("\n  {works}: {meaning} ({reason})"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_was_not_read_is_named_beside_the_works_without_a_network() {
        assert!(
            offline(2_001, true).ends_with(
                "2001 works remaining so far, and the inputs were not read to their end"
            )
        );
        assert!(offline(1, false).ends_with("1 work remaining"));
    }
}
