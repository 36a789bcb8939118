//! One stated quota: what is left of it, and the distance between requests that follows.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Need, QuotaCost, Turn};
use crate::rate::Window;
use crate::rate_headers::{MIN_WINDOW, Quota, Source, Unit, spread};
use crate::time::BootInstant;
use crate::windows::Windows;

/// How long a statement without a reset is believed.
pub(super) const MEMORY: Duration = Duration::from_secs(3_600);
/// From this time to the reset on a quota is taken as this client's alone.
const LONG: Duration = Duration::from_secs(60);
/// By how much two statements of one reset differ at most: headers round to whole seconds.
const ROUNDING: Duration = Duration::from_millis(1_500);
/// Up to this length a window is kept without regard to its reset, as long as no other client shares
/// it.
const SHORT: Duration = Duration::from_secs(2);
/// How long another client is believed to share a quota.
const SHARED_MEMORY: Duration = Duration::from_secs(60);
/// What a reset is short of where seconds are rounded down.
const ROUNDED_OFF: Duration = Duration::from_secs(1);
/// Requests at a shorter distance may come in bursts of this length.
const BURST: Duration = Duration::from_millis(50);
/// How far requests that woke late stay behind their schedule, to catch up with it.
const MAX_LAG: Duration = Duration::from_millis(500);

/// A quota that a host states, as it stands by the permits since.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StatedQuota {
    unit: Unit,
    source: Source,
    partition: Option<Box<str>>,
    limit: Option<u32>,
    window: Option<Duration>,
    /// What is left until the reset.
    left: Option<(u32, BootInstant)>,
    /// The remainder as the host stated it.
    reported: u32,
    /// When the request was permitted whose answer stated it.
    by: BootInstant,
    stated: BootInstant,
    /// The latest permit.
    last: BootInstant,
    /// When it was due on the schedule of even distances.
    due: BootInstant,
    /// The longest time to a reset that was stated.
    period: Duration,
    /// Whether the host rounds the time to a reset down.
    rounds_down: bool,
    /// The reset that has come since the statement: the limit is taken to be left again.
    renewed: Option<BootInstant>,
    /// Whether it counts in a sliding window, of which a little is free again and again.
    slides: bool,
    /// How much was permitted after the request whose answer made the last statement, where that is
    /// known.
    after: Option<u32>,
    /// When more was used than the requests of this site explain: other clients share the quota.
    shared_at: BootInstant,
    /// How many bytes an answer takes of a quota of bytes, by what was left after earlier ones.
    answer_bytes: u32,
    /// How many requests were permitted since the last statement.
    permitted: u32,
}

/// A quota in an answer.
pub(super) struct Remark<'a> {
    pub(super) quota: &'a Quota,
    /// How much was permitted after the request, where that is known.
    pub(super) after: Option<u32>,
    /// When the request was permitted.
    pub(super) sent: BootInstant,
    pub(super) retry_after: Option<Duration>,
    pub(super) is_refusal: bool,
}

impl Remark<'_> {
    /// Returns the remainder and the time to its reset, where both are known.
    fn remaining(&self) -> Option<(u32, Duration)> {
        let remaining = self.quota.remaining?;
        let asked = self.retry_after.filter(|_| remaining == 0);
        let resets_in = asked.or(self.quota.resets_in).or(self.quota.window)?;
        Some((remaining, resets_in))
    }
}

impl StatedQuota {
    pub(super) fn new(remark: &Remark<'_>, now: BootInstant) -> Self {
        let mut own = Self {
            unit: remark.quota.unit,
            source: remark.quota.source,
            partition: remark.quota.partition.clone(),
            limit: None,
            window: remark.quota.window,
            left: None,
            reported: 0,
            by: BootInstant::ZERO,
            stated: now,
            last: remark.sent,
            due: remark.sent,
            period: Duration::ZERO,
            rounds_down: false,
            renewed: None,
            slides: false,
            after: None,
            shared_at: BootInstant::ZERO,
            answer_bytes: 0,
            permitted: 0,
        };
        own.hear(remark, now);
        own
    }

