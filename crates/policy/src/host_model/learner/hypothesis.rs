//! A hypothesis of the search: a window, the number of requests that it admits, and a score.

use serde::{Deserialize, Serialize};

use super::request_log::RequestLog;
use super::units::{LearnerInstant, RequestRate, Seconds};

/// The lowest score of a hypothesis, from which it can still recover.
const MIN_SCORE: f32 = -3.0;

/// The hypothesis for one window of the [`grid`](crate::host_model::learner::search::grid).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct WindowHypothesis {
    /// The number of requests that the window admits, by the hypothesis.
    pub(super) n: f32,
    /// The length of the window: that of the grid, or a shorter one that an admission has proven.
    window: Seconds<f32>,
    /// The number of requests in the window at the first refusal.
    first: f32,
    /// Set if that number includes the very first request, which the server may not count
    /// (robots.txt).
    has_all: bool,
    pub(super) score: f32,
}

/// The evidence of a refusal in a search.
#[derive(Clone, Copy, Debug)]
pub(super) struct RefusalEvidence {
    /// The instant at which the refused request was sent.
    pub(super) at: LearnerInstant,
    /// Set if a request was admitted since the previous refusal.
    pub(super) fresh: bool,
    /// The factor for the score that a hypothesis loses at a further refusal in a row. Without a
    /// confirmed limit the factor is low, because a ban looks the same.
    pub(super) repeated: f64,
    /// The time by which network delays may shift a request out of its window.
    pub(super) margin: Seconds,
    /// The [`RequestRate`] of admitted requests since the previous refusal, and since the first
    /// admission after that refusal.
    pub(super) measured: (RequestRate, RequestRate),
    /// The length of the Retry-After, if the refusal has one.
    pub(super) advice: Option<Seconds>,
    /// The shortest time between a request and its response.
    pub(super) round_trip: Seconds,
}

/// The shortest Retry-After from which the length of the full window is inferred.
const MIN_ADVICE: Seconds = Seconds(2.0);
/// The longest window whose length is inferred from a Retry-After.
const MAX_ADVISED_WINDOW: Seconds = Seconds(120.0);
/// The smallest ratio of a Retry-After to the length of a window at which the Retry-After
/// identifies that window.
const MIN_ADVICE_SHARE: f64 = 0.4;
/// The largest drift between the clocks of host and client while one request is sent.
const CLOCK_ERROR: Seconds = Seconds(0.02);
/// The score that a window gains if the Retry-After agrees with it.
const ADVISED_SCORE: f32 = 0.5;
/// The variation of network delays beyond the margin of windows.
const NETWORK_VARIANCE: Seconds = Seconds(0.04);
/// The smallest number of requests at which a window leaves one request unused, because the host
/// may not have counted one of the requests.
const MIN_SPARED: f64 = 8.0;

impl RefusalEvidence {
    /// Returns the length, in whole seconds, of the window whose first request leaves it at the end
    /// of the Retry-After. The number of requests in `window` decides which request is the first.
    fn advised_window(&self, log: &RequestLog, window: Seconds) -> Option<Seconds> {
        let advice = self.advice.filter(|advice| *advice >= MIN_ADVICE)?;
        let count = log.count(window, self.at);
        let first = log
            .nth_last_before(count, self.at)
            .filter(|_| count >= 1.0)?;
        // The server rounds the Retry-After up to a second.
        let advised = Seconds((self.at + advice - first + CLOCK_ERROR).0.floor());
        (advice >= MIN_ADVICE_SHARE * advised).then_some(advised)
    }

    /// Returns the length of a window, widened by the margin on both sides and by the variation of
    /// the network.
    pub(super) fn widened(&self, window: Seconds) -> Seconds {
        window + 2.0 * self.margin + NETWORK_VARIANCE
    }

    /// Returns the length, in whole seconds, of the window that a Retry-After implies, if the
    /// requests in a window of that length agree.
    pub(super) fn window_by_advice(&self, log: &RequestLog) -> Option<Seconds> {
        let advice = Seconds(self.advice?.0.floor());
        let longest = (advice / MIN_ADVICE_SHARE).min(MAX_ADVISED_WINDOW);
        let windows = std::iter::successors(Some(advice), |window| Some(*window + Seconds(1.0)));
        let mut windows = windows.take_while(|window| *window <= longest);
        windows.find(|window| self.advised_window(log, *window) == Some(*window))
    }
}

/// Returns the difference up to which two counts of a limit are treated as equal: arrivals scatter,
/// and large counts are estimates.
pub(super) fn tolerance(n: f64, window: Seconds) -> f64 {
    let estimated = if n > 128.0 { 0.015 * n } else { 0.0 };
    (0.02 * n / window.0 + estimated).floor()
}

impl WindowHypothesis {
    /// Creates the hypothesis for a window from a first refusal. A confirmed window starts with a
    /// better score.
    pub(super) fn new(
        log: &RequestLog,
        refusal: &RefusalEvidence,
        window: Seconds<f32>,
        is_confirmed: bool,
    ) -> Self {
        let n = log.count(window.wide(), refusal.at).max(1.0) as f32;
        Self {
            n,
            window,
            first: n,
            has_all: n + 0.5 >= log.total() as f32,
            score: if is_confirmed { 0.7 } else { prior(window) },
        }
    }

