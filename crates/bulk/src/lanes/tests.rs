//! Tests of work lanes against a queue file that replies in any order.

use proptest::prelude::*;

use super::*;

fn lane(name: &str) -> WorkLaneKey {
    WorkLaneKey::Source(name.into())
}

fn bounds() -> LaneBounds {
    LaneBounds::steps(2)
}

/// Returns the lanes of a file without further lanes.
fn complete<T: PartialEq + std::fmt::Debug>() -> WorkLanes<T> {
    let mut lanes = WorkLanes::default();
    assert!(matches!(lanes.next(), Some(ScheduleAction::List(..))));
    lanes.listed(Vec::new(), 1, |_| bounds());
    lanes
}

#[test]
fn lanes_take_turns_and_none_starts_more_than_it_may() {
    let mut lanes = complete();
    let (a, b) = (lane("a"), lane("b"));
    for n in 0..4 {
        assert_eq!(lanes.push(&a, n, bounds), None);
    }
    assert_eq!(lanes.push(&b, 10, bounds), None);
    assert_eq!(lanes.push(&a, 99, bounds), Some(99), "the lane has enough");
    let mut started = Vec::new();
    while let Some(ScheduleAction::Start(name, works)) = lanes.next() {
        started.push((name, works[0]));
    }
    assert_eq!(
        started,
        vec![(a.clone(), 0), (b.clone(), 10), (a.clone(), 1)]
    );
    lanes.ended(&a);
    assert_eq!(
        lanes.next(),
        Some(ScheduleAction::Start(a.clone(), vec![2]))
    );
    assert!(!lanes.is_idle());
}

#[test]
fn what_is_stored_is_loaded_before_it_is_needed_and_counted() {
    let mut lanes = complete();
    let a = lane("a");
    lanes.stored(&a, 3, bounds);
    assert_eq!(lanes.next(), Some(ScheduleAction::Load(a.clone(), 2)));
    lanes.loaded(&a, 2, 2);
    assert!(lanes.push(&a, 1, bounds).is_none() && lanes.push(&a, 2, bounds).is_none());
    assert_eq!(
        lanes.next(),
        Some(ScheduleAction::Start(a.clone(), vec![1]))
    );
    assert_eq!(lanes.next(), Some(ScheduleAction::Load(a.clone(), 2)));
    // An item was put back after the load had read the file, and is counted before the load ends.
    lanes.stored(&a, 1, bounds);
    lanes.loaded(&a, 2, 1);
    assert!(lanes.push(&a, 3, bounds).is_none());
    assert_eq!(
        lanes.next(),
        Some(ScheduleAction::Start(a.clone(), vec![2]))
    );
    lanes.ended(&a);
    lanes.ended(&a);
    assert_eq!(
        lanes.next(),
        Some(ScheduleAction::Load(a.clone(), 2)),
        "the one that was put back is not forgotten"
    );
    lanes.loaded(&a, 2, 0);
    assert_eq!(
        lanes.next(),
        Some(ScheduleAction::Start(a.clone(), vec![3]))
    );
    lanes.ended(&a);
    assert!(lanes.is_idle() && lanes.by_key.is_empty());
}

