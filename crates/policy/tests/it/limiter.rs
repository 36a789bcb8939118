use std::num::NonZeroU32;
use std::time::Duration;

use docstokg_policy::breaker::BreakerPolicy;
use docstokg_policy::rate::Window;
use docstokg_policy::site::BudgetCost;
use docstokg_policy::site::{
    AdmissionDecision, AdmissionRequest, LanePolicy, QueuePosition, RefusalReason, Site,
};
use docstokg_policy::time::BootInstant;
use proptest::collection::vec;
use proptest::prelude::*;

use self::world::{GUARD, LimiterWorld, any_budgets, any_step, costs_in_all, smallest_limit};
use crate::support::{ask, at, cost, ms, windows};

// Reservations, queues and shared slots, case by case.
mod reservations;
// A site, and an independent record of what arrived.
mod world;

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
    fn no_window_is_ever_exceeded(budgets in any_budgets(), steps in vec(any_step(), 1..120)) {
        let (world, _) = LimiterWorld::after(&budgets, &steps);
        for (used, windows) in world.used.iter().zip(&budgets) {
            for window in windows {
                check(used, window, GUARD)?;
            }
        }
    }

    /// With permits alone in the history, and with reservations whose holders confirm at their
    /// instants. Nothing is admitted before the instant. At the instant the request is admitted, if
    /// all that wait charge the same budgets: a request knows only the windows of its own budgets,
    /// so it fits one that charges others besides earlier than that one goes.
    #[test]
    fn a_refusal_says_exactly_until_when(
        budgets in any_budgets(),
        steps in vec(any_step(), 1..60),
        weight in 1u32..4,
    ) {
        let (mut world, now) = LimiterWorld::after_waiting(&budgets, &steps);
        let policy = BreakerPolicy::default();
        // Requests that are due confirm now, so that no reservation stands for a use at an unknown
        // instant.
        world.confirm_due(&policy, now)?;
        let costs = costs_in_all(&budgets, weight.min(smallest_limit(&budgets)));
        let question = ask(&costs, &policy);
        let AdmissionDecision::Refused(refusal) = world.site.clone().enter(&question, now).entry else {
            return Ok(());
        };
        let by_a_window = matches!(refusal.reason, RefusalReason::Rate { window: Some(_) });
        prop_assert!(by_a_window);
        let charge_the_same = world
            .waiting
            .iter()
            .all(|(waiting, _, _)| waiting.len() == costs.len());
        let mut instant = now;
        while instant < refusal.until {
            world.confirm_due(&policy, instant)?;
            let early = world.site.clone().enter(&question, instant).entry;
            let too_early = refusal.until.since(instant);
            prop_assert!(
                matches!(early, AdmissionDecision::Refused(_)),
                "admitted {too_early:?} early: {early:?}"
            );
            instant += Duration::from_micros(500);
        }
        world.confirm_due(&policy, refusal.until)?;
        let mut site = world.site;
        let last = refusal.until - Duration::from_micros(1);
        if last >= now {
            let early = site.clone().enter(&question, last).entry;
            prop_assert!(matches!(early, AdmissionDecision::Refused(_)), "admitted a microsecond early");
        }
        if charge_the_same {
            let entry = site.enter(&question, refusal.until).entry;
            prop_assert!(matches!(entry, AdmissionDecision::Go(_)), "not admitted at the promised instant");
        }
    }

    /// A request that has to queue never gets a later instant than that of its turn.
    #[test]
    fn the_instant_of_a_queued_request_is_a_lower_bound(
        budgets in any_budgets(),
        steps in vec(any_step(), 1..40),
        ahead in 1u32..12,
    ) {
        let (mut world, now) = LimiterWorld::after_waiting(&budgets, &steps);
        // Requests that wait already are cancelled: what they would do is not known.
        while !world.waiting.is_empty() {
            world.cancel(0);
        }
        let policy = BreakerPolicy::default();
        let costs = costs_in_all(&budgets, 1);
        let patient = AdmissionRequest { latest: BootInstant::FAR, ..ask(&costs, &policy) };
        let queued = AdmissionRequest { queue_position: QueuePosition::Behind(ahead), ..patient.clone() };
        let AdmissionDecision::Queue { at: promised } = world.site.enter(&queued, now).entry else {
            panic!("not queued")
        };
        let mut turn = now;
        for _ in 0..=ahead {
            match world.site.enter(&patient, turn).entry {
                AdmissionDecision::Go(_) => {}
                AdmissionDecision::Wait(reserved) => {
                    turn = reserved.at;
                    let mut entry = world.site.confirm(&patient, reserved.id, turn).entry;
                    while let AdmissionDecision::Wait(reserved) = entry {
                        turn = reserved.at;
                        entry = world.site.confirm(&patient, reserved.id, turn).entry;
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        prop_assert!(promised <= turn, "promised {promised:?}, came {turn:?}");
    }

    #[test]
    fn a_refusal_changes_nothing(budgets in any_budgets(), permits in 5u32..20) {
        let mut site = Site::default();
        site.ensure_budgets(budgets.len());
        let policy = BreakerPolicy::default();
        let costs = costs_in_all(&budgets, 1);
        let question = ask(&costs, &policy);
        for _ in 0..permits {
            let _ = site.enter(&question, at(0));
        }
        let used = |site: &Site, cost: &BudgetCost| {
            let budget = &site.budgets()[cost.budget];
            budget.used(&cost.windows, &cost.windows.list()[0], at(0))
        };
        let before: Vec<u64> = costs.iter().map(|cost| used(&site, cost)).collect();
        prop_assume!(matches!(site.enter(&question, at(0)).entry, AdmissionDecision::Refused(_)));
        let after: Vec<u64> = costs.iter().map(|cost| used(&site, cost)).collect();
        prop_assert_eq!(before, after, "the cost is spent in all budgets, or in none");
    }

    #[test]
    fn a_large_window_in_buckets_never_overshoots_and_loses_little(
        limit in 4_097u32..9_000,
        arrivals in vec((0u64..40, 1u32..60), 100..600),
    ) {
        let window = Window::new(NonZeroU32::new(limit).expect("not zero"), Duration::from_secs(1));
        let costs_of = |weight| [cost(0, weight, &[window], Duration::ZERO)];
        let policy = BreakerPolicy::default();
        let mut site = Site::default();
        site.ensure_budgets(1);
        let (mut used, mut now) = (Vec::new(), at(0));
        let mut wrongly_refused = 0u64;
        for (millis, weight) in arrivals {
            now += ms(millis);
            let recent = used.iter().filter(|(instant, _)| *instant + window.per > now);
            let in_window: u64 = recent.map(|(_, weight)| u64::from(*weight)).sum();
            match site.enter(&ask(&costs_of(weight), &policy), now).entry {
                AdmissionDecision::Go(_) => {
                    prop_assert!(in_window + u64::from(weight) <= u64::from(limit), "overshoot");
                    used.push((now, weight));
                }
                AdmissionDecision::Refused(_) => {
                    let has_room = in_window + u64::from(weight) + 120 <= u64::from(limit);
                    wrongly_refused += u64::from(has_room);
                }
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
            AdmissionDecision::Go(_)
        ));
    }
    let AdmissionDecision::Refused(refusal) = site.enter(&ask(&costs, &policy), at(1)).entry else {
        panic!("permitted")
    };
    assert_eq!(refusal.until, at(1_010));
    for _ in 0..5 {
        assert!(matches!(
            site.enter(&ask(&costs, &policy), at(1_010)).entry,
            AdmissionDecision::Go(_)
        ));
    }
    let AdmissionDecision::Refused(refusal) = site.enter(&ask(&costs, &policy), at(1_010)).entry
    else {
        panic!("permitted")
    };
    assert_eq!(refusal.until, at(2_010), "the longer window speaks now");
}

fn of_one_budget() -> Site {
    let mut site = Site::default();
    site.ensure_budgets(1);
    site
}

#[test]
fn the_multiplier_stretches_pacing_windows_and_leaves_quotas() {
    use docstokg_policy::adaptive::AdaptivePolicy;
    use docstokg_policy::classify::AttemptMeaning;
    use docstokg_policy::site::AttemptResult;

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
    let lane = |adaptive| LanePolicy {
        adaptive,
        ..LanePolicy::new(policy.clone())
    };
    let mut site = of_one_budget();
    let mut now = at(0);
    for round in 0..20 {
        let question = AdmissionRequest {
            latest: BootInstant::FAR,
            ..AdmissionRequest::at_once(&costs, lane(Some(adaptive)))
        };
        let permit = match site.enter(&question, now).entry {
            AdmissionDecision::Go(permit) => permit,
            AdmissionDecision::Wait(reserved) => {
                now = reserved.at;
                let AdmissionDecision::Go(permit) = site.confirm(&question, reserved.id, now).entry
                else {
                    panic!("not due")
                };
                permit
            }
            other => panic!("{other:?}"),
        };
        site.settle(
            &question,
            &permit,
            &AttemptResult {
                // 429 and 503 alike.
                outcome: [AttemptMeaning::Throttled, AttemptMeaning::Failure][round % 2],
                retry_after: None,
                sent: now,
                wants_retry: false,
                maybe_refused: round % 2 == 1,
            },
            now,
        );
    }
    let multiplier = |site: &Site| site.budgets()[0].multiplier().share();
    assert!((multiplier(&site) - 0.3).abs() < 1e-9);
    let next = |site: &mut Site, adaptive| {
        let question = AdmissionRequest::at_once(&costs, lane(adaptive));
        match site.enter(&question, now).entry {
            AdmissionDecision::Refused(refusal) => refusal.until.since(now).as_millis(),
            other => panic!("{other:?}"),
        }
    };
    let adapting = next(&mut site, Some(adaptive));
    assert_eq!(
        adapting, 3_333,
        "one per second at 0.3 is one in 3.33 seconds, not none"
    );
    let other = next(&mut site, None);
    assert_eq!(other, 1_000, "another process does not adapt");
    assert!(
        (multiplier(&site) - 0.3).abs() < 1e-9,
        "and changes nothing"
    );
    assert!(site.forget_adaptation(), "the run has ended");
    assert_eq!(next(&mut site, Some(adaptive)), 1_000);
    assert!(!site.forget_adaptation());
}
