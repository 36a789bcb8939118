//! What became of the lines of a list: one set of words and counts for the terminal, the report, the
//! tables and JSON.
//!
//! A line names a work, repeats one, or is not recognised. A work is downloaded, waits, or is without
//! a file for one of three causes: it is not openly available, its site blocks programs, or something
//! failed.

mod delivered_work;
mod row;
mod table;

pub(crate) use delivered_work::link;
pub use delivered_work::{DeliveredFile, DeliveredWork};
pub use row::{ColumnValue, ResultRow, RowPlace};
pub use table::{ResultTable, csv_cell};

use docstokg_bulk::queue::{ItemState, LineCounts, OutcomeTotal, QueueError, WorkQueue};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::reason::Reason;

/// The result of one line of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResultStatus {
    /// The file of its work is there.
    Downloaded,
    /// No source offers the work openly: no copy is known, or access is refused.
    NotOpen,
    /// The site keeps programs out, or a rule of the user does.
    Blocked,
    /// The file may be there, and could not be got.
    Failed,
    /// The work is still to do.
    Waiting,
    /// An earlier line names the same work.
    Repeated,
    /// The line names no work.
    Unrecognised,
}

impl ResultStatus {
    /// Every status, in the order of the documents.
    pub const ALL: [Self; 7] = [
        Self::Downloaded,
        Self::NotOpen,
        Self::Blocked,
        Self::Failed,
        Self::Waiting,
        Self::Repeated,
        Self::Unrecognised,
    ];

    /// Returns the word of tables and JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Downloaded => "downloaded",
            Self::NotOpen => "not_open",
            Self::Blocked => "blocked",
            Self::Failed => "failed",
            Self::Waiting => "waiting",
            Self::Repeated => "repeated",
            Self::Unrecognised => "not_recognised",
        }
    }

    /// Returns the words for a person.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Downloaded => "downloaded",
            Self::NotOpen => "not openly available",
            Self::Blocked => "blocked",
            Self::Failed => "failed",
            Self::Waiting => "waiting",
            Self::Repeated => "repeated in the list",
            Self::Unrecognised => "not recognised",
        }
    }

    /// Returns the status of a work that stands here. A reason that is not known counts as a failure.
    #[must_use]
    pub fn of_work(state: ItemState, reason: Option<Reason>, http_status: Option<u16>) -> Self {
        match state {
            ItemState::Done => Self::Downloaded,
            ItemState::Queued | ItemState::Leased => Self::Waiting,
            ItemState::Failed => match (reason, http_status) {
                (Some(Reason::NotFound | Reason::HtmlOnly), _)
                | (Some(Reason::HttpStatus), Some(401 | 402 | 403 | 451)) => Self::NotOpen,
                (
                    Some(
                        Reason::BotChallenge
                        | Reason::Interstitial
                        | Reason::RobotsDisallowed
                        | Reason::InternalAddress,
                    ),
                    _,
                ) => Self::Blocked,
                _ => Self::Failed,
            },
        }
    }

    /// Tells whether a work of this status is without a file, and no longer waits for one.
    #[must_use]
    pub const fn is_without_file(self) -> bool {
        matches!(self, Self::NotOpen | Self::Blocked | Self::Failed)
    }
}

/// Numbers of the lines of a directory by status. Each work counts once, and each further line
/// that names it as repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResultCounts {
    by_status: [u64; ResultStatus::ALL.len()],
    /// Works whose result an earlier run recorded; they are among the others.
    pub known: u64,
}

impl ResultCounts {
    /// Reads the counts of a directory. Works that another run than `run_id` ended are known.
    ///
    /// # Errors
    /// The queue cannot be read.
    pub async fn read(queue: &WorkQueue, run_id: &str) -> Result<Self, QueueError> {
        let outcomes = queue.outcomes(run_id.to_owned()).await?;
        Ok(Self::of(&outcomes, queue.line_counts().await?))
    }

    /// Sums up works and lines.
    #[must_use]
    pub fn of(outcomes: &[OutcomeTotal], lines: LineCounts) -> Self {
        let mut counts = Self::default();
        for outcome in outcomes {
            let reason = outcome.reason.as_deref().and_then(Reason::read);
            let status = ResultStatus::of_work(outcome.state, reason, outcome.http_status);
            counts.add(status, outcome.items);
            counts.known += if outcome.is_earlier { outcome.items } else { 0 };
        }
        counts.add(ResultStatus::Repeated, lines.named - lines.items);
        counts.add(ResultStatus::Unrecognised, lines.unrecognised);
        counts
    }

    /// Reads the counts of a summary, as they are serialized; `None` if an earlier version wrote it.
    #[must_use]
    pub fn of_summary(summary: &Value) -> Option<Self> {
        let number = |key: &str| summary.get("results")?.get(key)?.as_u64();
        let mut counts = Self {
            known: number("known")?,
            ..Self::default()
        };
        for status in ResultStatus::ALL {
            counts.add(status, number(status.as_str())?);
        }
        Some(counts)
    }

