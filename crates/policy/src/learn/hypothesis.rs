//! One hypothesis of the search: a window, how many it admits, and what speaks for it.

use serde::{Deserialize, Serialize};

use super::log::Log;

/// The least score that is kept, so that a hypothesis can recover.
const LOWEST_SCORE: f32 = -3.0;

/// One window of the grid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Hypothesis {
    /// How many the window is believed to admit.
    pub(super) n: f32,
    /// The window in seconds: of the grid, or shorter where an admission shows that it is.
    pub(super) window: f32,
    /// The count at the first refusal.
    first: f32,
    /// The first request of all was among those: it may not have counted at the server, as
    /// robots.txt.
    has_all: bool,
    pub(super) score: f32,
}

/// What a refusal in a search shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refusal {
    /// When the refused request was sent.
    pub(super) at: f64,
    /// Something was admitted since the refusal before.
    pub(super) fresh: bool,
    /// How much a further refusal in a row counts against a hypothesis: a ban looks the same.
    pub(super) repeated: f64,
    /// By how much a window may be passed for the variance of the network.
    pub(super) margin: f64,
    /// Requests per second since the refusal before, and since the first admission after it.
    pub(super) measured: (f64, f64),
    /// The length of its Retry-After, in seconds.
    pub(super) advice: Option<f64>,
    /// The shortest time that an answer took, in seconds.
    pub(super) round_trip: f64,
}

/// The shortest Retry-After that says which window is full, in seconds.
const LEAST_ADVICE: f64 = 2.0;
/// The longest window that a Retry-After names, in seconds.
const LONGEST_ADVISED: f64 = 120.0;
/// The least share of a window that a Retry-After has to be to tell it from others.
const ADVICE_SHARE: f64 = 0.4;
/// By how much the clocks of host and client may differ while one request is sent, in seconds.
const CLOCK_ERROR: f64 = 0.02;
/// What a window gains that a Retry-After agrees with.
const ADVISED: f32 = 0.5;

impl Refusal {
    /// Returns the window after which its first request leaves it at the end of the Retry-After, in
    /// whole seconds, if it is among those around `window`.
    fn advised_window(&self, log: &Log, window: f64) -> Option<f64> {
        let advice = self.advice.filter(|advice| *advice >= LEAST_ADVICE)?;
        let count = log.count(window, self.at);
        let first = log
            .nth_last_before(count, self.at)
            .filter(|_| count >= 1.0)?;
        // A server rounds up to a second.
        let advised = (self.at + advice - first + CLOCK_ERROR).floor();
        (advice >= ADVICE_SHARE * advised).then_some(advised)
    }

    /// Returns the window of whole seconds that a Retry-After names, if the requests in it agree.
    pub(super) fn window_by_advice(&self, log: &Log) -> Option<f64> {
        let advice = self.advice?.floor();
        let longest = (advice / ADVICE_SHARE).min(LONGEST_ADVISED);
        let windows = std::iter::successors(Some(advice), |window| Some(window + 1.0));
        let mut windows = windows.take_while(|window| *window <= longest);
        windows.find(|window| self.advised_window(log, *window) == Some(*window))
    }
}

/// How far two counts of one limit may differ: arrivals scatter, and large counts are estimates.
pub(super) fn tolerance(n: f64, window: f64) -> f64 {
    let estimated = if n > 128.0 { 0.015 * n } else { 0.0 };
    (0.02 * n / window + estimated).floor()
}

impl Hypothesis {
    /// What a window would admit by a first refusal. One that is confirmed has a better start.
    pub(super) fn new(log: &Log, refusal: &Refusal, window: f32, is_confirmed: bool) -> Self {
        let n = log.count(f64::from(window), refusal.at).max(1.0) as f32;
        Self {
            n,
            window,
            first: n,
            has_all: n + 0.5 >= log.total() as f32,
            score: if is_confirmed { 0.7 } else { prior(window) },
        }
    }

    /// What a window would admit that a Retry-After names.
    pub(super) fn advised(log: &Log, refusal: &Refusal, window: f64) -> Self {
        let mut hypothesis = Self::new(log, refusal, window as f32, false);
        hypothesis.score = hypothesis.score.max(0.0) + ADVISED;
        hypothesis
    }

    /// Returns when the window has room, if nothing else is sent; `None` if it never was full.
    pub(super) fn free_at(&self, log: &Log) -> Option<f64> {
        let (window, n) = (f64::from(self.window), f64::from(self.n).floor());
        // One of them may not have counted, and to be a little late costs less than a refusal.
        let spare = if n >= 8.0 { 1.0 } else { 0.0 };
        let full = log.nth_last(n - spare)?;
        Some(full + window + late_arrival(window))
    }

    pub(super) fn add(&mut self, score: f32) {
        self.score = (self.score + score).max(LOWEST_SCORE);
    }

    /// Scores an admission; `shorter` is the next shorter window of the grid.
    pub(super) fn admitted(&mut self, log: &Log, at: f64, shorter: f32) {
        let others = (log.count(f64::from(self.window), at) - 1.0) as f32;
        if others + 0.01 < self.n {
            return;
        }
        // Either more are admitted, or the window is so short that the first of them is out of it.
        let since = log
            .nth_last_before(f64::from(self.n), at)
            .map_or(0.0, |first| at - first);
        if since as f32 > shorter * 1.02 {
            self.window = self.window.min(since as f32);
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
        if self.has_all && is_first && self.n >= 8.0 {
            1.0
        } else {
            0.0
        }
    }

    /// Returns whether the window had room for a request that was refused.
    pub(super) fn has_room(&self, log: &Log, refusal: &Refusal) -> bool {
        let (window, n) = (f64::from(self.window), f64::from(self.n));
        let slack = tolerance(n, window) + 0.5;
        log.count(window, refusal.at) < n - slack
            && log.count(
                window + late_arrival(window) + 2.0 * refusal.margin + 0.04,
                refusal.at,
            ) + 0.5
                < n
    }

    /// Scores a refusal; a count of at least `least` can speak for the hypothesis.
    pub(super) fn refused(&mut self, log: &Log, refusal: &Refusal, least: f64) {
        let window = f64::from(self.window);
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
        if log.count(window + 2.0 * refusal.margin + 0.04, refusal.at) + 0.5 >= n {
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

/// Returns by how many seconds a window is taken longer where it is tested: its first request, whose
/// connection had yet to be made, may have arrived late.
fn late_arrival(window: f64) -> f64 {
    (0.02 * window).min(0.1)
}

/// Round windows are more common than others.
pub(super) fn prior(window: f32) -> f32 {
    match window as u32 {
        1 => 0.4,
        10 | 60 => 0.2,
        5 | 3600 => 0.1,
        4 | 6 | 7 | 8 | 12 => -0.5,
        15 | 20 => -0.3,
        _ => 0.0,
    }
}
