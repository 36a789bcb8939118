//! The distance between requests that follows from the rest of a quota.

use std::num::NonZeroU32;
use std::time::Duration;

use super::super::{QuotaCost, QuotaInstants, QuotaNeed};
use super::{ROUNDED_OFF, TrackedQuota};
use crate::pacing::fill_time;
use crate::rate::Window;
use crate::rate_headers::{MIN_WINDOW, Unit, spread};
use crate::time::BootInstant;
use crate::windows::Windows;

/// The time to a reset from which the whole rest of a quota counts as this client's own, because
/// the use by others could not be noticed.
const FAR_RESET: Duration = Duration::from_secs(60);
/// The length up to which a window counts as short: its distance applies instead of its reset, if
/// no other client shares the quota.
const SHORT_WINDOW: Duration = Duration::from_secs(2);
/// The time for which a quota counts as shared after another client has used it.
const SHARING_MEMORY: Duration = Duration::from_secs(60);
/// The distance below which requests may be sent in bursts.
const BURST_DISTANCE: Duration = Duration::from_millis(50);

impl TrackedQuota {
    /// Returns when a request may be sent; `None` if the quota does not limit it.
    pub(in super::super) fn next(
        &self,
        need: QuotaNeed<'_>,
        cost: QuotaCost,
        now: BootInstant,
    ) -> Option<QuotaInstants> {
        // A request without a cost in this quota is not limited by its rest.
        let amount = self.amount(cost)?;
        let is_kept = self.slides || (self.is_short(now) && self.is_held_by(need.windows));
        let left = self.left.filter(|(_, reset)| *reset > now && !is_kept);
        let Some((left, reset)) = left else {
            // If the rest is unknown, as many requests as the window allows may be sent at once.
            // Later requests keep even distances.
            let even = self.window_gap(amount)?;
            let gap = self.fill_gap(need, amount, now).unwrap_or(even);
            let paced = self.due_after(gap, need.earlier);
            let at_once = self.window.unwrap_or_default().saturating_sub(even);
            return Some(QuotaInstants {
                paced: paced.max(now),
                earliest: (paced - at_once).max(now),
                window: self.shown(now),
            });
        };
        let left = left / amount;
        let fill_gap = self.fill_gap(need, amount, now);
        if need.earlier >= left {
            let behind = need.earlier - left;
            let gap =
                (fill_gap.or_else(|| self.window_gap(amount))).or_else(|| self.period_gap(amount));
            return Some(QuotaInstants {
                paced: reset + gap.unwrap_or_default() * behind,
                earliest: reset,
                window: self.shown(now),
            });
        }
        let is_plenty = (1..=left).contains(&need.backlog) && self.is_own(reset, now);
        let paced = if is_plenty {
            now
        } else {
            let gap = fill_gap.unwrap_or_else(|| self.gap(left, amount, reset));
            self.due_after(gap, need.earlier).clamp(now, reset)
        };
        Some(QuotaInstants {
            paced,
            earliest: now,
            window: self.shown(now),
        })
    }

    /// Returns the distance between requests that use `amount` each, if `left` of them remain. The
    /// distance is that of the declared window. If fewer requests remain than fit at this distance
    /// until the reset, other clients share the quota, and the rest is spread evenly.
    pub(super) fn gap(&self, left: u32, amount: NonZeroU32, reset: BootInstant) -> Duration {
        let time = reset.since(self.due);
        // Counts one request more than remain, so that the first request of the next period keeps
        // the distance, too.
        let even = spread(left.saturating_add(1), time).unwrap_or_default();
        let Some(gap) = self.window_gap(amount) else {
            return even;
        };
        let used = time.saturating_sub(ROUNDED_OFF).as_micros() / gap.as_micros().max(1);
        if u128::from(left) < used {
            even.max(gap)
        } else {
            gap
        }
    }

    /// Returns the distance at which a run of few windows fills a window that no other client
    /// shares; `None` if requests are spread evenly.
    fn fill_gap(
        &self,
        need: QuotaNeed<'_>,
        amount: NonZeroU32,
        now: BootInstant,
    ) -> Option<Duration> {
        let limit = NonZeroU32::new(self.limit? / amount)?;
        // A quota without a window lasts at least until the farthest reset that was declared.
        let window = Window::new(limit, self.window.unwrap_or(self.period));
        let is_own = self.unit == Unit::Requests && self.shared_at + SHARING_MEMORY <= now;
        let time = fill_time(&window, need.backlog).filter(|_| is_own)?;
        Some(time / limit.get())
    }

    /// Returns the scheduled instant of a request behind `earlier` others. Requests behind their
    /// schedule keep half the distance.
    fn due_after(&self, gap: Duration, earlier: u32) -> BootInstant {
        let count = earlier.saturating_add(1);
        let due = self.due + gap * count;
        if gap < BURST_DISTANCE {
            return due;
        }
        due.max(self.last + gap / 2 * count)
    }

    /// Returns whether the rest of the quota is this client's own. This is so if no other client
    /// has used the quota for a while, or if the reset is so distant that others cannot be noticed.
    fn is_own(&self, reset: BootInstant, now: BootInstant) -> bool {
        reset.since(now) >= FAR_RESET || self.shared_at + SHARING_MEMORY <= now
    }

    /// Returns whether the window is too short for resets in whole seconds, and no other client
    /// shares it.
    pub(super) fn is_short(&self, now: BootInstant) -> bool {
        let is_own = self.unit == Unit::Requests && self.shared_at + SHARING_MEMORY <= now;
        is_own && self.limit > Some(0) && self.window.is_some_and(|window| window <= SHORT_WINDOW)
    }

    /// Returns whether the configured [`Windows`] of a request already ensure the declared limit.
    fn is_held_by(&self, windows: Option<&Windows>) -> bool {
        let stated = self.limit.zip(self.window);
        stated.zip(windows).is_some_and(|((limit, per), windows)| {
            let mut list = windows.list().iter();
            list.any(|window| window.per == per && window.limit.get() <= limit)
        })
    }

    /// Returns the even distance, in the declared window, of requests that use `amount` each. The
    /// windows of the budget ensure that the declared window is never exceeded.
    pub(super) fn window_gap(&self, amount: NonZeroU32) -> Option<Duration> {
        let limit = self.limit.filter(|limit| *limit > 0)?;
        let window = self.window.filter(|window| *window >= MIN_WINDOW)?;
        Some(window.saturating_mul(amount.get()) / limit)
    }

    /// Returns the distance that uses the limit in the longest declared time to a reset.
    fn period_gap(&self, amount: NonZeroU32) -> Option<Duration> {
        spread((self.limit? / amount).saturating_add(1), self.period)
    }

    /// Returns the limit to show as a [`Window`]: the rest until the reset, or the declared window.
    fn shown(&self, now: BootInstant) -> Option<Window> {
        let (count, per) = match self.left {
            Some((left, reset)) => (left, reset.since(now)),
            None => (self.limit?, self.window?),
        };
        let per = Duration::from_millis(u64::try_from(per.as_millis()).ok()?.max(1));
        Some(Window::new(
            NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN),
            per,
        ))
    }
}
