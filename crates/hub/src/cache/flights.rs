//! Flights of requests for the same answer, within a process.
//!
//! A leader shares what it stored and nothing else. Its refusal, deadline or cancellation is its
//! own: the next waiter leads. An answer that cannot be reused, or an origin that fails, releases
//! all waiters at once; the first of these is remembered, so that the next requests do not wait.
//! A flight ends with its hop, so that flights that redirect into each other do not wait for each
//! other.

use std::collections::HashMap;
use std::time::Duration;

use docstokg_stores::cache::CacheKey;
use parking_lot::Mutex;

use super::lease::FlightLease;
use crate::clock::BootInstant;
use crate::flight;

/// How long requests do not wait for each other after an answer that cannot be reused.
pub(super) const UNCACHEABLE_MEMORY: Duration = Duration::from_secs(60);
/// How many such keys are remembered.
const MAX_UNCACHEABLE: usize = 4_096;

/// How a flight ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum FlightEnd {
    /// What it brought is stored and fresh.
    Stored,
    /// What it brought answers no other request.
    Uncacheable,
    /// The origin failed.
    Failed,
    /// The leader gave up for reasons of its own.
    #[default]
    Abandoned,
}

/// The flights of a process.
#[derive(Default)]
pub(crate) struct CacheFlights {
    active: flight::FlightTable<CacheKey, FlightEnd>,
    uncacheable: Mutex<HashMap<CacheKey, BootInstant>>,
}

/// The part of a request in a flight.
pub(super) enum CacheFlightRole {
    /// It asks the origin.
    Lead(LedFlight),
    /// It waits for the end.
    Follow(flight::FlightWait<FlightEnd>),
    /// There is no flight, because answers are not reusable.
    Alone,
}

impl CacheFlights {
    /// Joins the flight of a key, or begins it.
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

    /// Remembers that answers for a key cannot be reused.
    pub(super) fn remember_uncacheable(&self, key: CacheKey, now: BootInstant) {
        let mut known = self.uncacheable.lock();
        if known.len() >= MAX_UNCACHEABLE {
            known.retain(|_, until| now < *until);
        }
        if known.len() < MAX_UNCACHEABLE {
            known.insert(key, now + UNCACHEABLE_MEMORY);
        }
    }

    /// Returns whether answers for a key are known not to be reusable.
    fn is_uncacheable(&self, key: &CacheKey, now: BootInstant) -> bool {
        let known = self.uncacheable.lock();
        known.get(key).is_some_and(|until| now < *until)
    }
}

/// A flight that a request leads. It ends when this is dropped.
pub(super) struct LedFlight {
    /// The same flight among processes. It ends first: a waiter of this process that leads next
    /// claims the lease anew.
    pub(super) lease: Option<FlightLease>,
    flight: flight::Flight<CacheKey, FlightEnd>,
}

impl LedFlight {
    pub(super) fn key(&self) -> CacheKey {
        self.flight.key
    }

    /// Ends the flight.
    pub(super) fn end(self, end: FlightEnd) {
        let Self { lease, flight } = self;
        drop(lease);
        flight.end(end);
    }
}