    /// Returns whether it holds back requests of a lane whose host last stated something at an
    /// instant: of several partitions, which are told apart by the host alone, those of the latest
    /// answer do.
    pub(super) fn binds(&self, lane_stated: BootInstant) -> bool {
        self.partition.is_none() || self.stated == lane_stated
    }

    /// Returns whether this is the state of that quota.
    pub(super) fn is_of(&self, quota: &Quota) -> bool {
        // What earlier responses imply may change.
        let is_window_known = self.window == quota.window || quota.source == Source::Implied;
        (self.unit, self.source) == (quota.unit, quota.source)
            && is_window_known
            && self.partition == quota.partition
    }

    /// Takes in a statement. Returns whether it leaves more than was expected.
    ///
    /// Answers may overtake each other: of one period the one to the latest request counts.
    pub(super) fn hear(&mut self, remark: &Remark<'_>, now: BootInstant) -> bool {
        let is_new_period = self.left.is_none()
            || remark
                .quota
                .remaining
                .is_some_and(|now| now > self.reported)
            || self.renewed.is_some_and(|at| remark.sent >= at);
        if remark.sent < self.by || (self.renewed.is_some() && !is_new_period) {
            // Overtaken, but a statement all the same.
            self.stated = now;
            return false;
        }
        if let Some(remaining) = remark.quota.remaining.filter(|_| !is_new_period) {
            self.learn_bytes(remaining);
            if self.is_shared(remaining, remark.after) {
                self.shared_at = now;
            }
        }
        if remark.is_refusal {
            self.shared_at = now;
        }
        self.window = remark.quota.window;
        self.after = remark.after;
        self.permitted = 0;
        (self.by, self.stated) = (remark.sent, now);
        self.limit = remark.quota.limit.or(self.limit);
        let Some((remaining, resets_in)) = remark.remaining() else {
            return false;
        };
        if remark.retry_after.is_none() {
            self.period = self.period.max(resets_in);
            // A reset that is now, with nothing left, lies in the rest of this second.
            self.rounds_down |= remaining == 0 && resets_in.is_zero();
        }
        // In a fixed window one served request at most is the last; the next begins with the limit.
        let is_last_again = remaining == 0 && self.reported == 0 && self.left.is_some();
        self.slides = !remark.is_refusal
            && (self.slides || (is_last_again && self.window.is_some() && self.limit > Some(1)));
        let mut reset = now + resets_in;
        if self.rounds_down {
            reset += ROUNDED_OFF;
        }
        let before = self.left;
        if let Some((_, known)) = before.filter(|_| !is_new_period)
            && reset <= known + ROUNDING
            && known <= reset + ROUNDING
        {
            reset = reset.min(known);
        }
        let left = match (remark.after, before) {
            (Some(after), _) => remaining.saturating_sub(after),
            (None, Some((left, _))) if !is_new_period => remaining.min(left),
            (None, _) => remaining,
        };
        self.left = Some((left, reset));
        (self.reported, self.renewed) = (remaining, None);
        before.is_none_or(|(expected, known)| left > expected || reset < known)
    }

    /// Returns how much a request takes.
    fn amount(&self, cost: QuotaCost) -> Option<NonZeroU32> {
        NonZeroU32::new(match self.unit {
            // Even an answer without bytes waits for a reset when nothing is left.
            Unit::ContentBytes => self.answer_bytes.max(1),
            unit => cost.of(unit),
        })
    }

    /// Returns whether it counts credits, by the word of the host.
    pub(super) fn is_of_credits(&self) -> bool {
        self.unit == Unit::Credits
    }

    /// Returns how many bytes an answer takes, where that is known.
    pub(super) fn answer_bytes(&self) -> u32 {
        self.answer_bytes
    }

