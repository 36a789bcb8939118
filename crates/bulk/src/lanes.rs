//! Which item goes next. Pure: which lane may start what is a function of counts.
//!
//! Items stand in lanes, one for each site and role and one for each source. A lane has few items
//! in memory and the rest in the queue's file, so that a million items of one host neither fill the
//! memory nor keep those of other hosts from being seen; of very many lanes only some are listed at
//! a time, so that a million hosts do not fill it either. Lanes take turns; a lane that has as many
//! active items as its site can use waits for one to come back.

use std::collections::{BTreeMap, VecDeque};

use crate::bounds::LaneBounds;
use crate::lane::WorkLaneKey;
use crate::queue::LaneBacklog;

/// How many lanes are listed at a time. Those beyond wait in the file until some have come to their
/// end.
const MAX_LISTED_LANES: usize = 8_192;
/// How many items wait in memory, all lanes together; but one of each.
const MAX_READY_ITEMS: usize = 8_192;
/// How many steps are active, most of them waiting in the hub, all sites together; but two of each.
const MAX_ACTIVE_STEPS: usize = 8_192;

struct WorkLane<T> {
    bounds: LaneBounds,
    ready: VecDeque<T>,
    stored: u64,
    /// How many were thought to stay in the file when items were asked for; `None` when no load is
    /// under way.
    loading: Option<u64>,
    active: usize,
    has_turn: bool,
}

impl<T> WorkLane<T> {
    /// Returns how many items are not active yet.
    fn items(&self) -> u64 {
        // Those that are being loaded are neither in the file nor in memory.
        let loading = self.bounds.steps * self.bounds.batch;
        let loading = self.loading.map_or(0, |_| loading);
        self.stored + (loading + self.ready.len()) as u64
    }

    /// Returns how many requests are left, those that are active included.
    fn requests(&self) -> u64 {
        self.items().div_ceil(self.bounds.batch.max(1) as u64) + self.active as u64
    }

    fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.stored == 0 && self.loading.is_none() && self.active == 0
    }
}

/// Where listing the lanes of the file stands.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Listing {
    /// All lanes that the file has are listed.
    Complete,
    /// There may be others; those up to this key have been looked at. `missed` when one of them
    /// found no room.
    Open {
        after: Option<WorkLaneKey>,
        missed: bool,
        asked: bool,
    },
}

/// The lanes that are listed.
pub(crate) struct WorkLanes<T> {
    by_key: BTreeMap<WorkLaneKey, WorkLane<T>>,
    turns: VecDeque<WorkLaneKey>,
    listing: Listing,
    most: usize,
}

/// What is to be done next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ScheduleAction<T> {
    /// Start a step with these items.
    Start(WorkLaneKey, Vec<T>),
    /// Bring so many items of this lane into memory.
    Load(WorkLaneKey, usize),
    /// Look in the file for up to so many lanes after this one.
    List(Option<WorkLaneKey>, usize),
}

impl<T> Default for WorkLanes<T> {
    fn default() -> Self {
        Self::with_room_for(MAX_LISTED_LANES)
    }
}

impl<T> WorkLanes<T> {
    fn with_room_for(most: usize) -> Self {
        Self {
            by_key: BTreeMap::new(),
            turns: VecDeque::new(),
            listing: Listing::Open {
                after: None,
                missed: false,
                asked: false,
            },
            most,
        }
    }

    /// Returns a lane, listing it where there is room.
    fn lane(
        &mut self,
        key: &WorkLaneKey,
        bounds: impl FnOnce() -> LaneBounds,
    ) -> Option<&mut WorkLane<T>> {
        if self.by_key.len() >= self.most && !self.by_key.contains_key(key) {
            self.miss();
            return None;
        }
        Some(self.by_key.entry(key.clone()).or_insert_with(|| WorkLane {
            bounds: bounds(),
            ready: VecDeque::new(),
            stored: 0,
            loading: None,
            active: 0,
            has_turn: false,
        }))
    }

    /// A lane of the file found no room.
    fn miss(&mut self) {
        match &mut self.listing {
            Listing::Open { missed, .. } => *missed = true,
            Listing::Complete => {
                self.listing = Listing::Open {
                    after: None,
                    missed: false,
                    asked: false,
                }
            }
        }
    }

    fn give_turn(&mut self, key: &WorkLaneKey) {
        if let Some(lane) = self.by_key.get_mut(key)
            && !lane.has_turn
        {
            lane.has_turn = true;
            self.turns.push_back(key.clone());
        }
    }

    /// There are more items of a lane in the queue's file.
    pub(crate) fn stored(
        &mut self,
        key: &WorkLaneKey,
        items: u64,
        bounds: impl FnOnce() -> LaneBounds,
    ) {
        if let Some(lane) = self.lane(key, bounds) {
            lane.stored += items;
            self.give_turn(key);
        }
    }

    /// These lanes were found in the file, of up to `asked` next ones.
    pub(crate) fn listed(
        &mut self,
        found: Vec<LaneBacklog>,
        asked: usize,
        bounds: impl Fn(&WorkLaneKey) -> LaneBounds,
    ) {
        let last: Option<WorkLaneKey> = found
            .last()
            .filter(|_| found.len() >= asked)
            .map(|found| found.lane.clone());
        for LaneBacklog { lane: key, items } in found {
            if let Some(lane) = self.lane(&key, || bounds(&key)) {
                // Some may have been counted already; too many are noticed when they are loaded.
                lane.stored = lane.stored.max(items);
                self.give_turn(&key);
            }
        }
        let missed = matches!(self.listing, Listing::Open { missed: true, .. });
        self.listing = match last {
            Some(after) => Listing::Open {
                after: Some(after),
                missed,
                asked: false,
            },
            // Once more from the beginning, if any was passed over.
            None if missed => Listing::Open {
                after: None,
                missed: false,
                asked: false,
            },
            None => Listing::Complete,
        };
    }

