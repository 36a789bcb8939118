//! The windows of a budget as a process applies them, and the share of the rate under adaptive
//! pacing.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::pacing::{self, Pacing, Spacing};
use crate::rate::Window;
use crate::ring::EXACT_LIMIT;
use crate::time::{Timestamp, micros};

mod written;

use written::WrittenWindows;

/// The windows of a budget as a process applies them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WrittenWindows", into = "WrittenWindows")]
pub struct Windows {
    list: Box<[Window]>,
    rules: Box<[WindowRule]>,
    spacings: Box<[Spacing]>,
    guard: Duration,
    pacing: Pacing,
    /// The number of permits that must be recorded one by one for these windows.
    pub(crate) keep: u32,
    pub(crate) has_coarse: bool,
    /// The signature of the windows, by which two lists are compared at once. Never zero.
    pub(crate) signature: u64,
}

/// A [`Window`] whose values are converted once, for the hot path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WindowRule {
    pub(crate) limit: u32,
    /// Set if permits are recorded one by one.
    pub(crate) exact: bool,
    /// The width at the full rate in microseconds, guard included.
    pub(crate) width: u64,
    /// The identifier of the window among large windows.
    pub(crate) id: u64,
}

/// Returns the identifier of a [`Window`], in 64 bits.
pub(crate) fn id_of(window: &Window) -> u64 {
    (u64::from(window.limit.get()) << 32) ^ micros(window.per)
}

/// The longest slot of a process in a rotation, in microseconds.
const MAX_ROTATION_MICROS: u64 = 100_000;
/// The length above which windows are quotas, which the adaptive multiplier does not change.
const MAX_PACING_WINDOW: Duration = Duration::from_secs(60);

/// Returns the length of the slot that a process has in each rotation, in microseconds. A request
/// that wakes after the end of its slot waits for the next one.
fn turn_length(window: &Window) -> u64 {
    (micros(window.per) / (3 * u64::from(window.limit.get()))).min(MAX_ROTATION_MICROS)
}

impl Windows {
    /// Creates windows that apply together, each widened by `guard` against late arrivals at the
    /// origin.
    #[must_use]
    pub fn new(list: impl Into<Box<[Window]>>, guard: Duration) -> Self {
        Self::paced(list, guard, Pacing::Burst)
    }

    /// Creates windows that apply together, with a [`Pacing`].
    #[must_use]
    pub fn paced(list: impl Into<Box<[Window]>>, guard: Duration, pacing: Pacing) -> Self {
        Self::spaced(list.into(), guard, pacing, |_| true)
    }

    /// Creates windows that include those of a host. Declared windows have no spacing, because the
    /// declared remainder paces their requests.
    #[must_use]
    pub fn with_stated(&self, list: impl Into<Box<[Window]>>) -> Self {
        // A window that the host raises keeps its length, and remains spaced.
        let is_own = |window: &Window| {
            let mut own = self.list.iter();
            own.any(|own| own == window || (own.per == window.per && own.limit < window.limit))
        };
        Self::spaced(list.into(), self.guard, self.pacing, is_own)
    }