    /// Returns whether more was used since the last statement than the requests of this site between
    /// the two explain.
    fn is_shared(&self, remaining: u32, after: Option<u32>) -> bool {
        let used = self.reported.saturating_sub(remaining);
        let own = (self.after.zip(after))
            .map(|(before, after)| before.saturating_add(self.permitted).saturating_sub(after));
        own.is_some_and(|own| used > own)
    }

    /// Learns how many bytes an answer takes.
    fn learn_bytes(&mut self, remaining: u32) {
        let used = self.reported.saturating_sub(remaining);
        if self.unit == Unit::ContentBytes && self.permitted > 0 && used > 0 {
            let each = used / self.permitted;
            self.answer_bytes = match self.answer_bytes {
                0 => each,
                // Half of what is known, so that one large answer does not stop the rest.
                known => known / 2 + each / 2,
            };
        }
    }

    /// Applies the passage of time. After a reset the limit is left again, until the next reset or
    /// statement; without a limit nothing is known.
    pub(super) fn advance(&mut self, now: BootInstant) {
        let Some((_, reset)) = self.left.filter(|(_, reset)| *reset <= now) else {
            return;
        };
        let next = reset + self.period;
        self.left = match self.limit.filter(|limit| *limit > 0) {
            Some(limit) if self.renewed.is_none() && next > now => Some((limit, next)),
            _ => None,
        };
        self.renewed = Some(reset);
    }

    pub(super) fn is_over(&self, now: BootInstant) -> bool {
        self.left.is_none() && self.stated + MEMORY.max(self.window.unwrap_or_default()) <= now
    }

    /// Returns when a request may go; `None` where the quota says nothing.
    pub(super) fn turn(&self, need: Need<'_>, cost: QuotaCost, now: BootInstant) -> Option<Turn> {
        // What costs nothing of it goes whatever is left.
        let amount = self.amount(cost)?;
        let is_kept = self.slides || (self.is_short(now) && self.is_held_by(need.windows));
        let left = self.left.filter(|(_, reset)| *reset > now && !is_kept);
        let Some((left, reset)) = left else {
            // Without a remainder the whole window may be used at once, and then evenly.
            let gap = self.window_gap(amount)?;
            let paced = self.due_after(gap, need.earlier);
            let at_once = self.window.unwrap_or_default().saturating_sub(gap);
            return Some(Turn {
                paced: paced.max(now),
                earliest: (paced - at_once).max(now),
                window: self.shown(now),
            });
        };
        let left = left / amount;
        if need.earlier >= left {
            let behind = need.earlier - left;
            let gap = self.window_gap(amount).or_else(|| self.period_gap(amount));
            return Some(Turn {
                paced: reset + gap.unwrap_or_default() * behind,
                earliest: reset,
                window: self.shown(now),
            });
        }
        let is_plenty = (1..=left).contains(&need.backlog) && self.is_own(reset, now);
        let paced = if is_plenty {
            now
        } else {
            let gap = self.gap(left, amount, reset);
            self.due_after(gap, need.earlier).clamp(now, reset)
        };
        Some(Turn {
            paced,
            earliest: now,
            window: self.shown(now),
        })
    }

    pub(super) fn spend(&mut self, cost: QuotaCost, now: BootInstant) {
        let Some(amount) = self.amount(cost) else {
            return;
        };
        self.permitted = self.permitted.saturating_add(1);
        let is_short = self.is_short(now);
        let gap = match self.left.filter(|_| !self.slides && !is_short) {
            Some((left, reset)) => self.gap(left / amount, amount, reset),
            None => self.window_gap(amount).unwrap_or_default(),
        };
        let due = self.due + gap;
        // Requests that wake a little late do not move the schedule.
        // Of what a short window held back little is caught up: it would come as a burst.
        let part = if is_short && !self.slides { 5 } else { 2 };
        let lag = (self.window.unwrap_or(self.period) / part).min(MAX_LAG);
        let due = match self.left {
            _ if due <= now => due.max(now - lag),
            Some(_) => now,
            None => due,
        };
        self.due = self.due.max(due);
        self.last = self.last.max(now);
        if let Some((left, _)) = &mut self.left {
            *left = left.saturating_sub(amount.get());
        }
    }

