//! Stated quotas: never more than is left before the reset, always through after it.

use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::breaker::BreakerPolicy;
use docstokg_policy::host_model::quotas::QuotaStatement;
use docstokg_policy::rate_headers::{Quota, RateHeaderFamily, RateHeaderReading, Unit};
use docstokg_policy::site::{AdmissionDecision, AdmissionRequest, Permit, RefusalReason, Site};
use docstokg_policy::time::BootInstant;
use proptest::prelude::*;

use crate::support::{ask, at, cost, ms};

fn quota(limit: Option<u32>, remaining: u32, resets_in: Duration) -> Quota {
    Quota {
        unit: Unit::Requests,
        window: None,
        limit,
        remaining: Some(remaining),
        resets_in: Some(resets_in),
        partition: None,
        source: RateHeaderFamily::XRateLimit,
    }
}

fn statement(quota: Quota) -> QuotaStatement {
    QuotaStatement {
        reading: RateHeaderReading {
            quotas: vec![quota],
            ..RateHeaderReading::default()
        },
        ..QuotaStatement::default()
    }
}

/// A site without limits of its own, and the lanes of its requests.
struct Subject {
    site: Site,
    policy: BreakerPolicy,
    lanes: [Arc<str>; 2],
}

impl Subject {
    fn new() -> Self {
        let mut site = Site::default();
        site.ensure_budgets(2);
        Self {
            site,
            policy: BreakerPolicy::default(),
            lanes: ["a metadata".into(), "a kind search".into()],
        }
    }

    /// Asks in a lane until an instant, and goes or leaves.
    fn ask(&mut self, lane: usize, latest: BootInstant, now: BootInstant) -> AdmissionDecision {
        let costs = [cost(lane, 1, &[], Duration::ZERO)];
        let ask = AdmissionRequest {
            latest,
            quota_lane: Some(Arc::clone(&self.lanes[lane])),
            ..ask(&costs, &self.policy)
        };
        let entry = self.site.enter(&ask, now).entry;
        if let AdmissionDecision::Wait(reserved) = &entry {
            self.site.leave(&ask, reserved.id, None);
        }
        entry
    }

    /// Lets a request go that waits for nothing.
    fn go(&mut self, lane: usize, now: BootInstant) -> Option<Permit> {
        match self.ask(lane, BootInstant::ZERO, now) {
            AdmissionDecision::Go(permit) => Some(permit),
            _ => None,
        }
    }

    fn hear(&mut self, lane: usize, permit: &Permit, stated: &QuotaStatement, now: BootInstant) {
        let costs = [cost(lane, 1, &[], Duration::ZERO)];
        let ask = AdmissionRequest {
            quota_lane: Some(Arc::clone(&self.lanes[lane])),
            ..ask(&costs, &self.policy)
        };
        self.site.state_quotas(&ask, permit, stated, now);
    }

