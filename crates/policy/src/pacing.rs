//! Even pacing: requests at equal distances instead of bursts.
//!
//! A host may count with a leaky bucket, a GCRA, or interpolated or aligned windows. Each of these
//! refuses a burst that an exact window allows, and each accepts requests at equal distances. Even
//! pacing loses no throughput in a long run. A budget therefore has spacing windows ([`Spacing`]),
//! `k` requests per `k x W/N`, beside its own.
//!
//! - If a budget has windows below a minute, only the slowest of these is spaced. Longer windows
//!   are used up fast, and then waited for. At 2 a second and 500 an hour, 1,000 requests take
//!   64 minutes instead of two hours.
//! - If a budget has only windows of a minute or more, the shortest is spread over a minute.
//! - A window of five seconds to a minute depends on the run. A run of few windows fills each in a
//!   tenth of its length, and a run of many windows spaces them evenly.
//!
//! Spacing is not a limit. If only spacing would refuse a request, the windows alone decide, but
//! the request never overtakes one with an earlier position.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::rate::Window;
use crate::time::micros;

/// The distribution of the requests of a budget over its windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Pacing {
    /// Bursts: as many requests at once as the windows allow.
    #[default]
    Burst,
    /// Equal distances between requests, as [`Spacing`] windows describe them.
    Even,
}

impl Pacing {
    /// Returns the word of the configuration for this [`Pacing`].
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Burst => "burst",
            Self::Even => "even",
        }
    }
}

/// The windows that a request must fit in a budget: with or without their spacing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FitMode {
    /// The windows and their [`Spacing`].
    Even {
        /// The number of requests that the caller still has in each budget, this one included. Zero
        /// if the caller does not know.
        backlog: u32,
    },
    /// The windows without their [`Spacing`].
    Windows,
}

/// The distance in microseconds below which requests are spaced in groups, because timers are no
/// finer.
const GROUPED_SPACING_MICROS: u64 = 20_000;
/// The distance in microseconds below which the distance applies on average, to make up for late
/// wake-ups.
const AVERAGED_SPACING_MICROS: u64 = 50_000;
/// The number of distances over which the average applies.
const AVERAGED_OVER: u32 = 10;
/// The largest guard of one distance, in microseconds.
const LARGEST_GUARD: u64 = 10_000;
/// The largest group of requests whose spacing window the ring records exactly.
const LARGEST_GROUP: u64 = 400;
/// The length from which a window counts as long, and the time over which a long window is spread.
/// Servers that count smoothly use seconds and minutes; longer quotas are counters.
const LONG_WINDOW: Duration = Duration::from_secs(60);

/// The length from which a short window is filled in a share of its time, if the run needs only a
/// few windows.
const FILLED_FROM: Duration = Duration::from_secs(5);
/// The length up to which a window is filled in a share of its time: a minute, plus the rounding of
/// hosts that declare it.
const FILLED_UP_TO: Duration = Duration::from_secs(62);
/// The divisor of a window's length that gives the time in which the window is filled.
const FILLED_IN_PART: u32 = 10;
/// The number of windows from which the requests of a run are spaced evenly, which costs the run 2
/// % at most.
const MANY_WINDOWS: u32 = 50;

/// A spacing window of a budget, derived from one of its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spacing {
    window: Window,
    /// The limit whose requests are spaced.
    limit: Window,
    /// The width at the full rate in microseconds, guard included.
    width: u64,
    /// The addition to the width, in microseconds.
    guard: u64,
    /// The index of the long window that is spread, if any. Spacing then applies only while the
    /// backlog exceeds the rest of that window.
    spread_of: Option<usize>,
    /// The smallest backlog of a caller to which spacing applies. An unknown backlog always counts
    /// as large enough.
    smallest_backlog: u32,
}

impl Spacing {
    fn new(limit: Window, group: u64, per: u64, guard: u64, spread_of: Option<usize>) -> Self {
        let count = u32::try_from(group).ok().and_then(NonZeroU32::new);
        Self {
            window: Window::new(count.unwrap_or(NonZeroU32::MIN), Duration::from_micros(per)),
            limit,
            width: per + guard,
            guard,
            spread_of,
            smallest_backlog: 0,
        }
    }

