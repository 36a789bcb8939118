//! What came of fetching a candidate location.

use std::time::Duration;

use docstokg_hub::{Head, SavedFile};

use crate::bot_challenge::BotChallenge;
use crate::evidence::Evidence;
use crate::location::Location;
use crate::reason::Reason;
use crate::request_failure::RequestFailure;
use crate::sniff::Payload;
use crate::work::Learned;
use crate::work_state::Kind;

/// What came of a candidate location.
pub(crate) enum Fetched {
    /// A good file lies in the staging place.
    File(Box<Arrived>),
    /// It is a page, and these are the locations that it names.
    Page(Box<Page>),
    /// The host prepares the file, and may state how long that takes.
    Preparing(Option<Duration>),
    /// No file.
    Failed {
        failure: RequestFailure,
        /// There is nothing at the URL: archives may have a copy.
        gone: bool,
    },
}

/// A page that came where a file was wanted.
pub(crate) struct Page {
    pub(crate) locations: Vec<Location>,
    pub(crate) learned: Learned,
    pub(crate) head: Head,
}

/// A good file in its staging place.
pub(crate) struct Arrived {
    pub(crate) head: Head,
    pub(crate) file: SavedFile,
    pub(crate) kind: Kind,
    pub(crate) payload: Payload,
    /// What the file itself says for being the right one.
    pub(crate) evidence: Evidence,
}

pub(super) fn nothing(reason: Reason, detail: String, status: Option<u16>) -> Fetched {
    Fetched::Failed {
        failure: RequestFailure::new(reason, detail, status),
        gone: false,
    }
}

pub(super) fn challenged(host: &str, challenge: BotChallenge, status: Option<u16>) -> Fetched {
    let reason = match challenge {
        BotChallenge::Robots { .. } => Reason::BotChallenge,
        BotChallenge::Interstitial { .. } => Reason::Interstitial,
    };
    nothing(reason, challenge.sentence(host), status)
}
