//! Requests, responses and bounds, as a [`Learner`](super::Learner) sees them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::rate::Window;
use crate::time::BootInstant;

/// The bounds that configuration sets for a [`Learner`](super::Learner).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LearnBounds {
    /// The longest distance between requests that a learned limit may require.
    pub slowest: Duration,
    /// The highest rate, even if the host admits more.
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
    /// This instant, or now if the instant has passed.
    At(BootInstant),
    /// The instant of the response to a request in flight, or `at_latest`, whichever is first.
    AfterResponse {
        /// The instant at which the learner stops waiting for the requests in flight.
        at_latest: BootInstant,
    },
}

/// A request in flight, which the caller returns to the learner with the response.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SentRequest {
    pub(super) at: BootInstant,
    /// The number of other requests in flight at the time; `None` if unknown.
    pub(super) others: Option<u16>,
    pub(super) purpose: SendPurpose,
}

impl SentRequest {
    /// Describes a request that was sent before its learner began.
    pub(crate) fn before_learning(at: BootInstant) -> Self {
        Self {
            at,
            others: None,
            purpose: SendPurpose::Paced,
        }
    }

    /// Returns when the request was sent.
    pub(crate) fn at(&self) -> BootInstant {
        self.at
    }
}

/// The reason why a request was sent at its instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum SendPurpose {
    /// The client had no request to send before, so the response says nothing about higher rates.
    AppLimited,
    /// The request was sent at the first instant that the limits allowed.
    Paced,
    /// The request tests a confirmed limit, as one request more than the limit allows.
    Probe,
}

/// The response of a host, as far as limits are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostResponse {
    /// The host served the request.
    Served,
    /// The host admitted the request without a resource for it (404, 403). Such a response costs
    /// the host little, so it never raises a rate.
    Neutral,
    /// The host refused the request as one too many.
    Throttled {
        /// The instant before which the host wants no request.
        retry_after: Option<BootInstant>,
    },
    /// The host is down: 5xx, or no connection.
    Outage,
    /// The host is down, or refused the request as one too many (503). Its next responses show
    /// which.
    Unavailable,
    /// Any other result, including no response. Such a result never raises a rate.
    Other,
}
