//! Results: the effect of an attempt, a Retry-After or an operator on a site.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{AdmissionRequest, Permit, Site};
use crate::adaptive::{AdaptivePolicy, Adjustment};
use crate::breaker::{BreakerState, OpenReason, Settlement, Transition};
use crate::budget::Budget;
use crate::classify::AttemptMeaning;
use crate::host_model::LimitEvent;
use crate::host_model::learner::ConfirmedLimit;
use crate::time::BootInstant;

/// The effect of a settled attempt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SettleEffect {
    /// The change of state, if any.
    pub transition: Option<Transition>,
    /// The end of the current block or open: an earlier retry would be refused.
    pub open_until: Option<BootInstant>,
    /// The budget whose adaptive rate changed, and the change.
    pub adjusted: Option<(usize, Adjustment)>,
    /// Set if requests that wait for a probe result should try again.
    pub wakes: bool,
    /// Set if the first waiting request should try again, because it may have waited for this
    /// response.
    pub calls_next: bool,
    /// Set if the wanted retry exceeds the retry budget of the site.
    pub retry_refused: bool,
    /// The [`ConfirmedLimit`] of the host that the response confirmed.
    pub learned: Option<ConfirmedLimit>,
}

/// The result of an attempt, as reported to the breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptResult {
    /// The [`AttemptMeaning`] of the result.
    pub outcome: AttemptMeaning,
    /// The Retry-After of the server, if any.
    pub retry_after: Option<Duration>,
    /// The instant at which the request was sent.
    pub sent: BootInstant,
    /// Set if the caller wants to send the request again, which costs retry budget.
    pub wants_retry: bool,
    /// Set if a failure may be a refusal of one request too many (503). The next responses of the
    /// host show which.
    pub maybe_refused: bool,
}

impl AttemptResult {
    /// Returns whether the adaptive rate counts the response as throttling: 429, or a 503 that may
    /// be a refusal or has a Retry-After.
    #[must_use]
    pub fn is_throttling(&self) -> bool {
        match self.outcome {
            AttemptMeaning::Throttled => true,
            AttemptMeaning::Failure => self.maybe_refused || self.retry_after.is_some(),
            AttemptMeaning::Success | AttemptMeaning::Neutral => false,
        }
    }
}

/// The condition of the breakers of a site, as a heartbeat returns it from a shared store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BreakerCondition {
    /// A number that changes when an open or a block of any breaker begins, or when an operator
    /// closes them.
    pub generation: u32,
    /// Set if the breaker of the host is half-open.
    pub half_open: bool,
    /// The number of half-open breakers of isolated roles.
    pub half_open_roles: u32,
    /// The end and the [`OpenReason`] of the open of the host's breaker; `None` if it is closed or
    /// half-open.
    pub open: Option<(BootInstant, OpenReason)>,
}

impl BreakerCondition {
    /// Returns whether sleeping requests must try again, compared with an earlier condition.
    ///
    /// The clock of this machine converts the instants of a remote store with small differences. A
    /// difference of less than a second is not a change.
    #[must_use]
    pub fn has_changed_since(&self, earlier: &Self) -> bool {
        const CONVERSION_ERROR: Duration = Duration::from_secs(1);
        let same_open = match (&self.open, &earlier.open) {
            (Some((until, reason)), Some((before, because))) => {
                reason == because
                    && until.since(*before) < CONVERSION_ERROR
                    && before.since(*until) < CONVERSION_ERROR
            }
            (None, None) => true,
            _ => false,
        };
        !same_open
            || (self.generation, self.half_open, self.half_open_roles)
                != (
                    earlier.generation,
                    earlier.half_open,
                    earlier.half_open_roles,
                )
    }
}

fn settlement(
    ask: &AdmissionRequest,
    permit: &Permit,
    outcome: AttemptMeaning,
    sent: BootInstant,
) -> Settlement {
    Settlement {
        wait: None,
        outcome,
        generation: permit.generation,
        sent,
        jitter_sample: ask.jitter_sample,
    }
}

impl Site {
    /// Releases the lease of a probe when its headers have arrived, before the body is read, and
    /// learns from them.
    ///
    /// The origin responded: any result except a failure closes a half-open breaker now, so that
    /// waiting requests need not wait for the body.
    pub fn settle_headers(
        &mut self,
        ask: &AdmissionRequest,
        permit: &Permit,
        outcome: AttemptMeaning,
        now: BootInstant,
    ) -> SettleEffect {
        let id = permit.id;
        let learn = ask.policy.learn;
        let learned = learn.map(|_| self.tell(&LimitEvent::Heard { id, outcome }, now));
        let learned = learned.unwrap_or_default();
        self.touched |= learned.calls_next;
        let settled = SettleEffect {
            calls_next: learned.calls_next,
            learned: learned.confirmed,
            ..SettleEffect::default()
        };
        if !permit.probe || matches!(outcome, AttemptMeaning::Failure | AttemptMeaning::Throttled) {
            return settled;
        }
        self.touched = true;
        let breaker = self.breaker_for(ask);
        let released = breaker.release(permit.id);
        let settlement = settlement(ask, permit, outcome, permit.stamp);
        let transition = breaker.settle(&ask.policy.breaker, &settlement, now);
        SettleEffect {
            wakes: released || transition.is_some(),
            transition,
            ..settled
        }
    }

