//! The questions and answers of a learner: bounds, instants, requests and responses.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::rate::Window;
use crate::time::BootInstant;

/// The bounds that configuration sets a learner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LearnBounds {
    /// Learned limits never ask for a longer distance between requests than this.
    pub slowest: Duration,
    /// The highest rate, however much a host admits.
    pub up_to: Option<Window>,
}

impl Default for LearnBounds {
    fn default() -> Self {
        Self {
            slowest: Duration::from_secs(60),
            up_to: None,
        }
    }
}

/// The instant of the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextRequest {
    /// At this instant, or now if it has passed.
    At(BootInstant),
    /// Not before a request in flight is answered, or this instant, whichever is first.
    AfterResponse {
        /// When the learner gives the requests in flight up.
        at_latest: BootInstant,
    },
}

/// A request on its way; goes back to the learner with the answer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SentRequest {
    pub(super) at: BootInstant,
    /// The number of other requests that were on their way; `None` where that is not known.
    pub(super) others: Option<u16>,
    pub(super) purpose: SendPurpose,
}

impl SentRequest {
    /// A request that was sent before its learner began.
    pub(crate) fn before_learning(at: BootInstant) -> Self {
        Self {
            at,
            others: None,
            purpose: SendPurpose::Paced,
        }
    }

    /// Returns when it was sent.
    pub(crate) fn at(&self) -> BootInstant {
        self.at
    }
}

/// The reason for which a request was sent at its instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum SendPurpose {
    /// The client had nothing to send before: it says nothing about higher rates.
    AppLimited,
    /// As soon as the limits allowed.
    Paced,
    /// As a request more than a confirmed limit allows.
    Probe,
}

/// The response of a host, as far as it concerns limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostResponse {
    /// The host served the request.
    Served,
    /// The host admitted the request, and has nothing for it (404, 403): that is quick to say, so
    /// it never raises a rate.
    Neutral,
    /// The host refused the request as one too many.
    Throttled {
        /// The instant before which it wants no request.
        retry_after: Option<BootInstant>,
    },
    /// The host is down: 5xx, or no connection.
    Outage,
    /// The host is down, or refused the request as one too many (503): what it serves next tells.
    Unavailable,
    /// Anything else, and requests without an answer. It never raises a rate.
    Other,
}
