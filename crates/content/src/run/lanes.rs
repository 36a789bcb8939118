//! Who goes next. Pure: which line may start what is a function of counts.
//!
//! Works stand in lanes, one for each site and role and one for each resolver. A lane has few works in memory and the rest
//! in the queue's file, so that a million works of one host neither fill the memory nor keep those of other hosts from
//! being seen. Lanes take turns; a lane that has as many works in hand as its site can use waits for one to come back.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The name of a lane.
pub(crate) type LaneName = Arc<str>;

/// How much a lane may have in hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Steps at once.
    pub(crate) most: usize,
    /// Works per step.
    pub(crate) batch: usize,
}

struct Lane<T> {
    bounds: Bounds,
    ready: VecDeque<T>,
    stored: u64,
    /// How many were counted in the file when works were asked for; `None` when none are.
    loading: Option<u64>,
    in_hand: usize,
    has_turn: bool,
}

/// All lanes.
pub(crate) struct Lanes<T> {
    lanes: BTreeMap<LaneName, Lane<T>>,
    turns: VecDeque<LaneName>,
}

/// What is to be done next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn<T> {
    /// Start a step with these works.
    Start(LaneName, Vec<T>),
    /// Bring so many works of this lane into memory.
    Load(LaneName, usize),
}

impl<T> Default for Lanes<T> {
    fn default() -> Self {
        Self { lanes: BTreeMap::new(), turns: VecDeque::new() }
    }
}

impl<T> Lanes<T> {
    fn lane(&mut self, name: &LaneName, bounds: impl FnOnce() -> Bounds) -> &mut Lane<T> {
        self.lanes.entry(Arc::clone(name)).or_insert_with(|| Lane {
            bounds: bounds(),
            ready: VecDeque::new(),
            stored: 0,
            loading: None,
            in_hand: 0,
            has_turn: false,
        })
    }

    fn give_turn(&mut self, name: &LaneName) {
        if let Some(lane) = self.lanes.get_mut(name)
            && !lane.has_turn
        {
            lane.has_turn = true;
            self.turns.push_back(Arc::clone(name));
        }
    }

    /// There are more works of a lane in the queue's file.
    pub(crate) fn stored(&mut self, name: &LaneName, works: u64, bounds: impl FnOnce() -> Bounds) {
        self.lane(name, bounds).stored += works;
        self.give_turn(name);
    }

    /// A work is ready for a lane. Comes back when the lane has enough in memory: it belongs into the file then.
    pub(crate) fn push(&mut self, name: &LaneName, work: T, bounds: impl FnOnce() -> Bounds) -> Option<T> {
        let lane = self.lane(name, bounds);
        // Works in the file are older: whoever comes now goes behind them, unless there is room for all.
        if lane.ready.len() >= 2 * lane.bounds.most * lane.bounds.batch {
            return Some(work);
        }
        lane.ready.push_back(work);
        self.give_turn(name);
        None
    }

    /// Works that were asked for have been found in the file.
    pub(crate) fn loaded(&mut self, name: &LaneName, asked: usize, found: usize) {
        if let Some(lane) = self.lanes.get_mut(name) {
            let counted = lane.loading.take().unwrap_or(0);
            // Fewer than asked for: none is left of those that were counted by then. Others may have come since.
            lane.stored = lane.stored.saturating_sub(if found < asked { counted } else { found as u64 });
        }
        self.give_turn(name);
        self.forget(name);
    }

    /// A step of a lane has ended.
    pub(crate) fn ended(&mut self, name: &LaneName) {
        if let Some(lane) = self.lanes.get_mut(name) {
            lane.in_hand = lane.in_hand.saturating_sub(1);
        }
        self.give_turn(name);
        self.forget(name);
    }

    /// Drops a lane that nothing is left of.
    fn forget(&mut self, name: &LaneName) {
        let is_empty = |lane: &Lane<T>| lane.ready.is_empty() && lane.stored == 0 && lane.loading.is_none() && lane.in_hand == 0;
        if self.lanes.get(name).is_some_and(is_empty) {
            self.lanes.remove(name);
        }
    }

