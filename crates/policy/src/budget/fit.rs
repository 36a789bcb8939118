//! The first instant at which a request fits every window of a budget.
//!
//! For each window, the permit that must leave the window first is looked up, and the width of the
//! window is added to its instant. The latest of the resulting instants applies. Expected uses
//! count like used permits: those of requests that connect, or that wait with an earlier position.

use super::{Budget, Reservation};
use crate::pacing::{FitMode, Spacing};
use crate::rate::Window;
use crate::ring::{BucketRing, EXACT_LIMIT};
use crate::time::BootInstant;
use crate::windows::{Multiplier, Windows};

/// The shortest stagger between requests in microseconds: about the resolution of timers.
const SHORTEST_TURN: u64 = 2_000;
/// The longest stagger between requests in microseconds: about the delay with which a sleeping task
/// wakes.
const MAX_STAGGER_MICROS: u64 = 25_000;

/// An expected use of a budget: its instant and its weight.
pub(crate) type CountedUse = (BootInstant, u32);

/// The first instant at which a request fits all windows, and the window that decides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowFit {
    /// The first instant at which the request fits.
    pub at: BootInstant,
    /// The [`Window`] that requires the longest wait, if any.
    pub because: Option<Window>,
}

impl Budget {
    /// Finds the first instant from `from` on at which `weight` fits all [`Windows`], if only used
    /// permits count. Also returns the index of the window that decides, unless `from` already
    /// fits.
    #[inline]
    pub(crate) fn plain_fit(
        &self,
        windows: &Windows,
        weight: u32,
        from: BootInstant,
        pace: FitMode,
    ) -> (BootInstant, Option<usize>) {
        let (mut at, mut latest) = (from, None);
        for (index, rule) in windows.rules().iter().enumerate() {
            let k = (rule.limit + 1).saturating_sub(weight);
            let used = if rule.exact {
                self.ring.back(k)
            } else {
                self.coarse
                    .iter()
                    .find(|coarse| coarse.id() == rule.id)
                    .and_then(|coarse| coarse.back(k))
            };
            if let Some(used) = used {
                let free = used.plus_micros(rule.width);
                if free > at {
                    (at, latest) = (free, Some(index));
                }
            }
        }
        if windows.spacings().is_empty() {
            return (at, latest);
        }
        let spacings = windows.spacings().iter().enumerate();
        for (index, spacing) in
            spacings.filter(|(_, spacing)| self.holds(windows, spacing, pace, from))
        {
            let (weight, width) = spaced_weight(spacing, spacing.width(), weight);
            let k = spacing.window().limit.get() + 1 - weight;
            if let Some(used) = self.ring.back(k)
                && used.plus_micros(width) > at
            {
                let index = windows.list().len() + index;
                (at, latest) = (used.plus_micros(width), Some(index));
            }
        }
        (at, latest)
    }

    /// Returns whether a [`Spacing`] applies to a request. Spacing applies only to paced requests.
    /// If the spacing spreads a long window, the backlog must exceed the rest of that window.
    #[inline]
    fn holds(
        &self,
        windows: &Windows,
        spacing: &Spacing,
        pace: FitMode,
        from: BootInstant,
    ) -> bool {
        let FitMode::Even { backlog } = pace else {
            return false;
        };
        let Some(index) = spacing.spread_of() else {
            return spacing.holds_for(backlog);
        };
        let (window, rule) = (&windows.list()[index], &windows.rules()[index]);
        backlog > rule.limit
            || backlog > 0
                && self
                    .used_back(window, rule.limit + 1 - backlog)
                    .is_some_and(|used| used.plus_micros(rule.width) > from)
    }

    /// Finds the first instant from `from` on at which `weight` fits every window, after the uses
    /// in `counted` and behind a queue with the weight `ahead`. `counted` is sorted by instant, and
    /// contains no instant before now.
    ///
    /// The result is exact if `ahead` is `None`. With a queue and several windows, the result is a
    /// lower bound. The time is O(windows x counted^2).
    #[inline]
    #[must_use]
    pub(crate) fn first_fit(
        &self,
        windows: &Windows,
        weight: u32,
        ahead: Option<u32>,
        counted: &[CountedUse],
        from: BootInstant,
        pace: FitMode,
    ) -> WindowFit {
        if weight == 0 {
            return WindowFit {
                at: from,
                because: None,
            };
        }
        if counted.is_empty() && self.multiplier == Multiplier::FULL && ahead.is_none() {
            let (at, index) = self.plain_fit(windows, weight, from, pace);
            return WindowFit {
                at,
                because: index.map(|index| windows.at(index)),
            };
        }
        self.first_fit_among(windows, weight, ahead, counted, from, pace)
    }

