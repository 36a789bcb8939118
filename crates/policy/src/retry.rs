//! The decision about a retry and its instant.

use std::num::NonZeroU32;
use std::time::Duration;

use http::Method;

use crate::classify::{AttemptClass, AttemptMeaning};
use crate::time::BootInstant;

/// The number and the timing of retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The number of attempts, the first included.
    pub attempts: NonZeroU32,
    /// The first backoff after a transient fault, which doubles each time.
    pub transient_base: Duration,
    /// The shortest backoff after a throttling response.
    pub throttled_base: Duration,
    /// The longest backoff. A wait that the server requests may be longer.
    pub ceiling: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: NonZeroU32::new(4).unwrap_or(NonZeroU32::MIN),
            transient_base: Duration::from_millis(200),
            throttled_base: Duration::from_secs(1),
            ceiling: Duration::from_secs(30),
        }
    }
}

/// The permission to send a request twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeatable {
    /// The request may be repeated: the method is idempotent, or the caller allows it.
    Yes,
    /// The request must not be repeated.
    No,
}

impl Repeatable {
    /// Decides by the method alone (RFC 9110 section 9.2.2).
    #[must_use]
    pub fn of(method: &Method) -> Self {
        if method.is_idempotent() {
            Self::Yes
        } else {
            Self::No
        }
    }
}

/// An attempt that ended without success, with the facts for [`decide`].
#[derive(Clone, Copy, Debug)]
pub struct EndedAttempt {
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The classification of the attempt.
    pub class: AttemptClass,
    /// The permission to repeat the request.
    pub repeatable: Repeatable,
    /// The end of the block or open of the breaker, which is the earliest retry.
    pub open_until: Option<BootInstant>,
    /// The end of the wait that the server requested.
    pub asked_until: Option<BootInstant>,
    /// The deadline of the caller.
    pub deadline: BootInstant,
    /// Set if the retry budget of the site is used up.
    pub is_over_budget: bool,
    /// Set if the caller waits for the next probe of a breaker that opened.
    pub awaits_probe: bool,
    /// Set if the limiter learns from refusals, and therefore decides when the next request is
    /// sent.
    pub is_learned: bool,
}

/// The next step after an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryDecision {
    /// Return the result as it is.
    Stop(StopReason),
    /// Retry at this instant, and not earlier.
    RetryAt(BootInstant),
}

/// The reason why there is no further attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StopReason {
    /// The response is final: a success, or a failure that a retry does not change.
    Final,
    /// All attempts are used up.
    Attempts,
    /// The next attempt would be after the deadline.
    Deadline {
        /// The instant of that attempt.
        until: BootInstant,
    },
    /// The breaker is open after the failure.
    BreakerOpen {
        /// The instant of the next probe.
        until: BootInstant,
    },
    /// The method is not idempotent, and the caller did not allow a repeat.
    NotRepeatable,
    /// The retries to the host have used up the [`RetryBudget`](crate::retry_budget::RetryBudget)
    /// of its successes.
    RetryBudget,
}

impl StopReason {
    /// Returns the word used in events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Final => "final",
            Self::Attempts => "attempts",
            Self::Deadline { .. } => "deadline",
            Self::BreakerOpen { .. } => "breaker-open",
            Self::NotRepeatable => "not-repeatable",
            Self::RetryBudget => "retry-budget",
        }
    }

    /// Returns when the next attempt would be due, if only the time or the breaker prevents it.
    #[must_use]
    pub const fn until(self) -> Option<BootInstant> {
        match self {
            Self::Deadline { until } | Self::BreakerOpen { until } => Some(until),
            Self::Final | Self::Attempts | Self::NotRepeatable | Self::RetryBudget => None,
        }
    }
}

/// Returns whether an attempt with this result would be repeated, without regard to time and
/// budget.
#[must_use]
pub fn wants_retry(
    policy: &RetryPolicy,
    class: AttemptClass,
    repeatable: Repeatable,
    attempt: u32,
) -> bool {
    class.transient && repeatable == Repeatable::Yes && attempt < policy.attempts.get()
}

