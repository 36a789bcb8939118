use std::num::NonZeroU32;
use std::time::Duration;

use docstokg_policy::breaker::{BreakerPolicy, BreakerState, OpenReason};
use docstokg_policy::classify::AttemptMeaning;
use docstokg_policy::role::Role;
use docstokg_policy::site::{
    AdmissionDecision, AdmissionRequest, AttemptResult, LanePolicy, Patience, PermitStanding,
    RefusalReason, Site,
};
use docstokg_policy::time::BootInstant;

use crate::support::{ask, at, cost, ms, windows};

/// A half-open site with one permit per second, the last one used at `at(1_000)`.
fn half_open() -> Site {
    let policy = BreakerPolicy::default();
    let costs = [cost(0, 1, &windows("1/SECOND"), Duration::ZERO)];
    let mut site = Site::default();
    site.ensure_budgets(1);
    let AdmissionDecision::Go(permit) = site.enter(&ask(&costs, &policy), at(1_000)).entry else {
        panic!("refused")
    };
    let report = AttemptResult {
        outcome: AttemptMeaning::Throttled,
        retry_after: Some(ms(500)),
        sent: at(1_000),
        wants_retry: false,
        maybe_refused: false,
    };
    site.settle(&ask(&costs, &policy), &permit, &report, at(1_000));
    site
}

#[test]
fn a_probe_refused_by_the_limiter_leaves_no_lease() {
    let policy = BreakerPolicy {
        jitter: Duration::ZERO,
        ..BreakerPolicy::default()
    };
    let costs = [cost(0, 1, &windows("1/SECOND"), Duration::ZERO)];
    let mut site = half_open();
    let AdmissionDecision::Refused(refusal) = site.enter(&ask(&costs, &policy), at(1_600)).entry
    else {
        panic!("permitted")
    };
    assert!(matches!(refusal.reason, RefusalReason::Rate { .. }));
    assert_eq!(site.breaker().leases(Role::Metadata, at(1_600)), 0);
}

#[test]
fn a_probe_that_waits_for_the_rate_holds_its_lease_until_it_leaves() {
    let policy = BreakerPolicy {
        jitter: Duration::ZERO,
        ..BreakerPolicy::default()
    };
    let costs = [cost(0, 1, &windows("1/SECOND"), Duration::ZERO)];
    let mut site = half_open();
    let patient = AdmissionRequest {
        latest: BootInstant::FAR,
        ..ask(&costs, &policy)
    };
    let AdmissionDecision::Wait(reserved) = site.enter(&patient, at(1_600)).entry else {
        panic!("no reservation")
    };
    assert!(reserved.probe && reserved.at == at(2_000));
    assert_eq!(site.breaker().leases(Role::Metadata, at(1_600)), 1);
    assert!(
        site.leave(&patient, reserved.id, None),
        "waiting requests have a reason to ask again"
    );
    assert_eq!(site.breaker().leases(Role::Metadata, at(1_600)), 0);
}

#[test]
fn jitter_delays_a_probe_and_is_not_a_wait_for_the_rate() {
    let policy = BreakerPolicy {
        jitter: ms(150),
        ..BreakerPolicy::default()
    };
    let mut site = Site::default();
    site.block(at(100), &OpenReason::RetryAfter, at(0));
    let question = AdmissionRequest {
        jitter_sample: 0.5,
        ..ask(&[], &policy)
    };
    let AdmissionDecision::Wait(reserved) = site.enter(&question, at(100)).entry else {
        panic!("no reservation")
    };
    assert_eq!((reserved.at, reserved.because), (at(175), None));
    let AdmissionDecision::Go(permit) = site.confirm(&question, reserved.id, at(175)).entry else {
        panic!("refused")
    };
    assert!(permit.probe);
}

