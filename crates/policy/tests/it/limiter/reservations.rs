//! Reservations, queues and shared slots, case by case.

use std::num::NonZeroU32;
use std::time::Duration;

use docstokg_policy::breaker::BreakerPolicy;
use docstokg_policy::site::{AdmissionDecision, AdmissionRequest, BudgetCost, QueuePosition};
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
            AdmissionDecision::Go(_)
        ));
    }
    for (ahead, due) in [(1, 1_000), (2, 2_000), (3, 2_000), (4, 3_000)] {
        let patient = AdmissionRequest {
            queue_position: QueuePosition::Behind(ahead),
            latest: at(due),
            ..ask(&costs, &policy)
        };
        assert_eq!(
            site.enter(&patient, at(0)).entry,
            AdmissionDecision::Queue { at: at(due) },
            "{ahead} ahead"
        );
        let hasty = AdmissionRequest {
            queue_position: QueuePosition::Behind(ahead),
            latest: at(due - 1),
            ..ask(&costs, &policy)
        };
        let AdmissionDecision::Refused(refusal) = site.enter(&hasty, at(0)).entry else {
            panic!("not refused with {ahead} ahead")
        };
        assert_eq!(refusal.until, at(due));
    }
}

fn one_a_second() -> [BudgetCost; 1] {
    [cost(0, 1, &windows("1/SECOND"), Duration::ZERO)]
}

/// A holder that wakes late goes then, and the one behind it moves: neither pushes the other back
/// forever.
#[test]
fn a_late_holder_goes_before_the_reservation_behind_it() {
    let (costs, policy) = (one_a_second(), BreakerPolicy::default());
    let patient = AdmissionRequest {
        latest: BootInstant::FAR,
        ..ask(&costs, &policy)
    };
    let mut site = of_one_budget();
    assert!(matches!(
        site.enter(&patient, at(0)).entry,
        AdmissionDecision::Go(_)
    ));
    let AdmissionDecision::Wait(first) = site.enter(&patient, at(1)).entry else {
        panic!("not reserved")
    };
    let AdmissionDecision::Wait(second) = site.enter(&patient, at(2)).entry else {
        panic!("not reserved")
    };
    assert_eq!((first.at, second.at), (at(1_000), at(2_000)));
    assert!(
        matches!(
            site.confirm(&patient, first.id, at(1_007)).entry,
            AdmissionDecision::Go(_)
        ),
        "7 ms late, and it goes"
    );
    let AdmissionDecision::Wait(moved) = site.confirm(&patient, second.id, at(2_003)).entry else {
        panic!("a window is exceeded")
    };
    assert_eq!(
        (moved.id, moved.at),
        (second.id, at(2_007)),
        "the window moved with the permit that was used late"
    );
    assert!(matches!(
        site.confirm(&patient, second.id, at(2_030)).entry,
        AdmissionDecision::Go(_)
    ));
}

/// A request without a reservation does not take the permit of one that is due and has not come
/// yet.
#[test]
fn a_new_request_waits_behind_a_holder_that_is_due() {
    let (costs, policy) = (one_a_second(), BreakerPolicy::default());
    let patient = AdmissionRequest {
        latest: BootInstant::FAR,
        ..ask(&costs, &policy)
    };
    let mut site = of_one_budget();
    assert!(matches!(
        site.enter(&patient, at(0)).entry,
        AdmissionDecision::Go(_)
    ));
    let AdmissionDecision::Wait(first) = site.enter(&patient, at(1)).entry else {
        panic!("not reserved")
    };
    let AdmissionDecision::Wait(newcomer) = site.enter(&patient, at(1_050)).entry else {
        panic!("it took the permit of another")
    };
    assert_eq!(newcomer.at, at(2_050));
    // It may be gone: a request that asks later asks again when its reservation ends, and not a
    // window after that.
    let AdmissionDecision::Wait(late) = site.enter(&patient, at(1_900)).entry else {
        panic!("it took the permit of another")
    };
    assert_eq!(late.at, at(3_900));
    let AdmissionDecision::Wait(moved) = site.confirm(&patient, newcomer.id, at(2_050)).entry
    else {
        panic!("it took the permit of another")
    };
    assert_eq!(moved.at, at(3_050));
    assert!(
        matches!(
            site.confirm(&patient, newcomer.id, at(4_000)).entry,
            AdmissionDecision::Go(_)
        ),
        "the dead holder cost its grace period"
    );
    assert!(
        matches!(
            site.confirm(&patient, first.id, at(4_001)).entry,
            AdmissionDecision::Wait(_)
        ),
        "one that expired counts as new"
    );
}