/// Decides on the next step after an [`EndedAttempt`]. `jitter_sample` is a random number in
/// `0..1`.
///
/// - A wait that the server requests replaces the backoff, without any addition and without the
///   ceiling.
/// - A retry is never earlier than the end of a block or open of the breaker. While the breaker is
///   open, a request is tried again only in these cases: the server requested a wait, the limiter
///   learns from the refusal, or the caller waits for the probe.
/// - A backoff has equal jitter: half is fixed, half is random.
/// - If the limiter learns, there is no backoff after a refusal. The limiter delays every request
///   to the host, and a breaker opens for no longer than that.
///
/// ```
/// use std::time::Duration;
/// use docstokg_policy::classify::{AttemptEnding, Classifier};
/// use docstokg_policy::retry::{EndedAttempt, Repeatable, RetryDecision, RetryPolicy, decide};
/// use docstokg_policy::time::BootInstant;
/// use http::StatusCode;
///
/// let now = BootInstant::from_micros(0);
/// let until = now + Duration::from_secs(7);
/// let ended = EndedAttempt {
///     attempt: 1,
///     class: Classifier::default().classify(AttemptEnding::Status(StatusCode::TOO_MANY_REQUESTS)),
///     repeatable: Repeatable::Yes,
///     open_until: None,
///     asked_until: Some(until),
///     deadline: now + Duration::from_secs(60),
///     is_over_budget: false,
///     awaits_probe: false,
///     is_learned: false,
/// };
/// // `Retry-After` takes the place of the backoff.
/// assert_eq!(decide(&RetryPolicy::default(), &ended, now, 0.5), RetryDecision::RetryAt(until));
/// ```
#[must_use]
pub fn decide(
    policy: &RetryPolicy,
    ended: &EndedAttempt,
    now: BootInstant,
    jitter_sample: f64,
) -> RetryDecision {
    if !ended.class.transient {
        return RetryDecision::Stop(StopReason::Final);
    }
    if ended.repeatable == Repeatable::No {
        return RetryDecision::Stop(StopReason::NotRepeatable);
    }
    if ended.attempt >= policy.attempts.get() {
        return RetryDecision::Stop(StopReason::Attempts);
    }
    if ended.is_over_budget {
        return RetryDecision::Stop(StopReason::RetryBudget);
    }
    // A wait of zero does not say when to return.
    let asked = ended.asked_until.filter(|asked| *asked > now);
    let awaits_limit = ended.is_learned && ended.class.outcome == AttemptMeaning::Throttled;
    let own = || {
        if awaits_limit {
            return now;
        }
        now + backoff(policy, ended.class.outcome, ended.attempt, jitter_sample)
    };
    if let Some(until) = ended.open_until.filter(|until| *until > now)
        && !awaits_limit
        && asked.is_none()
        && !ended.awaits_probe
    {
        return RetryDecision::Stop(StopReason::BreakerOpen { until });
    }
    let at = asked.unwrap_or_else(own);
    let at = ended.open_until.map_or(at, |open| at.max(open));
    if at > ended.deadline {
        RetryDecision::Stop(StopReason::Deadline { until: at })
    } else {
        RetryDecision::RetryAt(at)
    }
}

