//! The wait after a refusal.

use super::Learner;
use super::refusal::RefusalCause;
use super::search::{LONG_WINDOW, LimitSearch};
use super::units::{LearnerInstant, Seconds};

/// The wait after a first refusal without Retry-After.
const FIRST_WAIT: Seconds = Seconds(0.5);
/// The factor by which the wait grows with each refusal of a row.
const WAIT_GROWTH: f64 = 2.5;
/// The number of refusals of a row after which the wait stops growing.
const MAX_GROWTHS: u8 = 12;
/// The longest wait after a refusal without Retry-After.
pub(super) const MAX_WAIT: Seconds = Seconds(60.0);
/// The wait after the refusal that confirms a limit.
const CONFIRMED_WAIT: Seconds = Seconds(0.2);
/// The wait after a probe that was refused.
const PROBE_WAIT: Seconds = Seconds(0.02);
/// The share of the wait after a first refusal that must pass before a free window is tested.
const FIRST_TEST_SHARE: f64 = 0.8;
/// The share of the wait after later refusals of a row that must pass before a free window is
/// tested.
const LATER_TEST_SHARE: f64 = 0.2;
/// The largest multiple of the wait for which a test waits for a free window.
const LATEST_TEST_SHARE: f64 = 1.5;
/// The upper limit of the earliest test in a long row of refusals, as a share of the time since the
/// last admission. A later test could miss the next free window.
const NEXT_WINDOW_SHARE: f64 = 0.4;
/// The share of a window's length that must remain for the end of the window to be awaited.
const AWAITED_WINDOW_SHARE: f64 = 0.25;

impl Learner {
    /// Sets the pause after a refusal.
    pub(super) fn wait(
        &mut self,
        cause: RefusalCause,
        advice: Option<Seconds>,
        now: LearnerInstant,
    ) {
        let own = self.own_wait(advice.is_some(), now);
        let is_first = self.last_refusal.in_row == 1;
        let ban = self.ban.wide();
        let wait = match (cause, advice) {
            (_, Some(advice)) if self.last_advice.is_some() && self.last_refusal.in_row > 1 => {
                advice.max(own)
            }
            (_, Some(advice)) => advice,
            (RefusalCause::ProbeRefused(_), None) => ban.clamp(PROBE_WAIT, MAX_WAIT),
            // This refusal was expected: the extra request confirmed the limit.
            (RefusalCause::Unexplained, None) if self.search.is_none() && is_first => {
                ban.clamp(CONFIRMED_WAIT, MAX_WAIT)
            }
            (_, None) => own,
        };
        let free = self.free_at(now).filter(|_| advice.is_none());
        let until = LearnerInstant::later(free, now + wait);
        self.not_before = Some(LearnerInstant::later(self.not_before, until));
        let (window, cost) = match cause {
            RefusalCause::ProbeRefused(index) | RefusalCause::TooHigh(index) => {
                let limit = self.confirmed[index];
                let window = limit.map(|limit| limit.window()).unwrap_or_default();
                (window, until - now)
            }
            _ => (Seconds(0.0), Seconds(0.0)),
        };
        self.probe.refused(window, cost);
    }

    /// Returns the wait that grows in a row of refusals. If a search knows when a window is free,
    /// the wait ends there.
    fn own_wait(&self, is_advised: bool, now: LearnerInstant) -> Seconds {
        let times = f64::from(self.last_refusal.in_row.saturating_sub(1).min(MAX_GROWTHS));
        let search = self.search.as_ref();
        let ban = search.map_or(self.ban, |search| search.ban).wide();
        let own = (WAIT_GROWTH.powf(times) * FIRST_WAIT).min(MAX_WAIT);
        let own = own.max(ban.min(MAX_WAIT));
        let earliest = if times == 0.0 {
            FIRST_TEST_SHARE * own
        } else {
            let passed = now - self.log.nth_last(1.0).unwrap_or(now);
            let earliest = LATER_TEST_SHARE * own;
            if passed < LONG_WINDOW {
                earliest
            } else {
                earliest.min(NEXT_WINDOW_SHARE * passed)
            }
        };
        let search = search.filter(|search| !is_advised && search.ban.0 == 0.0);
        let free = search.and_then(|search| search.next_free(&self.log, now + earliest));
        match free.filter(|at| *at < now + LATEST_TEST_SHARE * own) {
            Some(at) => at - now + self.margin.wide(),
            None => own,
        }
    }

    /// Returns when the confirmed windows, and the acting window of a search, are free again.
    fn free_at(&self, now: LearnerInstant) -> Option<LearnerInstant> {
        let acting = self.search.as_ref().and_then(LimitSearch::window);
        let acting = acting.and_then(|(n, window)| {
            let at = self.log.nth_last(n.floor())? + window;
            (at - now > AWAITED_WINDOW_SHARE * window).then(|| at + self.margin.wide())
        });
        let windows = self.confirmed().filter(|limit| limit.is_window());
        let confirmed =
            windows.filter_map(|limit| Some(self.log.nth_last(limit.n())? + limit.window()));
        acting
            .into_iter()
            .chain(confirmed)
            .reduce(LearnerInstant::max)
    }
}
