//! Who goes next. Pure: which line may start what is a function of counts.
//!
//! Works stand in lanes, one for each site and role and one for each resolver. A lane has few works
//! in memory and the rest in the queue's file, so that a million works of one host neither fill the
//! memory nor keep those of other hosts from being seen; of very many lanes only some are listed at
//! a time, so that a million hosts do not fill it either. Lanes take turns; a lane that has as many
//! works in hand as its site can use waits for one to come back.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::queue::Found;

/// The name of a lane.
pub(crate) type LaneName = Arc<str>;

/// How many lanes are listed at a time. Those beyond wait in the file until some have come to their
/// end.
const LANES: usize = 8_192;
/// How many works wait in memory, all lanes together; but one of each.
const READY: usize = 8_192;

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
    /// How many were thought to stay in the file when works were asked for; `None` when none are on
    /// their way.
    loading: Option<u64>,
    in_hand: usize,
    has_turn: bool,
}

impl<T> Lane<T> {
    fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.stored == 0 && self.loading.is_none() && self.in_hand == 0
    }
}

/// Where listing the lanes of the file stands.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Listing {
    /// All lanes that the file has are listed.
    Complete,
    /// There may be others; those up to this name have been looked at. `missed` when one of them
    /// found no room.
    Open {
        after: LaneName,
        missed: bool,
        asked: bool,
    },
}

/// The lanes that are looked after.
pub(crate) struct Lanes<T> {
    by_name: BTreeMap<LaneName, Lane<T>>,
    turns: VecDeque<LaneName>,
    listing: Listing,
    most: usize,
}

/// What is to be done next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Turn<T> {
    /// Start a step with these works.
    Start(LaneName, Vec<T>),
    /// Bring so many works of this lane into memory.
    Load(LaneName, usize),
    /// Look in the file for up to so many lanes after this one.
    List(LaneName, usize),
}

impl<T> Default for Lanes<T> {
    fn default() -> Self {
        Self::with_room_for(LANES)
    }
}

impl<T> Lanes<T> {
    fn with_room_for(most: usize) -> Self {
        Self {
            by_name: BTreeMap::new(),
            turns: VecDeque::new(),
            listing: Listing::Open {
                after: "".into(),
                missed: false,
                asked: false,
            },
            most,
        }
    }

    /// Returns a lane, listing it where there is room.
    fn lane(&mut self, name: &LaneName, bounds: impl FnOnce() -> Bounds) -> Option<&mut Lane<T>> {
        if self.by_name.len() >= self.most && !self.by_name.contains_key(name) {
            self.miss();
            return None;
        }
        Some(
            self.by_name
                .entry(Arc::clone(name))
                .or_insert_with(|| Lane {
                    bounds: bounds(),
                    ready: VecDeque::new(),
                    stored: 0,
                    loading: None,
                    in_hand: 0,
                    has_turn: false,
                }),
        )
    }

    /// A lane of the file found no room.
    fn miss(&mut self) {
        match &mut self.listing {
            Listing::Open { missed, .. } => *missed = true,
            Listing::Complete => {
                self.listing = Listing::Open {
                    after: "".into(),
                    missed: false,
                    asked: false,
                }
            }
        }
    }

    fn give_turn(&mut self, name: &LaneName) {
        if let Some(lane) = self.by_name.get_mut(name)
            && !lane.has_turn
        {
            lane.has_turn = true;
            self.turns.push_back(Arc::clone(name));
        }
    }

    /// There are more works of a lane in the queue's file.
    pub(crate) fn stored(&mut self, name: &LaneName, works: u64, bounds: impl FnOnce() -> Bounds) {
        if let Some(lane) = self.lane(name, bounds) {
            lane.stored += works;
            self.give_turn(name);
        }
    }

    /// These lanes were found in the file, of up to `asked` next ones.
    pub(crate) fn listed(
        &mut self,
        found: Vec<Found>,
        asked: usize,
        bounds: impl Fn(&str) -> Bounds,
    ) {
        let last: Option<LaneName> = found
            .last()
            .filter(|_| found.len() >= asked)
            .map(|found| found.lane.as_str().into());
        for Found { lane: name, works } in found {
            let name: LaneName = name.into();
            if let Some(lane) = self.lane(&name, || bounds(&name)) {
                // Some may have been told of already; too many are noticed when they are asked for.
                lane.stored = lane.stored.max(works);
                self.give_turn(&name);
            }
        }
        let missed = matches!(self.listing, Listing::Open { missed: true, .. });
        self.listing = match last {
            Some(after) => Listing::Open {
                after,
                missed,
                asked: false,
            },
            // Once more from the beginning, if any was passed over.
            None if missed => Listing::Open {
                after: "".into(),
                missed: false,
                asked: false,
            },
            None => Listing::Complete,
        };
    }

