//! The search: one hypothesis for each window of a grid, each scored by every answer.
//!
//! At a refusal the client knows how many of its own requests lay in each window; each count is a
//! hypothesis "n per w". A refusal at the same count again speaks for it, a refusal at a smaller
//! count or an admission at a larger one against it. Of the hypotheses near the best score the
//! client acts on the one that allows most, so that every mistake removes hypotheses.

use serde::{Deserialize, Serialize};

use super::hypothesis::{Hypothesis, Refusal, prior};
use super::log::Log;
use super::min_distance::MinDistance;
use super::refusal::LONGEST_WAIT;

/// The windows that are tried, in seconds.
pub(super) const GRID: [f32; 20] = [
    1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0, 15.0, 20.0, 30.0, 60.0, 120.0, 300.0,
    600.0, 900.0, 1800.0, 3600.0,
];
/// The score of a smooth rate: it is chosen when no window does better.
const RATE_SCORE: f32 = -1.2;
/// How far below the best score a hypothesis is still tried.
const NEAR_BEST: f32 = 0.65;
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
/// Up to this length servers count in whole seconds.
const SHORT: f32 = 3.0;
/// From this length on a window is filled at once to see whether it is the one, in seconds.
pub(super) const LONG: f64 = 10.0;

/// Returns the place of a window in the grid; one that is not of the grid takes that of the less
/// common of its neighbours.
fn place_in_grid(window: f32) -> usize {
    let above = GRID.partition_point(|grid| *grid < window);
    let last = GRID.len() - 1;
    if above > last || above == 0 || (GRID[above] - window).abs() < 0.5 {
        return above.min(last);
    }
    if prior(GRID[above]) <= prior(GRID[above - 1]) {
        above
    } else {
        above - 1
    }
}

/// Which limit a search acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Acting {
    /// The window with this index in the grid.
    Window(u8),
    /// No window fits: a smooth rate.
    Rate,
}

/// A search that has not found its limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Search {
    hypotheses: [Hypothesis; GRID.len()],
    /// The host may count no window, but how soon a request follows another.
    min_distance: Option<MinDistance>,
    pub(super) acting: Acting,
    /// The measured rate, requests per second.
    pub(super) rate: f32,
    /// Refusals after at least one admission.
    pub(super) fresh: u8,
    /// The rate at which a long window is filled.
    pub(super) fill: f32,
    /// The hypotheses, as bits, that had room at a refusal of the present row.
    contradicted: u32,
    /// The hypotheses that lost by the last row, since another one explained it.
    outdone: u32,
    /// How long the host refused everything after the last refusal of that row, in seconds.
    row_length: f32,
    /// That length, if no window explains the row: the host bans.
    pub(super) ban: f32,
}

impl Search {
    /// Opens a search at a refusal; windows that are confirmed already have a better start.
    pub(super) fn open(log: &Log, refusal: &Refusal, is_confirmed: impl Fn(f64) -> bool) -> Self {
        let mut hypotheses = GRID.map(|window| {
            let is_confirmed = is_confirmed(f64::from(window));
            Hypothesis::new(log, refusal, window, is_confirmed)
        });
        if let Some(window) = refusal.window_by_advice(log) {
            let advised = Hypothesis::advised(log, refusal, window);
            hypotheses[place_in_grid(window as f32)] = advised;
        }
        let fill = (log.count(5.0, refusal.at) / 5.0).max(0.2) as f32;
        let mut search = Self {
            hypotheses,
            min_distance: MinDistance::new(log, refusal),
            acting: Acting::Rate,
            rate: refusal.measured.0.max(0.01) as f32,
            fresh: 0,
            fill,
            contradicted: 0,
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
        let contradicted = std::mem::take(&mut self.contradicted);
        if contradicted == 0 {
            return;
        }
        // Beyond that the client had nothing to send.
        self.row_length = (at - epoch).min(LONGEST_WAIT) as f32;
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
                let at = hypothesis.free_at(log)?;
                (at >= from).then_some(at)
            });
        free.reduce(f64::min)
    }

    /// Scores a further refusal. Returns the rate of a host that counts the distance of requests, if
    /// both refusals agree with it.
    pub(super) fn refused(&mut self, log: &Log, refusal: &Refusal) -> Option<f64> {
        self.min_distance = (self.min_distance).and_then(|distance| distance.refused(log, refusal));
        let before = self.hypotheses.map(|hypothesis| hypothesis.score);
        if refusal.fresh {
            self.contradicted = 0;
        } else if self.ban > 0.0 {
            // While a ban lasts, no window says anything.
            return None;
        } else {
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
        // A window that is full at the same count again explains more than a distance does.
        let gained = |(own, before): (&Hypothesis, f32)| own.score >= before + 0.9;
        if self.hypotheses.iter().zip(before).any(gained) {
            self.min_distance = None;
        }
        let distance = self.min_distance.filter(|_| refusal.fresh)?;
        Some(distance.rate())
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

    /// Returns the distance of two requests that one refusal alone agrees with.
    pub(super) fn min_distance(&self) -> Option<MinDistance> {
        self.min_distance.filter(|_| self.fresh == 0)
    }

    /// Returns the window that the client acts on: how many, and in how many seconds.
    pub(super) fn window(&self) -> Option<(f64, f64)> {
        let (_, acting) = self.acting_window()?;
        Some((f64::from(acting.n), f64::from(acting.window)))
    }

    /// Returns the window that a settled search has found: of those that come to the same rate as the
    /// one that the client acts on, the one with the best score.
    pub(super) fn found(&self) -> Option<(f64, f64)> {
        let (_, acting) = self.acting_window()?;
        let least = SLOWER * acting.n / acting.window;
        let same = self
            .hypotheses
            .iter()
            .filter(|other| other.n / other.window >= least);
        let best = same.fold(acting, |best, other| {
            if other.score > best.score {
                other
            } else {
                best
            }
        });
        Some((f64::from(best.n), f64::from(best.window)))
    }

    /// Returns the window of the grid that the client acts on, and the hypothesis for it.
    fn acting_window(&self) -> Option<(f32, &Hypothesis)> {
        let Acting::Window(index) = self.acting else {
            return None;
        };
        let index = usize::from(index).min(GRID.len() - 1);
        Some((GRID[index], &self.hypotheses[index]))
    }

    /// Returns whether what the client acts on is a smooth rate: a short window that had to be
    /// shortened is none of those that servers count in.
    pub(super) fn is_smooth(&self) -> bool {
        self.acting_window()
            .is_none_or(|(grid, acting)| acting.window < SHORT.min(0.97 * grid))
    }

    /// Returns whether nothing slower than what the client acts on is left to be tried.
    pub(super) fn is_settled(&self) -> bool {
        let Some((_, acting)) = self.acting_window() else {
            return self.fresh >= 2;
        };
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
