//! The effect of results, Retry-After and operators on a [`Breaker`].

use std::time::Duration;

use super::early::{self, FailedProbe};
use super::trip::{FailureHistory, HostBlock, TripState};
use super::{Breaker, BreakerPolicy, BreakerState, FAILURE_MEMORY, OpenReason, Transition};
use crate::classify::AttemptMeaning;
use crate::time::BootInstant;

/// The shortest open, which applies even if the server declared a shorter wait.
const SHORTEST_OPEN: Duration = Duration::from_millis(500);

/// The result of a request, with the facts that a [`Breaker`] needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settlement {
    /// The [`AttemptMeaning`] of the result for the breaker.
    pub outcome: AttemptMeaning,
    /// The generation of the breaker in which the request was admitted.
    pub generation: u32,
    /// The instant at which the request was sent.
    pub sent: BootInstant,
    /// A random number in `0..1` for the wait before the next probe.
    pub jitter_sample: f64,
    /// The time without requests that the server declared or a learned limit requires. An open by
    /// this result lasts that long, instead of the reset.
    pub wait: Option<Duration>,
}

/// The reason and the length of an open that begins.
struct BreakerOpening {
    reason: OpenReason,
    /// The length of the open, if it differs from the reset.
    length: Option<Duration>,
    /// The random number for the wait before an early probe; `None` if early probes do not apply.
    early: Option<f64>,
}

impl Breaker {
    /// Counts the result of a request.
    ///
    /// A result of an earlier generation has no effect. Success and a neutral response both prove
    /// that the origin is up, and close a half-open breaker. In a closed breaker, success clears
    /// the failures, and a neutral response keeps them.
    ///
    /// ```
    /// use std::time::Duration;
    /// use docstokg_policy::breaker::{Breaker, BreakerPolicy, BreakerState, Settlement};
    /// use docstokg_policy::classify::AttemptMeaning;
    /// use docstokg_policy::time::BootInstant;
    ///
    /// let (mut breaker, policy) = (Breaker::default(), BreakerPolicy::default());
    /// let now = BootInstant::from_micros(1_000_000);
    /// for _ in 0..policy.fail_max.get() {
    ///     let failure = Settlement {
    ///         outcome: AttemptMeaning::Failure,
    ///         generation: breaker.generation(),
    ///         sent: now,
    ///         jitter_sample: 0.5,
    ///         wait: None,
    ///     };
    ///     breaker.settle(&policy, &failure, now);
    /// }
    /// assert_eq!(breaker.state(now), BreakerState::Open);
    /// assert_eq!(breaker.state(now + policy.reset), BreakerState::HalfOpen);
    /// ```
    pub fn settle(
        &mut self,
        policy: &BreakerPolicy,
        settlement: &Settlement,
        now: BootInstant,
    ) -> Option<Transition> {
        let Settlement { outcome, sent, .. } = *settlement;
        if settlement.generation != self.generation {
            return None;
        }
        match outcome {
            AttemptMeaning::Success | AttemptMeaning::Neutral => {
                if outcome == AttemptMeaning::Success {
                    self.failures = 0;
                }
                self.trip.as_ref().filter(|trip| trip.half_open)?;
                Some(self.shut(now))
            }
            AttemptMeaning::Throttled
                if policy.one_failure_per_epoch
                    && self
                        .past
                        .as_ref()
                        .is_some_and(|past| sent < past.throttled_at) =>
            {
                None
            }
            AttemptMeaning::Failure | AttemptMeaning::Throttled => {
                if outcome == AttemptMeaning::Throttled {
                    self.past().throttled_at = now;
                }
                // A throttling origin is up, so there are no early probes: Retry-After or the reset
                // applies.
                let early = (policy.early_probes && outcome == AttemptMeaning::Failure)
                    .then_some(settlement.jitter_sample);
                let probe = FailedProbe {
                    sent,
                    jitter_sample: early,
                    wait: settlement.wait.map(|wait| wait.max(SHORTEST_OPEN)),
                    is_refusal: outcome == AttemptMeaning::Throttled,
                };
                self.fail(policy, probe, now)
            }
        }
    }

    fn past(&mut self) -> &mut FailureHistory {
        self.past.get_or_insert_default()
    }

    /// Closes the breaker.
    fn shut(&mut self, now: BootInstant) -> Transition {
        self.trip = None;
        self.failures = 0;
        let past = self.past();
        past.recent.clear();
        past.turned_at = now;
        Transition {
            from: BreakerState::HalfOpen,
            to: BreakerState::Closed,
            fail_count: 0,
            reset: None,
            reason: None,
        }
    }