    /// Creates the hypothesis for a window that a Retry-After names.
    pub(super) fn advised(log: &RequestLog, refusal: &RefusalEvidence, window: Seconds) -> Self {
        let mut hypothesis = Self::new(log, refusal, window.narrow(), false);
        hypothesis.score = hypothesis.score.max(0.0) + ADVISED_SCORE;
        hypothesis
    }

    /// Returns when the window is free for a request, if no other request is sent; `None` if the
    /// window was never full.
    pub(super) fn free_at(&self, log: &RequestLog) -> Option<LearnerInstant> {
        let (window, n) = (self.window(), f64::from(self.n).floor());
        // One request stays unused, because a small delay costs less than a refusal.
        let spare = if n >= MIN_SPARED { 1.0 } else { 0.0 };
        let full = log.nth_last(n - spare)?;
        Some(full + window + late_arrival(window))
    }

    /// Returns the length of the window.
    pub(super) fn window(&self) -> Seconds {
        self.window.wide()
    }

    /// Returns whether the window is shorter than a number of seconds.
    pub(super) fn is_shorter_than(&self, seconds: f32) -> bool {
        self.window.0 < seconds
    }

    /// Returns the rate of the window, for comparison with other hypotheses.
    pub(super) fn rate(&self) -> f32 {
        self.n / self.window.0
    }

    pub(super) fn add(&mut self, score: f32) {
        self.score = (self.score + score).max(MIN_SCORE);
    }

    /// Scores an admission; `shorter` is the next shorter window of the grid.
    pub(super) fn admitted(&mut self, log: &RequestLog, at: LearnerInstant, shorter: Seconds<f32>) {
        let others = (log.count(self.window(), at) - 1.0) as f32;
        if others + 0.01 < self.n {
            return;
        }
        // If the first of these requests has left a window longer than `shorter`, the window is
        // shorter than assumed. Otherwise the window admits more.
        let first = log.nth_last_before(f64::from(self.n), at);
        let since = first.map_or(Seconds(0.0), |first| at - first).narrow();
        if since.0 > shorter.0 * 1.02 {
            self.window = self.window.min(since);
            self.add(-0.1);
            return;
        }
        let beyond = others + 1.0 - self.first;
        let clear = beyond >= (0.03 * self.first).max(1.0);
        self.add(if clear { -1.0 } else { -0.34 });
        self.n = others + 1.0;
    }

    /// Returns how many of the admitted requests the server may not have counted.
    fn uncounted(&self) -> f64 {
        let is_first = (self.n - self.first).abs() < 0.5;
        if self.has_all && is_first && f64::from(self.n) >= MIN_SPARED {
            1.0
        } else {
            0.0
        }
    }

    /// Returns whether the window had space for a request that was refused, which contradicts the
    /// hypothesis.
    pub(super) fn has_room(&self, log: &RequestLog, refusal: &RefusalEvidence) -> bool {
        let (window, n) = (self.window(), f64::from(self.n));
        let slack = tolerance(n, window) + 0.5;
        let wide = window + late_arrival(window) + 2.0 * refusal.margin + NETWORK_VARIANCE;
        log.count(window, refusal.at) < n - slack && log.count(wide, refusal.at) + 0.5 < n
    }

    /// Scores a refusal. A count below `least` cannot support the hypothesis.
    pub(super) fn refused(&mut self, log: &RequestLog, refusal: &RefusalEvidence, least: f64) {
        let window = self.window();
        let count = log.count(window, refusal.at);
        let n = f64::from(self.n);
        let uncounted = if refusal.fresh { self.uncounted() } else { 0.0 };
        let slack = tolerance(n, window) + 0.5 + uncounted;
        if (count - n).abs() <= slack {
            if refusal.fresh && count >= least {
                self.add(1.0);
            }
            self.n = self.n.min(count.max(1.0) as f32);
            return;
        }
        if count > n {
            return;
        }
        if log.count(refusal.widened(window), refusal.at) + 0.5 >= n {
            return;
        }
        let part = count / n;
        let miss = match part {
            _ if part >= 0.8 => -0.3,
            _ if part >= 0.5 => -0.6,
            _ => -1.0,
        };
        self.add(if refusal.fresh {
            miss
        } else {
            miss * refusal.repeated as f32
        });
        if refusal.fresh {
            self.n = count.max(1.0) as f32;
        }
    }
}

/// Returns the additional wait before a window is tested, because its first request may have
/// arrived late on a new connection.
fn late_arrival(window: Seconds) -> Seconds {
    (0.02 * window).min(Seconds(0.1))
}

/// Returns the initial score of a window: round windows are more common than others.
pub(super) fn prior(window: Seconds<f32>) -> f32 {
    match window.0 as u32 {
        1 => 0.4,
        10 | 60 => 0.2,
        5 | 3600 => 0.1,
        4 | 6 | 7 | 8 | 12 => -0.5,
        15 | 20 => -0.3,
        _ => 0.0,
    }
}