    /// Returns when a patient request of a lane may go.
    fn turn(&mut self, lane: usize, now: BootInstant) -> BootInstant {
        match self.ask(lane, BootInstant::FAR, now) {
            AdmissionDecision::Wait(reserved) => reserved.at,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_is_left_is_spread_evenly_until_the_reset() {
    let mut subject = Subject::new();
    let permit = subject.go(0, at(0)).expect("nothing is stated yet");
    subject.hear(
        0,
        &permit,
        &statement(quota(Some(10), 9, ms(10_000))),
        at(0),
    );
    let mut times = Vec::new();
    let mut now = at(0);
    while now < at(10_000) {
        now = subject.turn(0, now);
        let AdmissionDecision::Go(_) = subject.ask(0, BootInstant::FAR, now) else {
            panic!("its turn has come")
        };
        times.push(now.since(at(0)).as_millis());
    }
    assert_eq!(
        times,
        [
            1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 7_000, 8_000, 9_000, 10_000
        ]
    );
}

#[test]
fn an_impatient_request_goes_while_anything_is_left() {
    let mut subject = Subject::new();
    let first = subject.go(0, at(0)).expect("nothing is stated yet");
    subject.hear(0, &first, &statement(quota(None, 2, ms(60_000))), at(10));
    assert!(subject.go(0, at(20)).is_some() && subject.go(0, at(20)).is_some());
    let AdmissionDecision::Refused(refusal) = subject.ask(0, at(1_000), at(20)) else {
        panic!("nothing is left")
    };
    assert_eq!(refusal.until, at(60_010));
    assert!(matches!(
        refusal.reason,
        RefusalReason::Rate { window: Some(_) }
    ));
    // Without a limit the quota says nothing after its reset.
    assert!((0..50).all(|_| subject.go(0, at(60_010)).is_some()));
}

#[test]
fn an_exhausted_kind_leaves_the_others_usable() {
    let mut subject = Subject::new();
    let permit = subject.go(1, at(0)).expect("nothing is stated yet");
    let hours = Duration::from_secs(5 * 3_600);
    subject.hear(1, &permit, &statement(quota(Some(100), 0, hours)), at(10));
    assert!(subject.go(1, at(20)).is_none());
    assert_eq!(subject.turn(1, at(20)), at(10) + hours);
    assert!((0..50).all(|_| subject.go(0, at(20)).is_some()));
}

#[test]
fn retry_after_takes_the_place_of_the_reset() {
    let mut subject = Subject::new();
    let permit = subject.go(0, at(0)).expect("nothing is stated yet");
    let stated = QuotaStatement {
        retry_after: Some(ms(2_000)),
        ..statement(quota(Some(100), 0, ms(3_600_000)))
    };
    subject.hear(0, &permit, &stated, at(0));
    assert!(subject.go(0, at(1_999)).is_none());
    assert!(subject.go(0, at(2_000)).is_some());
}

#[test]
fn a_reset_that_is_rounded_down_is_waited_for() {
    let mut subject = Subject::new();
    let permit = subject.go(0, at(0)).expect("nothing is stated yet");
    subject.hear(0, &permit, &statement(quota(Some(5), 0, ms(0))), at(400));
    assert_eq!(subject.turn(0, at(400)), at(1_400));
}

#[test]
fn a_short_run_does_not_spread_a_long_quota() {
    let mut subject = Subject::new();
    let permit = subject.go(0, at(0)).expect("nothing is stated yet");
    let stated = statement(quota(Some(5_000), 4_999, ms(3_600_000)));
    subject.hear(0, &permit, &stated, at(0));
    let costs = [cost(0, 1, &[], Duration::ZERO)];
    for backlog in (1..=20).rev() {
        let ask = AdmissionRequest {
            latest: BootInstant::FAR,
            quota_lane: Some(Arc::clone(&subject.lanes[0])),
            backlog,
            ..ask(&costs, &subject.policy)
        };
        assert!(matches!(
            subject.site.enter(&ask, at(1)).entry,
            AdmissionDecision::Go(_)
        ));
    }
    assert!(subject.turn(0, at(2)) > at(600));
}

#[test]
fn quota_whose_window_is_implied_later_is_filled_fast_by_a_run_of_few_windows() {
    let mut subject = Subject::new();
    let first = subject.go(0, at(0)).expect("nothing is declared yet");
    let second = subject.go(0, at(0)).expect("nothing is declared yet");
    let without_window = quota(Some(60), 58, ms(60_000));
    subject.hear(0, &second, &statement(without_window.clone()), at(10));
    let implied = Quota {
        window: Some(ms(61_000)),
        source: RateHeaderFamily::Implied,
        remaining: Some(59),
        ..without_window
    };
    subject.hear(0, &first, &statement(implied.clone()), at(20));
    let third = subject.go(0, at(1_000)).expect("a request is left");
    let after_third = Quota {
        remaining: Some(57),
        ..implied
    };
    subject.hear(0, &third, &statement(after_third), at(1_010));
    let costs = [cost(0, 1, &[], Duration::ZERO)];
    let ask = AdmissionRequest {
        latest: BootInstant::FAR,
        quota_lane: Some(Arc::clone(&subject.lanes[0])),
        backlog: 87,
        ..ask(&costs, &subject.policy)
    };
    let AdmissionDecision::Wait(reserved) = subject.site.enter(&ask, at(1_020)).entry else {
        panic!("the window is filled at a distance")
    };
    assert!(reserved.at < at(1_300), "{:?}", reserved.at);
}

#[test]
fn bytes_are_spread_by_what_answers_take_and_waited_for_when_spent() {
    let bytes = |left| {
        statement(Quota {
            unit: Unit::ContentBytes,
            ..quota(Some(1_000), left, ms(60_000))
        })
    };
    let mut subject = Subject::new();
    let permit = subject.go(0, at(0)).expect("nothing is stated yet");
    subject.hear(0, &permit, &bytes(900), at(1));
    // An answer took 100 bytes: eight more fit into the minute.
    let permit = subject.go(0, at(2)).expect("900 bytes are left");
    subject.hear(0, &permit, &bytes(800), at(3));
    let turn = subject.turn(0, at(4)).since(at(0));
    assert!((ms(6_000)..ms(7_500)).contains(&turn), "{turn:?}");
    let permit = subject.go(0, at(5)).expect("800 bytes are left");
    subject.hear(0, &permit, &bytes(0), at(6));
    assert!(subject.go(0, at(7)).is_none());
    assert_eq!(subject.turn(0, at(7)), at(60_001));
    assert!(subject.go(0, at(60_001)).is_some());
}

#[test]
fn what_a_request_costs_in_credits_is_what_the_host_says() {
    let credits = |cost, left| QuotaStatement {
        reading: RateHeaderReading {
            cost: Some(cost),
            quotas: vec![Quota {
                unit: Unit::Credits,
                ..quota(Some(1_000), left, ms(86_400_000))
            }],
            ..RateHeaderReading::default()
        },
        ..QuotaStatement::default()
    };
    let mut subject = Subject::new();
    let [look_up, search] = [0, 1];
    let permit = subject.go(look_up, at(0)).expect("nothing is stated yet");
    subject.hear(look_up, &permit, &credits(0, 0), at(1));
    // Free requests go although nothing is left, at once and not spread over the day.
    assert!((0..50).all(|_| subject.go(look_up, at(2)).is_some()));
    // Ten credits each: two are left, not twenty.
    let permit = subject.go(search, at(2)).expect("nothing is stated yet");
    subject.hear(search, &permit, &credits(10, 25), at(3));
    assert!(subject.go(search, at(4)).is_some());
    assert!(subject.go(search, at(4)).is_some());
    assert!(subject.go(search, at(4)).is_none(), "five credits are left");
}

#[test]
fn of_several_partitions_those_of_the_latest_answer_bind() {
    let of = |partition: &str, left| {
        statement(Quota {
            partition: Some(partition.into()),
            ..quota(Some(30), left, ms(60_000))
        })
    };
    let mut subject = Subject::new();
    let permit = subject.go(0, at(0)).expect("nothing is stated yet");
    subject.hear(0, &permit, &of("search", 0), at(1));
    assert!(subject.go(0, at(2)).is_none());
    subject.hear(0, &permit, &of("core", 20), at(3));
    assert!(subject.go(0, at(4)).is_some());
}

#[test]
fn declared_quota_is_forgotten_on_request() {
    let mut subject = Subject::new();
    let permit = subject.go(0, at(0)).expect("nothing is stated yet");
    let day = ms(86_400_000);
    subject.hear(0, &permit, &statement(quota(Some(10), 0, day)), at(1));
    assert!(subject.go(0, at(2)).is_none());
    assert!(subject.site.forget_learned());
    assert!(subject.go(0, at(3)).is_some());
    assert!(!subject.site.forget_learned(), "nothing is left to forget");
}

#[test]
fn a_store_keeps_what_is_stated() {
    let mut subject = Subject::new();
    let permit = subject.go(0, at(0)).expect("nothing is stated yet");
    subject.hear(0, &permit, &statement(quota(Some(10), 3, ms(8_000))), at(0));
    let mut other = Subject::new();
    other.site.set_extensions(subject.site.extensions());
    assert_eq!(other.site.quotas(), subject.site.quotas());
    assert_eq!(other.turn(0, at(1)), subject.turn(0, at(1)));
}

/// An origin with a fixed window, which counts what it gets.
struct Counter {
    limit: u32,
    window: u64,
    used: (u64, u32),
}

impl Counter {
    /// Serves a request at a time in milliseconds; returns what is left and when it is reset.
    fn serve(&mut self, now: u64) -> (bool, u32, u64) {
        let number = now / self.window;
        if self.used.0 != number {
            self.used = (number, 0);
        }
        let is_served = self.used.1 < self.limit;
        self.used.1 += u32::from(is_served);
        let left = self.limit - self.used.1;
        (is_served, left, (number + 1) * self.window - now)
    }
}

proptest! {
    /// Whatever is asked and answered in whatever order, no more is permitted before the reset than
    /// was stated; and after the reset a request gets through at once.
    #[test]
    fn no_more_than_is_left_goes_before_the_reset(
        remaining in 0_u32..40,
        resets_in in 1_u64..100_000,
        asks in prop::collection::vec((0_u64..5_000, any::<bool>()), 1..80),
    ) {
        let mut subject = Subject::new();
        let permit = subject.go(0, at(0)).expect("nothing is stated yet");
        let stated = statement(quota(Some(1_000), remaining, ms(resets_in)));
        subject.hear(0, &permit, &stated, at(0));
        let (mut now, mut gone) = (0, 0);
        for (pause, is_patient) in asks {
            now += pause;
            if now >= resets_in {
                break;
            }
            let latest = if is_patient { BootInstant::FAR } else { BootInstant::ZERO };
            gone += u32::from(matches!(subject.ask(0, latest, at(now)), AdmissionDecision::Go(_)));
        }
        prop_assert!(gone <= remaining, "{gone} of {remaining}");
        prop_assert!(subject.go(0, at(resets_in.max(now))).is_some());
    }

    /// A fixed window whose resets are stated exactly is used to the full and never exceeded, with
    /// answers that take their time and requests that wake late.
    #[test]
    fn a_fixed_window_is_used_and_not_exceeded(
        limit in 5_u32..200,
        window in 10_000_u64..60_000,
        latency in 0_u64..100,
        lateness in prop::collection::vec(0_u64..20, 16),
    ) {
        let mut subject = Subject::new();
        let mut origin = Counter { limit, window, used: (0, 0) };
        let mut answers: Vec<(u64, Permit, QuotaStatement)> = Vec::new();
        let (mut now, mut served, mut turns) = (0, 0, 0);
        let end = 10 * window;
        while now < end {
            for (arrived, permit, stated) in answers.extract_if(.., |(at, ..)| *at <= now) {
                subject.hear(0, &permit, &stated, at(arrived));
            }
            let permit = match subject.ask(0, BootInstant::FAR, at(now)) {
                AdmissionDecision::Go(permit) => permit,
                AdmissionDecision::Wait(reserved) => {
                    let next = reserved.at.since(at(0)).as_micros().div_ceil(1_000);
                    let next = u64::try_from(next).expect("short");
                    let answer = answers.iter().map(|(at, ..)| *at).min().unwrap_or(u64::MAX);
                    now = answer.min(next + lateness[turns % lateness.len()]);
                    turns += 1;
                    continue;
                }
                other => panic!("{other:?}"),
            };
            let (is_served, left, resets_in) = origin.serve(now);
            prop_assert!(is_served || served == 0, "refused after {served} at {now}");
            served += 1;
            let stated = statement(quota(Some(limit), left, ms(resets_in)));
            answers.push((now + latency, permit, stated));
            if served == 1 {
                // The first request goes alone: nothing is known before its answer.
                now += latency;
            }
        }
        prop_assert!(f64::from(served) >= 0.98 * f64::from(limit) * 10.0 - 1.0, "{served}");
    }
}

/// The memory of one statement is not renewed by another.
#[test]
fn a_stated_concurrency_is_forgotten_an_hour_after_it_was_stated() {
    let mut subject = Subject::new();
    let permit = subject.go(0, at(0)).expect("nothing is stated yet");
    let mut stated = statement(quota(Some(1_000), 999, ms(60_000)));
    stated.reading.concurrency = std::num::NonZeroU32::new(3);
    subject.hear(0, &permit, &stated, at(0));
    let concurrency = |subject: &Subject| {
        let quotas = subject.site.quotas().expect("they are stated");
        quotas.of("a metadata").expect("the lane").concurrency()
    };
    for minute in 1..60 {
        let now = at(minute * 60_000);
        let permit = subject.go(0, now).expect("enough is left");
        let again = statement(quota(Some(1_000), 999, ms(60_000)));
        subject.hear(0, &permit, &again, now);
        assert!(concurrency(&subject).is_some(), "minute {minute}");
    }
    let now = at(60 * 60_000);
    let permit = subject.go(0, now).expect("enough is left");
    subject.hear(
        0,
        &permit,
        &statement(quota(Some(1_000), 999, ms(60_000))),
        now,
    );
    assert_eq!(concurrency(&subject), None);
}

/// What is given back of a quota of bytes is what was taken, whatever answers have shown since.
#[test]
fn bytes_are_given_back_as_they_were_taken() {
    let bytes = |remaining: u32| {
        let mut quota = quota(Some(1_000_000), remaining, ms(600_000));
        quota.unit = Unit::ContentBytes;
        statement(quota)
    };
    let left = |subject: &Subject, now: BootInstant| {
        let quotas = subject.site.quotas().expect("they are stated");
        let reading = quotas.of("a metadata").expect("the lane").as_of(now);
        reading.quotas[0].remaining.expect("it is stated")
    };
    let mut subject = Subject::new();
    let first = subject.go(0, at(0)).expect("nothing is stated yet");
    subject.hear(0, &first, &bytes(900_000), at(10));
    let second = subject.go(0, at(1_000)).expect("enough is left");
    subject.hear(0, &second, &bytes(800_000), at(1_010));
    // Each answer takes 100,000 bytes by now.
    let third = subject.go(0, at(2_000)).expect("enough is left");
    let unused = subject.go(0, at(2_000)).expect("enough is left");
    assert_eq!(left(&subject, at(2_000)), 600_000);
    // One of 300,000 bytes: the next are expected to be larger.
    subject.hear(0, &third, &bytes(500_000), at(2_010));
    let before = left(&subject, at(2_010));
    let costs = [cost(0, 1, &[], Duration::ZERO)];
    let ask = AdmissionRequest {
        quota_lane: Some(Arc::clone(&subject.lanes[0])),
        ..ask(&costs, &subject.policy)
    };
    subject.site.leave(&ask, unused.id, Some(unused.stamp));
    assert_eq!(left(&subject, at(2_010)) - before, 100_000);
}
