//! The search: one hypothesis for each window of a grid, each scored by every answer.
//!
//! At a refusal the client knows how many of its own requests lay in each window; each count is a
//! hypothesis "n per w". A refusal at the same count again speaks for it, a refusal at a smaller
//! count or an admission at a larger one against it. Of the hypotheses near the best score the
//! client acts on the one that allows most, so that every mistake removes hypotheses.

use serde::{Deserialize, Serialize};

use super::log::Log;

/// The windows that are tried, in seconds.
pub(super) const GRID: [f32; 18] = [
    1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0,
    1800.0, 3600.0,
];
/// The score of a smooth rate: it is chosen when no window does better.
const RATE_SCORE: f32 = -1.2;
/// The least score that is kept, so that a hypothesis can recover.
const LOWEST_SCORE: f32 = -3.0;
/// How far below the best score a hypothesis is still tried.
const NEAR_BEST: f32 = 0.6;
/// How long a rate that nothing refuses takes to double, in seconds.
const RAMP: f64 = 4.0;
/// The longest window that may explain a row of refusals, in seconds: a ban looks the same.
const LONGEST_EXPLANATION: f64 = 60.0;
/// What a window gains that explains a row of refusals, and what one loses that had room then.
const EXPLAINED: f32 = 0.5;
const OUTDONE: f32 = -0.7;
/// Up to this score a window that explained a row of refusals is refuted by later admissions.
const NOT_REFUTED: f32 = -0.6;
/// What the windows get back that lost by such a row.
const RESTORED: f32 = 1.5;
/// How far below the best score a window is still worth a test of its own.
const WORTH_A_TEST: f32 = 0.65;
/// A hypothesis below this share of a rate is slower; the others come to the same.
const SLOWER: f32 = 0.95;
/// From this length on a window is filled at once to see whether it is the one, in seconds.
pub(super) const LONG: f64 = 10.0;

/// Which limit a search acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Acting {
    /// The window with this index in the grid.
    Window(u8),
    /// No window fits: a smooth rate.
    Rate,
}

/// One window of the grid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Hypothesis {
    /// How many the window is believed to admit.
    n: f32,
    /// The window in seconds: of the grid, or shorter where an admission shows that it is.
    window: f32,
    /// The count at the first refusal.
    first: f32,
    /// The first request of all was among those: it may not have counted at the server, as
    /// robots.txt.
    has_all: bool,
    score: f32,
}

/// A search that has not found its limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Search {
    hypotheses: [Hypothesis; GRID.len()],
    pub(super) acting: Acting,
    /// The measured rate, requests per second.
    pub(super) rate: f32,
    /// Refusals after at least one admission.
    pub(super) fresh: u8,
    /// The rate at which a long window is filled.
    pub(super) fill: f32,
    /// The hypotheses, as bits, that had room at a refusal of the present row.
    contradicted: u32,
    /// How many refusals without an admission between them there are in the row.
    row: u8,
    /// The hypotheses that lost by the last row, since another one explained it.
    outdone: u32,
    /// How long the host refused everything after the last refusal of that row, in seconds.
    row_length: f32,
    /// That length, if no window explains the row: the host bans.
    pub(super) ban: f32,
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
}

/// How far two counts of one limit may differ: arrivals scatter, and large counts are estimates.
pub(super) fn tolerance(n: f64, window: f64) -> f64 {
    let estimated = if n > 128.0 { 0.015 * n } else { 0.0 };
    (0.02 * n / window + estimated).floor()
}

impl Search {
    /// Opens a search at a refusal; windows that are confirmed already have a better start.
    pub(super) fn open(log: &Log, refusal: &Refusal, is_confirmed: impl Fn(f64) -> bool) -> Self {
        let hypotheses = GRID.map(|window| {
            let n = log.count(f64::from(window), refusal.at).max(1.0) as f32;
            let score = if is_confirmed(f64::from(window)) {
                0.7
            } else {
                prior(window)
            };
            Hypothesis {
                n,
                window,
                first: n,
                has_all: n + 0.5 >= log.total() as f32,
                score,
            }
        });
        let fill = (log.count(5.0, refusal.at) / 5.0).max(0.2) as f32;
        let mut search = Self {
            hypotheses,
            acting: Acting::Rate,
            rate: refusal.measured.0.max(0.01) as f32,
            fresh: 0,
            fill,
            contradicted: 0,
            row: 0,
            outdone: 0,
            row_length: 0.0,
            ban: 0.0,
        };
        search.choose();
        search
    }

