//! Early probes against an oracle: processes that ask late, answers that come late or never, and
//! leases that are lost.

use std::num::NonZeroU32;
use std::time::Duration;

use docstokg_policy::breaker::{BreakerPolicy, BreakerState, OpenReason, Transition};
use docstokg_policy::classify::AttemptMeaning;
use docstokg_policy::role::Role;
use docstokg_policy::site::{AdmissionDecision, AdmissionRequest, AttemptResult, Permit, Site};
use docstokg_policy::time::BootInstant;
use proptest::prelude::*;

use super::oracle::Oracle;
use crate::support::{ask, at, ms};

#[derive(Clone, Debug)]
enum OutageStep {
    Advance {
        millis: u64,
    },
    Ask {
        role: usize,
    },
    Answer {
        which: usize,
        outcome: AttemptMeaning,
        sample: f64,
    },
    Lose {
        which: usize,
    },
}

fn any_step() -> impl Strategy<Value = OutageStep> {
    let outcome = prop_oneof![
        6 => Just(AttemptMeaning::Failure),
        1 => Just(AttemptMeaning::Success),
        1 => Just(AttemptMeaning::Neutral),
    ];
    prop_oneof![
        4 => prop_oneof![1u64..300, 800u64..1_300, 1_000u64..30_000]
            .prop_map(|millis| OutageStep::Advance { millis }),
        6 => (0usize..3).prop_map(|role| OutageStep::Ask { role }),
        6 => (0usize..4, outcome, 0.0..1.0)
            .prop_map(|(which, outcome, sample)| OutageStep::Answer { which, outcome, sample }),
        1 => (0usize..4).prop_map(|which| OutageStep::Lose { which }),
    ]
}

fn any_policy() -> impl Strategy<Value = BreakerPolicy> {
    (1u32..4, 200u64..90_000, 1u64..6, 0u32..3).prop_map(|(fail_max, reset, ceiling, landing)| {
        BreakerPolicy {
            fail_max: NonZeroU32::new(fail_max).expect("not zero"),
            reset: ms(reset),
            reset_ceiling: ms(reset * ceiling),
            trial_calls: [1, landing, 2],
            jitter: Duration::ZERO,
            ..BreakerPolicy::default()
        }
    })
}

const LEASE: Duration = Duration::from_secs(20);

fn question(policy: &BreakerPolicy, role: Role, jitter_sample: f64) -> AdmissionRequest {
    AdmissionRequest {
        role,
        jitter_sample,
        ..ask(&[], policy)
    }
}

fn report(outcome: AttemptMeaning, permit: &Permit) -> AttemptResult {
    AttemptResult {
        outcome,
        retry_after: None,
        sent: permit.at,
        wants_retry: false,
        maybe_refused: false,
    }
}

/// Takes the steps with the breaker and the oracle, and compares every answer.
fn run(policy: &BreakerPolicy, steps: &[OutageStep]) -> Result<Oracle, TestCaseError> {
    let (mut site, mut now) = (Site::default(), at(0));
    let mut oracle = Oracle::new(policy);
    let mut in_flight: Vec<(Permit, Role, u64)> = Vec::new();
    for step in steps {
        match *step {
            OutageStep::Advance { millis } => now += ms(millis),
            OutageStep::Ask { role } => {
                let role = Role::ALL[role];
                let entry = site.enter(&question(policy, role, 0.0), now).entry;
                let expected = oracle.may_go(role, now);
                match entry {
                    AdmissionDecision::Go(permit) => {
                        prop_assert_ne!(expected, Some(false), "permitted at {:?}", now);
                        prop_assert_eq!(permit.probe, oracle.is_down());
                        let epoch = oracle.sent(permit.id, role, now + LEASE);
                        in_flight.push((permit, role, epoch));
                    }
                    AdmissionDecision::Refused(refusal) => {
                        prop_assert_ne!(expected, Some(true), "refused at {:?}", now);
                        prop_assert!(refusal.until > now);
                    }
                    other => panic!("{other:?}"),
                }
            }
            OutageStep::Answer {
                which,
                outcome,
                sample,
            } if which < in_flight.len() => {
                let (permit, role, epoch) = in_flight.remove(which);
                let question = question(policy, role, sample);
                let settled = site.settle(&question, &permit, &report(outcome, &permit), now);
                oracle.answered((permit.id, permit.at), epoch, outcome, now);
                oracle.count(settled.transition.as_ref());
            }
            OutageStep::Lose { which } if which < in_flight.len() => {
                in_flight.remove(which);
            }
            OutageStep::Answer { .. } | OutageStep::Lose { .. } => {}
        }
        let is_closed = site.breaker().state(now) == BreakerState::Closed;
        prop_assert_eq!(is_closed, !oracle.is_down());
        prop_assert_eq!(oracle.opens_reported, oracle.outages);
        prop_assert_eq!(oracle.failed_probes_reported, oracle.failed_probes);
    }
    Ok(oracle)
}