#[test]
fn a_list_that_overtakes_a_load_strands_nothing() {
    let mut lanes: WorkLanes<u32> = WorkLanes::with_room_for(2);
    let [a, b, c] = ["a", "b", "c"].map(lane);
    assert!(matches!(lanes.next(), Some(ScheduleAction::List(..))));
    lanes.listed(Vec::new(), 1, |_| bounds());
    for (lane, work) in [(&a, 1), (&b, 2)] {
        assert_eq!(lanes.push(lane, work, bounds), None);
    }
    // The third lane exceeds the limit: its three works are in the file and not counted.
    lanes.stored(&c, 3, bounds);
    while let Some(turn) = lanes.next() {
        // The file is queried for lanes as soon as the limit allows, and replies later.
        if let ScheduleAction::Start(name, _) = turn {
            lanes.ended(&name);
        }
    }
    // Another work, now that the limit allows its lane.
    lanes.stored(&c, 1, bounds);
    assert_eq!(lanes.next(), Some(ScheduleAction::Load(c.clone(), 2)));
    // Two of four are loaded, then the file is listed; the list arrives first.
    lanes.listed(
        vec![LaneBacklog {
            lane: c.clone(),
            items: 2,
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
            ScheduleAction::Start(name, _) => lanes.ended(&name),
            ScheduleAction::Load(name, most) => {
                let found = most.min(2 - loaded);
                loaded += found;
                lanes.loaded(&name, most, found);
            }
            ScheduleAction::List(..) => lanes.listed(Vec::new(), 9, |_| bounds()),
        }
    }
    assert_eq!(loaded, 2, "the other two are asked for");
    assert!(lanes.is_idle());
}

/// A reply of the file that has not arrived.
enum Answer {
    Listed(Vec<LaneBacklog>, usize),
    Loaded(WorkLaneKey, usize, Vec<(u8, u8)>),
    Stepped(WorkLaneKey, Vec<(u8, u8)>),
}

/// The simulated file of the queue.
#[derive(Default)]
struct LanesWorld {
    file: BTreeMap<String, VecDeque<(u8, u8)>>,
    started: usize,
}

impl LanesWorld {
    /// Stores a work in the file, and counts the work in its lane.
    fn store(&mut self, lanes: &mut WorkLanes<(u8, u8)>, name: &WorkLaneKey, work: (u8, u8)) {
        self.file
            .entry(name.to_string())
            .or_default()
            .push_back(work);
        lanes.stored(name, 1, bounds);
    }

    fn push(&mut self, lanes: &mut WorkLanes<(u8, u8)>, work: (u8, u8)) {
        let name = lane(&format!("lane {}", work.0));
        if let Some(back) = lanes.push(&name, work, bounds) {
            self.store(lanes, &name, back);
        }
    }

    /// Executes a [`ScheduleAction`](crate::lanes::ScheduleAction) in the file.
    fn make(&mut self, turn: ScheduleAction<(u8, u8)>) -> Answer {
        match turn {
            ScheduleAction::List(after, most) => {
                let after = after.map_or_else(String::new, |after| after.to_string());
                let found = self
                    .file
                    .iter()
                    .filter(|(name, works)| **name > after && !works.is_empty())
                    .take(most);
                Answer::Listed(
                    found
                        .map(|(lane, works)| LaneBacklog {
                            lane: lane.parse().expect("a key"),
                            items: works.len() as u64,
                        })
                        .collect(),
                    most,
                )
            }
            ScheduleAction::Load(name, most) => {
                let stored = self.file.entry(name.to_string()).or_default();
                let found = stored.drain(..stored.len().min(most)).collect();
                Answer::Loaded(name, most, found)
            }
            ScheduleAction::Start(name, works) => {
                self.started += works.len();
                Answer::Stepped(name, works)
            }
        }
    }

    /// Reports the reply of the file to the lanes.
    fn tell(&mut self, lanes: &mut WorkLanes<(u8, u8)>, response: Answer) {
        match response {
            Answer::Listed(found, most) => lanes.listed(found, most, |_| bounds()),
            Answer::Loaded(name, most, found) => {
                lanes.loaded(&name, most, found.len());
                for work in found {
                    self.push(lanes, work);
                }
            }
            Answer::Stepped(name, works) => {
                lanes.ended(&name);
                // Each work continues in another lane until it has been in all.
                for (lane, times) in works.into_iter().filter(|(_, times)| *times > 1) {
                    self.push(lanes, ((lane + 7) % 40, times - 1));
                }
            }
        }
    }
}

proptest! {
    /// Checks that every work is started until done, and that few lanes are listed at a time. The
    /// number of lanes, the works put back, and the order of replies are random.
    #[test]
    fn every_work_is_started_although_few_lanes_are_listed(
        works in prop::collection::vec((0_u8..40, 1_u8..4), 0..120),
        draws in prop::collection::vec(any::<u8>(), 1..80),
    ) {
        let mut lanes: WorkLanes<(u8, u8)> = WorkLanes::with_room_for(6);
        let mut world = LanesWorld::default();
        let expected: usize = works.iter().map(|(_, times)| usize::from(*times)).sum();
        let (mut to_come, mut draws) = (works.into_iter(), draws.into_iter().chain([1, 2]).cycle());
        let (mut asked, mut arriving) = (VecDeque::new(), Vec::new());
        for _ in 0..50_000 {
            if let Some(work) = to_come.next() {
                world.store(&mut lanes, &lane(&format!("lane {}", work.0)), work);
            }
            match lanes.next() {
                Some(turn) => asked.push_back(turn),
                None if asked.is_empty() && arriving.is_empty() => break,
                None => {}
            }
            prop_assert!(lanes.by_key.len() <= 6);
            let drawn = usize::from(draws.next().unwrap_or(0));
            // The file executes actions in order, but its replies may arrive in any order.
            if drawn % 3 != 0 && let Some(turn) = asked.pop_front() {
                arriving.push(world.make(turn));
            }
            if drawn % 2 == 0 && !arriving.is_empty() {
                let response = arriving.swap_remove(drawn / 2 % arriving.len());
                world.tell(&mut lanes, response);
            }
        }
        prop_assert_eq!(world.started, expected);
        prop_assert!(lanes.is_idle());
    }
}
