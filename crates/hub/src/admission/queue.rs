//! The waiting requests of one admission queue in this process, in order of arrival.
//!
//! Only the head makes a reservation in the store. A waiter behind it can therefore leave the queue
//! without a store operation, and a killed process leaves one reservation behind instead of many.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Maximum number of admission requests to a remote store at once, while the head waits for its
/// reply. With only one at a time, the queue could admit only one request per round trip.
const MAX_OVERLAPPING: u32 = 32;

/// A queue of waiters.
///
/// While the head waits for the reply of a remote store, a few waiters behind it send their
/// admission requests as well. They form a round. The next round has one waiter more than this
/// round admitted, or twice as many if this round admitted all. So the rate of a queue does not
/// depend on the distance to the store.
#[derive(Default)]
pub(super) struct WaitQueue {
    waiters: Mutex<VecDeque<Arc<Waiter>>>,
    weight: AtomicU32,
    overlapping: AtomicU32,
    round: AtomicU32,
    /// The number of waiters that the last round woke. `asked` counts those of them that sent an
    /// admission request, and `went` those that were admitted or did not send their request.
    called: AtomicU32,
    asked: AtomicU32,
    went: AtomicU32,
}

/// A request that waits in a [`WaitQueue`].
pub(super) struct Waiter {
    weight: u32,
    /// `true` if this waiter has a reservation. The store counts it, so the waiters behind it must
    /// not.
    pub(super) holds_reservation: AtomicBool,
    /// The last round in which this waiter sent an admission request beside the head.
    overlapped_in: AtomicU32,
    /// `true` for a head that waits for the store's reply to its admission request.
    asking: AtomicBool,
    /// `true` if this waiter has had a first reply and knows why it waits. A head without a first
    /// reply may still be admitted at once.
    pub(super) settled_in: AtomicBool,
    /// `true` if this waiter knows that it waits for the end of a block.
    pub(super) awaits_breaker: AtomicBool,
    pub(super) called: Notify,
}

impl WaitQueue {
    /// Returns the sum of the weights of all waiters; zero if the queue is empty.
    pub(super) fn weight(&self) -> u32 {
        self.weight.load(Ordering::Acquire)
    }

    /// Adds a [`Waiter`] at the end of the queue.
    pub(super) fn join(&self, weight: u32) -> Arc<Waiter> {
        let waiter = Arc::new(Waiter {
            weight: weight.max(1),
            holds_reservation: AtomicBool::new(false),
            overlapped_in: AtomicU32::new(u32::MAX),
            asking: AtomicBool::new(false),
            settled_in: AtomicBool::new(false),
            awaits_breaker: AtomicBool::new(false),
            called: Notify::new(),
        });
        let mut waiters = self.waiters.lock();
        self.weight.fetch_add(waiter.weight, Ordering::AcqRel);
        waiters.push_back(Arc::clone(&waiter));
        waiter
    }

    /// Returns the sum of the weights of the waiters before this one that have no reservation;
    /// `None` for the head.
    pub(super) fn ahead_of(&self, waiter: &Arc<Waiter>) -> Option<u32> {
        let waiters = self.waiters.lock();
        if waiters.front().is_none_or(|head| Arc::ptr_eq(head, waiter)) {
            return None;
        }
        let before = waiters
            .iter()
            .take_while(|other| !Arc::ptr_eq(other, waiter));
        Some(
            before
                .filter(|other| !other.holds_reservation.load(Ordering::Acquire))
                .map(|other| other.weight)
                .sum(),
        )
    }

    /// Returns whether a [`Waiter`] is behind a head that still waits for a reply of the store.
    pub(super) fn is_behind_an_asker(&self, waiter: &Arc<Waiter>) -> bool {
        let is_asking = |head: &Arc<Waiter>| {
            !head.settled_in.load(Ordering::Acquire) || head.asking.load(Ordering::Acquire)
        };
        self.waiters
            .lock()
            .front()
            .is_some_and(|head| !Arc::ptr_eq(head, waiter) && is_asking(head))
    }

