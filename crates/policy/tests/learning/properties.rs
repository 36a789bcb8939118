//! What holds for every sequence of observations, however absurd.

use std::num::NonZeroU32;
use std::time::Duration;

use docstokg_policy::host_model::learner::{
    HostResponse, LearnBounds, Learner, NextRequest, SentRequest,
};
use docstokg_policy::rate::Window;
use docstokg_policy::time::BootInstant;
use proptest::collection::vec;
use proptest::prelude::*;

/// What happens next.
#[derive(Clone, Debug)]
enum PropertyStep {
    /// Time passes, in milliseconds.
    Advance(u64),
    /// A request goes when it may.
    SendWhenDue,
    /// A request goes now, whether it may or not.
    SendNow,
    /// The n-th request in flight is answered; Retry-After in seconds.
    Answer(usize, PropertyKind, Option<u64>),
}

#[derive(Clone, Copy, Debug)]
enum PropertyKind {
    Served,
    Throttled,
    Outage,
    Other,
}

fn any_step() -> impl Strategy<Value = PropertyStep> {
    let kind = prop_oneof![
        4 => Just(PropertyKind::Served),
        3 => Just(PropertyKind::Throttled),
        1 => Just(PropertyKind::Outage),
        1 => Just(PropertyKind::Other),
    ];
    let advance = prop_oneof![8 => 0u64..500, 2 => 0u64..100_000, 1 => 0u64..1_000_000_000_000];
    let retry_after =
        proptest::option::weighted(0.2, prop_oneof![9 => 0u64..120, 1 => any::<u64>()]);
    prop_oneof![
        2 => advance.prop_map(PropertyStep::Advance),
        5 => Just(PropertyStep::SendWhenDue),
        1 => Just(PropertyStep::SendNow),
        6 => (0usize..8, kind, retry_after).prop_map(|(n, kind, end)| PropertyStep::Answer(n, kind, end)),
    ]
}

/// A learner, and what its caller knows.
struct Host {
    learner: Learner,
    bounds: LearnBounds,
    now: BootInstant,
    in_flight: Vec<SentRequest>,
    last_sent: Option<BootInstant>,
    retry_end: BootInstant,
}

impl Host {
    fn new(bounds: LearnBounds) -> Self {
        Self {
            learner: Learner::default(),
            bounds,
            now: BootInstant::from_micros(5_000_000),
            in_flight: Vec::new(),
            last_sent: None,
            retry_end: BootInstant::ZERO,
        }
    }

    fn send(&mut self) {
        self.in_flight
            .push(self.learner.sent(&self.bounds, self.now));
        self.last_sent = Some(self.now);
    }

    fn step(&mut self, step: &PropertyStep) {
        match step {
            PropertyStep::Advance(millis) => self.now += Duration::from_millis(*millis),
            PropertyStep::SendNow => self.send(),
            PropertyStep::SendWhenDue => {
                let (NextRequest::At(at) | NextRequest::AfterResponse { at_latest: at }) =
                    self.next();
                // A test has no time for the absurd Retry-After of its own making.
                if at < self.now + Duration::from_secs(100_000) {
                    self.now = self.now.max(at);
                    self.send();
                }
            }
            PropertyStep::Answer(n, kind, retry_after) if !self.in_flight.is_empty() => {
                let sent = self.in_flight.remove(n % self.in_flight.len());
                let end = retry_after.map(|seconds| self.now + Duration::from_secs(seconds));
                let answer = match kind {
                    PropertyKind::Served => HostResponse::Served,
                    PropertyKind::Throttled => {
                        self.retry_end = self.retry_end.max(end.unwrap_or(BootInstant::ZERO));
                        HostResponse::Throttled { retry_after: end }
                    }
                    PropertyKind::Outage => HostResponse::Outage,
                    PropertyKind::Other => HostResponse::Other,
                };
                self.learner.answered(sent, self.now, answer, 0.5);
            }
            PropertyStep::Answer(..) => {}
        }
    }

