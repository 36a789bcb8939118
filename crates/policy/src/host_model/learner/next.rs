//! The first instant at which confirmed limits, the search and the starting rate allow a request.

use super::confirmed::{ConfirmedLimit, LimitShape, WindowPace};
use super::search::{LONG_WINDOW, LimitSearch};
use super::units::{LearnerInstant, RequestRate, Seconds};
use super::{Learner, LearnerPhase, UNANSWERED_TIMEOUT};

/// The number of windows without a refusal after which a search tries one more request.
const SEARCH_QUIET_WINDOWS: f64 = 1.0;
/// The share of the distance between requests by which a probe goes earlier.
const PROBE_ADVANCE: f64 = 0.49;
/// The share by which each step of a probe raises a rate.
const PROBE_RATE_STEP: f64 = 0.04;

/// The first instant that a limit allows: a known instant, or the instant of a response.
#[derive(Clone, Copy)]
pub(super) enum AllowedInstant {
    At(LearnerInstant),
    AfterResponse,
}

/// The data from which the instant of the next request is computed.
#[derive(Clone, Copy)]
pub(super) struct NextQuestion<'a> {
    pub(super) learner: &'a Learner,
    pub(super) last_sent: LearnerInstant,
    pub(super) now: LearnerInstant,
}

impl NextQuestion<'_> {
    /// Returns the first [`AllowedInstant`] that all limits allow.
    pub(super) fn allowed(&self) -> AllowedInstant {
        let learner = self.learner;
        let phase = learner.phase();
        let is_testing = matches!(phase, LearnerPhase::Testing);
        if is_testing && self.without_headers() > 0 {
            return AllowedInstant::AfterResponse;
        }
        let mut latest = learner.not_before.unwrap_or(LearnerInstant::ORIGIN);
        for limit in learner.confirmed() {
            if is_testing && limit.shape == LimitShape::Cap {
                // A test is a single request, so it cannot exceed this limit.
                continue;
            }
            match self.kept(limit) {
                AllowedInstant::At(at) => latest = latest.max(at),
                AllowedInstant::AfterResponse => return AllowedInstant::AfterResponse,
            }
        }
        match phase {
            LearnerPhase::Testing | LearnerPhase::Confirmed => AllowedInstant::At(latest),
            LearnerPhase::Searching(search) => {
                AllowedInstant::At(latest.max(self.searched(search)))
            }
            LearnerPhase::Starting => self.started(latest),
        }
    }

    /// Returns the [`AllowedInstant`] while no limit is known. The first request goes alone; then
    /// the rate doubles every second.
    fn started(&self, latest: LearnerInstant) -> AllowedInstant {
        let start = &self.learner.start;
        let most = (start.served / 4).max(2);
        let most = if start.served == 0 { 1 } else { most };
        if u32::from(self.without_headers()) >= most {
            return AllowedInstant::AfterResponse;
        }
        AllowedInstant::At(latest.max(self.last_sent + start.rate.distance()))
    }

    /// Returns the instant that the acting hypothesis of a [`LimitSearch`] allows.
    fn searched(&self, search: &LimitSearch) -> LearnerInstant {
        let resumed = self.learner.last_refusal.resumed;
        let Some((n, window)) = search.window() else {
            return self.last_sent + search.rate.distance();
        };
        if let Some(distance) = search.min_distance() {
            let passed = resumed.map_or(Seconds(0.0), |resumed| self.now - resumed);
            return self.last_sent + 1.0 / distance.ramp(n / window, passed);
        }
        if window < LONG_WINDOW {
            // If there was no refusal for a while, the window may admit more, so one more request
            // is tried.
            let resumed = resumed.unwrap_or(self.now);
            let moved = LearnerInstant::later(self.learner.search_moved, resumed);
            let quiet = SEARCH_QUIET_WINDOWS * window.clamp(Seconds(1.0), Seconds(2.0));
            let is_quiet = self.now - moved >= quiet;
            let more = if is_quiet && search.fresh == 0 {
                1.0
            } else {
                0.0
            };
            return self
                .pace(n + more, window)
                .next(&self.learner.log, self.now);
        }
        // A long window is filled at once and exceeded by one request. A wait until the window is
        // free would cost more time than a refusal.
        let first = self.learner.log.nth_last(n.floor() + 1.0);
        let fill = search.fill.wide().max(2.0 * n / window);
        LearnerInstant::later(first.map(|at| at + window), self.last_sent + 1.0 / fill)
    }

    /// Returns the instant that a [`ConfirmedLimit`] allows, with extra requests if a probe is due.
    fn kept(&self, limit: &ConfirmedLimit) -> AllowedInstant {
        let learner = self.learner;
        let is_probed = learner.is_probing(self.now) && learner.is_probed(limit);
        match limit.shape {
            LimitShape::Window { .. } => {
                let extra = if is_probed { learner.probe.step() } else { 0.0 };
                let mut pace = self.pace(limit.n() + extra, limit.window());
                if is_probed {
                    pace.last_sent = pace.last_sent - (PROBE_ADVANCE * limit.window()) / limit.n();
                }
                AllowedInstant::At(pace.next(&learner.log, self.now))
            }
            LimitShape::Cap => {
                let extra = if is_probed { 1.0 } else { 0.0 };
                if f64::from(self.unanswered()) >= limit.n() + extra {
                    return AllowedInstant::AfterResponse;
                }
                let gap = learner.round_trip.wide() / (2.0 * limit.n().max(1.0));
                AllowedInstant::At(self.last_sent + gap)
            }
            LimitShape::Rate => {
                let faster = if is_probed {
                    1.0 + PROBE_RATE_STEP * learner.probe.step()
                } else {
                    1.0
                };
                let rate = RequestRate(limit.n().max(1e-3) * faster);
                AllowedInstant::At(self.last_sent + 1.0 / rate)
            }
        }
    }

    /// Returns how many requests in flight have no headers yet.
    fn without_headers(&self) -> u16 {
        self.unanswered().saturating_sub(self.learner.open_bodies)
    }

    /// Returns how many requests are in flight; zero if the last request was sent longer ago than
    /// [`UNANSWERED_TIMEOUT`].
    fn unanswered(&self) -> u16 {
        if self.now < self.last_sent + UNANSWERED_TIMEOUT {
            self.learner.in_flight.count()
        } else {
            0
        }
    }

    fn pace(&self, n: f64, window: Seconds) -> WindowPace {
        WindowPace {
            n: n.max(1.0),
            window,
            margin: self.learner.margin.wide(),
            last_sent: self.last_sent,
        }
    }

    /// Returns the longest interval that may pass before a window is free. A window that admits
    /// less than the slowest rate is ignored.
    pub(super) fn longest_window(&self, slowest: Seconds) -> Seconds {
        let confirmed = (self.learner.confirmed()).map(|limit| (limit.n(), limit.window()));
        let acting = self.learner.search.as_ref().and_then(LimitSearch::window);
        (confirmed.chain(acting))
            .filter(|(n, window)| *window <= *n * slowest)
            .fold(Seconds(0.0), |longest, (_, window)| window.max(longest))
    }
}
