//! Limits that the search has confirmed, and how each paces requests.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::log::Log;
use crate::pacing::fill_distance;

/// What a server counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Shape {
    /// Requests in any interval of so many seconds.
    Window {
        /// The length of the interval.
        seconds: f32,
    },
    /// Requests at once.
    Cap,
    /// Requests per second, without a burst.
    Rate,
}

/// A limit that the answers of a host agree with.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Confirmed {
    /// What the server counts.
    pub shape: Shape,
    /// How many it admits.
    pub amount: f32,
    /// How many refusals it explains.
    pub seen: u16,
    /// The amount before the last raise, and before all raises in a row.
    pub(super) before_step: f32,
    pub(super) before_raises: f32,
    pub(super) raised_at: f64,
    /// Refusals that no probe caused.
    pub(super) surprises: u8,
}

impl Confirmed {
    pub(super) fn new(shape: Shape, amount: f64, seen: u16) -> Self {
        Self::of(shape, amount as f32, seen)
    }

    /// Describes a limit that explains so many refusals.
    #[must_use]
    pub fn of(shape: Shape, amount: f32, seen: u16) -> Self {
        Self {
            shape,
            amount,
            seen,
            before_step: amount,
            before_raises: amount,
            raised_at: super::LONG_AGO,
            surprises: 0,
        }
    }

    /// Returns whether this is the same limit, whatever it has seen.
    #[must_use]
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.shape == other.shape && (self.amount - other.amount).abs() < 0.5
    }

    pub(super) fn n(&self) -> f64 {
        f64::from(self.amount)
    }

    /// Returns the length of the interval in seconds: zero unless it is a window.
    pub(super) fn window(&self) -> f64 {
        match self.shape {
            Shape::Window { seconds } => f64::from(seconds),
            Shape::Cap | Shape::Rate => 0.0,
        }
    }

    /// Returns the rate that it allows, requests per second.
    pub(super) fn rate(&self, round_trip: f64) -> f64 {
        match self.shape {
            Shape::Window { seconds } => self.n() / f64::from(seconds),
            Shape::Cap => self.n() / round_trip.max(0.001),
            Shape::Rate => self.n(),
        }
    }

    /// Raises the amount, and remembers what it was.
    pub(super) fn raise(&mut self, amount: f64, now: f64) {
        let continues = now - self.raised_at < self.memory();
        if !continues {
            self.before_raises = self.amount;
        }
        self.before_step = self.amount;
        self.amount = self.amount.max(amount as f32);
        self.raised_at = now;
    }

    /// Takes a raise back that a refusal contradicts; returns whether there was one.
    pub(super) fn take_back(&mut self, now: f64) -> bool {
        if now - self.raised_at >= self.memory() || self.amount <= self.before_raises {
            return false;
        }
        self.amount = if self.amount > self.before_step {
            self.before_step
        } else {
            self.before_raises
        };
        true
    }

    /// Returns how long a raise is doubtful, in seconds.
    fn memory(&self) -> f64 {
        (3.0 * self.window()).max(15.0)
    }
}

impl fmt::Display for Confirmed {
    /// Writes the limit in words: `10 per 5 s, seen 3 times`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shape {
            Shape::Window { seconds } => {
                let tenths = (seconds * 10.0).round() / 10.0;
                write!(f, "{} per {tenths} s", self.amount.round())?;
            }
            Shape::Cap => write!(f, "{} at once", self.amount.round())?,
            Shape::Rate if self.amount >= 1.0 => write!(f, "{:.1} per s", self.amount)?,
            Shape::Rate => write!(f, "1 per {:.1} s", 1.0 / self.amount.max(1e-6))?,
        }
        match self.seen {
            1 => write!(f, ", seen once"),
            times => write!(f, ", seen {times} times"),
        }
    }
}

/// A window to be kept: so many in so many seconds.
pub(super) struct Pace {
    pub(super) n: f64,
    pub(super) window: f64,
    pub(super) margin: f64,
    pub(super) last_sent: f64,
}

impl Pace {
    /// Returns the first instant that keeps the window, evenly spaced.
    pub(super) fn next(&self, log: &Log, now: f64) -> f64 {
        let free =
            (log.nth_last(self.n.floor())).map_or(f64::MIN, |at| at + self.window + self.margin);
        let gap = self.window / self.n;
        // A long window that was empty for a while is filled faster than it could be emptied.
        let spaced = if self.window >= 5.0 {
            gap * fill_distance(log.count(self.window, now) / self.n).min(0.98)
        } else {
            1.005 * gap
        };
        free.max(self.last_sent + spaced)
    }
}
