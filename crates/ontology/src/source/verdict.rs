//! The effect of a failed request on the next step of a pull.

use std::time::Duration;

use docstokg_hub::RetryLater;
use url::Url;

use super::Absence;

/// The way in which a pull continues after a request that brought neither a file nor a usable
/// response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Do not repeat the request; the [`Absence`] is final.
    Never(Absence, Option<u16>),
    /// Repeat the request after this time.
    Later(Duration, Absence, Option<u16>),
    /// Repeat the request when its host permits: the host is paused, throttles, may be down or
    /// cannot be reached.
    Paused(RetryLater, Absence, Option<u16>),
    /// The run was cancelled before the request was sent.
    Cancelled,
    /// The run cannot continue: the disk is full or cannot be written.
    Halt(String),
}

/// A request of a look-up that brought no response for the source to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedRequest {
    /// The URL of the request; `None` for a file on disk.
    pub url: Option<Box<Url>>,
    /// The way in which the pull continues.
    pub verdict: Verdict,
}

impl FailedRequest {
    /// Returns true if a later request may succeed.
    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        matches!(self.verdict, Verdict::Later(..) | Verdict::Paused(..))
    }
}