#[test]
fn a_request_permitted_before_a_block_is_not_sent_after_it() {
    let policy = BreakerPolicy::default();
    let costs = [cost(0, 1, &windows("1/SECOND"), Duration::ZERO)];
    let mut site = Site::default();
    site.ensure_budgets(1);
    let question = AdmissionRequest {
        latest: BootInstant::FAR,
        ..ask(&costs, &policy)
    };
    let AdmissionDecision::Go(first) = site.enter(&question, at(0)).entry else {
        panic!("refused")
    };
    let AdmissionDecision::Wait(reserved) = site.enter(&question, at(1)).entry else {
        panic!("no reservation")
    };
    site.hold(&question, &first, BootInstant::FAR);
    site.block(at(9_000), &OpenReason::RetryAfter, at(500));
    assert!(
        matches!(
            site.confirm(&question, reserved.id, at(1_000)).entry,
            AdmissionDecision::Refused(_)
        ),
        "the one that waited"
    );
    assert!(
        matches!(
            site.sent(&question, &first, ms(1), at(600)),
            PermitStanding::Blocked(_)
        ),
        "the one that dialled"
    );
}

/// The policy of a role with a breaker of its own.
fn isolated(breaker: &BreakerPolicy) -> LanePolicy {
    LanePolicy {
        isolated: true,
        ..LanePolicy::new(breaker.clone())
    }
}

#[test]
fn an_isolated_role_opens_only_its_own_breaker() {
    let own = BreakerPolicy {
        fail_max: NonZeroU32::new(2).expect("not zero"),
        ..BreakerPolicy::default()
    };
    let host = BreakerPolicy::default();
    let artifact = AdmissionRequest {
        role: Role::Artifact,
        ..AdmissionRequest::at_once(&[], isolated(&own))
    };
    let metadata = ask(&[], &host);
    let mut site = Site::default();
    for _ in 0..2 {
        let AdmissionDecision::Go(permit) = site.enter(&artifact, at(0)).entry else {
            panic!("refused")
        };
        site.settle(
            &artifact,
            &permit,
            &AttemptResult {
                outcome: AttemptMeaning::Failure,
                retry_after: None,
                sent: at(0),
                wants_retry: false,
                maybe_refused: false,
            },
            at(0),
        );
    }
    assert!(matches!(
        site.enter(&artifact, at(1)).entry,
        AdmissionDecision::Refused(_)
    ));
    assert!(matches!(
        site.enter(&metadata, at(1)).entry,
        AdmissionDecision::Go(_)
    ));
    assert_eq!(
        (site.breaker().failures(), site.breaker().state(at(1))),
        (0, BreakerState::Closed)
    );
}

#[test]
fn a_block_holds_for_every_role_even_an_isolated_one() {
    let policy = BreakerPolicy::default();
    let mut site = Site::default();
    site.block(at(5_000), &OpenReason::RetryAfter, at(0));
    let artifact = AdmissionRequest {
        role: Role::Artifact,
        ..AdmissionRequest::at_once(&[], isolated(&policy))
    };
    let AdmissionDecision::Refused(refusal) = site.enter(&artifact, at(1)).entry else {
        panic!("permitted")
    };
    assert_eq!(refusal.until, at(5_000));
}

#[test]
fn a_reservation_of_a_dead_holder_expires() {
    let policy = BreakerPolicy::default();
    let costs = [cost(0, 1, &windows("1/SECOND"), Duration::ZERO)];
    let mut site = Site::default();
    site.ensure_budgets(1);
    let question = AdmissionRequest {
        latest: BootInstant::FAR,
        patience: Patience::Refuse,
        ..ask(&costs, &policy)
    };
    assert!(matches!(
        site.enter(&question, at(0)).entry,
        AdmissionDecision::Go(_)
    ));
    assert!(matches!(
        site.enter(&question, at(0)).entry,
        AdmissionDecision::Wait(_)
    ));
    assert!(
        matches!(
            site.enter(&ask(&costs, &policy), at(3_999)).entry,
            AdmissionDecision::Refused(_)
        ),
        "held until it expires"
    );
    assert!(matches!(
        site.enter(&ask(&costs, &policy), at(4_001)).entry,
        AdmissionDecision::Go(_)
    ));
}

