use std::num::NonZeroU32;
use std::time::Duration;

use docstokg_policy::breaker::BreakerPolicy;
use docstokg_policy::rate::Window;
use docstokg_policy::site::{Ask, Cost, Entry, Permit, QueuePosition, RefusalReason, Site};
use docstokg_policy::time::BootInstant;
use proptest::prelude::*;

use crate::support::{ask, at, cost, ms, windows};

const GUARD: Duration = Duration::from_millis(2);

/// A window of a few grants per a few milliseconds, so that everything collides.
fn any_window() -> impl Strategy<Value = Window> {
    (1u32..6, 5u64..60)
        .prop_map(|(limit, per)| Window::new(NonZeroU32::new(limit).expect("not zero"), ms(per)))
}

fn any_budgets() -> impl Strategy<Value = Vec<Vec<Window>>> {
    proptest::collection::vec(proptest::collection::vec(any_window(), 1..3), 1..3)
}

/// What somebody does next.
#[derive(Clone, Debug)]
enum Step {
    /// Time passes.
    Advance(u64),
    /// Somebody asks, charging the first budget or all, and waits up to so many milliseconds.
    Enter { all: bool, weight: u32, bound: u64 },
    /// The n-th of those who wait asks again.
    Confirm(usize),
    /// The n-th of those who wait gives up.
    Cancel(usize),
    /// The n-th of those who were let through has to dial.
    Dial(usize),
    /// The n-th of those who dial is connected.
    Connected(usize),
    /// The n-th of those who dial or are connected gets its answer.
    Answered(usize),
    /// The n-th of those who were just let through does not use it.
    GiveBack(usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u64..30).prop_map(Step::Advance),
        6 => (any::<bool>(), 1u32..4, prop_oneof![Just(0), 0u64..200]).prop_map(|(all, weight, bound)| Step::Enter { all, weight, bound }),
        4 => (0usize..4).prop_map(Step::Confirm),
        1 => (0usize..4).prop_map(Step::Cancel),
        1 => (0usize..4).prop_map(Step::Dial),
        1 => (0usize..4).prop_map(Step::Connected),
        2 => (0usize..4).prop_map(Step::Answered),
        1 => (0usize..4).prop_map(Step::GiveBack),
    ]
}

/// One who was let through, and when the origin may have seen it.
struct Sent {
    costs: Vec<Cost>,
    permit: Permit,
    stage: Stage,
}

#[derive(PartialEq)]
enum Stage {
    Granted,
    Dialling,
    Connected(BootInstant),
    Done,
}

/// The world as the test keeps it: independent of the state under test.
#[derive(Default)]
struct World {
    site: Site,
    /// What arrived at the origin, by budget.
    used: Vec<Vec<BootInstant>>,
    waiting: Vec<(Vec<Cost>, u64, BootInstant)>,
    sent: Vec<Sent>,
}

const COLD: Duration = Duration::from_millis(25);

impl Step {
    /// Tells whether it is about arriving, waiting and leaving, and not about connections.
    fn is_about_waiting(&self) -> bool {
        matches!(
            self,
            Self::Advance(_) | Self::Enter { .. } | Self::Confirm(_) | Self::Cancel(_)
        )
    }
}

impl World {
    /// Lets every waiting request come back at the instant it was told, up to `until`, in the order
    /// of the instants.
    fn come_when_due(
        &mut self,
        policy: &BreakerPolicy,
        until: BootInstant,
    ) -> Result<(), TestCaseError> {
        let mut asks = 0;
        loop {
            self.waiting.sort_by_key(|(_, _, due)| *due);
            let Some((costs, id, due)) = self
                .waiting
                .first()
                .cloned()
                .filter(|(_, _, due)| *due <= until)
            else {
                return Ok(());
            };
            self.waiting.remove(0);
            asks += 1;
            prop_assert!(asks < 1_000, "requests that wait push each other back");
            match self
                .site
                .confirm(
                    &Ask {
                        latest: BootInstant::FAR,
                        ..ask(&costs, policy)
                    },
                    id,
                    due,
                )
                .entry
            {
                Entry::Go(permit) => self.go(costs, permit, due),
                Entry::Wait(reserved) => self.waiting.push((costs, reserved.id, reserved.at)),
                other => panic!("{other:?}"),
            }
        }
    }

