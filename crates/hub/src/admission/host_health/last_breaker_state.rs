//! What this process knows of a breaker that others change as well.
//!
//! A transition is reported by the process that brought it about. The other processes notice it by
//! an answer of the store or by a heartbeat, and report it then as seen, so that each shows the
//! state of the breaker as it is.

use docstokg_policy::breaker::{BreakerState, OpenReason, Transition};
use docstokg_policy::site::{AdmissionDecision, BreakerCondition, Refusal, RefusalReason};
use parking_lot::Mutex;

use crate::clock::BootInstant;

/// The breaker as this process last saw it; closed at first.
#[derive(Default)]
pub(super) struct LastBreakerState(Mutex<SeenState>);

#[derive(Clone, Copy)]
struct SeenState {
    state: BreakerState,
    /// Until when it is open.
    until: BootInstant,
    /// When the state last changed.
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
    /// Takes note of a transition that is reported anyway.
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

    /// Returns until when the breaker is open, as far as is known.
    pub(super) fn open_until(&self, now: BootInstant) -> Option<BootInstant> {
        let known = *self.0.lock();
        (known.state == BreakerState::Open && known.until > now).then_some(known.until)
    }

    /// Tells whether the breaker was closed all the time since an instant, as far as is known.
    pub(super) fn is_closed_since(&self, instant: BootInstant) -> bool {
        let known = *self.0.lock();
        known.state == BreakerState::Closed && known.changed_at < instant
    }

    /// Returns the transition that an answer shows to have happened elsewhere.
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

    /// Returns the transition that a heartbeat shows to have happened elsewhere.
    pub(super) fn by_heartbeat(
        &self,
        condition: &BreakerCondition,
        now: BootInstant,
    ) -> Option<Transition> {
        match &condition.open {
            Some((until, reason)) => {
                self.become_state(BreakerState::Open, Some((*until, reason)), now)
            }
            // Time alone leads from open to half-open, which needs no word; but an open that ended
            // before its time does.
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
                // Failures in a row open a closed breaker. A half-open one that is open for them
                // again is in the same outage.
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