fn backoff(
    policy: &RetryPolicy,
    outcome: AttemptMeaning,
    attempt: u32,
    jitter_sample: f64,
) -> Duration {
    let doublings = 1u32 << attempt.saturating_sub(1).min(20);
    let (full, least) = match outcome {
        AttemptMeaning::Throttled => (
            policy.throttled_base.saturating_mul(2),
            policy.throttled_base,
        ),
        _ => (policy.transient_base, Duration::ZERO),
    };
    let full = full.saturating_mul(doublings).min(policy.ceiling);
    (full / 2 + (full / 2).mul_f64(jitter_sample.clamp(0.0, 1.0))).max(least)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: BootInstant = BootInstant::from_micros(1_000_000_000);

    fn ended(attempt: u32, outcome: AttemptMeaning) -> EndedAttempt {
        EndedAttempt {
            attempt,
            class: AttemptClass {
                outcome,
                transient: true,
            },
            repeatable: Repeatable::Yes,
            open_until: None,
            asked_until: None,
            deadline: NOW + Duration::from_secs(120),
            is_over_budget: false,
            awaits_probe: true,
            is_learned: false,
        }
    }

    fn wait(next: RetryDecision) -> Duration {
        match next {
            RetryDecision::RetryAt(at) => at.since(NOW),
            RetryDecision::Stop(reason) => panic!("stopped: {reason:?}"),
        }
    }

    #[test]
    fn backoff_doubles_with_half_of_it_fixed() {
        let policy = RetryPolicy::default();
        for (attempt, low, high) in [(1, 100, 200), (2, 200, 400), (3, 400, 800)] {
            let ended = ended(attempt, AttemptMeaning::Failure);
            assert_eq!(wait(decide(&policy, &ended, NOW, 0.0)).as_millis(), low);
            assert_eq!(wait(decide(&policy, &ended, NOW, 1.0)).as_millis(), high);
        }
    }

    #[test]
    fn where_the_limiter_learns_a_throttled_request_has_no_backoff_of_its_own() {
        let policy = RetryPolicy::default();
        let learned = |outcome| EndedAttempt {
            is_learned: true,
            ..ended(3, outcome)
        };
        let next = decide(&policy, &learned(AttemptMeaning::Throttled), NOW, 1.0);
        assert_eq!(wait(next), Duration::ZERO);
        let next = decide(&policy, &learned(AttemptMeaning::Failure), NOW, 1.0);
        assert_eq!(wait(next), Duration::from_millis(800));
        let asked = EndedAttempt {
            asked_until: Some(NOW + Duration::from_secs(7)),
            ..learned(AttemptMeaning::Throttled)
        };
        assert_eq!(
            wait(decide(&policy, &asked, NOW, 1.0)),
            Duration::from_secs(7)
        );
    }

    #[test]
    fn a_throttled_request_waits_at_least_a_second() {
        assert_eq!(
            wait(decide(
                &RetryPolicy::default(),
                &ended(1, AttemptMeaning::Throttled),
                NOW,
                0.0
            )),
            Duration::from_secs(1)
        );
    }

    #[test]
    fn what_the_server_asks_for_is_never_cut() {
        let mut ended = ended(1, AttemptMeaning::Throttled);
        ended.deadline = BootInstant::FAR;
        ended.asked_until = Some(NOW + Duration::from_secs(5_000));
        assert_eq!(
            wait(decide(&RetryPolicy::default(), &ended, NOW, 0.5)),
            Duration::from_secs(5_000)
        );
        ended.open_until = Some(NOW + Duration::from_secs(6_000));
        assert_eq!(
            wait(decide(&RetryPolicy::default(), &ended, NOW, 0.5)),
            Duration::from_secs(6_000)
        );
    }

    #[test]
    fn a_wait_that_the_server_states_takes_the_place_of_the_backoff() {
        for attempt in 1..4 {
            let mut ended = ended(attempt, AttemptMeaning::Throttled);
            ended.asked_until = Some(NOW + Duration::from_secs(1));
            let at = wait(decide(&RetryPolicy::default(), &ended, NOW, 1.0));
            assert_eq!(at, Duration::from_secs(1), "attempt {attempt}");
            // A wait of zero counts as no wait.
            ended.asked_until = Some(NOW);
            let at = wait(decide(&RetryPolicy::default(), &ended, NOW, 0.0));
            assert!(at >= Duration::from_secs(1), "attempt {attempt}: {at:?}");
        }
    }

    #[test]
    fn decide_stops_with_the_reason_of_the_case() {
        let policy = RetryPolicy::default();
        let stop = |ended: EndedAttempt| decide(&policy, &ended, NOW, 0.5);
        let base = ended(1, AttemptMeaning::Failure);
        let last = EndedAttempt { attempt: 4, ..base };
        assert_eq!(stop(last), RetryDecision::Stop(StopReason::Attempts));
        assert_eq!(
            stop(EndedAttempt {
                repeatable: Repeatable::No,
                ..base
            }),
            RetryDecision::Stop(StopReason::NotRepeatable)
        );
        assert_eq!(
            stop(EndedAttempt {
                class: AttemptClass {
                    outcome: AttemptMeaning::Neutral,
                    transient: false
                },
                ..base
            }),
            RetryDecision::Stop(StopReason::Final)
        );
        let until = NOW + Duration::from_secs(500);
        assert_eq!(
            stop(EndedAttempt {
                open_until: Some(until),
                ..base
            }),
            RetryDecision::Stop(StopReason::Deadline { until })
        );
        let open = EndedAttempt {
            open_until: Some(NOW + Duration::from_secs(5)),
            awaits_probe: false,
            ..base
        };
        let until = NOW + Duration::from_secs(5);
        assert_eq!(
            stop(open),
            RetryDecision::Stop(StopReason::BreakerOpen { until })
        );
        let stated = EndedAttempt {
            asked_until: Some(until),
            ..open
        };
        assert_eq!(
            stop(stated),
            RetryDecision::RetryAt(until),
            "the server stated it"
        );
        assert_eq!(Repeatable::of(&Method::POST), Repeatable::No);
        assert_eq!(Repeatable::of(&Method::PUT), Repeatable::Yes);
    }

    proptest! {
        #[test]
        fn a_retry_never_comes_before_what_was_asked(
            attempt in 1u32..4,
            asked in 0u64..10_000_000,
            open in 0u64..10_000_000,
            jitter_sample in 0.0f64..1.0,
        ) {
            let mut ended = ended(attempt, AttemptMeaning::Throttled);
            ended.deadline = BootInstant::FAR;
            ended.asked_until = Some(NOW + Duration::from_micros(asked));
            ended.open_until = Some(NOW + Duration::from_micros(open));
            let next = decide(&RetryPolicy::default(), &ended, NOW, jitter_sample);
            let RetryDecision::RetryAt(at) = next else { panic!("stopped") };
            let stated = Duration::from_micros(asked.max(open));
            prop_assert!(at >= NOW + stated);
            prop_assert!(at <= NOW + stated.max(Duration::from_secs(30)));
        }
    }
}
