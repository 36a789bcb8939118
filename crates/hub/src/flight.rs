//! Flights: of the requests that need the same thing at once, one gets it and the others wait.
//!
//! A flight shares how it ended and nothing else: what it brought lies where every request looks
//! for it. Its leader's refusal, deadline or cancellation is the leader's own: a flight that is
//! dropped without an end has the default one, and the next request that joins leads.

use std::collections::HashMap;
use std::hash::Hash;
use std::pin::pin;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

type ActiveFlights<K, E> = Arc<Mutex<HashMap<K, FlightWait<E>>>>;

/// The flights of one kind in a process, by what they get. `E` says how one ended; its default is
/// that the leader gave up.
pub(crate) struct FlightTable<K, E> {
    active: ActiveFlights<K, E>,
}

/// The part of a request in a flight.
pub(crate) enum FlightRole<K: Eq + Hash, E: Copy + Default> {
    /// It gets what all need.
    Lead(Flight<K, E>),
    /// It waits for the end.
    Follow(FlightWait<E>),
}

impl<K, E> Default for FlightTable<K, E> {
    fn default() -> Self {
        let active = Arc::default();
        Self { active }
    }
}

impl<K: Clone + Eq + Hash, E: Copy + Default> FlightTable<K, E> {
    /// Joins the flight of a key, or begins it.
    pub(crate) fn join(&self, key: &K) -> FlightRole<K, E> {
        let mut active = self.active.lock();
        if let Some(ending) = active.get(key) {
            return FlightRole::Follow(ending.clone());
        }
        let ending = FlightWait(Arc::default());
        active.insert(key.clone(), ending.clone());
        FlightRole::Lead(Flight {
            key: key.clone(),
            end: E::default(),
            ending,
            active: Arc::clone(&self.active),
        })
    }

    /// Returns the end of the flight of a key, where there is one.
    pub(crate) fn ending(&self, key: &K) -> Option<FlightWait<E>> {
        self.active.lock().get(key).cloned()
    }
}

/// A flight that a request leads. It ends when this is dropped.
pub(crate) struct Flight<K: Eq + Hash, E: Copy + Default> {
    pub(crate) key: K,
    end: E,
    ending: FlightWait<E>,
    active: ActiveFlights<K, E>,
}

impl<K: Eq + Hash, E: Copy + Default> Flight<K, E> {
    /// Ends the flight.
    pub(crate) fn end(mut self, end: E) {
        self.end = end;
    }
}

impl<K: Eq + Hash, E: Copy + Default> Drop for Flight<K, E> {
    fn drop(&mut self) {
        // First out of the table: a waiter that is woken begins the next one.
        self.active.lock().remove(&self.key);
        *self.ending.0.end.lock() = Some(self.end);
        self.ending.0.ended.notify_waiters();
    }
}

/// The end of a flight, to wait for. Those that wait go on in the order in which they came.
pub(crate) struct FlightWait<E>(Arc<FlightOutcome<E>>);

struct FlightOutcome<E> {
    end: Mutex<Option<E>>,
    ended: Notify,
}

impl<E> Default for FlightOutcome<E> {
    fn default() -> Self {
        Self {
            end: Mutex::new(None),
            ended: Notify::new(),
        }
    }
}

impl<E> Clone for FlightWait<E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<E: Copy> FlightWait<E> {
    /// Waits for the end.
    pub(crate) async fn wait(self) -> E {
        loop {
            let mut ended = pin!(self.0.ended.notified());
            // It waits from here on: an end that comes before the next line wakes it.
            ended.as_mut().enable();
            if let Some(end) = *self.0.end.lock() {
                return end;
            }
            ended.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Returns the end of a flight if it has ended.
    fn ended(ending: FlightWait<End>) -> Option<End> {
        match pin!(ending.wait()).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(end) => Some(end),
            Poll::Pending => None,
        }
    }

    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    enum End {
        Done,
        #[default]
        GivenUp,
    }

    fn lead(
        flights: &FlightTable<&'static str, End>,
        key: &'static str,
    ) -> Flight<&'static str, End> {
        match flights.join(&key) {
            FlightRole::Lead(flight) => flight,
            FlightRole::Follow(_) => panic!("{key} has a leader"),
        }
    }

    fn follow(flights: &FlightTable<&'static str, End>, key: &'static str) -> FlightWait<End> {
        match flights.join(&key) {
            FlightRole::Follow(ending) => ending,
            FlightRole::Lead(_) => panic!("{key} has no leader"),
        }
    }

    #[test]
    fn the_end_reaches_every_waiter_and_no_other_flight() {
        let flights = FlightTable::default();
        let flight = lead(&flights, "a");
        let other = lead(&flights, "b");
        let waiters = [follow(&flights, "a"), follow(&flights, "a")];
        let elsewhere = follow(&flights, "b");
        assert_eq!(ended(waiters[0].clone()), None);
        flight.end(End::Done);
        for waiter in waiters {
            assert_eq!(ended(waiter), Some(End::Done));
        }
        assert_eq!(ended(elsewhere), None);
        drop(other);
    }

    #[test]
    fn after_a_leader_that_is_dropped_the_next_one_leads() {
        let flights = FlightTable::default();
        let flight = lead(&flights, "a");
        let waiter = follow(&flights, "a");
        assert!(flights.ending(&"a").is_some());
        drop(flight);
        assert_eq!(ended(waiter), Some(End::GivenUp));
        assert!(flights.ending(&"a").is_none());
        let next = lead(&flights, "a");
        let waiter = follow(&flights, "a");
        next.end(End::Done);
        assert_eq!(ended(waiter), Some(End::Done));
    }
}
