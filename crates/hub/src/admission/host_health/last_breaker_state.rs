//! The last known state of a breaker that several processes change.
//!
//! The process that causes a transition reports it. The other processes notice the transition in a
//! reply of the store or a heartbeat, and report it as seen. So the events of each process show the
//! current state of the breaker.

use docstokg_policy::breaker::{BreakerState, OpenReason, Transition};
use docstokg_policy::site::{AdmissionDecision, BreakerCondition, Refusal, RefusalReason};
use parking_lot::Mutex;

use crate::clock::BootInstant;

/// The state of the breaker as this process last saw it, at first closed.
#[derive(Default)]
pub(super) struct LastBreakerState(Mutex<SeenState>);

#[derive(Clone, Copy)]
struct SeenState {
    state: BreakerState,
    /// The instant until which the breaker is open, if its state is open.
    until: BootInstant,
    /// The instant at which this process saw the state change.
    changed_at: BootInstant,
}

impl Default for SeenState {
    fn default() -> Self {
        Self {
            state: BreakerState::Closed,
            until: BootInstant::ZERO,
            changed_at: BootInstant::ZERO,
        }
    }
}

impl LastBreakerState {
    /// Records a [`Transition`] that this process itself caused and reports.
    pub(super) fn note(&self, transition: &Transition, now: BootInstant) {
        let until = if transition.to == BreakerState::Open {
            now + transition.reset.unwrap_or_default()
        } else {
            BootInstant::ZERO
        };
        *self.0.lock() = SeenState {
            state: transition.to,
            until,
            changed_at: now,
        };
    }

    /// Returns the instant until which the breaker is open, as far as this process knows.
    pub(super) fn open_until(&self, now: BootInstant) -> Option<BootInstant> {
        let known = *self.0.lock();
        (known.state == BreakerState::Open && known.until > now).then_some(known.until)
    }

    /// Returns whether the breaker is closed and has not changed since `instant`, as far as this
    /// process knows.
    pub(super) fn is_closed_since(&self, instant: BootInstant) -> bool {
        let known = *self.0.lock();
        known.state == BreakerState::Closed && known.changed_at < instant
    }

    /// Returns the [`Transition`] that another process must have made according to a decision of
    /// the store, or `None`.
    pub(super) fn by_answer(
        &self,
        entry: &AdmissionDecision,
        now: BootInstant,
    ) -> Option<Transition> {
        match entry {
            AdmissionDecision::Refused(Refusal {
                until,
                reason: RefusalReason::Open { reason, probing },
            })
            | AdmissionDecision::WaitForBreaker {
                until,
                reason,
                probing,
            } => {
                let state = if *probing {
                    BreakerState::HalfOpen
                } else {
                    BreakerState::Open
                };
                self.become_state(state, Some((*until, reason)), now)
            }
            AdmissionDecision::Go(permit) if !permit.probe && permit.shadowed.is_none() => {
                self.become_state(BreakerState::Closed, None, now)
            }
            _ => None,
        }
    }

    /// Returns the [`Transition`] that another process must have made according to a heartbeat, or
    /// `None`.
    pub(super) fn by_heartbeat(
        &self,
        condition: &BreakerCondition,
        now: BootInstant,
    ) -> Option<Transition> {
        match &condition.open {
            Some((until, reason)) => {
                self.become_state(BreakerState::Open, Some((*until, reason)), now)
            }
            // An open breaker becomes half-open by time, which is not reported. If it becomes
            // half-open earlier, another process or an operator changed it.
            None if condition.half_open && self.open_until(now).is_none() => None,
            None if condition.half_open => self.become_state(BreakerState::HalfOpen, None, now),
            None => self.become_state(BreakerState::Closed, None, now),
        }
    }

    fn become_state(
        &self,
        to: BreakerState,
        open: Option<(BootInstant, &OpenReason)>,
        now: BootInstant,
    ) -> Option<Transition> {
        let open = open.filter(|_| to == BreakerState::Open);
        let mut known = self.0.lock();
        let from = known.state;
        *known = SeenState {
            state: to,
            until: open.map_or(BootInstant::ZERO, |(until, _)| until),
            changed_at: if from == to { known.changed_at } else { now },
        };
        drop(known);
        if from == to {
            return None;
        }
        let (reset, reason) = (
            open.map(|(until, _)| until.since(now)),
            open.map(|(_, reason)| match (from, reason) {
                // Failures in a row open only a closed breaker. If they open a half-open one, an
                // early probe of the same outage has failed.
                (BreakerState::HalfOpen, OpenReason::Consecutive) => OpenReason::EarlyProbeFailed,
                (_, reason) => reason.clone(),
            }),
        );
        Some(Transition {
            from,
            to,
            fail_count: 0,
            reset,
            reason,
        })
    }
}