    /// Lets these steps happen, and returns the world after them and the time.
    fn lived<'a>(
        budgets: &[Vec<Window>],
        steps: impl IntoIterator<Item = &'a Step>,
    ) -> (Self, BootInstant) {
        let mut world = Self {
            used: vec![Vec::new(); budgets.len()],
            ..Self::default()
        };
        world.site.ensure_budgets(budgets.len());
        let mut now = at(0);
        for step in steps {
            if let Step::Advance(millis) = step {
                now += ms(*millis);
            }
            world.take(step, budgets, now);
        }
        (world, now)
    }

    fn note_use(&mut self, costs: &[Cost], at: BootInstant) {
        for cost in costs {
            for _ in 0..cost.weight {
                self.used[cost.budget].push(at);
            }
        }
    }

    fn unnote(&mut self, costs: &[Cost], at: BootInstant) {
        for cost in costs {
            for _ in 0..cost.weight {
                let place = self.used[cost.budget]
                    .iter()
                    .rposition(|used| *used == at)
                    .expect("noted before");
                self.used[cost.budget].remove(place);
            }
        }
    }

    fn go(&mut self, costs: Vec<Cost>, permit: Permit, now: BootInstant) {
        self.note_use(&costs, now);
        self.sent.push(Sent {
            costs,
            permit,
            stage: Stage::Granted,
        });
    }

    fn take(&mut self, step: &Step, budgets: &[Vec<Window>], now: BootInstant) {
        let policy = BreakerPolicy::default();
        match step {
            Step::Advance(_) => {}
            Step::Enter { all, weight, bound } => {
                let largest = budgets
                    .iter()
                    .flatten()
                    .map(|window| window.limit.get())
                    .min()
                    .expect("a window");
                let weight = (*weight).min(largest);
                let count = if *all { budgets.len() } else { 1 };
                let costs: Vec<Cost> = (0..count)
                    .map(|budget| cost(budget, weight, &budgets[budget], GUARD))
                    .collect();
                let question = Ask {
                    latest: now + ms(*bound),
                    ..ask(&costs, &policy)
                };
                match self.site.enter(&question, now).entry {
                    Entry::Go(permit) => self.go(costs, permit, now),
                    Entry::Wait(reserved) => {
                        assert!(reserved.at > now && reserved.at <= now + ms(*bound));
                        self.waiting.push((costs, reserved.id, reserved.at));
                    }
                    Entry::Refused(refusal) => assert!(refusal.until > now + ms(*bound)),
                    other => panic!("{other:?}"),
                }
            }
            Step::Confirm(n) => {
                if self.waiting.is_empty() {
                    return;
                }
                let (costs, id, _) = self.waiting.remove(n % self.waiting.len());
                let question = Ask {
                    latest: BootInstant::FAR,
                    ..ask(&costs, &policy)
                };
                match self.site.confirm(&question, id, now).entry {
                    Entry::Go(permit) => self.go(costs, permit, now),
                    Entry::Wait(reserved) => self.waiting.push((costs, reserved.id, reserved.at)),
                    other => panic!("{other:?}"),
                }
            }
            Step::Cancel(n) => {
                if !self.waiting.is_empty() {
                    let (costs, id, _) = self.waiting.remove(n % self.waiting.len());
                    self.site.leave(&ask(&costs, &policy), id, None);
                }
            }
            Step::Dial(n) | Step::GiveBack(n) => {
                let granted: Vec<usize> = (0..self.sent.len())
                    .filter(|place| self.sent[*place].stage == Stage::Granted)
                    .collect();
                let Some(place) = granted.get(n % granted.len().max(1)) else {
                    return;
                };
                let (costs, permit) = (
                    self.sent[*place].costs.clone(),
                    self.sent[*place].permit.clone(),
                );
                // Only whoever was let through at this very instant has not sent yet.
                if permit.at != now {
                    return;
                }
                self.unnote(&costs, now);
                if matches!(step, Step::Dial(_)) {
                    self.site
                        .hold(&ask(&costs, &policy), &permit, BootInstant::FAR);
                    self.sent[*place].stage = Stage::Dialling;
                } else {
                    self.site
                        .leave(&ask(&costs, &policy), permit.id, Some(permit.at));
                    self.sent[*place].stage = Stage::Done;
                }
            }
            Step::Connected(n) => {
                let dialling: Vec<usize> = (0..self.sent.len())
                    .filter(|place| self.sent[*place].stage == Stage::Dialling)
                    .collect();
                let Some(place) = dialling.get(n % dialling.len().max(1)) else {
                    return;
                };
                let (costs, permit) = (
                    self.sent[*place].costs.clone(),
                    self.sent[*place].permit.clone(),
                );
                self.site.sent(&ask(&costs, &policy), &permit, COLD, now);
                self.sent[*place].stage = Stage::Connected(now);
            }
            Step::Answered(n) => {
                let open: Vec<usize> = (0..self.sent.len())
                    .filter(|place| {
                        matches!(
                            self.sent[*place].stage,
                            Stage::Dialling | Stage::Connected(_)
                        )
                    })
                    .collect();
                let Some(place) = open.get(n % open.len().max(1)) else {
                    return;
                };
                let (costs, permit) = (
                    self.sent[*place].costs.clone(),
                    self.sent[*place].permit.clone(),
                );
                self.site.stamp(&ask(&costs, &policy), &permit, now);
                // The origin read it at some instant up to now, and no later than a while after the
                // connection.
                let seen = match self.sent[*place].stage {
                    Stage::Connected(since) => now.min(since + COLD),
                    _ => now,
                };
                self.sent[*place].stage = Stage::Done;
                self.note_use(&costs, seen);
            }
        }
    }
}

