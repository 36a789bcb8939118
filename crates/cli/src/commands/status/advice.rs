//! What can be done about a run and its waits, with the whole command.

use std::path::Path;

use docstokg_bulk::run_snapshot::RunOutcome;
use docstokg_content::run_status::{RunState, RunStatus, StatusAdvice, StatusRun, StatusWait};
use docstokg_hub::StatedBy::{Breaker, Operator, Probe, Quota, Robots, Server, ThisMachine};

use crate::{command_line, state};

/// Returns a whole command about a run, with its state directory if that is not the default;
/// `None` if a part of it is a credential.
pub(crate) fn command_for(state_directory: Option<&Path>, words: &[&str]) -> Option<String> {
    let default = state::default_directory().and_then(|path| std::path::absolute(path).ok());
    let flag = state_directory
        .filter(|directory| Some(*directory) != default.as_deref())
        .map(|directory| directory.display().to_string());
    let flag = flag.iter().flat_map(|directory| ["--state-dir", directory]);
    let words: Vec<String> = flag
        .chain(words.iter().copied())
        .map(str::to_owned)
        .collect();
    command_line::shown(&words)
}

/// Adds what can be done.
pub(super) fn advise(status: &mut RunStatus) {
    let state_directory = status
        .run
        .as_ref()
        .and_then(|run| run.state_directory.clone());
    let state_directory = state_directory.as_deref();
    for wait in &mut status.waits {
        if wait.advice.is_none() {
            wait.advice = about_wait(wait, state_directory);
        }
    }
    status.advice = about_run(status, state_directory);
}

fn advice(text: &str, command: Option<String>) -> StatusAdvice {
    StatusAdvice {
        text: text.to_owned(),
        command,
    }
}

/// Returns what can be done about a wait.
fn about_wait(wait: &StatusWait, state_directory: Option<&Path>) -> Option<StatusAdvice> {
    let host = wait.host.as_deref()?;
    let close = |words: &[&str]| {
        let words = [&["breaker", "close"], words].concat();
        command_for(state_directory, &words)
    };
    if let Some(resolver) = &wait.resolver {
        let command = close(&[resolver.as_str(), "--resolver"]);
        return Some(advice("to query the source again at once", command));
    }
    Some(match wait.set_by? {
        Server => advice(
            "the host declared this pause, so it is polite to wait; to try again at once",
            close(&[host]),
        ),
        Operator => advice("to end the pause", close(&[host])),
        Breaker | Probe => advice(
            "the host is probed by itself; to try again at once",
            close(&[host]),
        ),
        Quota => advice(
            "what limits the host",
            command_for(state_directory, &["limits", "doctor", host]),
        ),
        Robots => advice(
            "robots.txt is read again by itself; --ignore-robots ignores it, if you may",
            None,
        ),
        ThisMachine => advice("check this machine: network, open files, store", None),
        _ => return None,
    })
}

/// Returns the command that continues a run, for this working directory: its paths may be relative to
/// that of the run.
fn continuation(run: &StatusRun) -> Option<String> {
    let command = run.continue_with.clone()?;
    let here = std::env::current_dir().ok();
    let elsewhere = run.working_directory.as_ref();
    match elsewhere.filter(|directory| here.as_ref() != Some(*directory)) {
        None => Some(command),
        Some(directory) => {
            let directory = command_line::for_shell(&directory.display().to_string());
            Some(format!("cd {directory} && {command}"))
        }
    }
}

/// Returns what can be done about the run.
fn about_run(status: &RunStatus, state_directory: Option<&Path>) -> Vec<StatusAdvice> {
    let mut all = Vec::new();
    let out = status.directory.display().to_string();
    let works = status.works;
    let is_left = works.waiting + works.queued > 0 || !works.all_read;
    let is_over = matches!(
        status.state,
        RunState::Ended | RunState::Killed | RunState::Idle
    );
    let run = status.run.as_ref();
    if is_over && is_left {
        let stored = run.and_then(continuation);
        let command = stored
            .or_else(|| command_for(state_directory, &["download", "--resume", "--out", &out]));
        let only_waits = run.and_then(|run| run.end) == Some(RunOutcome::Waiting);
        let text = if only_waits {
            "when the hosts are back, continue with"
        } else {
            "continue with"
        };
        all.push(advice(text, command));
    }
    if is_over && works.failed > 0 {
        let arguments = ["download", "--retry-failed", "--out", &out];
        let command = command_for(state_directory, &arguments);
        all.push(advice("to try those that failed again", command));
    }
    if works.without_file > 0 {
        let arguments = ["why", "ID", &out];
        let command = command_for(None, &arguments);
        all.push(advice(
            "why a work has no file (missing.csv has the ids)",
            command,
        ));
    }
    all
}
