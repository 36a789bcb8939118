//! Reservations, queues and shared slots, case by case.

use std::num::NonZeroU32;
use std::time::Duration;

use docstokg_policy::breaker::BreakerPolicy;
use docstokg_policy::site::{Ask, Cost, Entry, QueuePosition};
use docstokg_policy::time::BootInstant;

use super::of_one_budget;
use crate::support::{ask, at, cost, windows};

#[test]
fn a_request_is_judged_on_the_queue_before_it() {
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

fn one_a_second() -> [Cost; 1] {
    [cost(0, 1, &windows("1/SECOND"), Duration::ZERO)]
}

/// A holder that wakes late goes then, and the one behind it moves: neither pushes the other back
/// forever.
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
fn a_new_request_waits_behind_a_holder_that_is_due() {
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
    // It may be gone: a request that asks later asks again when its reservation ends, and not a
    // window after that.
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
        "the dead holder cost its grace period"
    );
    assert!(
        matches!(
            site.confirm(&patient, first.id, at(4_001)).entry,
            Entry::Wait(_)
        ),
        "one that expired counts as new"
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
    assert_eq!(site.budgets()[0].count_waiting(at(1)), 0);
}

/// A request whose reservation met its bound is not refused when it wakes a little late.
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

/// A shared slot goes to the request that has waited longest for it, not to the one that asks at
/// the right instant.
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
        panic!("not permitted")
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
        wants_retry: false,
        maybe_refused: false,
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