    /// Says what is to be done next; `None` when nothing can be started.
    pub(crate) fn next(&mut self) -> Option<Turn<T>> {
        while let Some(name) = self.turns.pop_front() {
            let Some(lane) = self.lanes.get_mut(&name) else { continue };
            lane.has_turn = false;
            let full = lane.bounds.most * lane.bounds.batch;
            if lane.stored > 0 && lane.loading.is_none() && lane.ready.len() <= full / 2 {
                lane.loading = Some(lane.stored);
                self.give_turn(&name);
                return Some(Turn::Load(name, full));
            }
            if lane.in_hand < lane.bounds.most && !lane.ready.is_empty() {
                lane.in_hand += 1;
                let works = lane.ready.drain(..lane.ready.len().min(lane.bounds.batch)).collect();
                self.give_turn(&name);
                return Some(Turn::Start(name, works));
            }
        }
        None
    }

    /// Tells whether works are anywhere but in hand.
    pub(crate) fn is_idle(&self) -> bool {
        self.lanes.values().all(|lane| lane.ready.is_empty() && lane.stored == 0 && lane.loading.is_none() && lane.in_hand == 0)
    }

    /// Takes everything out that has not been started.
    pub(crate) fn drain(&mut self) -> Vec<(LaneName, T)> {
        let mut works = Vec::new();
        for (name, lane) in &mut self.lanes {
            works.extend(lane.ready.drain(..).map(|work| (Arc::clone(name), work)));
            lane.stored = 0;
        }
        works
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds() -> Bounds {
        Bounds { most: 2, batch: 1 }
    }

    #[test]
    fn lanes_take_turns_and_none_starts_more_than_it_may() {
        let mut lanes = Lanes::default();
        let (a, b): (LaneName, LaneName) = ("a".into(), "b".into());
        for n in 0..4 {
            assert_eq!(lanes.push(&a, n, bounds), None);
        }
        assert_eq!(lanes.push(&b, 10, bounds), None);
        assert_eq!(lanes.push(&a, 99, bounds), Some(99), "the lane has enough");
        let mut started = Vec::new();
        while let Some(Turn::Start(name, works)) = lanes.next() {
            started.push((name, works[0]));
        }
        assert_eq!(started, vec![(Arc::clone(&a), 0), (Arc::clone(&b), 10), (Arc::clone(&a), 1)]);
        lanes.ended(&a);
        assert_eq!(lanes.next(), Some(Turn::Start(Arc::clone(&a), vec![2])));
        assert!(!lanes.is_idle());
    }

    #[test]
    fn what_is_stored_is_loaded_before_it_is_needed_and_counted() {
        let mut lanes = Lanes::default();
        let a: LaneName = "a".into();
        lanes.stored(&a, 3, bounds);
        assert_eq!(lanes.next(), Some(Turn::Load(Arc::clone(&a), 2)));
        lanes.loaded(&a, 2, 2);
        assert!(lanes.push(&a, 1, bounds).is_none() && lanes.push(&a, 2, bounds).is_none());
        assert_eq!(lanes.next(), Some(Turn::Start(Arc::clone(&a), vec![1])));
        assert_eq!(lanes.next(), Some(Turn::Load(Arc::clone(&a), 2)));
        // One was put back after the load had looked, and is told of before it.
        lanes.stored(&a, 1, bounds);
        lanes.loaded(&a, 2, 1);
        assert!(lanes.push(&a, 3, bounds).is_none());
        assert_eq!(lanes.next(), Some(Turn::Start(Arc::clone(&a), vec![2])));
        lanes.ended(&a);
        lanes.ended(&a);
        assert_eq!(lanes.next(), Some(Turn::Load(Arc::clone(&a), 2)), "the one that was put back is not forgotten");
        lanes.loaded(&a, 2, 0);
        assert_eq!(lanes.next(), Some(Turn::Start(Arc::clone(&a), vec![3])));
        lanes.ended(&a);
        assert!(lanes.is_idle() && lanes.lanes.is_empty());
    }
}
