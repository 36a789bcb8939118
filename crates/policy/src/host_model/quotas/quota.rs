//! A declared quota and its rest.

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::QuotaCost;
use crate::rate_headers::{Quota, RateHeaderFamily, Unit};
use crate::time::BootInstant;

mod pacing;

/// The time for which quota headers without a reset apply.
pub(super) const QUOTA_MEMORY: Duration = Duration::from_secs(3_600);
/// The largest difference between two declarations of one reset, because headers round to whole
/// seconds.
const MAX_RESET_ROUNDING: Duration = Duration::from_millis(1_500);
/// The largest time by which a reset is too early if the host rounds seconds down.
const ROUNDED_OFF: Duration = Duration::from_secs(1);
/// The longest delay behind schedule that is made up for, when requests woke late.
const MAX_LAG: Duration = Duration::from_millis(500);

/// A quota that a host declares, less the permits since.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct TrackedQuota {
    unit: Unit,
    source: RateHeaderFamily,
    partition: Option<Box<str>>,
    limit: Option<u32>,
    window: Option<Duration>,
    /// The rest of the quota, and the instant of its reset.
    left: Option<(u32, BootInstant)>,
    /// The rest that the host declared.
    reported: u32,
    /// The permit instant of the request whose response declared the quota.
    by: BootInstant,
    stated: BootInstant,
    /// The instant of the latest permit.
    last: BootInstant,
    /// The scheduled instant of the latest permit at even distances.
    due: BootInstant,
    /// The longest declared time to a reset.
    period: Duration,
    /// Set if the host rounds the time to a reset down.
    rounds_down: bool,
    /// The reset that has passed since the declaration; the full limit is assumed to be available
    /// again.
    renewed: Option<BootInstant>,
    /// Set if the host counts in a sliding window, of which a small part becomes free at a time.
    slides: bool,
    /// The amount that was permitted after the request of the latest declaration, if known.
    after: Option<u32>,
    /// The instant at which the use last exceeded the requests of this site, because other clients
    /// share the quota.
    shared_at: BootInstant,
    /// The bytes that a response uses of a quota of bytes, estimated from earlier declarations.
    answer_bytes: u32,
    /// The number of requests permitted since the latest declaration.
    permitted: u32,
}

/// A [`Quota`] as one response declares it.
pub(super) struct QuotaReport<'a> {
    pub(super) quota: &'a Quota,
    /// The amount that was permitted after the request, if known.
    pub(super) after: Option<u32>,
    /// The permit instant of the request.
    pub(super) sent: BootInstant,
    pub(super) retry_after: Option<Duration>,
    pub(super) is_refusal: bool,
}

impl QuotaReport<'_> {
    /// Returns the rest and the time to its reset, if both are known.
    fn remaining(&self) -> Option<(u32, Duration)> {
        let remaining = self.quota.remaining?;
        let asked = self.retry_after.filter(|_| remaining == 0);
        let resets_in = asked.or(self.quota.resets_in).or(self.quota.window)?;
        Some((remaining, resets_in))
    }
}

impl TrackedQuota {
    pub(super) fn new(report: &QuotaReport<'_>, now: BootInstant) -> Self {
        let mut own = Self {
            unit: report.quota.unit,
            source: report.quota.source,
            partition: report.quota.partition.clone(),
            limit: None,
            window: report.quota.window,
            left: None,
            reported: 0,
            by: BootInstant::ZERO,
            stated: now,
            last: report.sent,
            due: report.sent,
            period: Duration::ZERO,
            rounds_down: false,
            renewed: None,
            slides: false,
            after: None,
            shared_at: BootInstant::ZERO,
            answer_bytes: 0,
            permitted: 0,
        };
        own.hear(report, now);
        own
    }

    /// Returns whether the quota limits requests of a lane, given the latest declaration of the
    /// lane. The host alone knows the partition of a request, so of several partitions those of the
    /// latest response apply.
    pub(super) fn binds(&self, lane_stated: BootInstant) -> bool {
        self.partition.is_none() || self.stated == lane_stated
    }

    /// Returns whether this is the state of a [`Quota`].
    pub(super) fn is_of(&self, quota: &Quota) -> bool {
        let is_same_window = if self.source == quota.source {
            // A window that responses imply may change.
            self.window == quota.window || quota.source == RateHeaderFamily::Implied
        } else {
            // A window may be implied from a later response on only, or become too long to be
            // implied.
            match (self.source, quota.source) {
                (_, RateHeaderFamily::Implied) => self.window.is_none(),
                (RateHeaderFamily::Implied, _) => quota.window.is_none(),
                _ => false,
            }
        };
        self.unit == quota.unit && self.partition == quota.partition && is_same_window
    }