    /// Returns how many steps of a lane may be active: a share where there are very many sites.
    fn steps(&self, key: &WorkLaneKey, bounds: LaneBounds) -> usize {
        match key {
            WorkLaneKey::Site { .. } => bounds
                .steps
                .min((MAX_ACTIVE_STEPS / self.by_key.len().max(1)).max(2)),
            _ => bounds.steps,
        }
    }

    /// Returns how many items of a lane may wait in memory.
    fn room(&self, bounds: LaneBounds) -> usize {
        let share = (MAX_READY_ITEMS / self.by_key.len().max(1)).max(1);
        (bounds.steps * bounds.batch).min(share.max(bounds.batch))
    }

    /// An item is ready for a lane. Comes back when the lane has enough in memory: it belongs into
    /// the file then.
    pub(crate) fn push(
        &mut self,
        key: &WorkLaneKey,
        item: T,
        bounds: impl FnOnce() -> LaneBounds,
    ) -> Option<T> {
        let Some(lane) = self.lane(key, bounds) else {
            return Some(item);
        };
        let (waiting, bounds) = (lane.ready.len(), lane.bounds);
        // Items in the file are older: a newcomer goes behind them, unless there is room for all.
        if waiting >= 2 * self.room(bounds) {
            return Some(item);
        }
        if let Some(lane) = self.by_key.get_mut(key) {
            lane.ready.push_back(item);
        }
        self.give_turn(key);
        None
    }

    /// Items that were asked for have been found in the file.
    pub(crate) fn loaded(&mut self, key: &WorkLaneKey, asked: usize, found: usize) {
        if let Some(lane) = self.by_key.get_mut(key) {
            let rest = lane.loading.take().unwrap_or(0);
            if found < asked {
                // None is left of those that were counted by then. Others may have come since.
                lane.stored = lane.stored.saturating_sub(rest);
            } else {
                // There may be more than were counted: the next load finds out.
                lane.stored = lane.stored.max(1);
            }
        }
        self.give_turn(key);
        self.forget(key);
    }

    /// A step of a lane has ended.
    pub(crate) fn ended(&mut self, key: &WorkLaneKey) {
        if let Some(lane) = self.by_key.get_mut(key) {
            lane.active = lane.active.saturating_sub(1);
        }
        self.give_turn(key);
        self.forget(key);
    }

    /// Drops a lane that nothing is left of.
    fn forget(&mut self, key: &WorkLaneKey) {
        if self.by_key.get(key).is_some_and(WorkLane::is_empty) {
            self.by_key.remove(key);
        }
    }

    /// Says what is to be done next; `None` when nothing can be started.
    pub(crate) fn next(&mut self) -> Option<ScheduleAction<T>> {
        if let Listing::Open { after, asked, .. } = &mut self.listing
            && !*asked
            && self.by_key.len() <= self.most / 2
        {
            *asked = true;
            return Some(ScheduleAction::List(after.clone(), self.most / 2));
        }
        while let Some(key) = self.turns.pop_front() {
            let Some(bounds) = self.by_key.get(&key).map(|lane| lane.bounds) else {
                continue;
            };
            let (room, steps) = (self.room(bounds), self.steps(&key, bounds));
            let Some(lane) = self.by_key.get_mut(&key) else {
                continue;
            };
            lane.has_turn = false;
            if lane.stored > 0 && lane.loading.is_none() && lane.ready.len() <= room / 2 {
                // Counted off now: a listing of the file meanwhile may or may not see them.
                lane.stored = lane.stored.saturating_sub(room as u64);
                lane.loading = Some(lane.stored);
                self.give_turn(&key);
                return Some(ScheduleAction::Load(key, room));
            }
            if lane.active < steps && !lane.ready.is_empty() {
                lane.active += 1;
                let items = lane
                    .ready
                    .drain(..lane.ready.len().min(bounds.batch))
                    .collect();
                self.give_turn(&key);
                return Some(ScheduleAction::Start(key, items));
            }
        }
        None
    }

    /// The file has items that are not counted here: all lanes are listed anew.
    pub(crate) fn list_anew(&mut self) {
        self.listing = Listing::Open {
            after: None,
            missed: false,
            asked: false,
        };
    }

    /// Returns the lanes and how many requests and items are left in each, those that are active
    /// included.
    pub(crate) fn queues(&self) -> impl Iterator<Item = (&WorkLaneKey, u64, u64)> {
        self.by_key.iter().map(|(key, lane)| {
            let items = lane.items() + (lane.active * lane.bounds.batch.max(1)) as u64;
            (key, lane.requests(), items)
        })
    }

    /// Returns how many requests a lane still makes, those that are active included.
    pub(crate) fn requests(&self, key: &WorkLaneKey) -> u64 {
        self.by_key.get(key).map_or(0, WorkLane::requests)
    }

    /// Tells whether no item waits in a lane or in the file.
    pub(crate) fn is_idle(&self) -> bool {
        self.listing == Listing::Complete && self.by_key.values().all(WorkLane::is_empty)
    }

    /// Takes everything out that has not been started; the rest stays in the file.
    pub(crate) fn drain(&mut self) -> Vec<(WorkLaneKey, T)> {
        let mut items = Vec::new();
        for (key, lane) in &mut self.by_key {
            items.extend(lane.ready.drain(..).map(|item| (key.clone(), item)));
            lane.stored = 0;
        }
        items
    }
}

#[cfg(test)]
mod tests;
