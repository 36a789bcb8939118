//! Even pacing: distances at the origin, the rate that is left, and that it refuses no request.

use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::breaker::BreakerPolicy;
use docstokg_policy::pacing::Pacing;
use docstokg_policy::rate::Window;
use docstokg_policy::site::{AdmissionDecision, AdmissionRequest, BudgetCost, Site};
use docstokg_policy::time::BootInstant;
use docstokg_policy::windows::Windows;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::{ask, at, ms, windows};

const GUARD: Duration = Duration::from_millis(10);

fn even(rates: &str, weight: u32) -> BudgetCost {
    BudgetCost {
        budget: 0,
        weight,
        windows: Arc::new(Windows::paced(windows(rates), GUARD, Pacing::Even)),
        slots: None,
    }
}

/// A process whose head waits for its turn, wakes late, and has so many requests to send from an
/// instant on.
struct PacingProcess {
    from: BootInstant,
    ended: Option<BootInstant>,
    left: u32,
    late: Duration,
    waits: Option<(u64, BootInstant)>,
}

/// Sends everything that the processes have, and returns when each request went.
fn run(rates: &str, processes: &mut [PacingProcess], backlog: bool) -> Vec<BootInstant> {
    let (costs, policy) = ([even(rates, 1)], BreakerPolicy::default());
    let mut site = Site::default();
    site.ensure_budgets(1);
    let mut sent = Vec::new();
    let mut now = at(0);
    while processes.iter().any(|process| process.left > 0) {
        // The next one to wake; those that do not wait ask at once.
        let wakes = |process: &PacingProcess| {
            process
                .waits
                .map_or(now.max(process.from), |(_, at)| at + process.late)
        };
        let next = processes
            .iter_mut()
            .filter(|process| process.left > 0)
            .min_by_key(|process| wakes(process))
            .expect("a process with requests left");
        now = now.max(wakes(next));
        let question = AdmissionRequest {
            latest: BootInstant::FAR,
            backlog: if backlog { next.left } else { 0 },
            ..ask(&costs, &policy)
        };
        let entered = match next.waits {
            None => site.enter(&question, now),
            Some((id, _)) => site.confirm(&question, id, now),
        };
        match entered.entry {
            AdmissionDecision::Go(_) => {
                sent.push(now);
                next.left -= 1;
                next.ended = Some(now);
                next.waits = None;
            }
            AdmissionDecision::Wait(reserved) => next.waits = Some((reserved.id, reserved.at)),
            other => panic!("{other:?}"),
        }
        assert!(sent.len() < 100_000 && now < at(100_000_000));
    }
    sent
}

fn processes(count: usize, left: u32, late: Duration) -> Vec<PacingProcess> {
    (0..count)
        .map(|_| PacingProcess {
            from: at(0),
            ended: None,
            left,
            late,
            waits: None,
        })
        .collect()
}

fn closest(sent: &[BootInstant]) -> Duration {
    sent.windows(2)
        .map(|pair| pair[1].since(pair[0]))
        .min()
        .expect("two requests")
}

fn took(sent: &[BootInstant]) -> Duration {
    sent[sent.len() - 1].since(sent[0])
}

#[test]
fn requests_go_at_equal_distances_and_lose_two_percent() {
    for count in [1, 3, 20] {
        let left = 120 / u32::try_from(count).unwrap();
        let sent = run("10/SECOND", &mut processes(count, left, ms(1)), false);
        assert!(closest(&sent) >= ms(102), "{:?}", closest(&sent));
        assert!(took(&sent) <= ms(119 * 103), "{:?}", took(&sent));
    }
}

#[test]
fn late_wake_ups_cost_little_where_distances_are_short() {
    for (rates, distance) in [("40/SECOND", 25_000), ("200/SECOND", 5_000)] {
        let mut one = processes(1, 800, ms(2));
        let sent = run(rates, &mut one, false);
        let ideal = Duration::from_micros(799 * distance);
        let share = ideal.as_secs_f64() / took(&sent).as_secs_f64();
        assert!(share >= 0.96, "{rates}: {share}");
    }
    // Never closer than nine tenths of the distance.
    let sent = run("40/SECOND", &mut processes(1, 400, ms(9)), false);
    assert!(closest(&sent) >= Duration::from_micros(22_500));
}

