//! The reasons why a caller may not send now.

use std::time::Duration;

use docstokg_policy::rate::Window;
use docstokg_stores::StoreError;

use super::key::{KeyError, ServiceKey};
use super::rate::short;

/// The cause of a refusal, for a caller that can react to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The key has a cooldown.
    Cooldown,
    /// The host requested a pause, its breaker is open, or all its slots are in use.
    HostPaused,
    /// Waiting callers have precedence; the number is their total weight.
    Queue(u32),
}

impl Hint {
    /// Returns the word used in events and messages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cooldown => "cooldown",
            Self::HostPaused => "host paused",
            Self::Queue(_) => "queue",
        }
    }
}

/// The reason why [`Facade::acquire`](crate::facade::Facade::acquire) did not return a permit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcquireError {
    /// A limit is reached, and the caller does not wait.
    #[error("{}", exceeded(.key, .window.as_ref(), *.retry_in, *.hint))]
    Exceeded {
        /// The key whose limit is reached.
        key: ServiceKey,
        /// The [`Window`] that is used up.
        window: Option<Window>,
        /// The time after which the same call may succeed, if no other request comes first.
        retry_in: Duration,
        /// The cause of the refusal, if it is not a window.
        hint: Option<Hint>,
    },
    /// The weight is larger than a window allows.
    #[error(
        "a weight of {weight} never fits into the windows of {key}, which allow {limit} at most: \
         use a smaller weight or a larger limit"
    )]
    Weight {
        /// The key whose windows are too small.
        key: ServiceKey,
        /// The weight of the request.
        weight: u32,
        /// The largest weight that fits.
        limit: u32,
    },
    /// The weight is zero, so there is no request to permit.
    #[error("a weight of 0 asks for nothing: give the number of requests, 1 or more")]
    NoWeight,
    /// The call has an invalid service or host.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The length of a cooldown is invalid.
    #[error("a cooldown of {0} seconds is not a time: give a number of zero or more")]
    Cooldown(String),
    /// The shared state cannot be reached.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn exceeded(
    key: &ServiceKey,
    window: Option<&Window>,
    retry_in: Duration,
    hint: Option<Hint>,
) -> String {
    let left = format!("{:.3} s", retry_in.as_secs_f64());
    match (hint, window) {
        (Some(Hint::Cooldown), _) => format!("{key} has a cooldown for another {left} (cooldown)"),
        (Some(Hint::HostPaused), _) => {
            format!("the host of {key} is paused for another {left} (host paused)")
        }
        (Some(Hint::Queue(waiting)), _) => {
            format!("{waiting} requests wait for {key} already, and come first (queue)")
        }
        (None, Some(window)) => {
            format!("{key} has used up {}; retry in {left}", short(window))
        }
        (None, None) => format!("{key} has no room now; retry in {left}"),
    }
}
