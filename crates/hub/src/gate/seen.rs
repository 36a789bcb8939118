//! What this process knows of a breaker that others change as well.
//!
//! A transition is reported by the process that brought it about. The other processes notice it by an answer of the store
//! or by a heartbeat, and report it then as seen, so that each shows the state of the breaker as it is.

use docstokg_policy::breaker::{OpenReason, State, Transition};
use docstokg_policy::site::{Condition, Entry, Refusal, RefusalReason};
use parking_lot::Mutex;

use crate::clock::BootInstant;

/// The state that was last reported; closed at first.
#[derive(Default)]
pub(super) struct Seen(Mutex<Option<State>>);

impl Seen {
    /// Takes note of a transition that is reported anyway.
    pub(super) fn note(&self, transition: &Transition) {
        *self.0.lock() = Some(transition.to);
    }

    /// Returns the transition that an answer shows to have happened elsewhere.
    pub(super) fn by_answer(&self, entry: &Entry, now: BootInstant) -> Option<Transition> {
        match entry {
            Entry::Refused(Refusal { until, reason: RefusalReason::Open { reason, probing } }) | Entry::WaitForBreaker { until, reason, probing } => {
                let state = if *probing { State::HalfOpen } else { State::Open };
                self.become_state(state, Some((*until, reason)), now)
            }
            Entry::Go(pass) if !pass.probe && pass.shadowed.is_none() => self.become_state(State::Closed, None, now),
            _ => None,
        }
    }

    /// Returns the transition that a heartbeat shows to have happened elsewhere.
    pub(super) fn by_heartbeat(&self, condition: &Condition, now: BootInstant) -> Option<Transition> {
        match &condition.open {
            Some((until, reason)) => self.become_state(State::Open, Some((*until, reason)), now),
            // Closed and half-open look alike: whichever it is, it is not open any more.
            None if *self.0.lock() == Some(State::Open) => self.become_state(State::Closed, None, now),
            None => None,
        }
    }

    fn become_state(&self, to: State, open: Option<(BootInstant, &OpenReason)>, now: BootInstant) -> Option<Transition> {
        let mut seen = self.0.lock();
        let from = seen.unwrap_or(State::Closed);
        if from == to {
            return None;
        }
        *seen = Some(to);
        let reset = open.map(|(until, _)| until.since(now)).filter(|_| to == State::Open);
        let reason = open.map(|(_, reason)| reason.clone()).filter(|_| to == State::Open);
        Some(Transition { from, to, fail_count: 0, reset, reason })
    }
}