    /// Returns the spacing [`Window`], without the guard.
    #[must_use]
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Returns the limit whose requests are spaced.
    #[must_use]
    pub fn limit(&self) -> &Window {
        &self.limit
    }

    /// Returns the time by which the window is widened.
    #[must_use]
    pub fn guard(&self) -> Duration {
        Duration::from_micros(self.guard)
    }

    /// Returns the index of the long window that is spread, if any.
    #[must_use]
    pub fn spread_of(&self) -> Option<usize> {
        self.spread_of
    }

    /// Returns whether spacing applies to a caller with a backlog; zero is an unknown backlog.
    #[inline]
    #[must_use]
    pub fn holds_for(&self, backlog: u32) -> bool {
        backlog == 0 || backlog >= self.smallest_backlog
    }

    /// Returns the width at the full rate in microseconds, guard included.
    #[inline]
    pub(crate) fn width(&self) -> u64 {
        self.width
    }
}

/// Returns the [`Spacing`] windows for a list of windows: those of the slowest short window or,
/// without a short window, that of the shortest long one.
pub(crate) fn spacings(list: &[Window], is_spaced: impl Fn(&Window) -> bool) -> Vec<Spacing> {
    let distance = |window: &Window| micros(window.per) / u64::from(window.limit.get());
    let slowest = |below: Duration| {
        let short = (list.iter()).filter(|window| window.per < below && is_spaced(window));
        short.max_by_key(|window| distance(window))
    };
    if let Some(window) = slowest(LONG_WINDOW) {
        let mut spacings = of_short(window);
        if window.per >= FILLED_FROM {
            // While a run fills this window fast, the shorter windows must space its requests
            // evenly.
            spacings.extend(slowest(FILLED_FROM).map(evenly).unwrap_or_default());
        }
        return spacings;
    }
    let long = (list.iter().enumerate()).filter(|(_, window)| is_spaced(window));
    let shortest = long.min_by_key(|(_, window)| window.per);
    let spread = shortest.filter(|(_, window)| window.limit.get() > 1);
    spread.map_or_else(Vec::new, |(index, window)| vec![of_long(index, window)])
}

/// Returns the [`Spacing`] of a long window.
fn of_long(index: usize, window: &Window) -> Spacing {
    spread_over(window, window.per.min(LONG_WINDOW), Some(index))
}

/// Returns the [`Spacing`] that spreads the requests of a window over a shorter time.
fn spread_over(window: &Window, time: Duration, spread_of: Option<usize>) -> Spacing {
    let distance = micros(time) / u64::from(window.limit.get());
    let group = group_at(distance);
    let guard = (group * distance / 50).min(LARGEST_GUARD);
    Spacing::new(*window, group, group * distance, guard, spread_of)
}

/// Returns the number of requests in a group at a distance in microseconds.
fn group_at(distance: u64) -> u64 {
    (GROUPED_SPACING_MICROS / distance.max(1)).clamp(1, LARGEST_GROUP)
}

/// Returns the [`Spacing`] windows of a short window.
fn of_short(window: &Window) -> Vec<Spacing> {
    let mut spacings = evenly(window);
    if window.per >= FILLED_FROM && !spacings.is_empty() {
        for even in &mut spacings {
            even.smallest_backlog = few_windows(window);
        }
        spacings.push(spread_over(window, window.per / FILLED_IN_PART, None));
    }
    spacings
}

/// Returns the [`Spacing`] windows that keep the requests of a window at equal distances.
fn evenly(window: &Window) -> Vec<Spacing> {
    let limit = u64::from(window.limit.get());
    if limit == 1 {
        // A window of one request already keeps its requests apart.
        return Vec::new();
    }
    let in_time = |group: u64| micros(window.per) * group / limit;
    let distance = in_time(1);
    let guard = (distance / 50).min(LARGEST_GUARD);
    if distance >= AVERAGED_SPACING_MICROS {
        return vec![Spacing::new(*window, 1, distance, guard, None)];
    }
    let group = group_at(distance);
    let over = group * u64::from(AVERAGED_OVER);
    vec![
        // Two requests are never closer than nine tenths of the distance; the average is the
        // distance.
        Spacing::new(*window, group, in_time(group) * 9 / 10, 0, None),
        Spacing::new(*window, over, in_time(over), in_time(over) / 50, None),
    ]
}

