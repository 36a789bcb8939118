//! What became of a work, in the words of every text and table.

use docstokg_bulk::queue::ItemState;

use crate::reason::Reason;

/// The result of a work.
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
}

impl ResultStatus {
    /// Returns the word of tables and JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Downloaded => "downloaded",
            Self::NotOpen => "not_open",
            Self::Blocked => "blocked",
            Self::Failed => "failed",
            Self::Waiting => "waiting",
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
}
