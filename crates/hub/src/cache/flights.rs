//! Flights of cacheable requests within a process: requests with the same key share the response of
//! one of them, the leader.
//!
//! The others receive the leader's response only after it is stored. If the leader is refused,
//! cancelled or out of time, the next waiter leads. If the response is not reusable or the origin
//! fails, all waiters are sent at once, each alone. The keys of responses that are not reusable are
//! remembered, so that later requests do not wait. A redirect ends the flight, so that flights with
//! redirects to each other do not wait for each other.

use std::collections::HashMap;
use std::time::Duration;

use docstokg_stores::cache::CacheKey;
use parking_lot::Mutex;

use super::lease::FlightLease;
use crate::clock::BootInstant;
use crate::flight;

/// The time for which requests with a key do not wait for each other, after a response was not
/// reusable.
pub(super) const UNCACHEABLE_MEMORY: Duration = Duration::from_secs(60);
/// Maximum number of keys that are remembered as not reusable.
const MAX_UNCACHEABLE: usize = 4_096;

/// The end of a flight, as its followers see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum FlightEnd {
    /// The response is stored and fresh.
    Stored,
    /// The response cannot be reused for other requests.
    Uncacheable,
    /// The origin failed.
    Failed,
    /// The leader gave up for a reason that does not concern its followers.
    #[default]
    Abandoned,
}

/// The flights of a process, and the keys that are remembered as not reusable.
#[derive(Default)]
pub(crate) struct CacheFlights {
    active: flight::FlightTable<CacheKey, FlightEnd>,
    uncacheable: Mutex<HashMap<CacheKey, BootInstant>>,
}

/// The role that a request has in a flight.
pub(super) enum CacheFlightRole {
    /// The request leads: it is sent to the origin.
    Lead(LedFlight),
    /// The request follows: it waits for the end of the flight.
    Follow(flight::FlightWait<FlightEnd>),
    /// The request is sent alone: there is no flight, because responses for the key are not
    /// reusable.
    Alone,
}

impl CacheFlights {
    /// Joins the flight of a [`CacheKey`], or begins one.
    pub(super) fn join(&self, key: CacheKey, now: BootInstant) -> CacheFlightRole {
        if self.is_uncacheable(&key, now) {
            return CacheFlightRole::Alone;
        }
        match self.active.join(&key) {
            flight::FlightRole::Follow(ending) => CacheFlightRole::Follow(ending),
            flight::FlightRole::Lead(flight) => CacheFlightRole::Lead(LedFlight {
                lease: None,
                flight,
            }),
        }
    }

    /// Remembers for [`UNCACHEABLE_MEMORY`] that responses for a key are not reusable.
    pub(super) fn remember_uncacheable(&self, key: CacheKey, now: BootInstant) {
        let mut known = self.uncacheable.lock();
        if known.len() >= MAX_UNCACHEABLE {
            known.retain(|_, until| now < *until);
        }
        if known.len() < MAX_UNCACHEABLE {
            known.insert(key, now + UNCACHEABLE_MEMORY);
        }
    }

    /// Returns whether responses for a [`CacheKey`] are remembered as not reusable.
    fn is_uncacheable(&self, key: &CacheKey, now: BootInstant) -> bool {
        let known = self.uncacheable.lock();
        known.get(key).is_some_and(|until| now < *until)
    }
}

/// A flight that a request leads. The flight ends when this value is dropped.
pub(super) struct LedFlight {
    /// The lease of the same flight among processes. It is released before the flight in this
    /// process ends, so that the next leader in this process can claim it again.
    pub(super) lease: Option<FlightLease>,
    flight: flight::Flight<CacheKey, FlightEnd>,
}

impl LedFlight {
    pub(super) fn key(&self) -> CacheKey {
        self.flight.key
    }

    /// Ends the flight, and reports the [`FlightEnd`] to its followers.
    pub(super) fn end(self, end: FlightEnd) {
        let Self { lease, flight } = self;
        drop(lease);
        flight.end(end);
    }
}