/// Behind a head whose answer is on its way a request may go at once, and leaves no reservation
/// behind.
#[test]
fn an_overlapping_request_goes_or_leaves_nothing() {
    let (costs, policy) = (one_a_second(), BreakerPolicy::default());
    let overlapping = AdmissionRequest {
        latest: BootInstant::FAR,
        queue_position: QueuePosition::Overlapping,
        ..ask(&costs, &policy)
    };
    let mut site = of_one_budget();
    assert!(matches!(
        site.enter(&overlapping, at(0)).entry,
        AdmissionDecision::Go(_)
    ));
    assert_eq!(
        site.enter(&overlapping, at(1)).entry,
        AdmissionDecision::Queue { at: at(1_000) }
    );
    assert_eq!(site.budgets()[0].count_waiting(at(1)), 0);
}

/// A request whose reservation met its bound is not refused when it wakes a little late.
#[test]
fn a_reservation_that_lives_is_not_refused_for_being_late() {
    let (costs, policy) = (one_a_second(), BreakerPolicy::default());
    let mut site = of_one_budget();
    let bounded = AdmissionRequest {
        latest: at(2_000),
        ..ask(&costs, &policy)
    };
    assert!(matches!(
        site.enter(&bounded, at(0)).entry,
        AdmissionDecision::Go(_)
    ));
    let AdmissionDecision::Wait(first) = site.enter(&bounded, at(0)).entry else {
        panic!("not reserved")
    };
    let AdmissionDecision::Wait(second) = site.enter(&bounded, at(0)).entry else {
        panic!("not reserved")
    };
    assert!(matches!(
        site.confirm(&bounded, first.id, at(1_020)).entry,
        AdmissionDecision::Go(_)
    ));
    let AdmissionDecision::Wait(moved) = site.confirm(&bounded, second.id, at(2_001)).entry else {
        panic!("refused for 20 ms")
    };
    assert_eq!(moved.at, at(2_020));
    assert!(matches!(
        site.confirm(&bounded, second.id, at(2_025)).entry,
        AdmissionDecision::Go(_)
    ));
}

/// A shared slot goes to the request that has waited longest for it, not to the one that asks at
/// the right instant.
#[test]
fn shared_slots_are_taken_in_the_order_of_positions() {
    let list = windows("100/SECOND");
    let costs = [BudgetCost {
        slots: NonZeroU32::new(1),
        ..cost(0, 1, &list, Duration::ZERO)
    }];
    let policy = BreakerPolicy::default();
    let question = ask(&costs, &policy);
    let mut site = of_one_budget();
    let AdmissionDecision::Go(permit) = site.enter(&question, at(0)).entry else {
        panic!("not permitted")
    };
    let AdmissionDecision::WaitForSlot {
        id: first,
        earlier: 0,
    } = site.enter(&question, at(1)).entry
    else {
        panic!("no slot is free")
    };
    let AdmissionDecision::WaitForSlot {
        id: second,
        earlier: 1,
    } = site.enter(&question, at(2)).entry
    else {
        panic!("no slot is free")
    };
    let report = docstokg_policy::site::AttemptResult {
        outcome: docstokg_policy::classify::AttemptMeaning::Success,
        retry_after: None,
        sent: at(0),
        wants_retry: false,
        maybe_refused: false,
    };
    site.settle(&question, &permit, &report, at(10));
    assert!(
        matches!(
            site.enter(&question, at(11)).entry,
            AdmissionDecision::WaitForSlot { earlier: 2, .. }
        ),
        "two came first"
    );
    assert_eq!(
        site.confirm(&question, second, at(12)).entry,
        AdmissionDecision::WaitForSlot {
            id: second,
            earlier: 1
        }
    );
    assert!(matches!(
        site.confirm(&question, first, at(13)).entry,
        AdmissionDecision::Go(_)
    ));
}
