//! The search: one hypothesis for each window of a grid, scored by every response.
//!
//! At a refusal, the client knows how many of its own requests were sent in each window. Each count
//! is a hypothesis "n per w". A refusal at the same count supports the hypothesis. A refusal at a
//! smaller count, or an admission at a larger one, contradicts it. Of the hypotheses near the best
//! score, the client acts on the one that allows most, so that every mistake excludes hypotheses.

use serde::{Deserialize, Serialize};

use super::hypothesis::{RefusalEvidence, WindowHypothesis, prior};
use super::min_distance::MinDistance;
use super::request_log::RequestLog;
use super::units::{LearnerInstant, RequestRate, Seconds};

/// The lengths of the windows in the grid, in seconds.
const GRID_SECONDS: [f32; 20] = [
    1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0,
    600.0, 900.0, 1800.0, 3600.0,
];
/// The score of a smooth rate, which is chosen if no window has a better score.
pub(super) const RATE_SCORE: f32 = -1.2;
/// The difference to the best score up to which the client may act on a hypothesis.
const NEAR_BEST: f32 = 0.65;
/// The time in which a rate doubles if no request is refused.
const DOUBLING_TIME: Seconds = Seconds(4.0);
/// The highest [`RequestRate`] that a search tries.
const MAX_RATE: RequestRate<f32> = RequestRate(2_000.0);
/// The lowest [`RequestRate`] that a search measures.
const MIN_RATE: RequestRate = RequestRate(0.01);
/// The lowest [`RequestRate`] at which a long window is filled to test it.
const MIN_FILL: RequestRate = RequestRate(0.2);
/// The time before a first refusal over which the fill rate is measured.
const FILL_TIME: Seconds = Seconds(5.0);
/// The longest window that may explain several refusals in a row. A ban looks like a longer window.
const MAX_EXPLAINING_WINDOW: Seconds = Seconds(60.0);
/// The score that a window gains if it explains several refusals in a row.
const EXPLAINED_SCORE: f32 = 0.5;
/// The change of score of a window that was free at one of these refusals, if another window
/// explains them all.
const OUTDONE_SCORE: f32 = -0.7;
/// The score up to which a window counts as refuted, after it explained several refusals in a row.
const MAX_REFUTED_SCORE: f32 = -0.6;
/// The score that windows regain if the explanation that cost them score was refuted.
const RESTORED_SCORE: f32 = 1.5;
/// The difference to the best score up to which a search waits for a window to be free.
const WORTH_A_TEST: f32 = 0.65;
/// The share of the acting rate below which a hypothesis counts as slower.
const SLOWER_SHARE: f32 = 0.95;
/// The length in seconds below which a shortened window is treated as a smooth rate, because
/// servers count in whole seconds.
const SHORT_WINDOW_SECONDS: f32 = 3.0;
/// The length from which a window is filled at once, to test whether the host counts in the window.
pub(super) const LONG_WINDOW: Seconds = Seconds(10.0);

/// Returns the windows of the grid, the shortest first.
pub(super) fn grid() -> [Seconds<f32>; GRID_SECONDS.len()] {
    GRID_SECONDS.map(Seconds)
}

/// Returns the index of a window in the grid. A window between two of the grid takes the index of
/// the less common one.
fn grid_index(window: Seconds<f32>) -> usize {
    let grid = grid();
    let above = grid.partition_point(|own| *own < window);
    let last = grid.len() - 1;
    if above > last || above == 0 || (grid[above].0 - window.0).abs() < 0.5 {
        return above.min(last);
    }
    if prior(grid[above]) <= prior(grid[above - 1]) {
        above
    } else {
        above - 1
    }
}

/// The limit that a search acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ActingLimit {
    /// The [`Window`](crate::rate::Window) with this index in the grid.
    Window(u8),
    /// A smooth rate, because no window fits.
    Rate,
}

/// A search whose limit is not found yet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct LimitSearch {
    hypotheses: [WindowHypothesis; GRID_SECONDS.len()],
    /// The hypothesis that the host limits the distance between requests instead of a window.
    min_distance: Option<MinDistance>,
    pub(super) acting: ActingLimit,
    /// The measured [`RequestRate`], which applies if no window fits.
    pub(super) rate: RequestRate<f32>,
    /// The number of refusals that followed an admission.
    pub(super) fresh: u8,
    /// The [`RequestRate`] at which a long window is filled.
    pub(super) fill: RequestRate<f32>,
    /// The hypotheses, as bits, whose windows were free at a refusal of the current row.
    contradicted: u32,
    /// The hypotheses, as bits, that lost score because another one explained the last row of
    /// refusals.
    outdone: u32,
    /// The time for which the host refused every request after the last refusal of that row.
    row_length: Seconds<f32>,
    /// The longest time for which the host refused every request without a window that explains it,
    /// because the host bans the client.
    pub(super) ban: Seconds<f32>,
}

