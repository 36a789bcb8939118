//! What a run waits for, in sentences.

use std::time::Duration;

use docstokg_bulk::progress::Progress;
use docstokg_hub::clock::Timestamp;

use super::hosts::Line;
use super::text::{clock_time, length};
use crate::program;

/// A queue of this length is shown as a wait.
const LONG_QUEUE: Duration = Duration::from_secs(10);

/// One thing that the run waits for.
pub(super) struct Wait {
    /// `waiting for HOST until TIME`
    what: String,
    /// The remaining time, the number of works, and the reason.
    about: String,
    /// How to avoid the wait.
    hint: &'static str,
}

impl Wait {
    /// Formats everything.
    pub(super) fn sentence(&self) -> String {
        format!("{} ({}){}", self.what, self.about, self.hint)
    }

    /// Formats as much as fits a line of a terminal.
    pub(super) fn within(&self, width: usize) -> String {
        let fits = |text: &String| text.chars().count() <= width;
        // The least important part is left out first: the hint, the reason, the works, the time.
        let parts: Vec<&str> = self.about.split("; ").collect();
        let shorter = (1..=parts.len())
            .rev()
            .map(|kept| format!("{} ({})", self.what, parts[..kept].join("; ")));
        std::iter::once(self.sentence())
            .chain(shorter)
            .find(fits)
            .unwrap_or_else(|| shortened(&self.what, width))
    }
}

/// Cuts a text that is too long for a line, and marks the cut with an ellipsis.
pub(super) fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars()
        .take(width.saturating_sub(1))
        .chain(['\u{2026}'])
        .collect()
}

/// Returns what the run waits for: deferred works first, then long queues.
pub(super) fn of(progress: &Progress, hosts: &[Line], wall: Timestamp) -> Vec<Wait> {
    let deferred = progress.waiting().into_iter().map(|wait| {
        let left = wait.until.since(wall);
        Wait {
            what: format!("waiting for {} until {}", wait.host, clock_time(wait.until)),
            about: format!(
                "in {}; {}; {}",
                length(left),
                program::running().count(wait.items),
                wait.why
            ),
            hint: "; Ctrl-C stops, --max-wait 0 skips",
        }
    });
    let queued = hosts
        .iter()
        .filter_map(|line| line.long_wait(LONG_QUEUE))
        .map(|(host, left, why)| Wait {
            what: format!("waiting for {host} until {}", clock_time(wall + left)),
            about: format!("in {}; {why}", length(left)),
            hint: "; Ctrl-C stops",
        });
    deferred.chain(queued).collect()
}