    fn fail(
        &mut self,
        policy: &BreakerPolicy,
        probe: FailedProbe,
        now: BootInstant,
    ) -> Option<Transition> {
        let (early, length) = (probe.jitter_sample, probe.wait);
        self.failures = self.failures.saturating_add(1);
        self.past().failed_at = now;
        if let Some(trip) = &self.trip {
            if !trip.half_open {
                return None;
            }
            return self.await_next_probe(policy, probe, now).or_else(|| {
                let opening = BreakerOpening {
                    reason: OpenReason::ProbeFailed,
                    length,
                    early,
                };
                Some(self.open(policy, opening, now))
            });
        }
        if let Some(window) = policy.window {
            let threshold = window.threshold_failures.get() as usize;
            let recent = &mut self.past().recent;
            recent.push_back(now);
            while recent.len() > threshold
                || recent
                    .front()
                    .is_some_and(|first| *first + window.within <= now)
            {
                recent.pop_front();
            }
            if recent.len() >= threshold {
                // A probe cannot detect the end of failures between successes, so the configured
                // cooldown applies. If a server refuses a request and declares a wait, that wait
                // applies instead.
                let stated = length.filter(|_| probe.is_refusal);
                let opening = BreakerOpening {
                    reason: OpenReason::RollingWindow,
                    length: Some(stated.unwrap_or(window.cooldown)),
                    early: None,
                };
                return Some(self.open(policy, opening, now));
            }
        }
        (self.failures >= policy.fail_max.get()).then(|| {
            let opening = BreakerOpening {
                reason: OpenReason::Consecutive,
                length,
                early,
            };
            self.open(policy, opening, now)
        })
    }

    fn open(
        &mut self,
        policy: &BreakerPolicy,
        opening: BreakerOpening,
        now: BootInstant,
    ) -> Transition {
        let BreakerOpening {
            reason,
            length,
            early,
        } = opening;
        let (from, was_closed) = (self.state(now), self.trip.is_none());
        let past = self.past();
        if was_closed
            && past.opens > 0
            && past.turned_at + policy.reset_after(past.opens, past.learned_reset) <= now
        {
            past.opens = 0;
        }
        // After an hour without an open, half of the reset learned from earlier waits is dropped.
        if was_closed
            && past.learned_reset > Duration::ZERO
            && past.turned_at + FAILURE_MEMORY <= now
        {
            let half = past.learned_reset.as_micros() / 2;
            let half = Duration::from_micros(u64::try_from(half).unwrap_or(u64::MAX));
            past.learned_reset = if half > policy.reset {
                half
            } else {
                Duration::ZERO
            };
        }
        past.opens = past.opens.saturating_add(1);
        past.recent.clear();
        let reset = length.unwrap_or_else(|| policy.reset_after(past.opens, past.learned_reset));
        let reset = early.map_or(reset, |sample| early::wait(Duration::ZERO, reset, sample));
        past.turned_at = early.map_or(BootInstant::ZERO, |_| now.max(BootInstant::from_micros(1)));
        self.generation = self.generation.wrapping_add(1);
        self.trip = Some(Box::new(TripState::new(now + reset, reason.clone(), None)));
        Transition {
            from,
            to: BreakerState::Open,
            fail_count: self.failures,
            reset: Some(reset),
            reason: Some(reason),
        }
    }

    /// Blocks the host until an instant, and never shortens an existing block.
    ///
    /// A new block begins a generation. A block that only lengthens an open or a block does not.
    pub fn block(
        &mut self,
        until: BootInstant,
        reason: OpenReason,
        now: BootInstant,
    ) -> Option<Transition> {
        if until <= now {
            return None;
        }
        let from = self.state(now);
        if from == BreakerState::Open
            && let Some(trip) = self.trip.as_deref_mut()
        {
            if trip.block.as_ref().is_none_or(|block| block.until < until) {
                trip.block = Some(HostBlock { until, reason });
            }
            return None;
        }
        // A block of a closed breaker does not begin an outage, and a block of a half-open breaker
        // does not end the current outage.
        if from == BreakerState::Closed
            && let Some(past) = self.past.as_deref_mut()
        {
            past.turned_at = BootInstant::ZERO;
        }
        self.generation = self.generation.wrapping_add(1);
        let block = Some(HostBlock {
            until,
            reason: reason.clone(),
        });
        self.trip = Some(Box::new(TripState::new(now, reason.clone(), block)));
        Some(Transition {
            from,
            to: BreakerState::Open,
            fail_count: self.failures,
            reset: Some(until.since(now)),
            reason: Some(reason),
        })
    }

    /// Learns the reset from the length of a Retry-After. If a server requests more than the
    /// configured reset twice in a row, the reset grows to the requested time, up to the ceiling.
    pub fn learn(&mut self, policy: &BreakerPolicy, asked: Duration) {
        let past = self.past();
        if asked <= policy.reset {
            past.outlasted = 0;
            return;
        }
        past.outlasted = past.outlasted.saturating_add(1);
        if past.outlasted >= 2 {
            past.learned_reset = past.learned_reset.max(asked.min(policy.reset_ceiling));
        }
    }

    /// Increases the generation by a number.
    pub(crate) fn advance_generations(&mut self, generations: u32) {
        self.generation = self.generation.wrapping_add(generations);
    }

    /// Closes the breaker at an operator's request, and clears its block, its open and its
    /// failures.
    pub fn close(&mut self, now: BootInstant) -> Option<Transition> {
        let from = self.state(now);
        let generation = self
            .generation
            .wrapping_add(u32::from(from != BreakerState::Closed));
        *self = Self {
            generation,
            ..Self::default()
        };
        (from != BreakerState::Closed).then_some(Transition {
            from,
            to: BreakerState::Closed,
            fail_count: 0,
            reset: None,
            reason: None,
        })
    }
}
