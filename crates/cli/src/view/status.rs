//! How a run stands, as lines of text for a terminal of any width.

#[cfg(test)]
mod tests;

use std::time::Duration;

use docstokg_bulk::run_snapshot::RunOutcome;
use docstokg_content::run_status::{RunState, RunStatus, StatusAdvice, StatusWait, WorkCounts};
use docstokg_hub::clock::Timestamp;
use docstokg_telemetry::summary::bytes;

use super::activity::activity_text;
use super::text::{clock_time, length, plural};

/// Maximum hosts that are shown.
const MAX_HOSTS: usize = 8;
/// Maximum waits that are shown.
const MAX_WAITS: usize = 8;
/// Maximum reasons that are shown.
const MAX_REASONS: usize = 8;
/// A time of day alone is clear for this long.
const CLEAR_TIME_OF_DAY: Duration = Duration::from_secs(12 * 3_600);

/// Formats how a run stands. `width` is that of the terminal; without one nothing is broken into
/// lines. Commands stay whole, so that they can be copied.
pub(crate) fn lines(status: &RunStatus, width: Option<usize>) -> Vec<String> {
    let mut page = StatusPage {
        lines: Vec::new(),
        width,
    };
    page.text(0, &headline(status));
    for line in works(status) {
        page.text(2, &line);
    }
    for reason in status.reasons.iter().take(MAX_REASONS) {
        let (works, meaning, word) = (reason.works, &reason.meaning, &reason.reason);
        page.text(4, &format!("{works}: {meaning} ({word})"));
    }
    page.rest(4, status.reasons.len(), MAX_REASONS, "reason");
    page.hosts(status);
    page.waits(status);
    if !status.advice.is_empty() {
        page.text(0, "next");
        for advice in &status.advice {
            page.advice(2, advice);
        }
    }
    page.lines
}

/// Formats how a run stands in one line, without what changes with every second.
pub(crate) fn brief(status: &RunStatus) -> String {
    let works = status.works;
    let mut parts = vec![format!(
        "downloaded {} of {}",
        works.downloaded,
        plural(works.all, "work")
    )];
    if works.without_file > 0 {
        parts.push(format!("{} without a file", works.without_file));
    }
    parts.extend(unfinished(works));
    format!("{}: {}", status.directory.display(), parts.join(", "))
}

/// Counts the works that have not ended, by where they stand.
fn unfinished(works: WorkCounts) -> Vec<String> {
    let parts = [
        (works.waiting, "waiting"),
        (works.queued, "queued"),
        (works.running, "running"),
    ];
    nonzero(&parts)
}

/// Formats counts that are not zero.
fn nonzero(parts: &[(u64, &str)]) -> Vec<String> {
    let parts = parts.iter().filter(|(works, _)| *works > 0);
    parts
        .map(|(works, what)| format!("{works} {what}"))
        .collect()
}

/// Formats the remaining time.
pub(crate) fn left(status: &RunStatus) -> String {
    let left_s = status.progress.and_then(|progress| progress.left_s);
    match left_s {
        Some(left_s) => format!("about {} left", length(Duration::from_secs_f64(left_s))),
        None if !status.works.all_read => "inputs are being read".to_owned(),
        None => "remaining time unknown".to_owned(),
    }
}

/// Formats a time: the time of day, with the date if the time is far away.
pub(crate) fn moment(at: Timestamp, now: Timestamp) -> String {
    let distance = at.since(now).max(now.since(at));
    if distance < CLEAR_TIME_OF_DAY {
        return clock_time(at);
    }
    let date: String = at.to_string().chars().take(10).collect();
    format!("{date} {}", clock_time(at))
}

/// Formats whether the run works.
fn headline(status: &RunStatus) -> String {
    let name = status.directory.display();
    let now = status.at;
    let Some(run) = &status.run else {
        let state = match status.state {
            RunState::Running => "running",
            _ => "nothing runs here",
        };
        return format!("{name}: {state}");
    };
    let elapsed = status.elapsed().map_or_else(String::new, length);
    let heard = format!(
        "last heard of at {} ({} ago)",
        moment(run.updated_at, now),
        length(now.since(run.updated_at))
    );
    match status.state {
        RunState::Running => {
            let pid = run
                .pid
                .map_or_else(String::new, |pid| format!(" (process {pid})"));
            format!("{name}: running for {elapsed}{pid}, {}", left(status))
        }
        RunState::Elsewhere => {
            let process = run.process.as_deref().unwrap_or("another machine");
            format!("{name}: {process} works here, {heard}")
        }
        RunState::Killed => format!("{name}: killed after {elapsed}, {heard}"),
        RunState::Ended => {
            let end = match run.end {
                Some(RunOutcome::Complete) | None => "finished",
                Some(RunOutcome::Stopped) => "stopped",
                Some(RunOutcome::Offline) => "ended without a network",
                Some(RunOutcome::Waiting) => "ended while works wait",
                Some(RunOutcome::BytesSpent) => "stopped at --max-bytes",
                Some(RunOutcome::Failed) => "ended with an error",
            };
            let at = moment(run.updated_at, now);
            let ago = length(now.since(run.updated_at));
            format!("{name}: {end} at {at} ({ago} ago), after {elapsed}")
        }
        RunState::Idle => {
            format!(
                "{name}: nothing runs here; the last run ended at {}",
                moment(run.updated_at, now)
            )
        }
    }
}