/// The oracle: no `limit + 1` uses within less than the width.
fn check(used: &[BootInstant], window: &Window, guard: Duration) -> Result<(), TestCaseError> {
    let mut sorted = used.to_vec();
    sorted.sort();
    let limit = window.limit.get() as usize;
    for group in sorted.windows(limit + 1) {
        let apart = group[limit].since(group[0]);
        prop_assert!(
            apart >= window.per + guard,
            "{} uses within {apart:?} at {window}",
            limit + 1
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn no_window_is_ever_exceeded(budgets in any_budgets(), steps in proptest::collection::vec(any_step(), 1..120)) {
        let (world, _) = World::lived(&budgets, &steps);
        for (used, windows) in world.used.iter().zip(&budgets) {
            for window in windows {
                check(used, window, GUARD)?;
            }
        }
    }

    /// With permits alone in the history, and with reservations whose holders come at the instants
    /// they were told.
    #[test]
    fn a_refusal_says_exactly_until_when(budgets in any_budgets(), steps in proptest::collection::vec(any_step(), 1..60), weight in 1u32..4) {
        let (mut world, now) = World::lived(&budgets, steps.iter().filter(|step| step.is_about_waiting()));
        let policy = BreakerPolicy::default();
        // Requests that are due come now, so that no reservation stands for a use at an unknown
        // instant.
        world.come_when_due(&policy, now)?;
        let largest = budgets.iter().flatten().map(|window| window.limit.get()).min().expect("a window");
        let costs: Vec<Cost> = budgets.iter().enumerate().map(|(budget, windows)| cost(budget, weight.min(largest), windows, GUARD)).collect();
        let question = ask(&costs, &policy);
        let Entry::Refused(refusal) = world.site.clone().enter(&question, now).entry else { return Ok(()) };
        let by_a_window = matches!(refusal.reason, RefusalReason::Rate { window: Some(_) });
        prop_assert!(by_a_window);
        let mut instant = now;
        while instant < refusal.until {
            world.come_when_due(&policy, instant)?;
            let early = world.site.clone().enter(&question, instant).entry;
            prop_assert!(matches!(early, Entry::Refused(_)), "admitted {:?} early: {early:?}", refusal.until.since(instant));
            instant += Duration::from_micros(500);
        }
        world.come_when_due(&policy, refusal.until)?;
        let mut site = world.site;
        let last = refusal.until - Duration::from_micros(1);
        if last >= now {
            prop_assert!(matches!(site.clone().enter(&question, last).entry, Entry::Refused(_)), "admitted a microsecond early");
        }
        prop_assert!(matches!(site.enter(&question, refusal.until).entry, Entry::Go(_)), "not admitted at the instant it was told");
    }

    /// Whoever is told to queue is never told a later instant than the one its turn really comes
    /// at.
    #[test]
    fn the_place_in_line_is_a_lower_bound(budgets in any_budgets(), steps in proptest::collection::vec(any_step(), 1..40), ahead in 1u32..12) {
        let (mut world, now) = World::lived(&budgets, steps.iter().filter(|step| step.is_about_waiting()));
        // Those who wait already give up: what they would do is not known.
        while !world.waiting.is_empty() {
            world.take(&Step::Cancel(0), &budgets, now);
        }
        let policy = BreakerPolicy::default();
        let costs: Vec<Cost> = budgets.iter().enumerate().map(|(budget, windows)| cost(budget, 1, windows, GUARD)).collect();
        let patient = Ask { latest: BootInstant::FAR, ..ask(&costs, &policy) };
        let Entry::Queue { at: promised } = world.site.enter(&Ask { queue_position: QueuePosition::Behind(ahead), ..patient.clone() }, now).entry else { panic!("not queued") };
        let mut turn = now;
        for _ in 0..=ahead {
            match world.site.enter(&patient, turn).entry {
                Entry::Go(_) => {}
                Entry::Wait(reserved) => {
                    turn = reserved.at;
                    let mut entry = world.site.confirm(&patient, reserved.id, turn).entry;
                    while let Entry::Wait(reserved) = entry {
                        turn = reserved.at;
                        entry = world.site.confirm(&patient, reserved.id, turn).entry;
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        prop_assert!(promised <= turn, "told {promised:?}, came {turn:?}");
    }

    #[test]
    fn a_refusal_changes_nothing(budgets in any_budgets(), grants in 5u32..20) {
        let mut site = Site::default();
        site.ensure_budgets(budgets.len());
        let policy = BreakerPolicy::default();
        let costs: Vec<Cost> = budgets.iter().enumerate().map(|(budget, windows)| cost(budget, 1, windows, GUARD)).collect();
        let question = ask(&costs, &policy);
        for _ in 0..grants {
            let _ = site.enter(&question, at(0));
        }
        let used: Vec<u64> = costs.iter().map(|cost| site.budgets()[cost.budget].used(&cost.windows, &cost.windows.list()[0], at(0))).collect();
        prop_assume!(matches!(site.enter(&question, at(0)).entry, Entry::Refused(_)));
        let again: Vec<u64> = costs.iter().map(|cost| site.budgets()[cost.budget].used(&cost.windows, &cost.windows.list()[0], at(0))).collect();
        prop_assert_eq!(used, again, "all budgets are charged, or none");
    }

    #[test]
    fn a_large_window_in_buckets_never_overshoots_and_loses_little(limit in 4_097u32..9_000, arrivals in proptest::collection::vec((0u64..40, 1u32..60), 100..600)) {
        let window = Window::new(NonZeroU32::new(limit).expect("not zero"), Duration::from_secs(1));
        let charges_of = |weight| [cost(0, weight, &[window], Duration::ZERO)];
        let policy = BreakerPolicy::default();
        let mut site = Site::default();
        site.ensure_budgets(1);
        let (mut used, mut now) = (Vec::new(), at(0));
        let mut wrongly_refused = 0u64;
        for (millis, weight) in arrivals {
            now += ms(millis);
            let in_window: u64 = used.iter().filter(|(instant, _)| *instant + window.per > now).map(|(_, weight)| u64::from(*weight)).sum();
            match site.enter(&ask(&charges_of(weight), &policy), now).entry {
                Entry::Go(_) => {
                    prop_assert!(in_window + u64::from(weight) <= u64::from(limit), "overshoot");
                    used.push((now, weight));
                }
                Entry::Refused(_) if in_window + u64::from(weight) + 120 <= u64::from(limit) => wrongly_refused += 1,
                Entry::Refused(_) => {}
                other => panic!("{other:?}"),
            }
        }
        prop_assert_eq!(wrongly_refused, 0, "refused with more than two buckets to spare");
    }
}

#[test]
fn a_burst_then_one_more_after_exactly_the_window() {
    let list = windows("10/SECOND+15/2SECOND");
    let costs = [cost(0, 1, &list, ms(10))];
    let policy = BreakerPolicy::default();
    let mut site = of_one_budget();
    for _ in 0..10 {
        assert!(matches!(
            site.enter(&ask(&costs, &policy), at(0)).entry,
            Entry::Go(_)
        ));
    }
    let Entry::Refused(refusal) = site.enter(&ask(&costs, &policy), at(1)).entry else {
        panic!("let through")
    };
    assert_eq!(refusal.until, at(1_010));
    for _ in 0..5 {
        assert!(matches!(
            site.enter(&ask(&costs, &policy), at(1_010)).entry,
            Entry::Go(_)
        ));
    }
    let Entry::Refused(refusal) = site.enter(&ask(&costs, &policy), at(1_010)).entry else {
        panic!("let through")
    };
    assert_eq!(refusal.until, at(2_010), "the longer window speaks now");
}

#[test]
fn who_arrives_is_judged_on_the_line_before_it() {
    let list = windows("2/SECOND");
    let costs = [cost(0, 1, &list, Duration::ZERO)];
    let policy = BreakerPolicy::default();
    let mut site = of_one_budget();
    for _ in 0..2 {
        assert!(matches!(
            site.enter(&ask(&costs, &policy), at(0)).entry,
            Entry::Go(_)
        ));
    }
    for (ahead, due) in [(1, 1_000), (2, 2_000), (3, 2_000), (4, 3_000)] {
        let patient = Ask {
            queue_position: QueuePosition::Behind(ahead),
            latest: at(due),
            ..ask(&costs, &policy)
        };
        assert_eq!(
            site.enter(&patient, at(0)).entry,
            Entry::Queue { at: at(due) },
            "{ahead} ahead"
        );
        let hasty = Ask {
            queue_position: QueuePosition::Behind(ahead),
            latest: at(due - 1),
            ..ask(&costs, &policy)
        };
        let Entry::Refused(refusal) = site.enter(&hasty, at(0)).entry else {
            panic!("not refused with {ahead} ahead")
        };
        assert_eq!(refusal.until, at(due));
    }
}

fn of_one_budget() -> Site {
    let mut site = Site::default();
    site.ensure_budgets(1);
    site
}

fn one_a_second() -> [Cost; 1] {
    [cost(0, 1, &windows("1/SECOND"), Duration::ZERO)]
}

/// A holder that wakes late goes then, and the one behind it moves: neither pushes the other back
/// for ever.
#[test]
fn a_late_holder_goes_before_the_reservation_behind_it() {
    let (costs, policy) = (one_a_second(), BreakerPolicy::default());
    let patient = Ask {
        latest: BootInstant::FAR,
        ..ask(&costs, &policy)
    };
    let mut site = of_one_budget();
    assert!(matches!(site.enter(&patient, at(0)).entry, Entry::Go(_)));
    let Entry::Wait(first) = site.enter(&patient, at(1)).entry else {
        panic!("not reserved")
    };
    let Entry::Wait(second) = site.enter(&patient, at(2)).entry else {
        panic!("not reserved")
    };
    assert_eq!((first.at, second.at), (at(1_000), at(2_000)));
    assert!(
        matches!(
            site.confirm(&patient, first.id, at(1_007)).entry,
            Entry::Go(_)
        ),
        "7 ms late, and it goes"
    );
    let Entry::Wait(moved) = site.confirm(&patient, second.id, at(2_003)).entry else {
        panic!("a window is exceeded")
    };
    assert_eq!(
        (moved.id, moved.at),
        (second.id, at(2_007)),
        "the window moved with the permit that was used late"
    );
    assert!(matches!(
        site.confirm(&patient, second.id, at(2_030)).entry,
        Entry::Go(_)
    ));
}

/// A request without a reservation does not take the permit of one that is due and has not come
/// yet.
#[test]
fn a_newcomer_waits_behind_a_holder_that_is_due() {
    let (costs, policy) = (one_a_second(), BreakerPolicy::default());
    let patient = Ask {
        latest: BootInstant::FAR,
        ..ask(&costs, &policy)
    };
    let mut site = of_one_budget();
    assert!(matches!(site.enter(&patient, at(0)).entry, Entry::Go(_)));
    let Entry::Wait(first) = site.enter(&patient, at(1)).entry else {
        panic!("not reserved")
    };
    let Entry::Wait(newcomer) = site.enter(&patient, at(1_050)).entry else {
        panic!("it took the permit of another")
    };
    assert_eq!(newcomer.at, at(2_050));
    // It may be gone: whoever asks later looks again when its reservation ends, and not a window
    // after that.
    let Entry::Wait(late) = site.enter(&patient, at(1_900)).entry else {
        panic!("it took the permit of another")
    };
    assert_eq!(late.at, at(3_900));
    let Entry::Wait(moved) = site.confirm(&patient, newcomer.id, at(2_050)).entry else {
        panic!("it took the permit of another")
    };
    assert_eq!(moved.at, at(3_050));
    assert!(
        matches!(
            site.confirm(&patient, newcomer.id, at(4_000)).entry,
            Entry::Go(_)
        ),
        "the dead holder cost its grace"
    );
    assert!(
        matches!(
            site.confirm(&patient, first.id, at(4_001)).entry,
            Entry::Wait(_)
        ),
        "one that expired is a newcomer"
    );
}

/// Behind a head whose answer is on its way a request may go at once, and leaves no reservation
/// behind.
#[test]
fn an_overlapping_request_goes_or_leaves_nothing() {
    let (costs, policy) = (one_a_second(), BreakerPolicy::default());
    let overlapping = Ask {
        latest: BootInstant::FAR,
        queue_position: QueuePosition::Overlapping,
        ..ask(&costs, &policy)
    };
    let mut site = of_one_budget();
    assert!(matches!(
        site.enter(&overlapping, at(0)).entry,
        Entry::Go(_)
    ));
    assert_eq!(
        site.enter(&overlapping, at(1)).entry,
        Entry::Queue { at: at(1_000) }
    );
    assert_eq!(site.budgets()[0].waiting_until().count(), 0);
}

/// A bound that was met when the place was reserved is not held against a request that woke a
/// moment late.
#[test]
fn a_reservation_that_lives_is_not_refused_for_being_late() {
    let (costs, policy) = (one_a_second(), BreakerPolicy::default());
    let mut site = of_one_budget();
    let bounded = Ask {
        latest: at(2_000),
        ..ask(&costs, &policy)
    };
    assert!(matches!(site.enter(&bounded, at(0)).entry, Entry::Go(_)));
    let Entry::Wait(first) = site.enter(&bounded, at(0)).entry else {
        panic!("not reserved")
    };
    let Entry::Wait(second) = site.enter(&bounded, at(0)).entry else {
        panic!("not reserved")
    };
    assert!(matches!(
        site.confirm(&bounded, first.id, at(1_020)).entry,
        Entry::Go(_)
    ));
    let Entry::Wait(moved) = site.confirm(&bounded, second.id, at(2_001)).entry else {
        panic!("refused for 20 ms")
    };
    assert_eq!(moved.at, at(2_020));
    assert!(matches!(
        site.confirm(&bounded, second.id, at(2_025)).entry,
        Entry::Go(_)
    ));
}

/// A shared slot goes to the one that has waited longest for it, not to the one that asks at the
/// right moment.
#[test]
fn shared_slots_are_taken_in_the_order_of_positions() {
    let list = windows("100/SECOND");
    let costs = [Cost {
        slots: NonZeroU32::new(1),
        ..cost(0, 1, &list, Duration::ZERO)
    }];
    let policy = BreakerPolicy::default();
    let question = ask(&costs, &policy);
    let mut site = of_one_budget();
    let Entry::Go(permit) = site.enter(&question, at(0)).entry else {
        panic!("not let through")
    };
    let Entry::WaitForSlot {
        id: first,
        earlier: 0,
    } = site.enter(&question, at(1)).entry
    else {
        panic!("no slot is free")
    };
    let Entry::WaitForSlot {
        id: second,
        earlier: 1,
    } = site.enter(&question, at(2)).entry
    else {
        panic!("no slot is free")
    };
    let report = docstokg_policy::site::Report {
        outcome: docstokg_policy::classify::Outcome::Success,
        retry_after: None,
        sent: at(0),
    };
    site.settle(&question, &permit, &report, at(10));
    assert!(
        matches!(
            site.enter(&question, at(11)).entry,
            Entry::WaitForSlot { earlier: 2, .. }
        ),
        "two came first"
    );
    assert_eq!(
        site.confirm(&question, second, at(12)).entry,
        Entry::WaitForSlot {
            id: second,
            earlier: 1
        }
    );
    assert!(matches!(
        site.confirm(&question, first, at(13)).entry,
        Entry::Go(_)
    ));
}

#[test]
fn the_multiplier_stretches_pacing_windows_and_leaves_quotas() {
    use docstokg_policy::adaptive::AdaptivePolicy;
    use docstokg_policy::classify::Outcome;
    use docstokg_policy::site::Report;

    let list = windows("1/SECOND+1000/HOUR");
    let costs = [cost(0, 1, &list, Duration::ZERO)];
    let policy = BreakerPolicy {
        fail_max: NonZeroU32::MAX,
        ..BreakerPolicy::default()
    };
    let adaptive = AdaptivePolicy {
        window: Duration::from_secs(1),
        ..AdaptivePolicy::default()
    };
    let mut site = of_one_budget();
    let mut now = at(0);
    for _ in 0..20 {
        let question = Ask {
            adaptive: Some(&adaptive),
            latest: BootInstant::FAR,
            ..ask(&costs, &policy)
        };
        let permit = match site.enter(&question, now).entry {
            Entry::Go(permit) => permit,
            Entry::Wait(reserved) => {
                now = reserved.at;
                let Entry::Go(permit) = site.confirm(&question, reserved.id, now).entry else {
                    panic!("not due")
                };
                permit
            }
            other => panic!("{other:?}"),
        };
        site.settle(
            &question,
            &permit,
            &Report {
                outcome: Outcome::Throttled,
                retry_after: None,
                sent: now,
            },
            now,
        );
    }
    assert!((site.budgets()[0].multiplier().share() - 0.3).abs() < 1e-9);
    let Entry::Refused(refusal) = site.enter(&ask(&costs, &policy), now).entry else {
        panic!("let through")
    };
    assert_eq!(
        refusal.until.since(now).as_millis(),
        3_333,
        "one per second at 0.3 is one in 3.33 seconds, not none"
    );
}
