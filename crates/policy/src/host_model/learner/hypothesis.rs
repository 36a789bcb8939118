//! A hypothesis of the search: a window, how many requests it admits, and what speaks for it.

use serde::{Deserialize, Serialize};

use super::request_log::RequestLog;
use super::units::{LearnerInstant, RequestRate, Seconds};

/// The least score that is kept, so that a hypothesis can recover.
const MIN_SCORE: f32 = -3.0;

/// The hypothesis for a window of the grid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct WindowHypothesis {
    /// The number of requests that the window is believed to admit.
    pub(super) n: f32,
    /// The length of the window: of the grid, or shorter where an admission shows that it is.
    window: Seconds<f32>,
    /// The count at the first refusal.
    first: f32,
    /// The first request of all was among those: it may not have counted at the server, as
    /// robots.txt.
    has_all: bool,
    pub(super) score: f32,
}

/// The evidence of a refusal in a search.
#[derive(Clone, Copy, Debug)]
pub(super) struct RefusalEvidence {
    /// When the refused request was sent.
    pub(super) at: LearnerInstant,
    /// Something was admitted since the refusal before.
    pub(super) fresh: bool,
    /// The weight of a further refusal in a row against a hypothesis: a ban looks the same.
    pub(super) repeated: f64,
    /// By how much a window may be passed for the variance of the network.
    pub(super) margin: Seconds,
    /// The rate of admitted requests since the refusal before, and since the first admission after
    /// it.
    pub(super) measured: (RequestRate, RequestRate),
    /// The length of its Retry-After.
    pub(super) advice: Option<Seconds>,
    /// The shortest time that an answer took.
    pub(super) round_trip: Seconds,
}

/// The shortest Retry-After that says which window is full.
const MIN_ADVICE: Seconds = Seconds(2.0);
/// The longest window that a Retry-After names.
const MAX_ADVISED_WINDOW: Seconds = Seconds(120.0);
/// The least share of a window that a Retry-After has to be to tell it from others.
const MIN_ADVICE_SHARE: f64 = 0.4;
/// The most by which the clocks of host and client may differ while one request is sent.
const CLOCK_ERROR: Seconds = Seconds(0.02);
/// The score that a window gains with which a Retry-After agrees.
const ADVISED_SCORE: f32 = 0.5;
/// The variance of the network that a window does not know of.
const NETWORK_VARIANCE: Seconds = Seconds(0.04);
/// From this number on a request of a window is spared: one of them may not have counted.
const MIN_SPARED: f64 = 8.0;

impl RefusalEvidence {
    /// Returns the window after which its first request leaves it at the end of the Retry-After, in
    /// whole seconds, if it is among those around `window`.
    fn advised_window(&self, log: &RequestLog, window: Seconds) -> Option<Seconds> {
        let advice = self.advice.filter(|advice| *advice >= MIN_ADVICE)?;
        let count = log.count(window, self.at);
        let first = log
            .nth_last_before(count, self.at)
            .filter(|_| count >= 1.0)?;
        // A server rounds up to a second.
        let advised = Seconds((self.at + advice - first + CLOCK_ERROR).0.floor());
        (advice >= MIN_ADVICE_SHARE * advised).then_some(advised)
    }

    /// Returns a window with the variance of the network on both sides.
    pub(super) fn widened(&self, window: Seconds) -> Seconds {
        window + 2.0 * self.margin + NETWORK_VARIANCE
    }

    /// Returns the window of whole seconds that a Retry-After names, if the requests in it agree.
    pub(super) fn window_by_advice(&self, log: &RequestLog) -> Option<Seconds> {
        let advice = Seconds(self.advice?.0.floor());
        let longest = (advice / MIN_ADVICE_SHARE).min(MAX_ADVISED_WINDOW);
        let windows = std::iter::successors(Some(advice), |window| Some(*window + Seconds(1.0)));
        let mut windows = windows.take_while(|window| *window <= longest);
        windows.find(|window| self.advised_window(log, *window) == Some(*window))
    }
}

/// Returns by how much two counts of a limit may differ: arrivals scatter, and large counts are
/// estimates.
pub(super) fn tolerance(n: f64, window: Seconds) -> f64 {
    let estimated = if n > 128.0 { 0.015 * n } else { 0.0 };
    (0.02 * n / window.0 + estimated).floor()
}

impl WindowHypothesis {
    /// Returns what a window would admit by a first refusal. A confirmed window has a better start.
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

    /// Returns what a window would admit that a Retry-After names.
    pub(super) fn advised(log: &RequestLog, refusal: &RefusalEvidence, window: Seconds) -> Self {
        let mut hypothesis = Self::new(log, refusal, window.narrow(), false);
        hypothesis.score = hypothesis.score.max(0.0) + ADVISED_SCORE;
        hypothesis
    }

    /// Returns when the window has room, if nothing else is sent; `None` if it never was full.
    pub(super) fn free_at(&self, log: &RequestLog) -> Option<LearnerInstant> {
        let (window, n) = (self.window(), f64::from(self.n).floor());
        // To be a little late costs less than a refusal.
        let spare = if n >= MIN_SPARED { 1.0 } else { 0.0 };
        let full = log.nth_last(n - spare)?;
        Some(full + window + late_arrival(window))
    }

    /// Returns the length of the window.
    pub(super) fn window(&self) -> Seconds {
        self.window.wide()
    }

    /// Returns whether the window is shorter than so many seconds.
    pub(super) fn is_shorter_than(&self, seconds: f32) -> bool {
        self.window.0 < seconds
    }

    /// Returns the rate of the window, which compares hypotheses.
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
        // Either more are admitted, or the window is so short that the first of them is out of it.
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

    /// Returns how many of the requests that the window is believed to admit may not have counted.
    fn uncounted(&self) -> f64 {
        let is_first = (self.n - self.first).abs() < 0.5;
        if self.has_all && is_first && f64::from(self.n) >= MIN_SPARED {
            1.0
        } else {
            0.0
        }
    }

    /// Returns whether the window had room for a request that was refused.
    pub(super) fn has_room(&self, log: &RequestLog, refusal: &RefusalEvidence) -> bool {
        let (window, n) = (self.window(), f64::from(self.n));
        let slack = tolerance(n, window) + 0.5;
        let wide = window + late_arrival(window) + 2.0 * refusal.margin + NETWORK_VARIANCE;
        log.count(window, refusal.at) < n - slack && log.count(wide, refusal.at) + 0.5 < n
    }

    /// Scores a refusal; a count of at least `least` can speak for the hypothesis.
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

/// Returns by how much a window is taken longer where it is tested: its first request, whose
/// connection had yet to be made, may have arrived late.
fn late_arrival(window: Seconds) -> Seconds {
    (0.02 * window).min(Seconds(0.1))
}

/// Returns the first score of a window: round windows are more common than others.
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