/// Returns the time in which a caller fills a [`Window`], if the caller fills it faster than
/// evenly. A backlog of zero is unknown.
pub(crate) fn fill_time(window: &Window, backlog: u32) -> Option<Duration> {
    let is_of_few_windows = backlog > 0 && backlog < few_windows(window);
    let is_filled = (FILLED_FROM..=FILLED_UP_TO).contains(&window.per) && is_of_few_windows;
    is_filled.then(|| window.per / FILLED_IN_PART)
}

/// Returns the smallest backlog of a run that spaces a [`Window`] evenly.
fn few_windows(window: &Window) -> u32 {
    window.limit.get().saturating_mul(MANY_WINDOWS)
}

/// Returns the distance between requests that fill a long window, as a share of the even distance.
/// The first half of the window is used fast, and the second half more and more slowly. A run that
/// ends within the window therefore does not wait for its end.
pub(crate) fn fill_distance(used: f64) -> f64 {
    0.1 + 1.8 * (used - 0.5).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::parse_rates;

    #[test]
    fn a_run_of_few_windows_fills_one_of_seconds_in_a_tenth_of_its_time() {
        let widths = |rates: &str, backlog: u32| -> Vec<u64> {
            let list = parse_rates(rates).unwrap();
            let spacings = spacings(&list, |_| true);
            let holding = spacings.iter().filter(|spacing| spacing.holds_for(backlog));
            holding.map(Spacing::width).collect()
        };
        assert_eq!(widths("25/7SECOND", 173), [28_560]);
        assert_eq!(widths("25/7SECOND", 1_249), [28_560]);
        assert_eq!(widths("25/7SECOND", 1_250), [285_600, 28_560]);
        assert_eq!(widths("25/7SECOND", 0), [285_600, 28_560]);
        assert_eq!(widths("10/SECOND", 12), [102_000]);
        assert_eq!(widths("8/SECOND+50/10SECOND", 100), [20_400, 127_500]);
    }

    /// Returns the limit, the width in microseconds and the spread window of each [`Spacing`].
    fn spaced(rates: &str) -> Vec<(u32, u64, Option<usize>)> {
        let list = parse_rates(rates).unwrap();
        let shown =
            |spacing: &Spacing| (spacing.window.limit.get(), spacing.width, spacing.spread_of);
        spacings(&list, |_| true).iter().map(shown).collect()
    }

    #[test]
    fn a_window_is_spaced_at_ninety_eight_percent_of_its_rate() {
        assert_eq!(spaced("10/SECOND"), [(1, 102_000, None)]);
        assert_eq!(spaced("1/3SECOND"), []);
        assert_eq!(
            spaced("2/10SECOND"),
            [(1, 5_010_000, None), (1, 510_000, None)]
        );
        assert_eq!(
            spaced("40/SECOND"),
            [(1, 22_500, None), (10, 255_000, None)]
        );
        assert_eq!(
            spaced("200/SECOND"),
            [(4, 18_000, None), (40, 204_000, None)]
        );
    }

    #[test]
    fn only_the_slowest_short_window_is_spaced() {
        assert_eq!(
            spaced("10/SECOND+20/10SECOND"),
            [(1, 510_000, None), (1, 51_000, None), (1, 102_000, None)]
        );
        assert_eq!(spaced("2/SECOND+500/HOUR"), [(1, 510_000, None)]);
        assert_eq!(spaced("4/SECOND+40/MINUTE"), [(1, 255_000, None)]);
        assert_eq!(spaced("1/2SECOND+100000/DAY"), []);
    }

    #[test]
    fn a_long_window_without_a_short_one_is_spread_over_a_minute() {
        assert_eq!(spaced("300/MINUTE"), [(1, 204_000, Some(0))]);
        assert_eq!(spaced("600/HOUR"), [(1, 102_000, Some(0))]);
        assert_eq!(spaced("900/HOUR+30/MINUTE"), [(1, 2_010_000, Some(1))]);
        assert_eq!(spaced("1/HOUR"), []);
    }
}
