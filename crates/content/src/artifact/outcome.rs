//! What came of fetching a candidate location.

use std::time::Duration;

use docstokg_hub::{ResponseHead, SavedFile};

use crate::bot_challenge::BotChallenge;
use crate::evidence::Evidence;
use crate::location::CandidateLocation;
use crate::reason::Reason;
use crate::request_failure::RequestFailure;
use crate::sniff::Payload;
use crate::work::LearnedMetadata;
use crate::work_state::ArtifactKind;

/// What came of a candidate location.
pub(crate) enum FetchOutcome {
    /// A good file lies in the staging place.
    File(Box<StagedFile>),
    /// It is a page, and these are the locations that it names.
    Page(Box<ArtifactPage>),
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
pub(crate) struct ArtifactPage {
    pub(crate) locations: Vec<CandidateLocation>,
    pub(crate) learned: LearnedMetadata,
    pub(crate) head: ResponseHead,
}

/// A good file in its staging place.
pub(crate) struct StagedFile {
    pub(crate) head: ResponseHead,
    pub(crate) file: SavedFile,
    pub(crate) kind: ArtifactKind,
    pub(crate) payload: Payload,
    /// What the file itself says for being the right one.
    pub(crate) evidence: Evidence,
}

pub(super) fn nothing(reason: Reason, detail: String, status: Option<u16>) -> FetchOutcome {
    FetchOutcome::Failed {
        failure: RequestFailure::new(reason, detail, status),
        gone: false,
    }
}

pub(super) fn challenged(host: &str, challenge: BotChallenge, status: Option<u16>) -> FetchOutcome {
    let reason = match challenge {
        BotChallenge::Robots { .. } => Reason::BotChallenge,
        BotChallenge::Interstitial { .. } => Reason::Interstitial,
    };
    nothing(reason, challenge.sentence(host), status)
}