    /// Finds the first instant as `first_fit` does, if uses are counted, a queue is ahead or the
    /// rate is reduced.
    #[cold]
    fn first_fit_among(
        &self,
        windows: &Windows,
        weight: u32,
        ahead: Option<u32>,
        counted: &[CountedUse],
        from: BootInstant,
        pace: FitMode,
    ) -> WindowFit {
        let mut fit = WindowFit {
            at: from,
            because: None,
        };
        loop {
            let before = fit.at;
            for in_force in windows.in_force(self.multiplier) {
                // Behind a queue, each window starts from `from`: the result is a lower bound, and
                // a later start would count the queue twice.
                let start = if ahead.is_none() { fit.at } else { from };
                let at = self.fit_window(in_force, weight, ahead.unwrap_or(0), counted, start);
                if at > fit.at {
                    fit = WindowFit {
                        at,
                        because: Some(*in_force.0),
                    };
                }
            }
            for spacing in windows.spacings() {
                if !self.holds(windows, spacing, pace, from) {
                    continue;
                }
                let width = Windows::spacing_width(spacing, self.multiplier);
                let (start, (weight, width)) = if ahead.is_none() {
                    (fit.at, spaced_weight(spacing, width, weight))
                } else {
                    (from, (weight.min(spacing.window().limit.get()), width))
                };
                let in_force = (spacing.window(), width);
                let at = self.fit_window(in_force, weight, ahead.unwrap_or(0), counted, start);
                if at > fit.at {
                    let because = Some(*spacing.window());
                    fit = WindowFit { at, because };
                }
            }
            // One iteration is enough, unless counted uses exist: a later window may move the
            // instant to a point at which a counted use conflicts with an earlier window.
            if fit.at == before || counted.is_empty() || ahead.is_some() {
                return fit;
            }
        }
    }

    /// Returns the instant at which a new request is staggered behind requests that are due now or
    /// within one stagger. Returns `None` if there are no such requests, or if the stagger would be
    /// finer than timers.
    ///
    /// A stagger is a quarter of the time per permit in the fastest window. A staggered burst is
    /// over within a quarter of that window, so the rate is not lowered.
    pub(crate) fn turn_behind(&self, windows: &Windows, now: BootInstant) -> Option<WindowFit> {
        let of_window =
            |(window, width): (&Window, u64)| width / (4 * u64::from(window.limit.get()));
        let turn = windows
            .in_force(self.multiplier)
            .map(of_window)
            .min()
            .filter(|turn| *turn >= SHORTEST_TURN)?
            .min(MAX_STAGGER_MICROS);
        let near = |reservation: &&Reservation| {
            reservation.is_waiting()
                && reservation.weight > 0
                && reservation.at <= now.plus_micros(turn)
        };
        let last = self
            .reservations
            .iter()
            .filter(near)
            .max_by_key(|reservation| reservation.at)?;
        Some(WindowFit {
            at: last.at.max(now).plus_micros(turn),
            because: windows.list().first().copied(),
        })
    }

    /// Finds the first instant from `from` on that fits one [`Window`] with its current width, in
    /// microseconds.
    #[inline]
    fn fit_window(
        &self,
        (window, width): (&Window, u64),
        weight: u32,
        ahead: u32,
        counted: &[CountedUse],
        from: BootInstant,
    ) -> BootInstant {
        // The last of the `ahead + weight` units is fitted into the first window, at the position
        // `rest`. Its instant is then moved by a number of whole windows.
        let last = ahead.saturating_add(weight).saturating_sub(1);
        // Divisions are slow, and the first window almost always has enough free permits.
        let limit = window.limit.get();
        let (turns, rest) = if last < limit {
            (0, last)
        } else {
            (last / limit, last % limit)
        };
        let k = limit - rest;
        let mut at = from;
        loop {
            let before = self
                .back_at(window, k, counted, at)
                .map_or(at, |used| at.max(used.plus_micros(width)));
            if before > at {
                at = before;
                continue;
            }
            // If a later counted use would no longer fit after a request at this instant, the
            // request goes after that use.
            let crowded = counted.iter().map(|(expected, _)| *expected).find(|later| {
                *later > at
                    && *later < at.plus_micros(width)
                    && self
                        .back_at(window, k, counted, *later)
                        .is_some_and(|used| used.plus_micros(width) > *later)
            });
            match crowded {
                Some(later) => at = later,
                None => return at.plus_micros(width * u64::from(turns)),
            }
        }
    }

    /// Returns the instant of the `k`-th latest unit at or before `at`, among counted uses and used
    /// permits. Counted uses are searched first, because no [`CountedUse`] is earlier than now.
    #[inline]
    fn back_at(
        &self,
        window: &Window,
        mut k: u32,
        counted: &[CountedUse],
        at: BootInstant,
    ) -> Option<BootInstant> {
        for (expected, weight) in counted.iter().rev().filter(|(expected, _)| *expected <= at) {
            if k <= *weight {
                return Some(*expected);
            }
            k -= weight;
        }
        self.used_back(window, k)
    }

    /// Returns the instant of the `k`-th latest permit in the history of a [`Window`].
    #[inline]
    pub(super) fn used_back(&self, window: &Window, k: u32) -> Option<BootInstant> {
        if window.limit.get() <= EXACT_LIMIT {
            self.ring.back(k)
        } else {
            self.coarse_of(window)?.back(k)
        }
    }

    #[inline]
    pub(super) fn coarse_of(&self, window: &Window) -> Option<&BucketRing> {
        self.coarse.iter().find(|coarse| coarse.window() == *window)
    }
}

/// Returns the weight and the width that a request has in a [`Spacing`]. A weight above the limit
/// counts as the limit, and widens the distance in proportion.
#[inline]
fn spaced_weight(spacing: &Spacing, width: u64, weight: u32) -> (u32, u64) {
    let limit = spacing.window().limit.get();
    if weight <= limit {
        return (weight, width);
    }
    let more = width * u64::from(weight - limit) / u64::from(limit);
    (limit, width + more)
}
