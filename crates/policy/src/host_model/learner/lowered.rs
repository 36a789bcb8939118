//! Corrections of a confirmed limit after a refusal that was not a probe: a lower limit, or a
//! longer window in its place.

use super::confirmed::{ConfirmedLimit, LimitShape};
use super::hypothesis::RefusalEvidence;
use super::search::grid;
use super::units::{LearnerInstant, RequestRate, Seconds};
use super::{Learner, SentRequest};

/// The factor of the largest decrease of a limit at an unexpected refusal, unless the host refuses
/// again at once.
const MAX_LOWERING_FACTOR: f64 = 0.96;
/// The factor of the decrease of a smooth rate if the host refuses again at once.
const LOWERED_AGAIN: f64 = 0.8;
/// The largest number of requests in a limit that a longer window may replace: with more requests,
/// the counts of several windows are too similar.
const MAX_REPLACED: f64 = 12.0;
/// The smallest rate of a longer window that replaces a limit, as a share of the limit's rate.
const MIN_REPLACING_SHARE: f64 = 0.3;
/// The largest rate of a longer window that replaces a limit, as a share of the limit's rate.
const MAX_REPLACING_SHARE: f64 = 0.97;
/// The longest window that may replace a limit.
const MAX_REPLACING_WINDOW: Seconds = Seconds(20.0);
/// The largest number of requests in a limit whose window is widened before the limit is lowered.
const MAX_WIDENED: f64 = 64.0;
/// The largest margin by which windows are widened.
const MAX_MARGIN: Seconds = Seconds(0.1);
/// The lowest divisor in a comparison of rates.
const MIN_RATE_DIVISOR: RequestRate = RequestRate(1e-3);
/// The lowest [`RequestRate`] of a limit.
const MIN_RATE: RequestRate<f32> = RequestRate(0.001);

impl Learner {
    /// Returns the longer window that explains a refusal which a [`ConfirmedLimit`] does not
    /// predict.
    ///
    /// - The window that the Retry-After names, if there is such a window.
    /// - Otherwise, after an earlier unexpected refusal, a window that now contains more admitted
    ///   requests than at any earlier admission since the last refusal.
    fn longer_window(
        &self,
        limit: &ConfirmedLimit,
        refusal: &RefusalEvidence,
    ) -> Option<(f64, Seconds)> {
        let log = &self.log;
        let rate = limit.rate(self.round_trip.wide());
        if limit.shape == LimitShape::Cap || limit.n() > MAX_REPLACED {
            return None;
        }
        let slower = |window: Seconds| {
            let n = log.count(window, refusal.at);
            let share = n / window / rate;
            let is_slower = (MIN_REPLACING_SHARE..MAX_REPLACING_SHARE).contains(&share);
            (n >= 1.0 && is_slower).then_some((n, window))
        };
        let advised = refusal
            .window_by_advice(log)
            .filter(|window| limit.is_window() && *window > limit.window() + Seconds(1.0));
        if let Some(found) = advised.and_then(slower) {
            return Some(found);
        }
        if limit.surprises == 0 {
            return None;
        }
        let refused = self.last_refusal.at;
        let is_later = |at: &LearnerInstant| refused.is_none_or(|refused| *at > refused);
        let admitted = || log.recent().filter(is_later);
        let fits = |(n, window): &(f64, Seconds)| admitted().all(|at| log.count(*window, at) <= *n);
        let windows = grid().into_iter().map(Seconds::wide);
        windows
            .filter(|window| *window > limit.window() && *window <= MAX_REPLACING_WINDOW)
            .filter_map(slower)
            .filter(fits)
            .reduce(|best, other| {
                if other.0 / other.1 > best.0 / best.1 {
                    other
                } else {
                    best
                }
            })
    }

    /// Corrects a confirmed limit after a refusal that was not a probe. The limit loses a recent
    /// raise, is replaced by a longer window, or is lowered; or the margin of all windows grows.
    pub(super) fn lower(
        &mut self,
        index: usize,
        sent: SentRequest,
        refusal: &RefusalEvidence,
        now: LearnerInstant,
    ) {
        let is_again = self.last_refusal.in_row > 1;
        let longer = self.confirmed[index].and_then(|limit| self.longer_window(&limit, refusal));
        let Some(limit) = &mut self.confirmed[index] else {
            return;
        };
        limit.seen = limit.seen.saturating_add(1);
        if limit.take_back(now) {
            self.probe.slow_down();
            return;
        }
        limit.surprises = limit.surprises.saturating_add(1);
        if let Some((n, window)) = longer {
            *limit = ConfirmedLimit::of_window(n, window, limit.seen);
            limit.surprises = 1;
            return;
        }
        let rate = limit.rate(self.round_trip.wide());
        let measured = refusal.measured.0 / rate.max(MIN_RATE_DIVISOR);
        match limit.shape {
            LimitShape::Window { .. } if limit.surprises == 1 && limit.n() <= MAX_WIDENED => {
                self.margin = (2.0 * self.margin.wide()).min(MAX_MARGIN).narrow();
            }
            LimitShape::Window { .. } if limit.n() <= MAX_REPLACED => {
                limit.shape = LimitShape::Rate;
                limit.amount = (MAX_LOWERING_FACTOR * rate).narrow().0;
            }
            LimitShape::Window { .. } => {
                limit.amount *= (1.03 * measured).clamp(MAX_LOWERING_FACTOR, 0.98) as f32;
            }
            LimitShape::Rate => {
                let factor = if is_again {
                    LOWERED_AGAIN
                } else {
                    MAX_LOWERING_FACTOR
                };
                limit.amount = (limit.amount * factor as f32).max(MIN_RATE.0);
            }
            LimitShape::Cap => limit.amount = f32::from(sent.others.unwrap_or(1)).max(1.0),
        }
        limit.before_step = limit.amount;
        limit.before_raises = limit.amount;
    }
}