    /// Takes in the first admission after a row of refusals: a window that had room at one of them
    /// is not the limit, if another one explains them all.
    pub(super) fn row_ended(&mut self, log: &Log, at: f64, epoch: f64) {
        let (row, contradicted) = (self.row, self.contradicted);
        (self.row, self.contradicted) = (0, 0);
        if row == 0 || contradicted == 0 {
            return;
        }
        self.row_length = (at - epoch) as f32;
        let explains = |index: usize, hypothesis: &Hypothesis| {
            let window = f64::from(hypothesis.window);
            contradicted & (1 << index) == 0
                && window <= LONGEST_EXPLANATION
                && log.count(window, at) - 1.0 < f64::from(hypothesis.n)
        };
        let mut any = false;
        for (index, hypothesis) in self.hypotheses.iter_mut().enumerate() {
            if explains(index, hypothesis) {
                any = true;
                hypothesis.add(EXPLAINED);
            }
        }
        if !any {
            self.ban = self.ban.max(self.row_length);
            return;
        }
        self.outdone |= contradicted;
        for (index, hypothesis) in self.hypotheses.iter_mut().enumerate() {
            if contradicted & (1 << index) != 0 {
                hypothesis.add(OUTDONE);
            }
        }
        self.choose();
    }

    /// Reconsiders a row of refusals: when admissions contradict every window that explained it, the
    /// host bans for a while, and the windows that had room are as good as before.
    fn reconsider(&mut self) {
        if self.outdone == 0 {
            return;
        }
        let outdone = self.outdone;
        let is_outdone = |index: usize| outdone & (1 << index) != 0;
        let hypotheses = self.hypotheses.iter().enumerate();
        let mut others = hypotheses.filter(|(index, _)| !is_outdone(*index));
        if others.any(|(_, other)| other.score > NOT_REFUTED) {
            return;
        }
        for (index, hypothesis) in self.hypotheses.iter_mut().enumerate() {
            if is_outdone(index) {
                hypothesis.add(RESTORED);
            }
        }
        self.outdone = 0;
        self.ban = self.ban.max(self.row_length);
    }

    /// Returns the first instant from `from` on at which a window would be free that the row of
    /// refusals has not contradicted.
    pub(super) fn next_free(&self, log: &Log, from: f64) -> Option<f64> {
        let best = self.best();
        let free = self
            .hypotheses
            .iter()
            .enumerate()
            .filter_map(|(index, hypothesis)| {
                if self.contradicted & (1 << index) != 0 || hypothesis.score < best - WORTH_A_TEST {
                    return None;
                }
                let n = f64::from(hypothesis.n).floor();
                let window = f64::from(hypothesis.window);
                // The first request may not have counted at the server: robots.txt, for example.
                let spare = if n >= 8.0 && window <= LONG { 1.0 } else { 0.0 };
                let at = log.nth_last(n - spare)? + window + late_arrival(window);
                (at >= from).then_some(at)
            });
        free.reduce(f64::min)
    }

    /// Scores a further refusal.
    pub(super) fn refused(&mut self, log: &Log, refusal: &Refusal) {
        if refusal.fresh {
            (self.row, self.contradicted) = (0, 0);
        } else if self.ban > 0.0 {
            // While a ban lasts, no window says anything.
            return;
        } else {
            self.row = self.row.saturating_add(1);
            for (index, hypothesis) in self.hypotheses.iter().enumerate() {
                if hypothesis.has_room(log, refusal) {
                    self.contradicted |= 1 << index;
                }
            }
        }
        for (index, hypothesis) in self.hypotheses.iter_mut().enumerate() {
            // Acting on a short window keeps below n, so a refusal there must reach it to count.
            let acting = self.acting == Acting::Window(index as u8);
            let short = f64::from(hypothesis.window) < LONG;
            let least = if acting && short {
                f64::from(hypothesis.n) - 0.5
            } else {
                0.0
            };
            hypothesis.refused(log, refusal, least);
        }
        if refusal.fresh {
            self.fresh = self.fresh.saturating_add(1);
            let (low, high) = refusal.measured;
            self.rate = (low * high.min(2.0 * low)).sqrt().max(0.01) as f32;
        }
        self.choose();
    }