/// 1,000 files at 2 per second and 500 per hour: 500 at the pace of the second, the others an hour
/// later. Equal distances over the hour would take two.
#[test]
fn an_hour_is_used_as_fast_as_the_second_allows_and_then_waited_for() {
    let sent = run("2/SECOND+500/HOUR", &mut processes(1, 1_000, ms(1)), true);
    assert!(closest(&sent) >= ms(510), "{:?}", closest(&sent));
    assert!(took(&sent[..500]) <= ms(500 * 515));
    assert!(
        took(&sent) <= Duration::from_secs(65 * 60),
        "{:?}",
        took(&sent)
    );
    assert!(
        windows("500/HOUR")
            .iter()
            .all(|window| holds(&sent, window))
    );
}

/// 200 files at 25 per 7 seconds: the least time is seven windows, which equal distances exceed by one.
#[test]
fn a_run_of_few_windows_of_seconds_takes_hardly_longer_than_bursts() {
    for count in [1, 4] {
        let left = 200 / u32::try_from(count).unwrap();
        let sent = run("25/7SECOND", &mut processes(count, left, ms(1)), true);
        let limit = &windows("25/7SECOND")[0];
        assert!(holds(&sent, limit));
        assert!(closest(&sent) >= ms(28), "{:?}", closest(&sent));
        let least = Duration::from_secs(7 * 7);
        assert!(took(&sent) <= least + ms(1_000), "{:?}", took(&sent));
    }
    let sent = run("25/7SECOND", &mut processes(1, 2_500, ms(1)), true);
    assert!(
        took(&sent[..1_200]) >= ms(1_199 * 285),
        "long runs are even"
    );
}

/// Processes that share the host take turns when the window opens again, the late one included.
#[test]
fn a_process_that_comes_late_gets_its_share_of_the_next_hour() {
    let mut all = processes(2, 600, ms(1));
    (all[1].left, all[1].from) = (20, at(600_000));
    let sent = run("2/SECOND+500/HOUR", &mut all, true);
    assert!(
        windows("500/HOUR")
            .iter()
            .all(|window| holds(&sent, window))
    );
    let ended = all[1].ended.expect("an end");
    assert!(ended <= sent[500 + 50], "it waited for all of the other");
}

/// 30 per minute alone: nginx counts minutes smoothly, so a backlog goes at equal distances.
#[test]
fn a_minute_without_a_short_window_is_spread_when_the_backlog_exceeds_what_it_has_left() {
    let many = run("30/MINUTE", &mut processes(1, 90, ms(1)), true);
    assert!(closest(&many[..29]) >= ms(2_000));
    let few = run("30/MINUTE", &mut processes(1, 20, ms(1)), true);
    assert!(took(&few) <= ms(100), "{:?}", took(&few));
}

#[test]
fn a_weight_takes_as_many_distances_and_is_never_invalid() {
    let policy = BreakerPolicy::default();
    let mut site = Site::default();
    site.ensure_budgets(1);
    let patient = |costs| AdmissionRequest {
        latest: BootInstant::FAR,
        ..ask(costs, &policy)
    };
    let (light, heavy) = ([even("10/SECOND", 1)], [even("10/SECOND", 7)]);
    assert!(matches!(
        site.enter(&patient(&heavy), at(0)).entry,
        AdmissionDecision::Go(_)
    ));
    let AdmissionDecision::Wait(reserved) = site.enter(&patient(&light), at(0)).entry else {
        panic!("no reservation")
    };
    assert_eq!(reserved.at, at(102));
    assert_eq!(reserved.because.expect("a window").per, ms(100));
    assert!(matches!(
        site.confirm(&patient(&light), reserved.id, at(102)).entry,
        AdmissionDecision::Go(_)
    ));
    let AdmissionDecision::Wait(reserved) = site.enter(&patient(&heavy), at(102)).entry else {
        panic!("no reservation")
    };
    // Seven distances behind the last request; the window alone would have said 1,010.
    assert_eq!(reserved.at, at(1_010));
    assert!(matches!(
        site.confirm(&patient(&heavy), reserved.id, at(1_010)).entry,
        AdmissionDecision::Go(_)
    ));
}

