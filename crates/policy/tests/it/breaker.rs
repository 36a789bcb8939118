use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Duration;

use docstokg_policy::breaker::{BreakerPolicy, BreakerState, OpenReason, RollingWindow};
use docstokg_policy::classify::AttemptMeaning;
use docstokg_policy::site::{
    AdmissionDecision, AdmissionRequest, AttemptResult, Patience, Permit, Site,
};
use docstokg_policy::time::BootInstant;
use proptest::prelude::*;

use self::model::{Model, any_step};
use crate::support::{ask, at, ms};

// What an observer can know about a breaker under random steps.
mod model;
// What the description of early probes says.
mod oracle;
// Early probes against that description.
mod outage;

fn policy() -> BreakerPolicy {
    BreakerPolicy {
        fail_max: NonZeroU32::new(3).expect("not zero"),
        reset: ms(1_000),
        reset_ceiling: ms(6_000),
        retry_after_cap: Duration::from_secs(4),
        window: Some(RollingWindow {
            threshold_failures: NonZeroU32::new(4).expect("not zero"),
            within: ms(2_000),
            cooldown: ms(700),
        }),
        jitter: Duration::ZERO,
        early_probes: false,
        ..BreakerPolicy::default()
    }
}

/// Random interleavings keep every promise, and together they visit every state.
#[test]
fn any_interleaving_keeps_the_promises_and_every_state_is_visited() {
    visit_every_state(&policy());
}

#[test]
fn with_early_probes_any_interleaving_keeps_the_promises() {
    visit_every_state(&BreakerPolicy {
        early_probes: true,
        ..policy()
    });
}