    /// Scores an admission at `at`, which the log contains.
    pub(super) fn admitted(&mut self, log: &Log, at: f64) {
        let mut shorter = 0.98;
        for (hypothesis, grid) in self.hypotheses.iter_mut().zip(GRID) {
            hypothesis.admitted(log, at, shorter);
            shorter = grid;
        }
        self.reconsider();
        let before = self.window().map(|(n, window)| n / window);
        self.choose();
        if let (Some(admitted), Acting::Rate) = (before, self.acting) {
            // No window fits any more; what was admitted at the rate of the last one holds.
            self.rate = self.rate.max(admitted as f32);
        }
    }

    /// Raises a rate that nothing refuses.
    pub(super) fn ramp(&mut self, passed: f64) {
        if self.acting == Acting::Rate {
            self.rate = (self.rate * (passed / RAMP).exp2() as f32).min(2_000.0);
        }
    }

    fn choose(&mut self) {
        let best = self.best();
        let mut fastest = f32::MIN;
        let mut acting = Acting::Rate;
        for (index, hypothesis) in self.hypotheses.iter().enumerate() {
            let rate = hypothesis.n / hypothesis.window;
            if hypothesis.score >= best - NEAR_BEST && rate > fastest {
                fastest = rate;
                acting = Acting::Window(index as u8);
            }
        }
        if RATE_SCORE >= best - NEAR_BEST && self.rate > fastest {
            acting = Acting::Rate;
        }
        self.acting = acting;
    }

    /// Returns the best score.
    pub(super) fn best(&self) -> f32 {
        (self.hypotheses.iter()).fold(RATE_SCORE, |best, hypothesis| best.max(hypothesis.score))
    }

    /// Returns the window that the client acts on: how many, and in how many seconds.
    pub(super) fn window(&self) -> Option<(f64, f64)> {
        let Acting::Window(index) = self.acting else {
            return None;
        };
        let index = usize::from(index).min(GRID.len() - 1);
        let hypothesis = &self.hypotheses[index];
        Some((f64::from(hypothesis.n), f64::from(hypothesis.window)))
    }

    /// Returns whether nothing slower than what the client acts on is left to be tried.
    pub(super) fn is_settled(&self) -> bool {
        let Acting::Window(index) = self.acting else {
            return self.fresh >= 2;
        };
        let index = usize::from(index).min(GRID.len() - 1);
        let acting = self.hypotheses[index];
        let rate = acting.n / acting.window;
        // One refusal alone may have been a burst within a higher limit.
        if self.fresh == 0 || f64::from(acting.window) >= LONG && acting.score < 0.9 {
            return false;
        }
        acting.score >= 3.0
            || self.hypotheses.iter().all(|other| {
                other.n / other.window >= SLOWER * rate || other.score <= acting.score - 0.9
            })
    }
}

impl Hypothesis {
    fn add(&mut self, score: f32) {
        self.score = (self.score + score).max(LOWEST_SCORE);
    }

    /// Scores an admission; `shorter` is the next shorter window of the grid.
    fn admitted(&mut self, log: &Log, at: f64, shorter: f32) {
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
    fn has_room(&self, log: &Log, refusal: &Refusal) -> bool {
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
    fn refused(&mut self, log: &Log, refusal: &Refusal, least: f64) {
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
fn prior(window: f32) -> f32 {
    match window as u32 {
        1 => 0.4,
        10 | 60 => 0.2,
        5 | 3600 => 0.1,
        4 | 6 | 8 => -0.5,
        15 | 20 => -0.3,
        _ => 0.0,
    }
}