/// Ten requests that wait for nothing go at once although they are paced; the eleventh is refused
/// by the window.
#[test]
fn a_bounded_request_goes_by_the_windows_alone() {
    let (costs, policy) = ([even("10/SECOND", 1)], BreakerPolicy::default());
    let mut site = Site::default();
    site.ensure_budgets(1);
    for millis in 0..10 {
        let entry = site.enter(&ask(&costs, &policy), at(millis)).entry;
        assert!(matches!(entry, AdmissionDecision::Go(_)), "{entry:?}");
    }
    let AdmissionDecision::Refused(refusal) = site.enter(&ask(&costs, &policy), at(10)).entry
    else {
        panic!("not refused")
    };
    assert_eq!(refusal.until, at(1_010));
}

/// It never goes before a request that waits for its distance.
#[test]
fn a_bounded_request_stays_behind_the_positions_before_it() {
    let (costs, policy) = ([even("10/SECOND", 1)], BreakerPolicy::default());
    let mut site = Site::default();
    site.ensure_budgets(1);
    let patient = AdmissionRequest {
        latest: BootInstant::FAR,
        ..ask(&costs, &policy)
    };
    assert!(matches!(
        site.enter(&patient, at(0)).entry,
        AdmissionDecision::Go(_)
    ));
    assert!(matches!(
        site.enter(&patient, at(0)).entry,
        AdmissionDecision::Wait(_)
    ));
    let AdmissionDecision::Refused(refusal) = site.enter(&ask(&costs, &policy), at(1)).entry else {
        panic!("it went before the one that waits")
    };
    assert_eq!(refusal.until, at(102));
    let bounded = AdmissionRequest {
        latest: at(150),
        ..ask(&costs, &policy)
    };
    let AdmissionDecision::Wait(reserved) = site.enter(&bounded, at(1)).entry else {
        panic!("refused because of its spacing")
    };
    assert_eq!(reserved.at, at(102));
}

/// The oracle of the windows: no `limit + 1` requests within less than the width.
fn holds(sent: &[BootInstant], window: &Window) -> bool {
    let limit = window.limit.get() as usize;
    sent.windows(limit + 1)
        .all(|group| group[limit].since(group[0]) >= window.per + GUARD)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever the windows, the number of processes and how late they wake: the windows hold,
    /// every request goes, and no two are closer than nine tenths of the distance.
    #[test]
    fn paced_requests_are_all_sent_and_keep_their_distance(
        limit in 1u32..60,
        per_ms in 200u64..4_000,
        long in 2u32..40,
        late in vec(0u64..60, 1..12),
        each in 1u32..12,
        backlog: bool,
    ) {
        let rates = format!("{limit}/{per_ms}MILLISECOND+{}/2MINUTE", long * 20);
        let mut all: Vec<PacingProcess> = late
            .iter()
            .map(|late| PacingProcess { from: at(0), ended: None, left: each, late: ms(*late), waits: None })
            .collect();
        let sent = run(&rates, &mut all, backlog);
        prop_assert_eq!(sent.len(), late.len() * each as usize);
        for window in windows(&rates) {
            prop_assert!(holds(&sent, &window), "{window} at {rates}");
        }
        let distance = per_ms * 1_000 / u64::from(limit);
        if sent.len() > 1 && distance >= 20_000 {
            prop_assert!(closest(&sent) >= Duration::from_micros(distance * 9 / 10));
        }
    }
}