/// Formats works by where they stand, and the pace.
fn works(status: &RunStatus) -> Vec<String> {
    let works = status.works;
    let known = match works.known {
        0 => String::new(),
        known => format!(" ({known} known from an earlier run)"),
    };
    let so_far = if works.all_read { "" } else { " read so far" };
    let files = if status.files == works.downloaded {
        String::new()
    } else {
        format!("{}, ", plural(status.files, "file"))
    };
    let mut lines = vec![format!(
        "downloaded {} of {}{so_far}{known}; {files}{}",
        works.downloaded,
        plural(works.all, "work"),
        bytes(status.bytes)
    )];
    if works.without_file > 0 {
        let parts = [
            (works.not_open, "not openly available"),
            (works.blocked, "blocked"),
            (works.failed, "failed"),
        ];
        let (all, parts) = (works.without_file, nonzero(&parts));
        lines.push(format!("{all} without a file: {}", parts.join(", ")));
    }
    let parts = unfinished(works);
    if !parts.is_empty() {
        lines.push(parts.join(", "));
    }
    lines.extend(pace(status));
    lines
}

fn pace(status: &RunStatus) -> Option<String> {
    let progress = status.progress?;
    let (works, bytes) = (progress.per_minute?, progress.bytes_per_second?);
    let size = bytes / f64::from(1 << 20);
    let digits = usize::from(works < 100.0);
    Some(format!(
        "{works:.digits$} works a minute, {size:.1} MiB a second"
    ))
}

/// Lines that are put together for one width.
struct StatusPage {
    lines: Vec<String>,
    width: Option<usize>,
}

impl StatusPage {
    /// Adds a text, broken between words where it is longer than a line.
    fn text(&mut self, indent: usize, text: &str) {
        let pad = " ".repeat(indent);
        let Some(width) = self.width else {
            return self.lines.push(format!("{pad}{text}"));
        };
        let mut line = pad.clone();
        let mut is_empty = true;
        for word in text.split(' ') {
            let length = line.chars().count() + usize::from(!is_empty) + word.chars().count();
            if !is_empty && length > width {
                self.lines
                    .push(std::mem::replace(&mut line, format!("{pad}  ")));
                is_empty = true;
            }
            if !is_empty {
                line.push(' ');
            }
            line.push_str(word);
            is_empty = false;
        }
        self.lines.push(line);
    }

    /// Says how many entries of a list are left out.
    fn rest(&mut self, indent: usize, all: usize, shown: usize, thing: &str) {
        if all > shown {
            let more = plural((all - shown) as u64, &format!("more {thing}"));
            self.text(indent, &format!("{more} (--json has all)"));
        }
    }

    fn hosts(&mut self, status: &RunStatus) {
        if status.hosts.is_empty() {
            return;
        }
        self.text(0, "hosts");
        let width = self.width.unwrap_or(140).saturating_sub(2);
        for host in status.hosts.iter().take(MAX_HOSTS) {
            self.lines.push(format!("  {}", activity_text(host, width)));
        }
        self.rest(2, status.hosts.len(), MAX_HOSTS, "host");
    }

    fn waits(&mut self, status: &RunStatus) {
        if status.waits.is_empty() {
            return;
        }
        self.text(0, "waiting");
        for wait in status.waits.iter().take(MAX_WAITS) {
            self.text(2, &wait_text(wait, status.at));
            if let Some(advice) = &wait.advice {
                self.advice(4, advice);
            }
        }
        self.rest(2, status.waits.len(), MAX_WAITS, "wait");
    }

    /// Adds an advice, and its command in a line of its own.
    fn advice(&mut self, indent: usize, advice: &StatusAdvice) {
        match &advice.command {
            Some(command) => {
                self.text(indent, &format!("{}:", advice.text));
                let pad = " ".repeat(indent + 2);
                self.lines.push(format!("{pad}{command}"));
            }
            None => self.text(indent, &advice.text),
        }
    }
}

/// Formats what is waited for, until when and why.
fn wait_text(wait: &StatusWait, now: Timestamp) -> String {
    let host = wait
        .host
        .as_deref()
        .unwrap_or("a host that was not recorded");
    let left = if wait.until <= now {
        "due now".to_owned()
    } else {
        format!("in {}", length(wait.until.since(now)))
    };
    let works = wait
        .works
        .map_or_else(String::new, |works| format!("; {}", plural(works, "work")));
    let until = moment(wait.until, now);
    format!("{host} until {until} ({left}{works}): {}", wait.why)
}