impl LimitSearch {
    /// Opens a search at a refusal. Windows that are already confirmed start with a better score.
    pub(super) fn open(
        log: &RequestLog,
        refusal: &RefusalEvidence,
        is_confirmed: impl Fn(Seconds) -> bool,
    ) -> Self {
        let mut hypotheses = grid().map(|window| {
            let is_confirmed = is_confirmed(window.wide());
            WindowHypothesis::new(log, refusal, window, is_confirmed)
        });
        if let Some(window) = refusal.window_by_advice(log) {
            let advised = WindowHypothesis::advised(log, refusal, window);
            hypotheses[grid_index(window.narrow())] = advised;
        }
        let fill = log.count(FILL_TIME, refusal.at) / FILL_TIME;
        let mut search = Self {
            hypotheses,
            min_distance: MinDistance::new(log, refusal),
            acting: ActingLimit::Rate,
            rate: refusal.measured.0.max(MIN_RATE).narrow(),
            fresh: 0,
            fill: fill.max(MIN_FILL).narrow(),
            contradicted: 0,
            outdone: 0,
            row_length: Seconds(0.0),
            ban: Seconds(0.0),
        };
        search.choose();
        search
    }

    /// Learns from the first admission after a row of refusals, `length` after the last of them. A
    /// window that was free at one of the refusals loses score if another window explains them all.
    pub(super) fn row_ended(&mut self, log: &RequestLog, at: LearnerInstant, length: Seconds) {
        let contradicted = std::mem::take(&mut self.contradicted);
        if contradicted == 0 {
            return;
        }
        self.row_length = length.narrow();
        let explains = |index: usize, hypothesis: &WindowHypothesis| {
            let window = hypothesis.window();
            contradicted & (1 << index) == 0
                && window <= MAX_EXPLAINING_WINDOW
                && log.count(window, at) - 1.0 < f64::from(hypothesis.n)
        };
        let mut any = false;
        for (index, hypothesis) in self.hypotheses.iter_mut().enumerate() {
            if explains(index, hypothesis) {
                any = true;
                hypothesis.add(EXPLAINED_SCORE);
            }
        }
        if !any {
            self.ban = self.ban.max(self.row_length);
            return;
        }
        self.outdone |= contradicted;
        for (index, hypothesis) in self.hypotheses.iter_mut().enumerate() {
            if contradicted & (1 << index) != 0 {
                hypothesis.add(OUTDONE_SCORE);
            }
        }
        self.choose();
    }

    /// Revises the explanation of a row of refusals. If admissions contradict every window that
    /// explained it, the host bans, and the windows that were free regain their score.
    fn reconsider(&mut self) {
        if self.outdone == 0 {
            return;
        }
        let outdone = self.outdone;
        let is_outdone = |index: usize| outdone & (1 << index) != 0;
        let hypotheses = self.hypotheses.iter().enumerate();
        let mut others = hypotheses.filter(|(index, _)| !is_outdone(*index));
        if others.any(|(_, other)| other.score > MAX_REFUTED_SCORE) {
            return;
        }
        for (index, hypothesis) in self.hypotheses.iter_mut().enumerate() {
            if is_outdone(index) {
                hypothesis.add(RESTORED_SCORE);
            }
        }
        self.outdone = 0;
        self.ban = self.ban.max(self.row_length);
    }

    /// Returns the first instant, not before `from`, at which a window of a likely hypothesis is
    /// free. Windows that the current row of refusals contradicts are excluded.
    pub(super) fn next_free(
        &self,
        log: &RequestLog,
        from: LearnerInstant,
    ) -> Option<LearnerInstant> {
        let best = self.best();
        let possible = self.hypotheses.iter().enumerate().filter(|(index, own)| {
            self.contradicted & (1 << index) == 0 && own.score >= best - WORTH_A_TEST
        });
        let free = possible.filter_map(|(_, hypothesis)| hypothesis.free_at(log));
        free.filter(|at| *at >= from).reduce(LearnerInstant::min)
    }

    /// Scores a further refusal. Returns the [`RequestRate`] of a host that limits the distance
    /// between requests, if both refusals agree.
    pub(super) fn refused(
        &mut self,
        log: &RequestLog,
        refusal: &RefusalEvidence,
    ) -> Option<RequestRate> {
        self.min_distance = (self.min_distance).and_then(|distance| distance.refused(log, refusal));
        let before = self.hypotheses.map(|hypothesis| hypothesis.score);
        if refusal.fresh {
            self.contradicted = 0;
        } else if self.ban.0 > 0.0 {
            // During a ban, a refusal is no evidence about windows.
            return None;
        } else {
            for (index, hypothesis) in self.hypotheses.iter().enumerate() {
                if hypothesis.has_room(log, refusal) {
                    self.contradicted |= 1 << index;
                }
            }
        }
        for (index, hypothesis) in self.hypotheses.iter_mut().enumerate() {
            // A client that acts on a short window stays below `n`, so a refusal supports the
            // hypothesis only if the count reaches `n`.
            let acting = self.acting == ActingLimit::Window(index as u8);
            let short = hypothesis.window() < LONG_WINDOW;
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
            let mean = RequestRate((low.0 * high.min(2.0 * low).0).sqrt());
            self.rate = mean.max(MIN_RATE).narrow();
        }
        self.choose();
        // A window that is full at the same count again is a better explanation than a distance.
        let gained = |(own, before): (&WindowHypothesis, f32)| own.score >= before + 0.9;
        if self.hypotheses.iter().zip(before).any(gained) {
            self.min_distance = None;
        }
        let distance = self.min_distance.filter(|_| refusal.fresh)?;
        Some(distance.rate())
    }

