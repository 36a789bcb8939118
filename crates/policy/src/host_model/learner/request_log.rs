//! The instants of a client's own requests: the latest ones exactly, older ones as checkpoints.
//!
//! For any window up to an hour, the log returns the number of requests in the window and the
//! instant of the n-th last request. The size is fixed. Instants are seconds after the learner's
//! origin, in ticks of 100 microseconds.

use serde::{Deserialize, Serialize};

use super::units::{LearnerInstant, Seconds};

const TICKS_PER_SECOND: f64 = 10_000.0;
const EXACT_ROWS: usize = 4;
const EXACT_COLUMNS: usize = 32;
/// The number of exact instants, which exceeds the usual number of requests in flight.
const EXACT_INSTANTS: usize = EXACT_ROWS * EXACT_COLUMNS;
const CHECKPOINTS_PER_LEVEL: usize = 16;
/// The shortest distance between two checkpoints of each [`CheckpointLevel`].
const LEVEL_SPACINGS: [Seconds; 4] = [Seconds(0.5), Seconds(4.0), Seconds(32.0), Seconds(256.0)];

/// The log of the requests that were not refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RequestLog {
    /// A circular buffer, in rows because serde reads arrays of at most 32 elements.
    exact: [[u32; EXACT_COLUMNS]; EXACT_ROWS],
    head: u8,
    len: u8,
    total: u32,
    levels: [CheckpointLevel; LEVEL_SPACINGS.len()],
}

/// Checkpoints at a fixed distance, each with the number of requests before its instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct CheckpointLevel {
    at: [u32; CHECKPOINTS_PER_LEVEL],
    before: [u32; CHECKPOINTS_PER_LEVEL],
    head: u8,
    len: u8,
}

/// A point of the cumulative count: the number of requests before a tick.
#[derive(Clone, Copy)]
struct CountPoint {
    at: f64,
    before: f64,
}

fn ticks(at: LearnerInstant) -> u32 {
    (at.0 * TICKS_PER_SECOND).round() as u32
}

/// Returns the instant of a tick.
fn instant(tick: f64) -> LearnerInstant {
    LearnerInstant(tick / TICKS_PER_SECOND)
}

impl CheckpointLevel {
    /// Returns the checkpoint at an index; the oldest is first.
    fn get(&self, index: usize) -> CountPoint {
        let slot = (usize::from(self.head) + CHECKPOINTS_PER_LEVEL - usize::from(self.len) + index)
            % CHECKPOINTS_PER_LEVEL;
        CountPoint {
            at: f64::from(self.at[slot]),
            before: f64::from(self.before[slot]),
        }
    }

    fn points(&self) -> impl Iterator<Item = CountPoint> {
        (0..usize::from(self.len).min(CHECKPOINTS_PER_LEVEL)).map(|index| self.get(index))
    }

    fn push(&mut self, at: u32, before: u32, spacing: Seconds) {
        let last = self.points().last();
        if last.is_some_and(|point| f64::from(at) < point.at + spacing.0 * TICKS_PER_SECOND) {
            return;
        }
        let slot = usize::from(self.head) % CHECKPOINTS_PER_LEVEL;
        self.at[slot] = at;
        self.before[slot] = before;
        self.head = ((slot + 1) % CHECKPOINTS_PER_LEVEL) as u8;
        self.len = (self.len + 1).min(CHECKPOINTS_PER_LEVEL as u8);
    }
}

impl RequestLog {
    /// Returns the exact instant at an index; the oldest is first.
    fn exact(&self, index: usize) -> u32 {
        let slot = self.slot(index);
        self.exact[slot / EXACT_COLUMNS][slot % EXACT_COLUMNS]
    }

    fn slot(&self, index: usize) -> usize {
        (usize::from(self.head) + EXACT_INSTANTS - self.exact_len() + index) % EXACT_INSTANTS
    }

    fn exact_len(&self) -> usize {
        usize::from(self.len).min(EXACT_INSTANTS)
    }

    /// Returns the exact instants, the oldest first.
    pub(super) fn recent(&self) -> impl Iterator<Item = LearnerInstant> {
        (0..self.exact_len()).map(|index| instant(f64::from(self.exact(index))))
    }

    /// Returns the number of requests that were not refused.
    pub(super) fn total(&self) -> u32 {
        self.total
    }

    /// Adds a request. An instant before the latest one is recorded as the latest one.
    pub(super) fn push(&mut self, at: LearnerInstant) {
        let len = self.exact_len();
        let at = ticks(at).max(if len == 0 { 0 } else { self.exact(len - 1) });
        for (level, spacing) in self.levels.iter_mut().zip(LEVEL_SPACINGS) {
            level.push(at, self.total, spacing);
        }
        let slot = usize::from(self.head) % EXACT_INSTANTS;
        self.exact[slot / EXACT_COLUMNS][slot % EXACT_COLUMNS] = at;
        self.head = ((slot + 1) % EXACT_INSTANTS) as u8;
        self.len = (len + 1).min(EXACT_INSTANTS) as u8;
        self.total = self.total.saturating_add(1);
    }