    fn next(&self) -> NextRequest {
        self.learner.next(&self.bounds, self.now)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_request_before_a_known_retry_after_ends(steps in vec(any_step(), 0..300)) {
        let mut host = Host::new(LearnBounds::default());
        for step in &steps {
            host.step(step);
            let (NextRequest::At(at) | NextRequest::AfterResponse { at_latest: at }) = host.next();
            prop_assert!(at >= host.retry_end, "{at:?} is before {:?}", host.retry_end);
        }
    }

    #[test]
    fn learner_admits_the_next_request_within_a_bound(steps in vec(any_step(), 0..300)) {
        let mut host = Host::new(LearnBounds::default());
        for step in &steps {
            host.step(step);
            let (NextRequest::At(at) | NextRequest::AfterResponse { at_latest: at }) = host.next();
            // The longest window, or the floor, after the last request; or after a Retry-After.
            let learned = host.learner.confirmed().count() > 0 || host.learner.is_searching();
            let longest = if learned { 3_700 } else { 60 };
            let latest = host.last_sent.unwrap_or(host.now).max(host.now) + Duration::from_secs(longest);
            prop_assert!(at <= latest.max(host.retry_end + Duration::from_secs(1)) + Duration::from_millis(1), "{at:?} after {latest:?}");
            // Asked again at that instant, the answer is yes.
            if let NextRequest::At(at) = host.next() {
                let at = at.max(host.now);
                let again = host.learner.next(&host.bounds, at);
                prop_assert!(matches!(again, NextRequest::At(then) if then <= at), "{again:?} at {at:?}");
            }
        }
    }

    #[test]
    fn confirmed_limits_are_numbers_with_words(steps in vec(any_step(), 0..300)) {
        let mut host = Host::new(LearnBounds::default());
        for step in &steps {
            host.step(step);
        }
        for limit in host.learner.confirmed() {
            prop_assert!(limit.amount > 0.0 && limit.amount.is_finite(), "{limit:?}");
            prop_assert!(limit.to_string().contains(", seen "));
        }
    }

    #[test]
    fn learner_never_exceeds_the_configured_ceiling(steps in vec(any_step(), 0..300), per_second in 1u32..20) {
        let up_to = Window::new(NonZeroU32::new(per_second).expect("not zero"), Duration::from_secs(1));
        let mut host = Host::new(LearnBounds { up_to: Some(up_to), ..LearnBounds::default() });
        for step in &steps {
            host.step(step);
            if let (NextRequest::At(at), Some(last)) = (host.next(), host.last_sent) {
                let gap = Duration::from_secs(1) / per_second;
                prop_assert!(at + Duration::from_micros(200) >= last + gap);
            }
        }
    }
}

#[test]
fn the_state_is_at_most_two_kibibytes() {
    assert!(
        size_of::<Learner>() <= 2_048,
        "{} bytes",
        size_of::<Learner>()
    );
}

#[test]
fn a_host_that_refuses_everything_is_asked_once_a_minute() {
    let mut host = Host::new(LearnBounds::default());
    let start = host.now;
    let mut longest = Duration::ZERO;
    while host.now < start + Duration::from_secs(3_600) {
        let (NextRequest::At(at) | NextRequest::AfterResponse { at_latest: at }) = host.next();
        longest = longest.max(at.since(host.now));
        host.now = host.now.max(at);
        host.step(&PropertyStep::SendNow);
        host.now += Duration::from_millis(50);
        host.step(&PropertyStep::Answer(0, PropertyKind::Throttled, None));
    }
    assert!(longest <= Duration::from_secs(60), "{longest:?}");
    assert!(longest >= Duration::from_secs(59), "{longest:?}");
}

/// Serves everything as fast as it may be sent, and returns the rate at the end.
fn rate_after(answer: HostResponse, offered: Option<Duration>) -> f64 {
    let mut host = Host::new(LearnBounds::default());
    let mut count = 0;
    let start = host.now;
    while host.now < start + Duration::from_secs(30) {
        let (NextRequest::At(at) | NextRequest::AfterResponse { at_latest: at }) = host.next();
        host.now = host.now.max(at);
        if let (Some(gap), Some(last)) = (offered, host.last_sent) {
            host.now = host.now.max(last + gap);
        }
        host.send();
        let sent = host.in_flight.remove(0);
        host.now += Duration::from_micros(200);
        let first = count == 0;
        host.learner.answered(
            sent,
            host.now,
            if first { HostResponse::Served } else { answer },
            0.5,
        );
        count += 1;
    }
    let NextRequest::At(next) = host.next() else {
        return 0.0;
    };
    1.0 / next
        .since(host.last_sent.expect("sent"))
        .as_secs_f64()
        .max(1e-4)
}

#[test]
fn fast_errors_never_speed_up() {
    assert!(rate_after(HostResponse::Other, None) <= 2.1);
    assert!(rate_after(HostResponse::Served, None) > 100.0);
}

#[test]
fn a_client_with_little_to_send_never_raises() {
    let slow = rate_after(HostResponse::Served, Some(Duration::from_secs(1)));
    assert!(slow <= 2.9, "{slow} per second");
}

#[test]
fn the_state_can_be_persisted() {
    fn persisted<T: serde::Serialize + serde::de::DeserializeOwned>(_: &T) {}
    persisted(&Learner::default());
}