fn visit_every_state(policy: &BreakerPolicy) {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 3_000,
        ..ProptestConfig::default()
    });
    let (states, reasons) = (
        std::cell::RefCell::new(BTreeSet::new()),
        std::cell::RefCell::new(BTreeSet::new()),
    );
    let outcome = runner.run(&proptest::collection::vec(any_step(), 1..80), |steps| {
        let model = Model::run(policy, &steps)?;
        states.borrow_mut().extend(model.states);
        reasons.borrow_mut().extend(model.reasons);
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    let words = |set: BTreeSet<String>| set.into_iter().collect::<Vec<_>>().join(" ");
    assert_eq!(
        words(states.into_inner().into_iter().map(str::to_owned).collect()),
        "closed half_open open"
    );
    assert_eq!(
        words(reasons.into_inner()),
        "cli-open:test consecutive probe-failed retry-after rolling-window"
    );
}

fn fail(site: &mut Site, policy: &BreakerPolicy, now: BootInstant) {
    let question = ask(&[], policy);
    let AdmissionDecision::Go(permit) = site.enter(&question, now).entry else {
        panic!("refused")
    };
    site.settle(
        &question,
        &permit,
        &AttemptResult {
            outcome: AttemptMeaning::Failure,
            retry_after: None,
            sent: now,
            wants_retry: false,
            maybe_refused: false,
        },
        now,
    );
}

/// Enters at `now`, and settles with an outcome and what the server stated.
fn answer(
    site: &mut Site,
    policy: &BreakerPolicy,
    (outcome, retry_after): (AttemptMeaning, Option<Duration>),
    now: BootInstant,
) -> Permit {
    let question = ask(&[], policy);
    let AdmissionDecision::Go(permit) = site.enter(&question, now).entry else {
        panic!("refused")
    };
    let report = AttemptResult {
        outcome,
        retry_after,
        sent: now,
        wants_retry: false,
        maybe_refused: false,
    };
    site.settle(&question, &permit, &report, now);
    permit
}

/// Opens in a row, without a success in between: each lasts twice as long as the one before with
/// early probes, and as long as the first without.
#[test]
fn without_early_probes_the_reset_is_fixed() {
    for (early_probes, expected) in [(true, [1, 2, 4, 6]), (false, [1, 1, 1, 1])] {
        let policy = BreakerPolicy {
            early_probes,
            window: None,
            fail_max: NonZeroU32::MIN,
            ..policy()
        };
        let resets = [1, 2, 3, 4].map(|opens| policy.reset_after(opens, Duration::ZERO).as_secs());
        assert_eq!(resets, expected, "early probes: {early_probes}");
        if early_probes {
            continue;
        }
        let (mut site, mut now) = (Site::default(), at(0));
        for _ in 0..4 {
            fail(&mut site, &policy, now);
            let (until, _) = site.breaker().open_until(now).expect("an open");
            assert_eq!(until.since(now), policy.reset);
            assert_eq!(site.breaker().reset_in_force(&policy), policy.reset);
            now = until;
        }
    }
}

/// What servers ask for lengthens the reset, and is what is shown.
#[test]
fn the_reset_in_force_is_what_was_learned() {
    let policy = BreakerPolicy {
        window: None,
        ..policy()
    };
    let mut site = Site::default();
    assert_eq!(site.breaker().reset_in_force(&policy), policy.reset);
    let mut now = at(0);
    for _ in 0..2 {
        let stated = (AttemptMeaning::Throttled, Some(Duration::from_secs(4)));
        answer(&mut site, &policy, stated, now);
        now = site.breaker().open_until(now).expect("a block").0;
        answer(&mut site, &policy, (AttemptMeaning::Success, None), now);
    }
    assert_eq!(
        site.breaker().reset_in_force(&policy),
        Duration::from_secs(4)
    );
}

/// A stated time replaces the reset: for the failure that opens the breaker, for a probe of an open
/// by refusals, and for one of an outage, early probes or not.
#[test]
fn a_stated_time_wins_over_the_reset_for_probes_too() {
    for early_probes in [false, true] {
        let policy = BreakerPolicy {
            window: None,
            fail_max: NonZeroU32::new(2).expect("not zero"),
            reset: Duration::from_secs(60),
            reset_ceiling: Duration::from_secs(900),
            retry_after_cap: Duration::from_secs(900),
            early_probes,
            ..policy()
        };
        let second = Some(Duration::from_secs(1));
        for opened_by in [AttemptMeaning::Throttled, AttemptMeaning::Failure] {
            for probe in [AttemptMeaning::Throttled, AttemptMeaning::Failure] {
                let (mut site, mut now) = (Site::default(), at(0));
                for _ in 0..2 {
                    answer(&mut site, &policy, (opened_by, second), now);
                    now = site
                        .breaker()
                        .open_until(now)
                        .map_or(now, |(until, _)| until);
                }
                assert_eq!(now, at(2_000), "two answers, each with a stated second");
                for _ in 0..3 {
                    let permit = answer(&mut site, &policy, (probe, second), now);
                    assert!(permit.probe);
                    let (until, _) = site.breaker().open_until(now).expect("open");
                    // A failure may wait a little longer: its schedule spreads probes by a tenth.
                    let wait = until.since(now).as_millis();
                    assert!(
                        (1_000..=1_100).contains(&wait),
                        "{opened_by:?} {probe:?}: {wait}"
                    );
                    now = until;
                }
                // Without a statement the reset applies to a refused probe.
                answer(&mut site, &policy, (AttemptMeaning::Throttled, None), now);
                let (until, _) = site.breaker().open_until(now).expect("open");
                assert!(until.since(now) >= Duration::from_secs(60));
            }
        }
    }
}

/// A refusal that states a time opens for that time; a failure of the rolling window opens for its
/// cooldown whatever it states.
#[test]
fn stated_time_of_a_refusal_wins_over_the_cooldown_of_the_rolling_window() {
    let cooldown = Duration::from_secs(60);
    let policy = BreakerPolicy {
        fail_max: NonZeroU32::new(10).expect("not zero"),
        window: Some(RollingWindow {
            threshold_failures: NonZeroU32::new(4).expect("not zero"),
            within: ms(2_000),
            cooldown,
        }),
        ..policy()
    };
    let second = Duration::from_secs(1);
    for (last, expected) in [
        ((AttemptMeaning::Throttled, Some(second)), second),
        ((AttemptMeaning::Throttled, None), cooldown),
        ((AttemptMeaning::Failure, Some(second)), cooldown),
        ((AttemptMeaning::Failure, None), cooldown),
    ] {
        let mut site = Site::default();
        for time in [0, 100, 200] {
            answer(
                &mut site,
                &policy,
                (AttemptMeaning::Failure, None),
                at(time),
            );
            assert_eq!(site.breaker().open_until(at(time)), None);
        }
        answer(&mut site, &policy, last, at(300));
        let (until, _) = site.breaker().open_until(at(300)).expect("open");
        assert_eq!(until.since(at(300)), expected, "{last:?}");
    }
}

/// A server that is down and says "in a second" each time is asked ever less often.
#[test]
fn a_short_declared_time_does_not_shorten_the_schedule_of_an_outage() {
    for declared in [Duration::ZERO, Duration::from_secs(1)] {
        let policy = BreakerPolicy {
            window: None,
            ..BreakerPolicy::default()
        };
        assert!(policy.early_probes);
        let (mut site, mut now, mut probes) = (Site::default(), at(0), 0);
        while now < at(600_000) {
            answer(
                &mut site,
                &policy,
                (AttemptMeaning::Failure, Some(declared)),
                now,
            );
            probes += 1;
            let open = site.breaker().open_until(now);
            now = open.map_or(now, |(until, _)| until);
        }
        assert!(
            (10..=45).contains(&probes),
            "{declared:?}: {probes} requests"
        );
    }
}

#[test]
fn an_empty_declared_time_leaves_a_refused_probe_to_the_reset() {
    let (policy, mut site) = (policy(), Site::default());
    site.block(at(1_000), &OpenReason::Operator("a test".into()), at(0));
    let probe = answer(
        &mut site,
        &policy,
        (AttemptMeaning::Throttled, Some(Duration::ZERO)),
        at(1_000),
    );
    assert!(probe.probe);
    let (until, _) = site.breaker().open_until(at(1_000)).expect("open");
    assert!(until.since(at(1_000)) >= policy.reset, "{until:?}");
}

#[test]
fn repeated_opens_last_longer_up_to_the_ceiling_and_a_quiet_time_forgets_them() {
    let policy = BreakerPolicy {
        window: None,
        fail_max: NonZeroU32::MIN,
        early_probes: true,
        ..policy()
    };
    let mut site = Site::default();
    let mut now = at(0);
    let mut lengths = Vec::new();
    for _ in 0..5 {
        answer(&mut site, &policy, (AttemptMeaning::Throttled, None), now);
        let (until, _) = site.breaker().open_until(now).expect("open");
        lengths.push(until.since(now).as_millis());
        now = until;
    }
    assert_eq!(lengths, [1_000, 2_000, 4_000, 6_000, 6_000]);
    let question = ask(&[], &policy);
    let AdmissionDecision::Go(permit) = site.enter(&question, now).entry else {
        panic!("refused")
    };
    site.settle(
        &question,
        &permit,
        &AttemptResult {
            outcome: AttemptMeaning::Success,
            retry_after: None,
            sent: now,
            wants_retry: false,
            maybe_refused: false,
        },
        now,
    );
    now += Duration::from_secs(10);
    answer(&mut site, &policy, (AttemptMeaning::Throttled, None), now);
    assert_eq!(
        site.breaker()
            .open_until(now)
            .expect("open")
            .0
            .since(now)
            .as_millis(),
        1_000
    );
}

#[test]
fn a_server_that_asks_for_more_than_the_reset_teaches_it() {
    let policy = BreakerPolicy {
        window: None,
        fail_max: NonZeroU32::MIN,
        reset_ceiling: Duration::from_secs(3),
        ..policy()
    };
    let question = ask(&[], &policy);
    let mut site = Site::default();
    let mut now = at(0);
    for _ in 0..2 {
        let AdmissionDecision::Go(permit) = site.enter(&question, now).entry else {
            panic!("refused")
        };
        let report = AttemptResult {
            outcome: AttemptMeaning::Throttled,
            retry_after: Some(Duration::from_secs(2)),
            sent: now,
            wants_retry: false,
            maybe_refused: false,
        };
        site.settle(&question, &permit, &report, now);
        now += Duration::from_secs(60);
    }
    let AdmissionDecision::Go(probe) = site.enter(&question, now).entry else {
        panic!("refused")
    };
    site.settle(
        &question,
        &probe,
        &AttemptResult {
            outcome: AttemptMeaning::Success,
            retry_after: None,
            sent: now,
            wants_retry: false,
            maybe_refused: false,
        },
        now,
    );
    now += Duration::from_secs(60);
    let mut other = site.clone();
    fail(&mut site, &policy, now);
    assert_eq!(
        site.breaker().open_until(now).expect("open").0.since(now),
        Duration::from_secs(2),
        "what it asked for"
    );
    other.unblock(now);
    fail(&mut other, &policy, now);
    assert_eq!(
        other.breaker().open_until(now).expect("open").0.since(now),
        Duration::from_secs(1),
        "an operator's close forgets all"
    );
}

#[test]
fn a_shorter_block_never_shortens_a_longer_one() {
    let mut site = Site::default();
    site.block(at(5_000), &OpenReason::RetryAfter, at(0));
    site.block(at(2_000), &OpenReason::Operator("shorter".into()), at(0));
    assert_eq!(
        site.breaker().open_until(at(0)),
        Some((at(5_000), &OpenReason::RetryAfter))
    );
    site.block(at(9_000), &OpenReason::RetryAfter, at(1));
    assert_eq!(site.breaker().open_until(at(1)).expect("open").0, at(9_000));
}

#[test]
fn success_of_a_request_sent_before_a_block_does_not_clear_it() {
    let policy = policy();
    let question = ask(&[], &policy);
    let mut site = Site::default();
    let AdmissionDecision::Go(early) = site.enter(&question, at(0)).entry else {
        panic!("refused")
    };
    site.block(at(5_000), &OpenReason::RetryAfter, at(10));
    site.settle(
        &question,
        &early,
        &AttemptResult {
            outcome: AttemptMeaning::Success,
            retry_after: None,
            sent: at(0),
            wants_retry: false,
            maybe_refused: false,
        },
        at(20),
    );
    assert_eq!(site.breaker().state(at(21)), BreakerState::Open);
}

#[test]
fn shadow_mode_refuses_nothing_and_says_what_it_would_have() {
    let policy = BreakerPolicy {
        shadow: true,
        ..policy()
    };
    let question = ask(&[], &policy);
    let mut site = Site::default();
    site.block(at(5_000), &OpenReason::RetryAfter, at(0));
    let AdmissionDecision::Go(permit) = site.enter(&question, at(1)).entry else {
        panic!("refused")
    };
    assert_eq!(
        permit.shadowed.expect("what would have been").until,
        at(5_000)
    );
}

#[test]
fn throttling_of_one_congestion_counts_once_where_the_rate_adapts() {
    let policy = BreakerPolicy {
        one_failure_per_epoch: true,
        window: None,
        ..policy()
    };
    let question = ask(&[], &policy);
    let mut site = Site::default();
    let permits: Vec<Permit> = (0..5)
        .map(|_| match site.enter(&question, at(0)).entry {
            AdmissionDecision::Go(permit) => permit,
            other => panic!("{other:?}"),
        })
        .collect();
    for permit in &permits {
        site.settle(
            &question,
            permit,
            &AttemptResult {
                outcome: AttemptMeaning::Throttled,
                retry_after: None,
                sent: at(0),
                wants_retry: false,
                maybe_refused: false,
            },
            at(10),
        );
    }
    assert_eq!(
        (site.breaker().failures(), site.breaker().state(at(10))),
        (1, BreakerState::Closed)
    );
}

#[test]
fn the_patient_wait_for_the_end_of_a_block_and_for_a_probe_result() {
    let policy = policy();
    let patient = AdmissionRequest {
        patience: Patience::Wait,
        ..ask(&[], &policy)
    };
    let mut site = Site::default();
    site.block(at(5_000), &OpenReason::RetryAfter, at(0));
    assert_eq!(
        site.enter(&patient, at(0)).entry,
        AdmissionDecision::WaitForBreaker {
            until: at(5_000),
            reason: OpenReason::RetryAfter,
            probing: false
        }
    );
    let hurried = AdmissionRequest {
        deadline: at(4_999),
        ..patient.clone()
    };
    assert!(
        matches!(
            site.enter(&hurried, at(0)).entry,
            AdmissionDecision::Refused(_)
        ),
        "a wait known to end after the deadline"
    );
    let AdmissionDecision::Go(probe) = site.enter(&patient, at(5_000)).entry else {
        panic!("refused")
    };
    assert!(probe.probe);
    assert!(matches!(
        site.enter(&patient, at(5_000)).entry,
        AdmissionDecision::WaitForBreaker { probing: true, .. }
    ));
    assert!(
        matches!(
            site.enter(&ask(&[], &policy), at(5_000)).entry,
            AdmissionDecision::Refused(_)
        ),
        "a request without patience is refused"
    );
    let settled = site.settle_headers(&patient, &probe, AttemptMeaning::Neutral, at(5_010));
    assert!(settled.wakes);
    assert_eq!(
        site.breaker().state(at(5_010)),
        BreakerState::Closed,
        "a neutral answer proves that the origin is up"
    );
}
