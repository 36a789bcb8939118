//! Limits that the search has confirmed, and their spacing of requests.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::request_log::RequestLog;
use super::units::{LearnerInstant, RequestRate, Seconds, stored_instant};
use crate::pacing::fill_distance;

/// The quantity that a server counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum LimitShape {
    /// Requests in any interval of a length.
    Window {
        /// The length of the interval.
        seconds: f32,
    },
    /// Requests in flight at the same time.
    Cap,
    /// Requests per second, without a burst.
    Rate,
}

/// A limit that agrees with the responses of a host.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConfirmedLimit {
    /// The quantity that the server counts.
    pub shape: LimitShape,
    /// The number of requests that the server admits.
    pub amount: f32,
    /// The number of refusals that the limit explains.
    pub seen: u16,
    /// The amount before the last raise; `before_raises` is the amount before all raises in a row.
    pub(super) before_step: f32,
    pub(super) before_raises: f32,
    #[serde(with = "stored_instant")]
    pub(super) raised_at: Option<LearnerInstant>,
    /// The number of refusals that were not probes, and that the limit did not predict.
    pub(super) surprises: u8,
}

impl ConfirmedLimit {
    pub(super) fn new(shape: LimitShape, amount: f64, seen: u16) -> Self {
        Self::of(shape, amount as f32, seen)
    }

    /// Creates a limit for a window of `n` requests that explains `seen` refusals.
    pub(super) fn of_window(n: f64, window: Seconds, seen: u16) -> Self {
        let seconds = window.narrow().0;
        Self::new(LimitShape::Window { seconds }, n, seen)
    }

    /// Creates a limit that explains `seen` refusals.
    #[must_use]
    pub fn of(shape: LimitShape, amount: f32, seen: u16) -> Self {
        Self {
            shape,
            amount,
            seen,
            before_step: amount,
            before_raises: amount,
            raised_at: None,
            surprises: 0,
        }
    }

    /// Returns whether shape and amount are the same, without regard to the number of refusals.
    #[must_use]
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.shape == other.shape && (self.amount - other.amount).abs() < 0.5
    }

    pub(super) fn n(&self) -> f64 {
        f64::from(self.amount)
    }

    /// Returns whether the limit counts the requests of an interval.
    pub(super) fn is_window(&self) -> bool {
        self.window().0 > 0.0
    }

    /// Returns the length of the interval; zero for a limit of another [`LimitShape`].
    pub(super) fn window(&self) -> Seconds {
        match self.shape {
            LimitShape::Window { seconds } => Seconds(seconds).wide(),
            LimitShape::Cap | LimitShape::Rate => Seconds(0.0),
        }
    }

    /// Returns the [`RequestRate`] that the limit allows.
    pub(super) fn rate(&self, round_trip: Seconds) -> RequestRate {
        match self.shape {
            LimitShape::Window { .. } => self.n() / self.window(),
            LimitShape::Cap => self.n() / round_trip.max(Seconds(0.001)),
            LimitShape::Rate => RequestRate(self.n()),
        }
    }

    /// Raises the amount, and stores the earlier amount.
    pub(super) fn raise(&mut self, amount: f64, now: LearnerInstant) {
        if !self.was_raised(now) {
            self.before_raises = self.amount;
        }
        self.before_step = self.amount;
        self.amount = self.amount.max(amount as f32);
        self.raised_at = Some(now);
    }

    /// Reverts a recent raise that a refusal contradicts. Returns whether there was a recent raise.
    pub(super) fn take_back(&mut self, now: LearnerInstant) -> bool {
        if !self.was_raised(now) || self.amount <= self.before_raises {
            return false;
        }
        self.amount = if self.amount > self.before_step {
            self.before_step
        } else {
            self.before_raises
        };
        true
    }

    /// Returns whether the last raise is recent, and therefore doubtful.
    fn was_raised(&self, now: LearnerInstant) -> bool {
        let doubtful = (3.0 * self.window()).max(Seconds(15.0));
        self.raised_at.is_some_and(|at| now - at < doubtful)
    }
}

impl fmt::Display for ConfirmedLimit {
    /// Writes the limit in words: `10 per 5 s, seen 3 times`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shape {
            LimitShape::Window { seconds } => {
                let tenths = (seconds * 10.0).round() / 10.0;
                write!(f, "{} per {tenths} s", self.amount.round())?;
            }
            LimitShape::Cap => write!(f, "{} at once", self.amount.round())?,
            LimitShape::Rate if self.amount >= 1.0 => write!(f, "{:.1} per s", self.amount)?,
            LimitShape::Rate => write!(f, "1 per {:.1} s", 1.0 / self.amount.max(1e-6))?,
        }
        match self.seen {
            1 => write!(f, ", seen once"),
            times => write!(f, ", seen {times} times"),
        }
    }
}

/// The pace of requests that never exceeds a window of `n` requests.
pub(super) struct WindowPace {
    pub(super) n: f64,
    pub(super) window: Seconds,
    pub(super) margin: Seconds,
    pub(super) last_sent: LearnerInstant,
}

impl WindowPace {
    /// Returns the first instant at which a request does not exceed the window.
    pub(super) fn next(&self, log: &RequestLog, now: LearnerInstant) -> LearnerInstant {
        let full = log.nth_last(self.n.floor());
        let free = full.map(|at| at + self.window + self.margin);
        let gap = self.window / self.n;
        if self.window < Seconds(5.0) {
            return LearnerInstant::later(free, self.last_sent + 1.005 * gap);
        }
        // A long window that was empty for a while fills faster than requests leave it, so requests
        // are spaced. If the window was used up, requests follow at the instants at which others
        // leave.
        let is_used_up = free.is_some_and(|free| free >= self.last_sent);
        let filled = if is_used_up {
            0.0
        } else {
            log.count(self.window, now) / self.n
        };
        let spaced = fill_distance(filled).min(0.98) * gap;
        LearnerInstant::later(free, self.last_sent + spaced)
    }
}