    /// Removes a request that was refused, because the server does not count it.
    pub(super) fn forget(&mut self, at: LearnerInstant) {
        let at = ticks(at);
        let len = self.exact_len();
        if let Some(found) = (0..len).rev().find(|index| self.exact(*index) == at) {
            for index in (0..found).rev() {
                let (from, to) = (self.slot(index), self.slot(index + 1));
                self.exact[to / EXACT_COLUMNS][to % EXACT_COLUMNS] =
                    self.exact[from / EXACT_COLUMNS][from % EXACT_COLUMNS];
            }
            self.len -= 1;
        }
        self.total = self.total.saturating_sub(1);
        for level in &mut self.levels {
            for (when, before) in level.at.iter().zip(&mut level.before) {
                if *when > at {
                    *before = before.saturating_sub(1);
                }
            }
        }
    }

    /// Returns how many requests lay in the `window` up to and including `at`.
    pub(super) fn count(&self, window: Seconds, at: LearnerInstant) -> f64 {
        let until = |at: LearnerInstant| self.before(at.0 * TICKS_PER_SECOND + 0.5);
        (until(at) - until(at - window)).max(0.0)
    }

    /// Returns how many requests were sent before a tick. Between checkpoints, requests are assumed
    /// to be evenly spread.
    fn before(&self, tick: f64) -> f64 {
        let len = self.exact_len();
        let exact_from = self.total.saturating_sub(len as u32);
        if len > 0 && f64::from(self.exact(0)) <= tick {
            let (mut low, mut high) = (0, len);
            while low < high {
                let middle = usize::midpoint(low, high);
                if f64::from(self.exact(middle)) <= tick {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            return f64::from(exact_from) + low as f64;
        }
        let (low, high) = self.around(|point| point.at <= tick);
        match (low, high) {
            (Some(a), Some(b)) if b.at > a.at => {
                a.before + (b.before - a.before).max(0.0) * (tick - a.at) / (b.at - a.at)
            }
            (Some(point), _) | (None, Some(point)) => point.before,
            (None, None) => f64::from(self.total),
        }
    }

    /// Returns the last [`CountPoint`] for which `is_below` is true, and the first for which it is
    /// false.
    fn around(
        &self,
        is_below: impl Fn(&CountPoint) -> bool,
    ) -> (Option<CountPoint>, Option<CountPoint>) {
        let len = self.exact_len();
        let first_exact = (len > 0).then(|| CountPoint {
            at: f64::from(self.exact(0)),
            before: f64::from(self.total.saturating_sub(len as u32)),
        });
        let mut low: Option<CountPoint> = None;
        let mut high = first_exact.filter(|point| !is_below(point));
        for point in self.levels.iter().flat_map(CheckpointLevel::points) {
            if is_below(&point) {
                if low.is_none_or(|best| point.at > best.at) {
                    low = Some(point);
                }
            } else if high.is_none_or(|best| point.at < best.at) {
                high = Some(point);
            }
        }
        (low, high)
    }

    /// Returns when the n-th last request was sent; `None` if there are fewer requests, or the
    /// instant was dropped.
    pub(super) fn nth_last(&self, n: f64) -> Option<LearnerInstant> {
        let n = n.max(1.0);
        let len = self.exact_len();
        if n <= len as f64 {
            return Some(instant(f64::from(self.exact(len - n as usize))));
        }
        let target = f64::from(self.total) - n;
        if target < 0.0 {
            return None;
        }
        let (low, high) = self.around(|point| point.before <= target);
        let (low, high) = (low?, high?);
        let share = (target - low.before) / (high.before - low.before).max(1.0);
        Some(instant(low.at + (high.at - low.at) * share.clamp(0.0, 1.0)))
    }

    /// Returns when the n-th last request before `at` was sent.
    pub(super) fn nth_last_before(&self, n: f64, at: LearnerInstant) -> Option<LearnerInstant> {
        let later = f64::from(self.total) - self.before(at.0 * TICKS_PER_SECOND - 0.5);
        self.nth_last(n.floor() + later)
    }

    /// Moves every instant back by the time by which the origin moves ahead.
    pub(super) fn rebase(&mut self, by: Seconds) {
        let back = (by.0 * TICKS_PER_SECOND) as u32;
        for at in self.exact.iter_mut().flatten() {
            *at = at.saturating_sub(back);
        }
        for at in self.levels.iter_mut().flat_map(|level| &mut level.at) {
            *at = at.saturating_sub(back);
        }
    }
}
