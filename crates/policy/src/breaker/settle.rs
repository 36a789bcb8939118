//! What results, Retry-After and operators change in a breaker.

use std::time::Duration;

use super::trip::{Block, Past, Trip};
use super::{Breaker, BreakerPolicy, OpenReason, State, Transition};
use crate::classify::Outcome;
use crate::time::BootInstant;

impl Breaker {
    /// Counts the outcome of a request that was admitted in `generation` and sent at `sent`.
    ///
    /// A result of an older generation changes nothing. Success and neutral answers both prove that
    /// the origin is up and close a half-open breaker; in a closed one a success clears the
    /// failures and a neutral answer leaves them.
    pub fn settle(
        &mut self,
        policy: &BreakerPolicy,
        outcome: Outcome,
        generation: u32,
        sent: BootInstant,
        now: BootInstant,
    ) -> Option<Transition> {
        if generation != self.generation {
            return None;
        }
        match outcome {
            Outcome::Success | Outcome::Neutral => {
                if outcome == Outcome::Success {
                    self.failures = 0;
                }
                self.trip.as_ref().filter(|trip| trip.half_open)?;
                Some(self.shut(now))
            }
            Outcome::Throttled
                if policy.one_failure_per_epoch
                    && self
                        .past
                        .as_ref()
                        .is_some_and(|past| sent < past.throttled_at) =>
            {
                None
            }
            Outcome::Failure | Outcome::Throttled => {
                if outcome == Outcome::Throttled {
                    self.past().throttled_at = now;
                }
                self.fail(policy, now)
            }
        }
    }

    fn past(&mut self) -> &mut Past {
        self.past.get_or_insert_default()
    }

    /// Closes it.
    fn shut(&mut self, now: BootInstant) -> Transition {
        self.trip = None;
        self.failures = 0;
        let past = self.past();
        past.recent.clear();
        past.closed_at = now;
        Transition {
            from: State::HalfOpen,
            to: State::Closed,
            fail_count: 0,
            reset: None,
            reason: None,
        }
    }

    fn fail(&mut self, policy: &BreakerPolicy, now: BootInstant) -> Option<Transition> {
        self.failures = self.failures.saturating_add(1);
        self.past().failed_at = now;
        if let Some(trip) = &self.trip {
            return if trip.half_open {
                Some(self.open(policy, OpenReason::ProbeFailed, None, now))
            } else {
                None
            };
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
                return Some(self.open(
                    policy,
                    OpenReason::RollingWindow,
                    Some(window.cooldown),
                    now,
                ));
            }
        }
        (self.failures >= policy.fail_max.get())
            .then(|| self.open(policy, OpenReason::Consecutive, None, now))
    }

    fn open(
        &mut self,
        policy: &BreakerPolicy,
        reason: OpenReason,
        length: Option<Duration>,
        now: BootInstant,
    ) -> Transition {
        let (from, was_closed) = (self.state(now), self.trip.is_none());
        let past = self.past();
        if was_closed
            && past.opens > 0
            && past.closed_at + policy.reset_after(past.opens, past.learned_reset) <= now
        {
            past.opens = 0;
        }
        past.opens = past.opens.saturating_add(1);
        past.recent.clear();
        let reset = length.unwrap_or_else(|| policy.reset_after(past.opens, past.learned_reset));
        self.generation = self.generation.wrapping_add(1);
        self.trip = Some(Box::new(Trip::new(now + reset, reason.clone(), None)));
        Transition {
            from,
            to: State::Open,
            fail_count: self.failures,
            reset: Some(reset),
            reason: Some(reason),
        }
    }

    /// Blocks it until `until`: never shortens a block that is there.
    ///
    /// A new block begins a generation; one that only lengthens a running open or block does not.
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
        if from == State::Open
            && let Some(trip) = self.trip.as_deref_mut()
        {
            if trip.block.as_ref().is_none_or(|block| block.until < until) {
                trip.block = Some(Block { until, reason });
            }
            return None;
        }
        self.generation = self.generation.wrapping_add(1);
        let block = Some(Block {
            until,
            reason: reason.clone(),
        });
        self.trip = Some(Box::new(Trip::new(now, reason.clone(), block)));
        Some(Transition {
            from,
            to: State::Open,
            fail_count: self.failures,
            reset: Some(until.since(now)),
            reason: Some(reason),
        })
    }

    /// Learns from a Retry-After: if a server states more than the reset twice in a row, the reset
    /// grows to it.
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

    /// Advances the generation by a number.
    pub(crate) fn advance_generations(&mut self, generations: u32) {
        self.generation = self.generation.wrapping_add(generations);
    }

    /// Closes it on an operator's request, and clears block, open and counts.
    pub fn close(&mut self, now: BootInstant) -> Option<Transition> {
        let from = self.state(now);
        let generation = self
            .generation
            .wrapping_add(u32::from(from != State::Closed));
        *self = Self {
            generation,
            ..Self::default()
        };
        (from != State::Closed).then_some(Transition {
            from,
            to: State::Closed,
            fail_count: 0,
            reset: None,
            reason: None,
        })
    }
}