    /// Returns how many works of a lane may wait in memory.
    fn room(&self, bounds: Bounds) -> usize {
        let share = (READY / self.by_name.len().max(1)).max(1);
        (bounds.most * bounds.batch).min(share.max(bounds.batch))
    }

    /// A work is ready for a lane. Comes back when the lane has enough in memory: it belongs into
    /// the file then.
    pub(crate) fn push(
        &mut self,
        name: &LaneName,
        work: T,
        bounds: impl FnOnce() -> Bounds,
    ) -> Option<T> {
        let Some(lane) = self.lane(name, bounds) else {
            return Some(work);
        };
        let (waiting, bounds) = (lane.ready.len(), lane.bounds);
        // Works in the file are older: whoever comes now goes behind them, unless there is room for
        // all.
        if waiting >= 2 * self.room(bounds) {
            return Some(work);
        }
        if let Some(lane) = self.by_name.get_mut(name) {
            lane.ready.push_back(work);
        }
        self.give_turn(name);
        None
    }

    /// Works that were asked for have been found in the file.
    pub(crate) fn loaded(&mut self, name: &LaneName, asked: usize, found: usize) {
        if let Some(lane) = self.by_name.get_mut(name) {
            let rest = lane.loading.take().unwrap_or(0);
            if found < asked {
                // None is left of those that were counted by then. Others may have come since.
                lane.stored = lane.stored.saturating_sub(rest);
            } else {
                // There may be more than were counted: the next load finds out.
                lane.stored = lane.stored.max(1);
            }
        }
        self.give_turn(name);
        self.forget(name);
    }

    /// A step of a lane has ended.
    pub(crate) fn ended(&mut self, name: &LaneName) {
        if let Some(lane) = self.by_name.get_mut(name) {
            lane.in_hand = lane.in_hand.saturating_sub(1);
        }
        self.give_turn(name);
        self.forget(name);
    }

    /// Drops a lane that nothing is left of.
    fn forget(&mut self, name: &LaneName) {
        if self.by_name.get(name).is_some_and(Lane::is_empty) {
            self.by_name.remove(name);
        }
    }

    /// Says what is to be done next; `None` when nothing can be started.
    pub(crate) fn next(&mut self) -> Option<Turn<T>> {
        if let Listing::Open { after, asked, .. } = &mut self.listing
            && !*asked
            && self.by_name.len() <= self.most / 2
        {
            *asked = true;
            return Some(Turn::List(Arc::clone(after), self.most / 2));
        }
        while let Some(name) = self.turns.pop_front() {
            let Some(bounds) = self.by_name.get(&name).map(|lane| lane.bounds) else {
                continue;
            };
            let room = self.room(bounds);
            let Some(lane) = self.by_name.get_mut(&name) else {
                continue;
            };
            lane.has_turn = false;
            if lane.stored > 0 && lane.loading.is_none() && lane.ready.len() <= room / 2 {
                // Counted off now: whoever lists the file meanwhile may or may not see them.
                lane.stored = lane.stored.saturating_sub(room as u64);
                lane.loading = Some(lane.stored);
                self.give_turn(&name);
                return Some(Turn::Load(name, room));
            }
            if lane.in_hand < bounds.most && !lane.ready.is_empty() {
                lane.in_hand += 1;
                let works = lane
                    .ready
                    .drain(..lane.ready.len().min(bounds.batch))
                    .collect();
                self.give_turn(&name);
                return Some(Turn::Start(name, works));
            }
        }
        None
    }

    /// Works were found in the file that nobody has counted: all lanes are listed anew.
    pub(crate) fn list_anew(&mut self) {
        self.listing = Listing::Open {
            after: "".into(),
            missed: false,
            asked: false,
        };
    }