#[test]
fn early_probes_keep_their_schedule_however_late_requests_wake_and_leases_are_lost() {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 3_000,
        ..ProptestConfig::default()
    });
    let seen = std::cell::Cell::new([0; 3]);
    let steps = proptest::collection::vec(any_step(), 1..120);
    let outcome = runner.run(&(any_policy(), steps), |(policy, steps)| {
        let oracle = run(&policy, &steps)?;
        let [outages, failed, late] = seen.get();
        seen.set([
            outages + oracle.outages,
            failed + oracle.failed_probes,
            late + oracle.probes_after_reset,
        ]);
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    assert!(seen.get().iter().all(|count| *count > 500), "{seen:?}");
}

fn fails(site: &mut Site, policy: &BreakerPolicy, now: BootInstant) -> Option<Transition> {
    answers(site, policy, AttemptMeaning::Failure, now)
}

fn answers(
    site: &mut Site,
    policy: &BreakerPolicy,
    outcome: AttemptMeaning,
    now: BootInstant,
) -> Option<Transition> {
    let question = question(policy, Role::Metadata, 0.5);
    let AdmissionDecision::Go(permit) = site.enter(&question, now).entry else {
        panic!("refused")
    };
    site.settle(&question, &permit, &report(outcome, &permit), now)
        .transition
}

fn next_probe(site: &Site, now: BootInstant) -> BootInstant {
    site.breaker().open_until(now).expect("open").0
}

fn one_failure() -> BreakerPolicy {
    BreakerPolicy {
        fail_max: NonZeroU32::MIN,
        jitter: Duration::ZERO,
        ..BreakerPolicy::default()
    }
}

#[test]
fn waits_grow_with_the_outage_up_to_the_reset_and_it_stays_one_open() {
    let (policy, mut site, mut now) = (one_failure(), Site::default(), at(0));
    let (mut waits, mut reasons) = (Vec::new(), Vec::new());
    for _ in 0..23 {
        let change = fails(&mut site, &policy, now).expect("a change");
        reasons.push(change.reason.expect("a reason"));
        let next = next_probe(&site, now);
        assert_eq!(change.reset, Some(next.since(now)));
        waits.push(next.since(now).as_millis());
        now = next;
    }
    assert_eq!(
        waits[..10],
        [
            1_000, 1_000, 1_000, 1_000, 1_000, 1_000, 1_200, 1_440, 1_728, 2_073
        ]
    );
    assert_eq!(waits[20..], [15_407, 18_488, 22_186]);
    assert_eq!(reasons[0], OpenReason::Consecutive);
    assert!(
        reasons[1..]
            .iter()
            .all(|reason| *reason == OpenReason::EarlyProbeFailed)
    );
    for _ in 0..10 {
        let _ = fails(&mut site, &policy, now);
        now = next_probe(&site, now);
    }
    let _ = fails(&mut site, &policy, now);
    assert_eq!(next_probe(&site, now).since(now), policy.reset);
    assert_eq!(
        site.breaker().open_until(now).expect("open").1,
        &OpenReason::Consecutive,
        "the reason of the open"
    );
}

#[test]
fn the_time_of_the_answer_is_part_of_the_wait_up_to_half_of_it() {
    for (took, next) in [(100, 1_000), (500, 1_000), (800, 1_300), (30_000, 33_100)] {
        let (policy, mut site) = (one_failure(), Site::default());
        let _ = fails(&mut site, &policy, at(0));
        let question = question(&policy, Role::Metadata, 0.5);
        let AdmissionDecision::Go(permit) = site.enter(&question, at(1_000)).entry else {
            panic!("refused")
        };
        let now = at(1_000 + took);
        let _ = site.settle(
            &question,
            &permit,
            &report(AttemptMeaning::Failure, &permit),
            now,
        );
        assert_eq!(next_probe(&site, now), at(1_000 + next), "{took} ms");
    }
}

#[test]
fn an_open_by_429_keeps_its_reset_and_so_does_a_probe_that_is_throttled() {
    let (policy, mut site) = (one_failure(), Site::default());
    let _ = answers(&mut site, &policy, AttemptMeaning::Throttled, at(0));
    assert_eq!(next_probe(&site, at(0)).since(at(0)), policy.reset);

    let mut site = Site::default();
    let _ = fails(&mut site, &policy, at(0));
    let now = next_probe(&site, at(0));
    let change = answers(&mut site, &policy, AttemptMeaning::Throttled, now).expect("a change");
    assert_eq!(change.reason, Some(OpenReason::ProbeFailed));
    assert_eq!(next_probe(&site, now).since(now), 2 * policy.reset);
}

#[test]
fn a_block_within_an_outage_delays_its_probes_and_does_not_end_it() {
    let (policy, mut site) = (one_failure(), Site::default());
    let _ = fails(&mut site, &policy, at(0));
    site.block(at(20_000), &OpenReason::RetryAfter, at(100));
    assert_eq!(next_probe(&site, at(100)), at(20_000));
    let change = fails(&mut site, &policy, at(20_000)).expect("a change");
    assert_eq!(change.reason, Some(OpenReason::EarlyProbeFailed));
    assert_eq!(next_probe(&site, at(20_000)), at(24_000), "a fifth of it");
    // One that begins while a probe is in flight.
    let AdmissionDecision::Go(_) = site
        .enter(&question(&policy, Role::Metadata, 0.5), at(24_000))
        .entry
    else {
        panic!("refused")
    };
    site.block(at(30_000), &OpenReason::RetryAfter, at(24_100));
    let _ = fails(&mut site, &policy, at(30_000));
    assert_eq!(next_probe(&site, at(30_000)), at(36_000));
}

#[test]
fn a_block_of_a_closed_breaker_is_not_an_outage() {
    let (policy, mut site) = (one_failure(), Site::default());
    let _ = fails(&mut site, &policy, at(0));
    let _ = answers(&mut site, &policy, AttemptMeaning::Success, at(2_000));
    site.block(at(90_000), &OpenReason::RetryAfter, at(3_000));
    let change = fails(&mut site, &policy, at(90_000)).expect("a change");
    assert_eq!(change.reason, Some(OpenReason::ProbeFailed), "a new open");
    assert_eq!(next_probe(&site, at(90_000)), at(91_000));
}
