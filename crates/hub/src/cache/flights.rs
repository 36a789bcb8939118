//! Flights of cacheable requests within a process: requests for one key share one request.
//!
//! The leader shares its stored response only. If the leader is refused, cancelled or out of time,
//! the next waiter leads. If the response is not reusable or the origin fails, all waiters continue
//! at once, each alone. Keys of responses that are not reusable are remembered, so that later
//! requests do not wait. A flight ends with its hop, so that flights with redirects to each other
//! do not wait for each other.

use std::collections::HashMap;
use std::time::Duration;

use docstokg_stores::cache::CacheKey;
use parking_lot::Mutex;

use super::lease::FlightLease;
use crate::clock::BootInstant;
use crate::flight;

/// The time for which requests of a key do not wait for each other after a response that is not
/// reusable.
pub(super) const UNCACHEABLE_MEMORY: Duration = Duration::from_secs(60);
/// Maximum number of keys that are remembered as not reusable.
const MAX_UNCACHEABLE: usize = 4_096;

/// The end of a flight, as its followers see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum FlightEnd {
    /// The response is stored and fresh.
    Stored,
    /// The response cannot serve other requests.
    Uncacheable,
    /// The origin failed.
    Failed,
    /// The leader gave up for reasons that do not concern its followers.
    #[default]
    Abandoned,
}

/// The flights of a process, and the keys that have no flights for a while.
#[derive(Default)]
pub(crate) struct CacheFlights {
    active: flight::FlightTable<CacheKey, FlightEnd>,
    uncacheable: Mutex<HashMap<CacheKey, BootInstant>>,
}

/// The role of a request in a flight.
pub(super) enum CacheFlightRole {
    /// The request leads: it is sent to the origin.
    Lead(LedFlight),
    /// The request follows: it waits for the end of the flight.
    Follow(flight::FlightWait<FlightEnd>),
    /// There is no flight, because responses for the key are not reusable.
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

    /// Returns whether responses for a [`CacheKey`] are known not to be reusable.
    fn is_uncacheable(&self, key: &CacheKey, now: BootInstant) -> bool {
        let known = self.uncacheable.lock();
        known.get(key).is_some_and(|until| now < *until)
    }
}

/// A flight that a request leads. The flight ends when this value is dropped.
pub(super) struct LedFlight {
    /// The same flight among processes. The lease ends first, so that the next leader in this
    /// process can claim it again.
    pub(super) lease: Option<FlightLease>,
    flight: flight::Flight<CacheKey, FlightEnd>,
}

impl LedFlight {
    pub(super) fn key(&self) -> CacheKey {
        self.flight.key
    }

    /// Ends the flight with a [`FlightEnd`] for its followers.
    pub(super) fn end(self, end: FlightEnd) {
        let Self { lease, flight } = self;
        drop(lease);
        flight.end(end);
    }
}