    /// Returns the lanes and how many works wait in each.
    pub(crate) fn backlog(&self) -> impl Iterator<Item = (&LaneName, u64)> {
        self.by_name
            .iter()
            .map(|(name, lane)| (name, lane.stored + lane.ready.len() as u64))
    }

    /// Tells whether works are nowhere but in hand.
    pub(crate) fn is_idle(&self) -> bool {
        self.listing == Listing::Complete && self.by_name.values().all(Lane::is_empty)
    }

    /// Takes everything out that has not been started; the rest stays in the file.
    pub(crate) fn drain(&mut self) -> Vec<(LaneName, T)> {
        let mut works = Vec::new();
        for (name, lane) in &mut self.by_name {
            works.extend(lane.ready.drain(..).map(|work| (Arc::clone(name), work)));
            lane.stored = 0;
        }
        works
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bounds() -> Bounds {
        Bounds { most: 2, batch: 1 }
    }

    /// Lanes of a file that has none.
    fn complete<T: PartialEq + std::fmt::Debug>() -> Lanes<T> {
        let mut lanes = Lanes::default();
        assert!(matches!(lanes.next(), Some(Turn::List(..))));
        lanes.listed(Vec::new(), 1, |_| bounds());
        lanes
    }

    #[test]
    fn lanes_take_turns_and_none_starts_more_than_it_may() {
        let mut lanes = complete();
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
        assert_eq!(
            started,
            vec![
                (Arc::clone(&a), 0),
                (Arc::clone(&b), 10),
                (Arc::clone(&a), 1)
            ]
        );
        lanes.ended(&a);
        assert_eq!(lanes.next(), Some(Turn::Start(Arc::clone(&a), vec![2])));
        assert!(!lanes.is_idle());
    }

    #[test]
    fn what_is_stored_is_loaded_before_it_is_needed_and_counted() {
        let mut lanes = complete();
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
        assert_eq!(
            lanes.next(),
            Some(Turn::Load(Arc::clone(&a), 2)),
            "the one that was put back is not forgotten"
        );
        lanes.loaded(&a, 2, 0);
        assert_eq!(lanes.next(), Some(Turn::Start(Arc::clone(&a), vec![3])));
        lanes.ended(&a);
        assert!(lanes.is_idle() && lanes.by_name.is_empty());
    }

    #[test]
    fn a_list_that_overtakes_a_load_strands_nothing() {
        let mut lanes: Lanes<u32> = Lanes::with_room_for(2);
        let [a, b, c]: [LaneName; 3] = ["a".into(), "b".into(), "c".into()];
        assert!(matches!(lanes.next(), Some(Turn::List(..))));
        lanes.listed(Vec::new(), 1, |_| bounds());
        for (lane, work) in [(&a, 1), (&b, 2)] {
            assert_eq!(lanes.push(lane, work, bounds), None);
        }
        // There is no room for a third lane: its three works are in the file, and not counted.
        lanes.stored(&c, 3, bounds);
        while let Some(turn) = lanes.next() {
            // The file is asked for its lanes as soon as there is room, and takes its time.
            if let Turn::Start(name, _) = turn {
                lanes.ended(&name);
            }
        }
        // One more, now that there is room.
        lanes.stored(&c, 1, bounds);
        assert_eq!(lanes.next(), Some(Turn::Load(Arc::clone(&c), 2)));
        // Two of four are loaded, then the file is listed; the list is heard of first.
        lanes.listed(
            vec![Found {
                lane: "c".to_owned(),
                works: 2,
            }],
            9,
            |_| bounds(),
        );
        lanes.loaded(&c, 2, 2);
        for work in [3, 4] {
            assert_eq!(lanes.push(&c, work, bounds), None);
        }
        let mut loaded = 0;
        while let Some(turn) = lanes.next() {
            match turn {
                Turn::Start(name, _) => lanes.ended(&name),
                Turn::Load(name, most) => {
                    let found = most.min(2 - loaded);
                    loaded += found;
                    lanes.loaded(&name, most, found);
                }
                Turn::List(..) => lanes.listed(Vec::new(), 9, |_| bounds()),
            }
        }
        assert_eq!(loaded, 2, "the other two are asked for");
        assert!(lanes.is_idle());
    }

    /// What the file answers, on its way.
    enum Answer {
        Listed(Vec<Found>, usize),
        Loaded(LaneName, usize, Vec<(u8, u8)>),
        Stepped(LaneName, Vec<(u8, u8)>),
    }

    /// The queue's file, and what was told of it.
    #[derive(Default)]
    struct World {
        file: BTreeMap<String, VecDeque<(u8, u8)>>,
        started: usize,
    }

    impl World {
        /// A work is put into the file; the lanes are told of it.
        fn store(&mut self, lanes: &mut Lanes<(u8, u8)>, name: &LaneName, work: (u8, u8)) {
            self.file
                .entry(name.to_string())
                .or_default()
                .push_back(work);
            lanes.stored(name, 1, bounds);
        }

        fn push(&mut self, lanes: &mut Lanes<(u8, u8)>, work: (u8, u8)) {
            let name: LaneName = format!("lane {}", work.0).into();
            if let Some(back) = lanes.push(&name, work, bounds) {
                self.store(lanes, &name, back);
            }
        }

        /// The file does what was asked of it.
        fn make(&mut self, turn: Turn<(u8, u8)>) -> Answer {
            match turn {
                Turn::List(after, most) => {
                    let after = self
                        .file
                        .iter()
                        .filter(|(name, works)| ***name > *after && !works.is_empty())
                        .take(most);
                    Answer::Listed(
                        after
                            .map(|(lane, works)| Found {
                                lane: lane.clone(),
                                works: works.len() as u64,
                            })
                            .collect(),
                        most,
                    )
                }
                Turn::Load(name, most) => {
                    let stored = self.file.entry(name.to_string()).or_default();
                    let found = stored.drain(..stored.len().min(most)).collect();
                    Answer::Loaded(name, most, found)
                }
                Turn::Start(name, works) => {
                    self.started += works.len();
                    Answer::Stepped(name, works)
                }
            }
        }

        /// The lanes hear what came of it.
        fn tell(&mut self, lanes: &mut Lanes<(u8, u8)>, answer: Answer) {
            match answer {
                Answer::Listed(found, most) => lanes.listed(found, most, |_| bounds()),
                Answer::Loaded(name, most, found) => {
                    lanes.loaded(&name, most, found.len());
                    for work in found {
                        self.push(lanes, work);
                    }
                }
                Answer::Stepped(name, works) => {
                    lanes.ended(&name);
                    // Each goes on in another lane until it has been everywhere.
                    for (lane, times) in works.into_iter().filter(|(_, times)| *times > 1) {
                        self.push(lanes, ((lane + 7) % 40, times - 1));
                    }
                }
            }
        }
    }

    proptest! {
        /// However many lanes there are, however works are put back and in whatever order answers
        /// come, every work is started until it is done, and few lanes are listed at a time.
        #[test]
        fn a_few_lanes_at_a_time_come_to_all(
            works in prop::collection::vec((0_u8..40, 1_u8..4), 0..120),
            draws in prop::collection::vec(any::<u8>(), 1..80),
        ) {
            let mut lanes: Lanes<(u8, u8)> = Lanes::with_room_for(6);
            let mut world = World::default();
            let expected: usize = works.iter().map(|(_, times)| usize::from(*times)).sum();
            let (mut to_come, mut draws) = (works.into_iter(), draws.into_iter().chain([1, 2]).cycle());
            let (mut asked, mut arriving) = (VecDeque::new(), Vec::new());
            for _ in 0..50_000 {
                if let Some(work) = to_come.next() {
                    world.store(&mut lanes, &format!("lane {}", work.0).into(), work);
                }
                match lanes.next() {
                    Some(turn) => asked.push_back(turn),
                    None if asked.is_empty() && arriving.is_empty() => break,
                    None => {}
                }
                prop_assert!(lanes.by_name.len() <= 6);
                let jitter_sample = usize::from(draws.next().unwrap_or(0));
                // The file takes one after the other; who hears of it first is anybody's guess.
                if jitter_sample % 3 != 0 && let Some(turn) = asked.pop_front() {
                    arriving.push(world.make(turn));
                }
                if jitter_sample % 2 == 0 && !arriving.is_empty() {
                    let answer = arriving.swap_remove(jitter_sample / 2 % arriving.len());
                    world.tell(&mut lanes, answer);
                }
            }
            prop_assert_eq!(world.started, expected);
            prop_assert!(lanes.is_idle());
        }
    }
}