    /// Applies a [`QuotaReport`]. Returns whether a request may be sent earlier than expected: more
    /// is left, or the reset is earlier.
    ///
    /// Responses may overtake each other. Within one period, the response to the latest request
    /// counts.
    pub(super) fn hear(&mut self, report: &QuotaReport<'_>, now: BootInstant) -> bool {
        let is_new_period = self.left.is_none()
            || report
                .quota
                .remaining
                .is_some_and(|now| now > self.reported)
            || self.renewed.is_some_and(|at| report.sent >= at);
        if report.sent < self.by || (self.renewed.is_some() && !is_new_period) {
            // The response was overtaken, but still shows that the quota exists.
            self.stated = now;
            return false;
        }
        if let Some(remaining) = report.quota.remaining.filter(|_| !is_new_period) {
            self.learn_bytes(remaining);
            if self.is_shared(remaining, report.after) {
                self.shared_at = now;
            }
        }
        // In a short window, a request that arrives slightly early is refused. There, only the
        // declared rest shows whether other clients use the quota.
        if report.is_refusal && !self.is_short(now) {
            self.shared_at = now;
        }
        (self.window, self.source) = (report.quota.window, report.quota.source);
        self.after = report.after;
        self.permitted = 0;
        (self.by, self.stated) = (report.sent, now);
        self.limit = report.quota.limit.or(self.limit);
        let Some((remaining, resets_in)) = report.remaining() else {
            return false;
        };
        if report.retry_after.is_none() {
            self.period = self.period.max(resets_in);
            // A reset of zero seconds with nothing left lies within the current second.
            self.rounds_down |= remaining == 0 && resets_in.is_zero();
        }
        // In a fixed window, only one served request can declare a rest of zero before the reset.
        let is_last_again = remaining == 0 && self.reported == 0 && self.left.is_some();
        self.slides = !report.is_refusal
            && (self.slides || (is_last_again && self.window.is_some() && self.limit > Some(1)));
        let mut reset = now + resets_in;
        if self.rounds_down {
            reset += ROUNDED_OFF;
        }
        let before = self.left;
        if let Some((_, known)) = before.filter(|_| !is_new_period)
            && reset <= known + MAX_RESET_ROUNDING
            && known <= reset + MAX_RESET_ROUNDING
        {
            reset = reset.min(known);
        }
        let left = match (report.after, before) {
            (Some(after), _) => remaining.saturating_sub(after),
            (None, Some((left, _))) if !is_new_period => remaining.min(left),
            (None, _) => remaining,
        };
        self.left = Some((left, reset));
        (self.reported, self.renewed) = (remaining, None);
        before.is_none_or(|(expected, known)| left > expected || reset < known)
    }

    /// Returns the amount that a request uses, if any.
    fn amount(&self, cost: QuotaCost) -> Option<NonZeroU32> {
        NonZeroU32::new(match self.unit {
            // Even if responses have no bytes, a request waits for the reset once nothing is left.
            Unit::ContentBytes => self.answer_bytes.max(1),
            unit => cost.of(unit),
        })
    }

    /// Returns whether the host declares this quota in credits.
    pub(super) fn is_of_credits(&self) -> bool {
        self.unit == Unit::Credits
    }

    /// Returns the estimated bytes of a response; zero if unknown.
    pub(super) fn answer_bytes(&self) -> u32 {
        self.answer_bytes
    }

    /// Returns whether the use since the last declaration exceeds the requests of this site.
    fn is_shared(&self, remaining: u32, after: Option<u32>) -> bool {
        let used = self.reported.saturating_sub(remaining);
        let own = (self.after.zip(after))
            .map(|(before, after)| before.saturating_add(self.permitted).saturating_sub(after));
        own.is_some_and(|own| used > own)
    }

    /// Estimates the bytes of a response from the declared rest.
    fn learn_bytes(&mut self, remaining: u32) {
        let used = self.reported.saturating_sub(remaining);
        if self.unit == Unit::ContentBytes && self.permitted > 0 && used > 0 {
            let each = used / self.permitted;
            self.answer_bytes = match self.answer_bytes {
                0 => each,
                // Half of the known size remains, so that one large response does not stop all
                // others.
                known => known / 2 + each / 2,
            };
        }
    }

    /// Applies the passage of time. After a reset the full limit is available, until the next reset
    /// or declaration. Without a known limit, the rest is unknown.
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
        self.left.is_none()
            && self.stated + QUOTA_MEMORY.max(self.window.unwrap_or_default()) <= now
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
        // Requests that wake slightly late do not move the schedule. A short window makes up for
        // less of the delay, because the requests would form a burst.
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
            // The amount that was counted: a later response may have changed the estimated size.
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

    pub(super) fn stated(&self) -> BootInstant {
        self.stated
    }

    /// Returns the declared [`Quota`], less the permits since.
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