    /// Scores an admission at `at`, which the [`RequestLog`] contains.
    pub(super) fn admitted(&mut self, log: &RequestLog, at: LearnerInstant) {
        let mut shorter = Seconds(0.98);
        for (hypothesis, grid) in self.hypotheses.iter_mut().zip(grid()) {
            hypothesis.admitted(log, at, shorter);
            shorter = grid;
        }
        self.reconsider();
        let before = self.window().map(|(n, window)| n / window);
        self.choose();
        if let (Some(admitted), ActingLimit::Rate) = (before, self.acting) {
            // No window fits any more, but the rate of the last window was admitted.
            self.rate = self.rate.max(admitted.narrow());
        }
    }

    /// Raises a rate at which no request is refused.
    pub(super) fn ramp(&mut self, passed: Seconds) {
        if self.acting == ActingLimit::Rate {
            let growth = (passed / DOUBLING_TIME).exp2() as f32;
            self.rate = RequestRate(self.rate.0 * growth).min(MAX_RATE);
        }
    }

    fn choose(&mut self) {
        let best = self.best();
        let mut fastest = f32::MIN;
        let mut acting = ActingLimit::Rate;
        for (index, hypothesis) in self.hypotheses.iter().enumerate() {
            let rate = hypothesis.rate();
            if hypothesis.score >= best - NEAR_BEST && rate > fastest {
                fastest = rate;
                acting = ActingLimit::Window(index as u8);
            }
        }
        if RATE_SCORE >= best - NEAR_BEST && self.rate.0 > fastest {
            acting = ActingLimit::Rate;
        }
        self.acting = acting;
    }

    /// Returns the best score.
    pub(super) fn best(&self) -> f32 {
        (self.hypotheses.iter()).fold(RATE_SCORE, |best, hypothesis| best.max(hypothesis.score))
    }

    /// Returns the [`MinDistance`] hypothesis, as long as only one refusal supports it.
    pub(super) fn min_distance(&self) -> Option<MinDistance> {
        self.min_distance.filter(|_| self.fresh == 0)
    }

    /// Returns the window that the client acts on: its number of requests and its length.
    pub(super) fn window(&self) -> Option<(f64, Seconds)> {
        let (_, acting) = self.acting_window()?;
        Some((f64::from(acting.n), acting.window()))
    }

    /// Returns the window that a settled search has found: the best score among the windows with
    /// the rate of the acting window.
    pub(super) fn found(&self) -> Option<(f64, Seconds)> {
        let (_, acting) = self.acting_window()?;
        let least = SLOWER_SHARE * acting.n / acting.window().narrow().0;
        let same = self.hypotheses.iter().filter(|other| other.rate() >= least);
        let best = same.fold(acting, |best, other| {
            if other.score > best.score {
                other
            } else {
                best
            }
        });
        Some((f64::from(best.n), best.window()))
    }

    /// Returns the window of the grid that the client acts on, and its [`WindowHypothesis`].
    fn acting_window(&self) -> Option<(Seconds<f32>, &WindowHypothesis)> {
        let ActingLimit::Window(index) = self.acting else {
            return None;
        };
        let index = usize::from(index).min(self.hypotheses.len() - 1);
        Some((grid()[index], &self.hypotheses[index]))
    }

    /// Returns whether the client acts on a smooth rate. This includes a short window that was
    /// shortened, because servers do not count in such windows.
    pub(super) fn is_smooth(&self) -> bool {
        self.acting_window().is_none_or(|(grid, acting)| {
            acting.is_shorter_than(SHORT_WINDOW_SECONDS.min(0.97 * grid.0))
        })
    }

    /// Returns whether no slower hypothesis is left to be tried.
    pub(super) fn is_settled(&self) -> bool {
        let Some((_, acting)) = self.acting_window() else {
            return self.fresh >= 2;
        };
        let rate = acting.rate();
        // A single refusal may be due to a burst within a higher limit.
        if self.fresh == 0 || acting.window() >= LONG_WINDOW && acting.score < 0.9 {
            return false;
        }
        acting.score >= 3.0
            || self.hypotheses.iter().all(|other| {
                other.rate() >= SLOWER_SHARE * rate || other.score <= acting.score - 0.9
            })
    }
}
