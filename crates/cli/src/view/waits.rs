//! The waits of a run, in sentences.

use std::time::Duration;

use docstokg_bulk::progress::RunProgress;
use docstokg_hub::clock::Timestamp;

use super::hosts::HostLine;
use super::text::{clock_time, length};
use crate::program;

/// The length of a queue from which it is shown as a wait.
pub(super) const LONG_QUEUE: Duration = Duration::from_secs(10);

/// A wait of the run.
pub(super) struct WaitLine {
    /// `HOST until TIME`
    what: String,
    /// `in 5 min`
    left: String,
    /// The number of waiting works, if counted.
    works: Option<String>,
    why: String,
    /// The way to change or to avoid the wait.
    hint: String,
}

impl WaitLine {
    /// Formats the complete wait.
    pub(super) fn sentence(&self) -> String {
        let (works, why) = (self.works.as_deref(), Some(self.why.as_str()));
        format!(
            "{}{}",
            self.about([Some(&self.left), works, why]),
            self.hint
        )
    }

    /// Formats the wait with these parts of its details.
    fn about(&self, parts: [Option<&str>; 3]) -> String {
        let parts: Vec<&str> = parts.into_iter().flatten().collect();
        format!("waiting for {} ({})", self.what, parts.join("; "))
    }

    /// Formats as much as fits a line of a terminal. The least important parts are left out first:
    /// the hint, the works, the remaining time. The reason stays.
    pub(super) fn within(&self, width: usize) -> String {
        let (left, why) = (Some(self.left.as_str()), Some(self.why.as_str()));
        let shortest = format!("{}: {}", self.what, self.why);
        let forms = [
            self.sentence(),
            self.about([left, self.works.as_deref(), why]),
            self.about([left, None, why]),
            self.about([None, None, why]),
        ];
        let fits = |text: &String| text.chars().count() <= width;
        forms
            .into_iter()
            .find(fits)
            .unwrap_or_else(|| shortened(&shortest, width))
    }
}

/// Cuts a text that is too long for a line, and marks the cut with an ellipsis.
pub(crate) fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars()
        .take(width.saturating_sub(1))
        .chain(['\u{2026}'])
        .collect()
}

/// Returns the waits of the run: deferred works first, then long queues.
pub(super) fn of(progress: &RunProgress, hosts: &[HostLine], wall: Timestamp) -> Vec<WaitLine> {
    let deferred = progress.waiting().into_iter().map(|wait| WaitLine {
        what: format!("{} until {}", wait.host, clock_time(wait.until)),
        left: format!("in {}", length(wait.until.since(wall))),
        works: Some(program::running().count(wait.items)),
        why: wait.why,
        hint: "; Ctrl-C stops, --max-wait 0 skips".to_owned(),
    });
    let queued = hosts
        .iter()
        .filter_map(|line| line.long_wait(LONG_QUEUE))
        .map(|wait| WaitLine {
            what: format!("{} until {}", wait.host, clock_time(wall + wait.left)),
            left: format!("in {}", length(wait.left)),
            works: None,
            why: wait.why,
            hint: match wait.hint {
                Some(hint) => format!("; {hint}; Ctrl-C stops"),
                None => "; Ctrl-C stops".to_owned(),
            },
        });
    deferred.chain(queued).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_a_wait_is_left_out_last() {
        let wait = WaitLine {
            what: "api.unpaywall.org until 16:18 UTC".to_owned(),
            left: "in 1 s".to_owned(),
            works: Some("4 works".to_owned()),
            why: "the host is paused after failures".to_owned(),
            hint: "; Ctrl-C stops, --max-wait 0 skips".to_owned(),
        };
        assert_eq!(wait.within(200), wait.sentence());
        assert_eq!(
            wait.within(90),
            "waiting for api.unpaywall.org until 16:18 UTC (in 1 s; the host is paused after failures)"
        );
        assert_eq!(
            wait.within(77),
            "api.unpaywall.org until 16:18 UTC: the host is paused after failures"
        );
        assert!(wait.within(50).ends_with("the host is pa\u{2026}"));
    }
}
