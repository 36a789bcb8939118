//! Why a caller may not send now.

use std::time::Duration;

use docstokg_policy::rate::Window;
use docstokg_stores::StoreError;

use super::key::{KeyError, ServiceKey};
use super::rate::short;

/// What a caller could do something about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// The key has a cooldown.
    Cooldown,
    /// The host asked for no requests, or its breaker is open.
    HostPaused,
    /// So much weight waits already, and comes first.
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

/// Why a caller may not send now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcquireError {
    /// There is no room, and the caller does not wait.
    #[error("{}", exceeded(.key, .window.as_ref(), *.retry_in, *.hint))]
    Exceeded {
        /// The key.
        key: ServiceKey,
        /// The window that is used up.
        window: Option<Window>,
        /// After which time the same call could succeed, if no other came first.
        retry_in: Duration,
        /// What holds it back, where it is not a window.
        hint: Option<Hint>,
    },
    /// The weight never fits.
    #[error(
        "a weight of {weight} never fits into the windows of {key}, which allow {limit} at most: \
         use a smaller weight or a larger limit"
    )]
    Weight {
        /// The key.
        key: ServiceKey,
        /// The weight.
        weight: u32,
        /// The largest that fits.
        limit: u32,
    },
    /// A weight of zero asks for no request.
    #[error("a weight of 0 asks for nothing: give the number of requests, 1 or more")]
    NoWeight,
    /// The call names no service or host.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A cooldown of this length is none.
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
            format!("the host of {key} asked for no requests for another {left} (host paused)")
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
