//! The outcome of fetching a candidate location.

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

/// The outcome of fetching a [`CandidateLocation`].
pub(crate) enum FetchOutcome {
    /// The fetch brought a good file, which is in the staging directory.
    File(Box<StagedFile>),
    /// The response is a page, which may name further locations.
    Page(Box<ArtifactPage>),
    /// The host prepares the file, and may declare how long that takes.
    Preparing(Option<Duration>),
    /// The fetch brought no file.
    Failed {
        failure: RequestFailure,
        /// The URL leads to nothing: archives may have a copy.
        gone: bool,
    },
}

/// A page that was returned in place of a file.
pub(crate) struct ArtifactPage {
    pub(crate) locations: Vec<CandidateLocation>,
    pub(crate) learned: LearnedMetadata,
    pub(crate) head: ResponseHead,
}

/// A good file in the staging directory.
pub(crate) struct StagedFile {
    pub(crate) head: ResponseHead,
    pub(crate) file: SavedFile,
    pub(crate) kind: ArtifactKind,
    pub(crate) payload: Payload,
    /// The [`Evidence`] in the file that it belongs to the work.
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