    /// Counts lines.
    pub fn add(&mut self, status: ResultStatus, lines: u64) {
        self.by_status[status as usize] += lines;
    }

    /// Returns how many lines have a status.
    #[must_use]
    pub const fn number(&self, status: ResultStatus) -> u64 {
        self.by_status[status as usize]
    }

    /// Returns how many works there are.
    #[must_use]
    pub const fn works(&self) -> u64 {
        self.number(ResultStatus::Downloaded)
            + self.without_file()
            + self.number(ResultStatus::Waiting)
    }

    /// Returns how many works are without a file, those that wait left out.
    #[must_use]
    pub const fn without_file(&self) -> u64 {
        self.number(ResultStatus::NotOpen)
            + self.number(ResultStatus::Blocked)
            + self.number(ResultStatus::Failed)
    }

    /// Returns how many lines there are.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.by_status.iter().sum()
    }

    /// Describes the works without a file: `54 without a file: 42 not openly available, 12 failed`.
    #[must_use]
    pub fn without_file_in_words(&self) -> String {
        let causes = ResultStatus::ALL.into_iter().filter(|status| {
            // A cause of which there is no case says nothing.
            status.is_without_file() && self.number(*status) > 0
        });
        let causes: Vec<String> = causes
            .map(|status| format!("{} {}", self.number(status), status.words()))
            .collect();
        let all = self.without_file();
        if causes.is_empty() {
            format!("{all} without a file")
        } else {
            format!("{all} without a file: {}", causes.join(", "))
        }
    }

    /// Describes the lines beside the works, if there are such lines:
    /// `60 known from an earlier run, 3 repeated in the list, 1 line not recognised`.
    #[must_use]
    pub fn lines_in_words(&self) -> Option<String> {
        let unrecognised = self.number(ResultStatus::Unrecognised);
        let lines = if unrecognised == 1 { "line" } else { "lines" };
        let parts = [
            (self.known, "known from an earlier run".to_owned()),
            (
                self.number(ResultStatus::Repeated),
                ResultStatus::Repeated.words().to_owned(),
            ),
            (
                unrecognised,
                format!("{lines} {}", ResultStatus::Unrecognised.words()),
            ),
        ];
        let parts = parts.into_iter().filter(|(number, _)| *number > 0);
        let parts: Vec<String> = parts
            .map(|(number, words)| format!("{number} {words}"))
            .collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

impl Serialize for ResultCounts {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let statuses = ResultStatus::ALL.map(|status| (status.as_str(), self.number(status)));
        to.collect_map(statuses.into_iter().chain([
            ("known", self.known),
            ("lines", self.lines()),
            ("without_file", self.without_file()),
            ("works", self.works()),
        ]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(state: ItemState, reason: Option<&str>, items: u64) -> OutcomeTotal {
        OutcomeTotal {
            state,
            reason: reason.map(str::to_owned),
            http_status: None,
            is_earlier: false,
            items,
        }
    }

    #[test]
    fn every_work_and_every_line_is_counted_once() {
        let outcomes = [
            OutcomeTotal {
                is_earlier: true,
                ..outcome(ItemState::Done, None, 3)
            },
            outcome(ItemState::Done, None, 2),
            outcome(ItemState::Failed, Some("not_found"), 4),
            outcome(ItemState::Failed, Some("bot_challenge"), 5),
            outcome(ItemState::Failed, Some("of a later version"), 1),
            OutcomeTotal {
                http_status: Some(403),
                ..outcome(ItemState::Failed, Some("http_status"), 2)
            },
            outcome(ItemState::Failed, Some("http_status"), 6),
            outcome(ItemState::Queued, None, 7),
        ];
        let lines = LineCounts {
            named: 33,
            items: 30,
            unrecognised: 1,
        };
        let counts = ResultCounts::of(&outcomes, lines);
        assert_eq!((counts.works(), counts.lines()), (30, 34));
        assert_eq!(
            counts.without_file_in_words(),
            "18 without a file: 6 not openly available, 5 blocked, 7 failed"
        );
        assert_eq!(
            counts.lines_in_words().as_deref(),
            Some("3 known from an earlier run, 3 repeated in the list, 1 line not recognised")
        );
        let summary = serde_json::json!({ "results": counts });
        assert_eq!(ResultCounts::of_summary(&summary), Some(counts));
        assert_eq!(
            summary["results"],
            serde_json::json!({
                "downloaded": 5, "not_open": 6, "blocked": 5, "failed": 7, "waiting": 7,
                "repeated": 3, "not_recognised": 1, "known": 3, "lines": 34,
                "without_file": 18, "works": 30
            })
        );
    }

    #[test]
    fn what_did_not_happen_is_not_said() {
        let counts = ResultCounts::default();
        assert_eq!(counts.without_file_in_words(), "0 without a file");
        assert_eq!(counts.lines_in_words(), None);
    }
}
