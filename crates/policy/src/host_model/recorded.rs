//! The model of a host for a store that records events, and cannot run the model where its state
//! lies: what it has to know before it records an event.

use std::time::Duration;

use super::learner::ConfirmedLimit;
use super::{HostModel, LimitEvent, LimitInstants, SettledRequest};
use crate::site::AdmissionRequest;
use crate::time::BootInstant;

impl HostModel {
    /// Returns when a request may go that has so many waiting requests of its site before it.
    #[must_use]
    pub fn turn(&self, ask: &AdmissionRequest, waiting: u32, now: BootInstant) -> LimitInstants {
        self.instants(&ask.limit_query(waiting), now)
    }

    /// Returns whether a request waits for the answer to another one, by what was learned. The
    /// instant at which it may go is then when to ask again, and moves with `now`.
    #[must_use]
    pub fn waits_for_answer(&self, ask: &AdmissionRequest, now: BootInstant) -> bool {
        let learned = self.learned.as_ref().zip(ask.policy.learn.as_ref());
        learned.is_some_and(|(learned, policy)| learned.awaits_answer(policy, now))
    }

    /// Returns whether the answer to a request that goes now would teach anything.
    #[must_use]
    pub fn is_taught_by(&self, ask: &AdmissionRequest) -> bool {
        ask.policy.learn.is_some() && (self.learned.is_some() || ask.searches_upwards())
    }

    /// Returns how long nothing is sent after a refusal, by what was learned.
    #[must_use]
    pub fn throttle_wait(&self, ask: &AdmissionRequest, now: BootInstant) -> Option<Duration> {
        ask.policy.learn?;
        self.pause(now)
    }

    /// Returns whether a permit is counted that was not settled yet.
    #[must_use]
    pub fn counts(&self, ask: &AdmissionRequest, id: u64) -> bool {
        let quotas = self.quotas.as_ref().zip(ask.quota_lane.as_deref());
        self.awaits_answer(id) || quotas.is_some_and(|(quotas, lane)| quotas.is_in_flight(lane, id))
    }

    /// Returns whether the headers of the answer to a request would teach something.
    #[must_use]
    pub fn awaits_headers(&self, id: u64) -> bool {
        let learned = self.learned.as_ref();
        learned.is_some_and(|own| own.awaits_headers(id))
    }

    /// Returns whether the answer to a request teaches something, be it a good one.
    #[must_use]
    pub fn awaits_answer(&self, id: u64) -> bool {
        self.learned.as_ref().is_some_and(|own| own.is_tracked(id))
    }

    /// Takes in the result of a request. A first refusal starts to learn from the requests that
    /// were sent before.
    pub fn answered(
        &mut self,
        settled: &SettledRequest,
        history: impl Iterator<Item = BootInstant>,
        now: BootInstant,
    ) -> Option<ConfirmedLimit> {
        self.apply(&LimitEvent::Answered(*settled), history, now)
            .confirmed
    }
}