    fn spaced(
        list: Box<[Window]>,
        guard: Duration,
        pacing: Pacing,
        is_spaced: impl Fn(&Window) -> bool,
    ) -> Self {
        let spacings = match pacing {
            Pacing::Burst => Vec::new(),
            Pacing::Even => pacing::spacings(&list, is_spaced),
        };
        let spaced = spacings.iter().map(|spacing| spacing.window().limit.get());
        let exact = list
            .iter()
            .map(|window| window.limit.get())
            .filter(|limit| *limit <= EXACT_LIMIT);
        let keep = exact.chain(spaced).max().unwrap_or(0);
        let rule = |window: &Window| WindowRule {
            limit: window.limit.get(),
            exact: window.limit.get() <= EXACT_LIMIT,
            width: micros(window.per + guard),
            id: id_of(window),
        };
        let rules: Box<[WindowRule]> = list.iter().map(rule).collect();
        let mix = |mixed: u64, rule: &WindowRule| {
            mixed.rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15)
                ^ rule.id
                ^ rule.width.rotate_left(32)
        };
        let spaced = |mixed: u64, spacing: &Spacing| {
            mixed.rotate_left(11) ^ id_of(spacing.window()) ^ spacing.width().rotate_left(32)
        };
        let signature = spacings.iter().fold(rules.iter().fold(1, mix), spaced) | 1;
        let has_coarse = list.iter().any(|window| window.limit.get() > EXACT_LIMIT);
        Self {
            list,
            rules,
            spacings: spacings.into(),
            guard,
            pacing,
            keep,
            has_coarse,
            signature,
        }
    }

    /// Returns the limits that apply together, without the windows of their spacing.
    #[must_use]
    pub fn list(&self) -> &[Window] {
        &self.list
    }

    /// Returns the [`Spacing`] windows of even pacing.
    #[inline]
    #[must_use]
    pub fn spacings(&self) -> &[Spacing] {
        &self.spacings
    }

    /// Returns the limit whose requests a spacing [`Window`] spaces; `None` if the [`Window`] is
    /// itself a limit.
    #[must_use]
    pub fn limit_spaced_by(&self, window: &Window) -> Option<Window> {
        if self.list.contains(window) {
            return None;
        }
        let mut spacings = self.spacings.iter();
        let spacing = spacings.find(|spacing| spacing.window() == window)?;
        Some(*spacing.limit())
    }

    /// Returns the [`Pacing`] of the windows.
    #[must_use]
    pub fn pacing(&self) -> Pacing {
        self.pacing
    }

    /// Returns the [`Window`] at an index: first the limits, then the windows of their spacing.
    #[inline]
    pub(crate) fn at(&self, index: usize) -> Window {
        match index.checked_sub(self.list.len()) {
            None => self.list[index],
            Some(spacing) => *self.spacings[spacing].window(),
        }
    }

    /// Returns the guard that widens each window.
    #[must_use]
    pub fn guard(&self) -> Duration {
        self.guard
    }

    /// Returns the share of one process among `processes`. The limit is divided; if the share would
    /// be below one, the window is widened instead. The shares never exceed the limit in any
    /// interval, even if all processes burst at once.
    #[must_use]
    pub fn shared_by(&self, processes: u32) -> Self {
        let processes = processes.max(1);
        let share = |window: &Window| match NonZeroU32::new(window.limit.get() / processes) {
            Some(part) => Window::new(part, window.per),
            None => Window::new(
                NonZeroU32::MIN,
                window.per * processes.div_ceil(window.limit.get()),
            ),
        };
        let shares: Vec<Window> = self.list.iter().map(share).collect();
        Self::paced(shares, self.guard, self.pacing)
    }

    /// Returns the time until the next slot of one process among `processes`, for windows that
    /// allow fewer requests than there are processes. With shares alone, requests of several
    /// processes could coincide in one window.
    ///
    /// The result is zero within a slot, and `None` if no window is that small. The rotation
    /// follows the wall clock, which all machines share, and each slot is for one request.
    #[must_use]
    pub fn next_turn(&self, rank: u32, processes: u32, wall: Timestamp) -> Option<Duration> {
        let small = self
            .list
            .iter()
            .filter(|window| window.limit.get() < processes);
        let length = small.clone().map(turn_length).min()?;
        // The distance between slots, so that no window exceeds its limit even if every request
        // goes late in its slot.
        let spacing = small
            .map(|window| {
                (micros(window.per + self.guard) + length).div_ceil(window.limit.get().into())
            })
            .max()?;
        let cycle = spacing * u64::from(processes);
        let begin = spacing * u64::from(rank % processes);
        let since = (wall
            .as_micros()
            .rem_euclid(i64::try_from(cycle).unwrap_or(i64::MAX))
            .unsigned_abs()
            + cycle
            - begin)
            % cycle;
        Some(if since < length {
            Duration::ZERO
        } else {
            Duration::from_micros(cycle - since)
        })
    }

    /// Returns the largest weight that a single request may have.
    #[must_use]
    pub fn largest_weight(&self) -> u32 {
        self.list
            .iter()
            .map(|window| window.limit.get())
            .min()
            .unwrap_or(u32::MAX)
    }

    /// Returns the current width of a window. The [`Multiplier`] stretches pacing windows; the
    /// guard widens every window.
    pub(crate) fn width(&self, window: &Window, multiplier: Multiplier) -> Duration {
        if window.per <= MAX_PACING_WINDOW {
            multiplier.stretch(window.per) + self.guard
        } else {
            window.per + self.guard
        }
    }

    /// Returns the current width of a [`Spacing`], in microseconds.
    #[inline]
    pub(crate) fn spacing_width(spacing: &Spacing, multiplier: Multiplier) -> u64 {
        if multiplier == Multiplier::FULL {
            spacing.width()
        } else {
            micros(multiplier.stretch(spacing.window().per) + spacing.guard())
        }
    }

    /// Returns the windows at the full rate, in the order of the list.
    #[inline]
    pub(crate) fn rules(&self) -> &[WindowRule] {
        &self.rules
    }

    /// Returns each [`Window`] with its current width.
    #[inline]
    pub(crate) fn in_force(&self, multiplier: Multiplier) -> impl Iterator<Item = (&Window, u64)> {
        let full = multiplier == Multiplier::FULL;
        self.list
            .iter()
            .zip(&self.rules)
            .map(move |(window, rule)| {
                (
                    window,
                    if full {
                        rule.width
                    } else {
                        micros(self.width(window, multiplier))
                    },
                )
            })
    }
}