    /// Permits a waiter to send its admission request beside the head. Returns `None` if the waiter
    /// has done so in this round already, or if [`MAX_OVERLAPPING`] waiters are doing so now.
    pub(super) fn overlap(&self, waiter: &Arc<Waiter>) -> Option<OverlapPermit<'_>> {
        let round = self.round.load(Ordering::Acquire);
        if waiter.overlapped_in.load(Ordering::Acquire) == round {
            return None;
        }
        let more = |count: u32| (count < MAX_OVERLAPPING).then_some(count + 1);
        self.overlapping
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, more)
            .ok()?;
        waiter.overlapped_in.store(round, Ordering::Release);
        self.asked.fetch_add(1, Ordering::AcqRel);
        Some(OverlapPermit {
            queue: self,
            round,
            calls_next: true,
        })
    }

    /// Begins a round: marks the head as waiting for the store, and wakes the waiters that may send
    /// admission requests beside it. Dropping the [`HeadQuestion`] ends the head's wait.
    pub(super) fn begin_round(&self, head: &Arc<Waiter>) -> HeadQuestion {
        let (asked, went) = (
            self.asked.swap(0, Ordering::AcqRel),
            self.went.swap(0, Ordering::AcqRel),
        );
        let called = self.called.load(Ordering::Acquire);
        let called = match asked {
            0 => called,
            _ if went == asked => called.saturating_mul(2),
            _ => went + 1,
        };
        let called = called.clamp(1, MAX_OVERLAPPING);
        self.called.store(called, Ordering::Release);
        self.round.fetch_add(1, Ordering::AcqRel);
        head.asking.store(true, Ordering::Release);
        for waiter in self.waiters.lock().iter().skip(1).take(called as usize) {
            waiter.called.notify_one();
        }
        HeadQuestion(Arc::clone(head))
    }

    /// Removes a [`Waiter`], and wakes the new head if the removed waiter was the head.
    pub(super) fn leave(&self, waiter: &Arc<Waiter>) {
        let mut waiters = self.waiters.lock();
        let Some(position) = waiters.iter().position(|other| Arc::ptr_eq(other, waiter)) else {
            return;
        };
        waiters.remove(position);
        self.weight.fetch_sub(waiter.weight, Ordering::AcqRel);
        if position == 0
            && let Some(head) = waiters.front()
        {
            head.called.notify_one();
        }
    }

    /// Wakes the waiter at the head of the queue, if there is one.
    pub(super) fn wake_head(&self) {
        if let Some(head) = self.waiters.lock().front() {
            head.called.notify_one();
        }
    }

    /// Wakes all waiters except `waiter`.
    pub(super) fn wake_others(&self, waiter: &Arc<Waiter>) {
        for other in self
            .waiters
            .lock()
            .iter()
            .filter(|other| !Arc::ptr_eq(other, waiter))
        {
            other.called.notify_one();
        }
    }

    /// Wakes the waiters that do not know yet that the breaker blocks them.
    pub(super) fn wake_unaware(&self) {
        for waiter in self
            .waiters
            .lock()
            .iter()
            .filter(|waiter| !waiter.awaits_breaker.load(Ordering::Acquire))
        {
            waiter.called.notify_one();
        }
    }

    /// Wakes all waiters.
    pub(super) fn wake_all(&self) {
        for waiter in &*self.waiters.lock() {
            waiter.called.notify_one();
        }
    }
}

/// A guard that marks a head as waiting for a reply of the store, until dropped.
pub(super) struct HeadQuestion(Arc<Waiter>);

impl Drop for HeadQuestion {
    fn drop(&mut self) {
        self.0.asking.store(false, Ordering::Release);
    }
}

/// The permission to send an admission request beside the head, until dropped.
pub(super) struct OverlapPermit<'a> {
    queue: &'a WaitQueue,
    round: u32,
    /// `true` if dropping the permit wakes the next waiter of the round: unless this waiter sent a
    /// request and was not admitted.
    pub(super) calls_next: bool,
}

impl Drop for OverlapPermit<'_> {
    fn drop(&mut self) {
        self.queue.overlapping.fetch_sub(1, Ordering::AcqRel);
        if !self.calls_next {
            return;
        }
        self.queue.went.fetch_add(1, Ordering::AcqRel);
        let waiters = self.queue.waiters.lock();
        let next = waiters
            .iter()
            .skip(1)
            .find(|waiter| waiter.overlapped_in.load(Ordering::Acquire) != self.round);
        if let Some(next) = next {
            next.called.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use super::*;

    /// Waiters that know that the breaker blocks them must not wake each other endlessly.
    #[test]
    fn only_waiters_that_do_not_know_of_the_breaker_are_woken() {
        let queue = WaitQueue::default();
        let waiters: Vec<Arc<Waiter>> = (0..3).map(|_| queue.join(1)).collect();
        waiters[0].awaits_breaker.store(true, Ordering::Release);
        waiters[2].awaits_breaker.store(true, Ordering::Release);
        queue.wake_unaware();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let called = runtime.block_on(async {
            let mut called = Vec::new();
            for waiter in &waiters {
                called.push(tokio::select! {
                    biased;
                    () = waiter.called.notified() => true,
                    () = std::future::ready(()) => false,
                });
            }
            called
        });
        assert_eq!(called, [false, true, false]);
    }
}