    /// Records the [`AttemptResult`] of an attempt, once, when its body has ended.
    ///
    /// A Retry-After blocks the whole site in every generation, because the server means every
    /// client.
    pub fn settle(
        &mut self,
        ask: &AdmissionRequest,
        permit: &Permit,
        report: &AttemptResult,
        now: BootInstant,
    ) -> SettleEffect {
        self.touched = true;
        for cost in ask.costs.iter().filter(|cost| cost.slots.is_some()) {
            self.budgets[cost.budget].free_slot(permit.id);
        }
        // The breaker limits its probes, so their retries need no other limit.
        let wants_retry = report.wants_retry && !permit.probe;
        let retry_refused = !self.settle_retries(report.outcome, wants_retry, now);
        let learned = self.learn_from(ask, permit, report, now).confirmed;
        let is_learned = report.outcome == AttemptMeaning::Throttled && ask.policy.learn.is_some();
        let model = self.host_model().filter(|_| is_learned);
        let learned_wait = model.and_then(|model| model.pause(now));
        // A wait of zero does not say when to return.
        let asked = report.retry_after.filter(|asked| !asked.is_zero());
        let stated = asked.map(|asked| asked.min(ask.policy.breaker.retry_after_cap));
        let breaker = self.breaker_for(ask);
        let released = permit.probe && breaker.release(permit.id);
        let settlement = Settlement {
            wait: stated.or(learned_wait),
            ..settlement(ask, permit, report.outcome, report.sent)
        };
        let mut transition = breaker.settle(&ask.policy.breaker, &settlement, now);
        if matches!(
            report.outcome,
            AttemptMeaning::Failure | AttemptMeaning::Throttled
        ) {
            let stated = stated.map(|length| (length, OpenReason::RetryAfter));
            let throttled = (report.outcome == AttemptMeaning::Throttled)
                .then_some(ask.policy.breaker.throttle_block)
                .flatten();
            if let Some(asked) = asked {
                self.breaker_for(ask).learn(&ask.policy.breaker, asked);
            }
            if let Some((length, reason)) =
                stated.or_else(|| throttled.map(|length| (length, OpenReason::Throttled)))
            {
                transition = self.block(now + length, &reason, now).or(transition);
            }
        }
        let open_until = self
            .breaker_for(ask)
            .open_until(now)
            .map(|(until, _)| until);
        let adjusted = (ask.policy.adaptive.as_ref())
            .and_then(|policy| self.adapt(ask, policy, report.is_throttling(), now));
        SettleEffect {
            wakes: released || transition.is_some(),
            calls_next: self.learned().is_some(),
            retry_refused,
            transition,
            open_until,
            adjusted,
            learned,
        }
    }

    fn adapt(
        &mut self,
        ask: &AdmissionRequest,
        policy: &AdaptivePolicy,
        throttled: bool,
        now: BootInstant,
    ) -> Option<(usize, Adjustment)> {
        let cost = ask.costs.first()?;
        let adjustment = self.budgets[cost.budget].observe(policy, throttled, now)?;
        Some((cost.budget, adjustment))
    }

    /// Drops the adaptive rates, whose run has ended. Returns whether any were set.
    pub fn forget_adaptation(&mut self) -> bool {
        self.touched = true;
        let forgotten = self.budgets.iter_mut().map(Budget::forget_adaptation);
        forgotten.fold(false, |any, forgotten| any | forgotten)
    }

    /// Blocks every breaker of the site until an instant.
    pub fn block(
        &mut self,
        until: BootInstant,
        reason: &OpenReason,
        now: BootInstant,
    ) -> Option<Transition> {
        self.touched = true;
        for (_, breaker) in self.isolated.as_deref_mut().into_iter().flatten() {
            let _ = breaker.block(until, reason.clone(), now);
        }
        self.breaker.block(until, reason.clone(), now)
    }

    /// Closes every breaker of the site on an operator's request.
    pub fn unblock(&mut self, now: BootInstant) -> Option<Transition> {
        self.touched = true;
        self.tell(&LimitEvent::PauseEnded, now);
        // Requests that sleep for the breaker of an isolated role wake when the sum of generations
        // changes. Therefore the host's generation grows by more than those of the roles.
        let roles = self
            .breakers()
            .1
            .iter()
            .fold(0, |generations: u32, (_, own)| {
                generations.wrapping_add(own.generation()).wrapping_add(1)
            });
        self.isolated = None;
        let transition = self.breaker.close(now);
        self.breaker.advance_generations(roles);
        transition
    }

    /// Returns the [`BreakerCondition`] at `now`.
    fn condition(&self, now: BootInstant) -> BreakerCondition {
        let own = self.breakers().1;
        BreakerCondition {
            generation: own
                .iter()
                .fold(self.breaker.generation(), |generations, (_, breaker)| {
                    generations.wrapping_add(breaker.generation())
                }),
            half_open: self.breaker.state(now) == BreakerState::HalfOpen,
            half_open_roles: own
                .iter()
                .map(|(_, breaker)| u32::from(breaker.state(now) == BreakerState::HalfOpen))
                .sum(),
            open: self
                .breaker
                .open_until(now)
                .map(|(until, reason)| (until, reason.clone())),
        }
    }

    /// Renews the shared slots and probe leases of `ids` by `length` from now, and returns the
    /// [`BreakerCondition`].
    pub fn renew(&mut self, ids: &[u64], length: Duration, now: BootInstant) -> BreakerCondition {
        if !ids.is_empty() {
            self.touched = true;
            for budget in &mut self.budgets {
                budget.renew(ids, now + length);
            }
            self.breaker.renew(ids, now + length);
            for (_, breaker) in self.isolated.as_deref_mut().into_iter().flatten() {
                breaker.renew(ids, now + length);
            }
        }
        self.condition(now)
    }
}
