//! Decides which lane may start the next step, without input or output.
//!
//! Items wait in lanes: one lane for each site and role, and one for each source. A lane keeps a
//! few items in memory and the rest in the queue's file, so that a million items of one host
//! neither fill the memory nor delay other hosts. If there are very many lanes, only some of them
//! are listed in memory at a time. Lanes are served in rotation. A lane that has as many active
//! steps as its bounds allow waits until a step ends.

use std::collections::{BTreeMap, VecDeque};

use crate::bounds::LaneBounds;
use crate::lane::WorkLaneKey;
use crate::queue::LaneBacklog;

/// Maximum number of lanes that are listed in memory at a time. Further lanes stay in the file
/// until listed lanes are empty.
const MAX_LISTED_LANES: usize = 8_192;
/// Maximum number of items that wait in memory, in all lanes together. Every lane may have one item
/// in memory nevertheless.
const MAX_READY_ITEMS: usize = 8_192;
/// Maximum number of active steps, in all lanes of sites together; most of them wait in the hub.
/// Every lane may have two active steps nevertheless.
const MAX_ACTIVE_STEPS: usize = 8_192;

struct WorkLane<T> {
    bounds: LaneBounds,
    ready: VecDeque<T>,
    stored: u64,
    /// The number of counted items that the current load leaves in the file; `None` if no load is
    /// running.
    loading: Option<u64>,
    active: usize,
    has_turn: bool,
}

impl<T> WorkLane<T> {
    /// Returns the number of items that are not active.
    fn items(&self) -> u64 {
        // Items that are being loaded are counted neither in the file nor in memory, so add them.
        let loading = self.bounds.steps * self.bounds.batch;
        let loading = self.loading.map_or(0, |_| loading);
        self.stored + (loading + self.ready.len()) as u64
    }

    /// Returns the number of remaining requests, including active requests.
    fn requests(&self) -> u64 {
        self.items().div_ceil(self.bounds.batch.max(1) as u64) + self.active as u64
    }

    fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.stored == 0 && self.loading.is_none() && self.active == 0
    }
}

/// The progress of listing the lanes of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Listing {
    /// All lanes of the file are listed.
    Complete,
    /// There may be further lanes after the key `after`. `missed` is true if a lane was skipped
    /// because too many lanes were listed.
    Open {
        after: Option<WorkLaneKey>,
        missed: bool,
        asked: bool,
    },
}

/// The listed lanes and their rotation; chooses the next [`ScheduleAction`].
pub(crate) struct WorkLanes<T> {
    by_key: BTreeMap<WorkLaneKey, WorkLane<T>>,
    turns: VecDeque<WorkLaneKey>,
    listing: Listing,
    most: usize,
}

/// The next action of the scheduler.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ScheduleAction<T> {
    /// Start a step with these items.
    Start(WorkLaneKey, Vec<T>),
    /// Load this number of items of this lane into memory.
    Load(WorkLaneKey, usize),
    /// List up to this number of lanes of the file, after this lane.
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

    /// Returns the lane of a key, and lists the lane if it is new. Returns `None` if too many lanes
    /// are listed already.
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

    /// Records that a lane was skipped because too many lanes are listed, so that the file is
    /// listed again later.
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

    /// Counts further `items` of a lane that were stored in the queue's file.
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

    /// Adds the lanes that a query found in the file. Fewer than `asked` lanes mean that no further
    /// lanes follow.
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
                // Some of these items may have been counted already. A count that is too high is
                // corrected when the items are loaded.
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
            // List again from the beginning, because a lane was skipped.
            None if missed => Listing::Open {
                after: None,
                missed: false,
                asked: false,
            },
            None => Listing::Complete,
        };
    }

    /// Returns the maximum number of active steps of a lane. If very many lanes are listed, the
    /// lane of a site gets an equal share of [`MAX_ACTIVE_STEPS`] instead of its own bound.
    fn steps(&self, key: &WorkLaneKey, bounds: LaneBounds) -> usize {
        match key {
            WorkLaneKey::Site { .. } => bounds
                .steps
                .min((MAX_ACTIVE_STEPS / self.by_key.len().max(1)).max(2)),
            _ => bounds.steps,
        }
    }

    /// Returns the number of items of a lane that are loaded into memory: enough for its concurrent
    /// steps, and at most its share of [`MAX_READY_ITEMS`].
    fn room(&self, bounds: LaneBounds) -> usize {
        let share = (MAX_READY_ITEMS / self.by_key.len().max(1)).max(1);
        (bounds.steps * bounds.batch).min(share.max(bounds.batch))
    }

    /// Adds a ready item to a lane. Returns the item if memory has no space for it: the caller must
    /// store it in the file.
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
        // Items in the file are older. A new item overtakes them only if memory has space for it.
        if waiting >= 2 * self.room(bounds) {
            return Some(item);
        }
        if let Some(lane) = self.by_key.get_mut(key) {
            lane.ready.push_back(item);
        }
        self.give_turn(key);
        None
    }

    /// Records the end of a load. The file had `found` of the `asked` items.
    pub(crate) fn loaded(&mut self, key: &WorkLaneKey, asked: usize, found: usize) {
        if let Some(lane) = self.by_key.get_mut(key) {
            let rest = lane.loading.take().unwrap_or(0);
            if found < asked {
                // The load has emptied the file of all items that were counted before. Others may
                // have been added since.
                lane.stored = lane.stored.saturating_sub(rest);
            } else {
                // The file may have more items than were counted: keep the count above zero, so
                // that another load follows.
                lane.stored = lane.stored.max(1);
            }
        }
        self.give_turn(key);
        self.forget(key);
    }

    /// Records that a step of a lane has ended.
    pub(crate) fn ended(&mut self, key: &WorkLaneKey) {
        if let Some(lane) = self.by_key.get_mut(key) {
            lane.active = lane.active.saturating_sub(1);
        }
        self.give_turn(key);
        self.forget(key);
    }

    /// Drops the lane of a [`WorkLaneKey`], if it has no items.
    fn forget(&mut self, key: &WorkLaneKey) {
        if self.by_key.get(key).is_some_and(WorkLane::is_empty) {
            self.by_key.remove(key);
        }
    }

    /// Returns the next [`ScheduleAction`], or `None` if nothing can be done until a step or load
    /// ends or an item arrives.
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
                // Subtract before the load: a query of the file that runs at the same time may or
                // may not count these items.
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

    /// Starts to list all lanes of the file again, because the file may have items that are not
    /// counted here.
    pub(crate) fn list_again(&mut self) {
        self.listing = Listing::Open {
            after: None,
            missed: false,
            asked: false,
        };
    }

    /// Returns the lanes, each with its remaining requests and items, including active ones.
    pub(crate) fn queues(&self) -> impl Iterator<Item = (&WorkLaneKey, u64, u64)> {
        self.by_key.iter().map(|(key, lane)| {
            let items = lane.items() + (lane.active * lane.bounds.batch.max(1)) as u64;
            (key, lane.requests(), items)
        })
    }

    /// Returns the number of remaining requests of a lane, including active requests.
    pub(crate) fn requests(&self, key: &WorkLaneKey) -> u64 {
        self.by_key.get(key).map_or(0, WorkLane::requests)
    }

    /// Tells whether no item waits in a lane or in the file.
    pub(crate) fn is_idle(&self) -> bool {
        self.listing == Listing::Complete && self.by_key.values().all(WorkLane::is_empty)
    }

    /// Removes and returns the items in memory that have not been started, so that the caller can
    /// store them. Items in the file stay there and are no longer counted here.
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