    pub(super) fn take_back(&mut self, cost: QuotaCost) {
        let amount = match self.unit {
            // As much as was taken: an answer since may have shown another size.
            Unit::ContentBytes => cost.bytes.max(1),
            unit => cost.of(unit),
        };
        self.permitted = self.permitted.saturating_sub(1);
        if let Some((left, _)) = &mut self.left {
            *left = left.saturating_add(amount);
        }
    }

    pub(super) fn rebase(&mut self, shift: &dyn Fn(BootInstant) -> BootInstant) {
        for instant in [
            &mut self.by,
            &mut self.stated,
            &mut self.last,
            &mut self.due,
            &mut self.shared_at,
        ] {
            *instant = shift(*instant);
        }
        if let Some((_, reset)) = &mut self.left {
            *reset = shift(*reset);
        }
        self.renewed = self.renewed.map(shift);
    }

    /// Returns the distance between requests that take an amount each, of which so many are left.
    /// The window's is enough unless less is left than it would use: other clients share the quota.
    fn gap(&self, left: u32, amount: NonZeroU32, reset: BootInstant) -> Duration {
        let time = reset.since(self.due);
        // One more than is left, so that the next period begins with a request of its own.
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

    /// Returns the instant on the schedule of the request behind so many others. Those that catch
    /// up keep half the distance.
    fn due_after(&self, gap: Duration, earlier: u32) -> BootInstant {
        let count = earlier.saturating_add(1);
        let due = self.due + gap * count;
        if gap < BURST {
            return due;
        }
        due.max(self.last + gap / 2 * count)
    }

    /// Returns whether what is left is this client's alone: other clients have not used the quota for a
    /// while, or its reset is so far away that they cannot be told from it.
    fn is_own(&self, reset: BootInstant, now: BootInstant) -> bool {
        reset.since(now) >= LONG || self.shared_at + SHARED_MEMORY <= now
    }

    /// Returns whether the window is so short that a reset in whole seconds says less, and no other
    /// client shares it.
    fn is_short(&self, now: BootInstant) -> bool {
        let is_own = self.unit == Unit::Requests && self.shared_at + SHARED_MEMORY <= now;
        is_own && self.limit > Some(0) && self.window.is_some_and(|window| window <= SHORT)
    }

    /// Returns whether the windows of a request hold what is stated.
    fn is_held_by(&self, windows: Option<&Windows>) -> bool {
        let stated = self.limit.zip(self.window);
        stated.zip(windows).is_some_and(|((limit, per), windows)| {
            let mut list = windows.list().iter();
            list.any(|window| window.per == per && window.limit.get() <= limit)
        })
    }

    /// Returns the even distance in the stated window of requests that take an amount each. The
    /// windows of the budget see to it that it is never exceeded.
    fn window_gap(&self, amount: NonZeroU32) -> Option<Duration> {
        let limit = self.limit.filter(|limit| *limit > 0)?;
        let window = self.window.filter(|window| *window >= MIN_WINDOW)?;
        Some(window.saturating_mul(amount.get()) / limit)
    }

    /// Returns the distance that uses the limit in the longest time to a reset that was stated.
    fn period_gap(&self, amount: NonZeroU32) -> Option<Duration> {
        spread((self.limit? / amount).saturating_add(1), self.period)
    }

    /// Shows what holds a request back: so many until the reset, or in a window.
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

    pub(super) fn stated(&self) -> BootInstant {
        self.stated
    }

    /// Returns what is stated, less what was permitted since.
    pub(super) fn as_of(&self, now: BootInstant) -> Quota {
        let left = self.left.filter(|(_, reset)| *reset > now);
        Quota {
            unit: self.unit,
            window: self.window,
            limit: self.limit,
            remaining: left.map(|(left, _)| left),
            resets_in: left.map(|(_, reset)| reset.since(now)),
            partition: self.partition.clone(),
            source: self.source,
        }
    }
}
