//! Even pacing: requests at equal distances instead of bursts.
//!
//! Exact windows let a whole window go at once, and a leaky bucket, a GCRA, an interpolated or an
//! aligned window at the origin refuses that. Requests at equal distances satisfy each of them and
//! lose nothing in a long run. So a budget gets spacing windows, `k` per `k x W/N`, beside its own.
//!
//! Only its short windows are spaced. A window of a minute or more beside them is used as fast as
//! they allow and then waited for: at 2 a second and 500 an hour, 1,000 requests take 64 minutes so,
//! and two hours at equal distances. Where there is no short window, the shortest of the long ones
//! is spread over a minute.
//!
//! Equal distances cost a run up to one window: its first requests could have gone at once. For a
//! window of a second that is nothing. One of five seconds or more is filled in a tenth of its time
//! by a run of few windows, and spaced evenly by a run of many.
//!
//! Spacing is not a limit: a request that it would refuse goes by the windows alone,
//! though never before a request with an earlier position.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::rate::Window;
use crate::time::micros;

/// How the requests of a budget are spread over its windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Pacing {
    /// As many at once as the windows allow.
    #[default]
    Burst,
    /// At equal distances.
    Even,
}

impl Pacing {
    /// Returns the word of the configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Burst => "burst",
            Self::Even => "even",
        }
    }
}

/// How a request is fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FitMode {
    /// By the windows and their spacing. `backlog` requests of the caller are still to come in each
    /// budget, this one included; zero if it does not know.
    Even {
        /// How many.
        backlog: u32,
    },
    /// By the windows alone.
    Windows,
}

/// Distances shorter than this are spaced in groups, in microseconds: timers are no finer.
const GROUPED_SPACING_MICROS: u64 = 20_000;
/// Distances shorter than this are kept on average, in microseconds: each late wake-up would
/// otherwise be lost.
const AVERAGED_SPACING_MICROS: u64 = 50_000;
/// Over how many distances the average is kept.
const AVERAGED_OVER: u32 = 10;
/// The most that the guard adds to one distance, in microseconds.
const LARGEST_GUARD: u64 = 10_000;
/// The largest group, so that a spacing window is remembered exactly.
const LARGEST_GROUP: u64 = 400;
/// Windows of this length and more are long. One that is spread is spread over this time: servers
/// that count smoothly know seconds and minutes, longer quotas are counters.
const LONG_WINDOW: Duration = Duration::from_secs(60);

/// Short windows of this length and more are filled in a share of their time by a run that is over
/// after a few of them.
const FILLED_FROM: Duration = Duration::from_secs(5);
/// The part of such a window in which it is filled is one in so many.
const FILLED_IN_PART: u32 = 10;
/// Runs of this many windows and more space them evenly: that costs them 2 % at most.
const MANY_WINDOWS: u32 = 50;

/// A spacing window of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spacing {
    window: Window,
    /// The limit whose requests are spaced.
    limit: Window,
    /// The width at the full rate, guard included, in microseconds.
    width: u64,
    /// The guard, in microseconds.
    guard: u64,
    /// The index of the long window that it spreads. It holds only while the backlog exceeds what
    /// that window has left.
    spread_of: Option<usize>,
    /// It holds only for callers with at least this many requests to come, or an unknown number.
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

    /// Returns the window: so many in so much time, without the guard.
    #[must_use]
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Returns the limit whose requests it spaces.
    #[must_use]
    pub fn limit(&self) -> &Window {
        &self.limit
    }

    /// Returns by how much the window is widened.
    #[must_use]
    pub fn guard(&self) -> Duration {
        Duration::from_micros(self.guard)
    }

    /// Returns the index of the long window that it spreads.
    #[must_use]
    pub fn spread_of(&self) -> Option<usize> {
        self.spread_of
    }

    /// Returns whether a caller with this many requests to come obeys it; zero if the caller does
    /// not know.
    #[inline]
    #[must_use]
    pub fn holds_for(&self, backlog: u32) -> bool {
        backlog == 0 || backlog >= self.smallest_backlog
    }

    /// Returns the width at the full rate, guard included, in microseconds.
    #[inline]
    pub(crate) fn width(&self) -> u64 {
        self.width
    }
}

/// Returns the spacing windows of those windows of a list that are spaced: those of the slowest short
/// window, or that of the shortest long one where there is no short window.
pub(crate) fn spacings(list: &[Window], is_spaced: impl Fn(&Window) -> bool) -> Vec<Spacing> {
    let distance = |window: &Window| micros(window.per) / u64::from(window.limit.get());
    let slowest = |below: Duration| {
        let short = (list.iter()).filter(|window| window.per < below && is_spaced(window));
        short.max_by_key(|window| distance(window))
    };
    if let Some(window) = slowest(LONG_WINDOW) {
        let mut spacings = of_short(window);
        if window.per >= FILLED_FROM {
            // While it is filled, the shorter ones are what is spaced.
            spacings.extend(slowest(FILLED_FROM).map(evenly).unwrap_or_default());
        }
        return spacings;
    }
    let long = (list.iter().enumerate()).filter(|(_, window)| is_spaced(window));
    let shortest = long.min_by_key(|(_, window)| window.per);
    let spread = shortest.filter(|(_, window)| window.limit.get() > 1);
    spread.map_or_else(Vec::new, |(index, window)| vec![of_long(index, window)])
}

/// Returns the spacing window of a long window.
fn of_long(index: usize, window: &Window) -> Spacing {
    spread_over(window, window.per.min(LONG_WINDOW), Some(index))
}

/// Returns a spacing window that spreads the requests of a window over a shorter time.
fn spread_over(window: &Window, time: Duration, spread_of: Option<usize>) -> Spacing {
    let distance = micros(time) / u64::from(window.limit.get());
    let group = group_at(distance);
    let guard = (group * distance / 50).min(LARGEST_GUARD);
    Spacing::new(*window, group, group * distance, guard, spread_of)
}

/// Returns how many requests go together at this distance.
fn group_at(distance: u64) -> u64 {
    (GROUPED_SPACING_MICROS / distance.max(1)).clamp(1, LARGEST_GROUP)
}

/// Returns the spacing windows of a short window.
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

/// Returns the spacing windows that keep the requests of a window at equal distances.
fn evenly(window: &Window) -> Vec<Spacing> {
    let limit = u64::from(window.limit.get());
    if limit == 1 {
        // It is its own spacing.
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
        // Never closer than nine tenths of the distance, and the distance itself on average.
        Spacing::new(*window, group, in_time(group) * 9 / 10, 0, None),
        Spacing::new(*window, over, in_time(over), in_time(over) / 50, None),
    ]
}

/// Returns the time in which a caller with so many requests to come fills a window, if it fills the
/// window faster than evenly; zero requests are an unknown number.
pub(crate) fn fill_time(window: &Window, backlog: u32) -> Option<Duration> {
    let is_of_few_windows = backlog > 0 && backlog < few_windows(window);
    let is_filled = (FILLED_FROM..=LONG_WINDOW).contains(&window.per) && is_of_few_windows;
    is_filled.then(|| window.per / FILLED_IN_PART)
}

/// Returns the number of requests from which on a run spaces a window evenly.
fn few_windows(window: &Window) -> u32 {
    window.limit.get().saturating_mul(MANY_WINDOWS)
}

/// Returns the distance of requests that fill a long window, as a share of the even distance, if a
/// share of the window is used: the first half goes fast, the rest ever more slowly, so that a run
/// that ends within the window does not wait for its end.
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

    /// The windows of each spacing in microseconds, guard included.
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
