//! Flights: one of several equal requests is sent, and the others wait until it ends.
//!
//! A flight does not pass its result to the others. They look for it where the leader has stored
//! it. If the leader gives up because of a refusal, a deadline or a cancellation, the flight has
//! the default end, and the next request becomes the leader.

use std::collections::HashMap;
use std::hash::Hash;
use std::pin::pin;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

type ActiveFlights<K, E> = Arc<Mutex<HashMap<K, FlightWait<E>>>>;

/// The flights of a process, by key. `E` is the end of a flight, and its default value means that
/// the leader gave up.
pub(crate) struct FlightTable<K, E> {
    active: ActiveFlights<K, E>,
}

/// The role that a request has in a flight.
pub(crate) enum FlightRole<K: Eq + Hash, E: Copy + Default> {
    /// The request leads: it does the work for all followers.
    Lead(Flight<K, E>),
    /// The request follows: it waits for the end of the leader's work.
    Follow(FlightWait<E>),
}

impl<K, E> Default for FlightTable<K, E> {
    fn default() -> Self {
        let active = Arc::default();
        Self { active }
    }
}

impl<K: Clone + Eq + Hash, E: Copy + Default> FlightTable<K, E> {
    /// Joins the flight of a key. If the key has no flight, begins one as its leader.
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

    /// Returns a [`FlightWait`] for the end of a key's flight; `None` if the key has no flight.
    pub(crate) fn ending(&self, key: &K) -> Option<FlightWait<E>> {
        self.active.lock().get(key).cloned()
    }
}

/// A flight that a request leads. The flight ends when this value is dropped.
pub(crate) struct Flight<K: Eq + Hash, E: Copy + Default> {
    pub(crate) key: K,
    end: E,
    ending: FlightWait<E>,
    active: ActiveFlights<K, E>,
}

impl<K: Eq + Hash, E: Copy + Default> Flight<K, E> {
    /// Ends the flight, and reports `end` to its followers.
    pub(crate) fn end(mut self, end: E) {
        self.end = end;
    }
}

impl<K: Eq + Hash, E: Copy + Default> Drop for Flight<K, E> {
    fn drop(&mut self) {
        // The flight is removed from the table first, so that a woken waiter begins the next one
        // instead of joining this one again.
        self.active.lock().remove(&self.key);
        *self.ending.0.end.lock() = Some(self.end);
        self.ending.0.ended.notify_waiters();
    }
}

/// The pending end of a flight, for a waiter. Waiters are woken in order of arrival.
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
    /// Waits for the end of the flight.
    pub(crate) async fn wait(self) -> E {
        loop {
            let mut ended = pin!(self.0.ended.notified());
            // The waiter is registered before the end is checked, so that an end in between wakes
            // it.
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

    /// Returns the end of a flight; `None` if it has not ended.
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
