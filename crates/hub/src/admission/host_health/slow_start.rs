//! The slow start after an outage: when a breaker closes, the requests that waited for it are
//! spread over a few seconds.
//!
//! At first, eight requests a second are sent; the rate grows for [`SLOW_START_DURATION`]. Each
//! process applies it to its own requests. The windows of the site, which all processes share,
//! apply as well. A request whose terms end before its time is not delayed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use docstokg_policy::breaker::{BreakerState, OpenReason, Transition};
use parking_lot::Mutex;

use crate::clock::BootInstant;

/// The time after which the slow start ends.
const SLOW_START_DURATION: Duration = Duration::from_secs(4);
/// The rate at the start, in requests per second.
const FIRST_RATE: f64 = 8.0;
/// The amount by which the rate grows each second, in requests per second.
const RATE_GROWTH: f64 = 32.0;

/// The rate limit of the slow start. It is inactive unless a breaker has closed recently.
#[derive(Default)]
pub(super) struct SlowStart {
    is_active: AtomicBool,
    state: Mutex<SlowStartRamp>,
}

#[derive(Default)]
struct SlowStartRamp {
    /// `true` if failures opened the breaker, `false` if a server or an operator did.
    is_outage: bool,
    closed_at: Option<BootInstant>,
    admitted: u32,
}

impl SlowStart {
    /// Starts or ends the slow start according to a [`Transition`] of the breaker.
    pub(super) fn note(&self, transition: &Transition, now: BootInstant) {
        let mut ramp = self.state.lock();
        match (transition.to, &transition.reason) {
            (BreakerState::Open, reason) => {
                ramp.is_outage = matches!(
                    reason,
                    Some(
                        OpenReason::Consecutive
                            | OpenReason::RollingWindow
                            | OpenReason::ProbeFailed
                            | OpenReason::EarlyProbeFailed
                    )
                );
                ramp.closed_at = None;
            }
            (BreakerState::Closed, _) if std::mem::take(&mut ramp.is_outage) => {
                (ramp.closed_at, ramp.admitted) = (Some(now), 0);
            }
            _ => {}
        }
        self.is_active
            .store(ramp.closed_at.is_some(), Ordering::Release);
    }

    /// Counts the next request, and returns the instant at which it may be sent; `None` for now.
    pub(super) fn turn(&self, now: BootInstant) -> Option<BootInstant> {
        if !self.is_active.load(Ordering::Acquire) {
            return None;
        }
        let mut ramp = self.state.lock();
        let closed_at = ramp.closed_at?;
        if now >= closed_at + SLOW_START_DURATION {
            ramp.closed_at = None;
            self.is_active.store(false, Ordering::Release);
            return None;
        }
        let at = closed_at + time_of(ramp.admitted).min(SLOW_START_DURATION);
        ramp.admitted = ramp.admitted.saturating_add(1);
        (at > now).then_some(at)
    }
}

/// Returns the time after which `admitted + 1` requests may be sent: the solution of `admitted =
/// FIRST_RATE * t + RATE_GROWTH / 2 * t^2`.
fn time_of(admitted: u32) -> Duration {
    let admitted = f64::from(admitted);
    let root = (FIRST_RATE * FIRST_RATE + 2.0 * RATE_GROWTH * admitted).sqrt();
    Duration::from_secs_f64((root - FIRST_RATE) / RATE_GROWTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transition(from: BreakerState, to: BreakerState, reason: Option<OpenReason>) -> Transition {
        Transition {
            from,
            to,
            fail_count: 5,
            reset: None,
            reason,
        }
    }

    fn at(milliseconds: u64) -> BootInstant {
        BootInstant::from_micros(1_000_000_000 + milliseconds * 1_000)
    }

    fn closed_after(reason: OpenReason) -> SlowStart {
        let start = SlowStart::default();
        start.note(
            &transition(BreakerState::Closed, BreakerState::Open, Some(reason)),
            at(0),
        );
        start.note(
            &transition(BreakerState::Open, BreakerState::HalfOpen, None),
            at(500),
        );
        start.note(
            &transition(BreakerState::HalfOpen, BreakerState::Closed, None),
            at(1_000),
        );
        start
    }

    #[test]
    fn after_an_outage_the_rate_of_requests_grows() {
        let start = closed_after(OpenReason::Consecutive);
        let herd: Vec<Option<BootInstant>> = (0..400).map(|_| start.turn(at(1_000))).collect();
        assert_eq!(herd[0], None, "the first goes at once");
        let by = |milliseconds: u64| {
            let in_time = |turn: &&Option<BootInstant>| {
                turn.is_none_or(|turn| turn <= at(1_000 + milliseconds))
            };
            herd.iter().filter(in_time).count()
        };
        assert_eq!((by(250), by(1_000), by(2_000), by(3_999)), (4, 25, 81, 288));
        assert_eq!(herd[399], Some(at(5_000)), "the rest goes when it is over");
    }

    #[test]
    fn slow_start_ends_with_a_block_or_with_time() {
        for stated in [
            OpenReason::RetryAfter,
            OpenReason::Throttled,
            OpenReason::Operator("x".into()),
        ] {
            let start = closed_after(stated);
            assert!((0..10).all(|_| start.turn(at(1_000)).is_none()));
        }
        let start = closed_after(OpenReason::Consecutive);
        assert!((0..10).any(|_| start.turn(at(1_000)).is_some()));
        assert!((0..10).all(|_| start.turn(at(5_000)).is_none()));
    }
}