/// A process with an endless queue, which wakes `delay` after its turn.
struct SiteProcess {
    wakes: BootInstant,
    reserved: Option<u64>,
    delay: Duration,
    sent: u32,
}

/// Lets processes with these delays ask for 20 s, and returns how many each has sent.
fn shared<const N: usize>(rates: &str, delays: [u64; N]) -> [u32; N] {
    let policy = BreakerPolicy::default();
    let costs = [cost(0, 1, &windows(rates), ms(0))];
    let mut site = Site::default();
    site.ensure_budgets(1);
    let mut processes = delays.map(|micros| SiteProcess {
        wakes: at(0),
        reserved: None,
        delay: Duration::from_micros(micros),
        sent: 0,
    });
    let end = at(20_000);
    loop {
        let process = processes
            .iter_mut()
            .min_by_key(|process| process.wakes)
            .expect("some");
        let now = process.wakes;
        if now >= end {
            return processes.map(|process| process.sent);
        }
        let question = AdmissionRequest {
            latest: BootInstant::FAR,
            ..ask(&costs, &policy)
        };
        let entered = match process.reserved.take() {
            Some(reserved) => site.confirm(&question, reserved, now),
            None => site.enter(&question, now),
        };
        match entered.entry {
            // The next request of its queue asks a little later.
            AdmissionDecision::Go(_) => {
                (process.sent, process.wakes) = (process.sent + 1, now + Duration::from_micros(20));
            }
            AdmissionDecision::Wait(reserved) => {
                (process.reserved, process.wakes) =
                    (Some(reserved.id), reserved.at + process.delay);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_process_that_wakes_first_leaves_the_others_their_share_of_a_burst() {
    let sent = shared("50/SECOND", [50, 300, 600, 1_000]);
    let (most, least) = (
        sent.iter().max().expect("four"),
        sent.iter().min().expect("four"),
    );
    assert!(f64::from(*most) <= 1.3 * f64::from(*least), "{sent:?}");
    assert!(sent.iter().sum::<u32>() >= 980, "{sent:?}");
}

#[test]
fn turns_do_not_slow_down_fast_limits() {
    let sent = shared("5000/SECOND", [1_000, 1_500]);
    assert!(sent.iter().sum::<u32>() >= 98_000, "{sent:?}");
}

#[test]
fn a_turn_is_not_worth_a_permit() {
    let policy = BreakerPolicy::default();
    let common = || cost(0, 1, &windows("2/SECOND"), ms(0));
    let own = |budget| cost(budget, 1, &windows("1/SECOND"), ms(0));
    let (first, second, third) = ([common(), own(1)], [common(), own(2)], [common()]);
    let mut site = Site::default();
    site.ensure_budgets(3);
    let patient = |costs| AdmissionRequest {
        latest: BootInstant::FAR,
        ..ask(costs, &policy)
    };
    // Their own budgets put these two at 1,002 and 2,001; the common one has room for another
    // before them, and none between.
    assert!(matches!(
        site.enter(&patient(&first), at(2)).entry,
        AdmissionDecision::Go(_)
    ));
    assert!(matches!(
        site.enter(&patient(&second[1..]), at(1_001)).entry,
        AdmissionDecision::Go(_)
    ));
    for (costs, due) in [(&first, 1_002), (&second, 2_001)] {
        let AdmissionDecision::Wait(reserved) = site.enter(&patient(costs), at(1_001)).entry else {
            panic!("no reservation")
        };
        assert_eq!(reserved.at, at(due));
    }
    let entry = site.enter(&patient(&third), at(1_001)).entry;
    assert!(matches!(entry, AdmissionDecision::Go(_)), "{entry:?}");
}
