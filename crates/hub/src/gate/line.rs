//! The line of those who wait for one lane, in this process: first come, first served.
//!
//! Only the head asks the store for a ticket; those behind it hold nothing at all, so leaving the line costs nothing
//! and a killed process leaves one ticket behind and not a backlog.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// A line of waiters.
#[derive(Default)]
pub(super) struct Line {
    seats: Mutex<VecDeque<Arc<Seat>>>,
    weight: AtomicU32,
}

/// The place of one waiter.
pub(super) struct Seat {
    weight: u32,
    /// What it waits for is in the store's books already: those behind need not count it again.
    pub(super) holds_ticket: AtomicBool,
    /// It knows what it waits for. A head that does not has only just asked, and may be gone in a moment.
    pub(super) settled_in: AtomicBool,
    /// It waits for the breaker, and knows that.
    pub(super) awaits_breaker: AtomicBool,
    pub(super) called: Notify,
}

impl Line {
    /// Returns the weights in line. Zero is a promise only to whoever asks next.
    pub(super) fn weight(&self) -> u32 {
        self.weight.load(Ordering::Acquire)
    }

    /// Takes the last place.
    pub(super) fn join(&self, weight: u32) -> Arc<Seat> {
        let seat = Arc::new(Seat {
            weight: weight.max(1),
            holds_ticket: AtomicBool::new(false),
            settled_in: AtomicBool::new(false),
            awaits_breaker: AtomicBool::new(false),
            called: Notify::new(),
        });
        let mut seats = self.seats.lock();
        self.weight.fetch_add(seat.weight, Ordering::AcqRel);
        seats.push_back(Arc::clone(&seat));
        seat
    }

    /// Returns the weights before a seat that hold no ticket; `None` for the head.
    pub(super) fn ahead_of(&self, seat: &Arc<Seat>) -> Option<u32> {
        let seats = self.seats.lock();
        if seats.front().is_none_or(|head| Arc::ptr_eq(head, seat)) {
            return None;
        }
        let before = seats.iter().take_while(|other| !Arc::ptr_eq(other, seat));
        Some(before.filter(|other| !other.holds_ticket.load(Ordering::Acquire)).map(|other| other.weight).sum())
    }

    /// Tells whether a seat is behind a head that has only just asked.
    pub(super) fn is_behind_an_asker(&self, seat: &Arc<Seat>) -> bool {
        self.seats.lock().front().is_some_and(|head| !Arc::ptr_eq(head, seat) && !head.settled_in.load(Ordering::Acquire))
    }

    /// Gives up a seat, and calls whoever is the head now.
    pub(super) fn leave(&self, seat: &Arc<Seat>) {
        let mut seats = self.seats.lock();
        if let Some(place) = seats.iter().position(|other| Arc::ptr_eq(other, seat)) {
            seats.remove(place);
            self.weight.fetch_sub(seat.weight, Ordering::AcqRel);
        }
        if let Some(head) = seats.front() {
            head.called.notify_one();
        }
    }

    /// Calls everybody but one.
    pub(super) fn wake_others(&self, seat: &Arc<Seat>) {
        for other in self.seats.lock().iter().filter(|other| !Arc::ptr_eq(other, seat)) {
            other.called.notify_one();
        }
    }

    /// Calls everybody who does not know yet that the breaker is to be waited for.
    pub(super) fn wake_unaware(&self) {
        for seat in self.seats.lock().iter().filter(|seat| !seat.awaits_breaker.load(Ordering::Acquire)) {
            seat.called.notify_one();
        }
    }

    /// Calls everybody.
    pub(super) fn wake_all(&self) {
        for seat in &*self.seats.lock() {
            seat.called.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use super::*;

    /// Those who wait for the breaker already must not call each other for ever.
    #[test]
    fn only_those_are_called_who_do_not_know_of_the_breaker() {
        let line = Line::default();
        let seats: Vec<Arc<Seat>> = (0..3).map(|_| line.join(1)).collect();
        seats[0].awaits_breaker.store(true, Ordering::Release);
        seats[2].awaits_breaker.store(true, Ordering::Release);
        line.wake_unaware();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let called = runtime.block_on(async {
            let mut called = Vec::new();
            for seat in &seats {
                called.push(tokio::select! {
                    biased;
                    () = seat.called.notified() => true,
                    () = std::future::ready(()) => false,
                });
            }
            called
        });
        assert_eq!(called, [false, true, false]);
    }
}
