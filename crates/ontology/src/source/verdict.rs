//! What a request means for the next step that brought nothing to read.

use std::time::Duration;

use docstokg_hub::RetryLater;
use url::Url;

use super::Absence;

/// What a request that gave no file and no response means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is of no use to ask again.
    Never(Absence, Option<u16>),
    /// Come back after this time.
    Later(Duration, Absence, Option<u16>),
    /// A host is paused, throttles, may be down or is out of reach: come back when it says.
    Paused(RetryLater, Absence, Option<u16>),
    /// The run was cancelled before it was sent.
    Cancelled,
    /// The run cannot go on: the disk is full or cannot be written.
    Halt(String),
}

/// A request of a look-up that brought nothing to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedRequest {
    /// Where it went; absent where a file was to be read.
    pub url: Option<Box<Url>>,
    /// What it means.
    pub verdict: Verdict,
}

impl FailedRequest {
    /// Tells whether the host may respond another time.
    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        matches!(self.verdict, Verdict::Later(..) | Verdict::Paused(..))
    }
}