/// The share of the configured rate under adaptive pacing, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Multiplier(u16);

impl Multiplier {
    /// The whole configured rate.
    pub const FULL: Self = Self(1_000);

    /// Creates a multiplier from a share, limited to the range from a hundredth to one.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to 10..=1000 first"
    )]
    pub fn from_share(share: f64) -> Self {
        Self((share * 1_000.0).round().clamp(10.0, 1_000.0) as u16)
    }

    /// Returns the share of the rate.
    #[must_use]
    pub fn share(self) -> f64 {
        f64::from(self.0) / 1_000.0
    }

    /// Creates a multiplier from thousandths.
    #[must_use]
    pub fn from_thousandths(thousandths: u16) -> Self {
        Self(thousandths.clamp(10, 1_000))
    }

    /// Returns the share in thousandths.
    #[must_use]
    pub fn thousandths(self) -> u16 {
        self.0
    }

    fn stretch(self, per: Duration) -> Duration {
        if self == Self::FULL {
            per
        } else {
            per * 1_000 / u32::from(self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::parse_rates;

    /// Simulates processes that each send once in each of their slots, early or late. Returns the
    /// time of each request, and its process.
    fn sent_in_turns(windows: &Windows, processes: u32) -> Vec<(i64, u32)> {
        let mut state = 7_u64;
        let mut random = |most: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            i64::try_from((state >> 33) % most).unwrap()
        };
        let mut sent = Vec::new();
        let span = 400_000_000;
        for rank in 0..processes {
            let mut now = random(1_000_000);
            while now < span {
                let wait = windows
                    .next_turn(rank, processes, Timestamp::from_micros(now))
                    .unwrap();
                if wait.is_zero() {
                    sent.push((now, rank));
                    // Continues after this slot.
                    now += i64::try_from(MAX_ROTATION_MICROS).unwrap();
                } else {
                    let late = random(40_000);
                    now += i64::try_from(micros(wait)).unwrap() + late;
                }
            }
        }
        sent
    }

    /// Every process sends once in each of its slots, early or late. No window exceeds its limit,
    /// and every process gets its slots at nearly the full rate.
    #[test]
    fn turns_of_more_processes_than_a_window_allows_never_meet() {
        for (rates, processes) in [
            ("4/SECOND", 6),
            ("1/SECOND", 8),
            ("2/SECOND+5/10SECOND", 9),
            ("1/3SECOND", 2),
            ("7/MINUTE", 40),
        ] {
            let windows = Windows::new(parse_rates(rates).unwrap(), Duration::from_millis(10));
            let mut sent = sent_in_turns(&windows, processes);
            sent.sort_unstable();
            for window in windows.list() {
                let (limit, width) = (
                    window.limit.get() as usize,
                    i64::try_from(micros(window.per)).unwrap(),
                );
                for many in sent.windows(limit + 1) {
                    assert!(
                        many[limit].0 - many[0].0 >= width,
                        "{rates}, {processes}: {} in {}",
                        limit + 1,
                        many[limit].0 - many[0].0
                    );
                }
            }
            assert!(
                (0..processes)
                    .all(|rank| sent.iter().filter(|(_, other)| *other == rank).count() > 0),
                "{rates}: every process gets a turn"
            );
        }
        assert_eq!(
            Windows::new(parse_rates("8/SECOND").unwrap(), Duration::ZERO).next_turn(
                0,
                8,
                Timestamp::from_micros(0)
            ),
            None
        );
    }
}
