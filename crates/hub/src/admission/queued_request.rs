//! A request that waits: its entry in the queue of its lane, and its reservation in the store.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use docstokg_policy::site::{
    AdmissionDecision, AdmissionRequest, AdmissionResult, QueuePosition, Refusal, RefusalReason,
};
use docstokg_stores::StoreError;

use super::queue::Waiter;
use super::{AdmissionContext, AdmissionQueue, AdmissionTerms, AttemptDenial};
use crate::clock::before;
use crate::journey::RequestTrack;

/// From when on a store that does not answer is to blame, and not a deadline that was close.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);

/// A waiting request: leaves the queue, and gives up its reservation, whenever it is dropped.
pub(super) struct QueuedRequest<'a> {
    pub(super) lane: &'a AdmissionQueue,
    terms: &'a AdmissionTerms,
    /// Its question, as it was last asked.
    pub(super) ask: AdmissionRequest,
    pub(super) waiter: Arc<Waiter>,
    pub(super) reservation: Option<u64>,
}

impl Drop for QueuedRequest<'_> {
    fn drop(&mut self) {
        self.give_up_reservation();
        self.lane.queue.leave(&self.waiter);
    }
}

impl<'a> QueuedRequest<'a> {
    /// Joins the queue of a lane.
    pub(super) fn join(lane: &'a AdmissionQueue, terms: &'a AdmissionTerms) -> Self {
        Self {
            lane,
            terms,
            ask: lane.ask(terms, QueuePosition::Head),
            waiter: lane.queue.join(terms.weight),
            reservation: None,
        }
    }

    /// Takes note of the reservation it holds, or holds no more; waiters behind it in the queue
    /// judge by that.
    pub(super) fn hold(&mut self, reservation: Option<u64>) -> Option<u64> {
        self.waiter
            .holds_reservation
            .store(reservation.is_some(), Ordering::Release);
        std::mem::replace(&mut self.reservation, reservation)
    }

    /// Takes note that it has had an answer. Waiters behind a head that has its first one may judge
    /// for themselves now.
    pub(super) fn settle_in(&self, queue_position: QueuePosition) {
        if !self.waiter.settled_in.swap(true, Ordering::AcqRel)
            && queue_position == QueuePosition::Head
        {
            self.lane.queue.wake_others(&self.waiter);
        }
    }

    /// Gives up the reservation: other queues of the site may go earlier than their reservations
    /// say.
    pub(super) fn give_up_reservation(&mut self) {
        if let Some(id) = self.hold(None) {
            let site = &self.lane.site;
            site.wake_if(site.handle.leave(&self.ask, id, None));
            self.lane.site.wake_heads_beside(self.lane);
        }
    }
}

impl QueuedRequest<'_> {
    /// Waits for an answer of the store, up to the deadline: a store that hangs is no reason to
    /// hang with it.
    pub(super) async fn wait_for_answer(
        &mut self,
        answer: impl Future<Output = Result<AdmissionResult, StoreError>>,
        context: &AdmissionContext<'_>,
        track: &RequestTrack,
    ) -> Result<AdmissionDecision, AttemptDenial> {
        let asked = context.runtime.boot();
        let Some(entered) = before(&**context.runtime, self.terms.deadline, answer).await else {
            let now = context.runtime.boot();
            let (store, why) = (
                "the store of limits".to_owned(),
                "it gave no answer before the deadline".to_owned(),
            );
            return Err(if now.since(asked) >= STORE_TIMEOUT {
                StoreError::Unavailable { store, why }.into()
            } else {
                Refusal {
                    until: now,
                    reason: RefusalReason::Rate { window: None },
                }
                .into()
            });
        };
        let entered = entered?;
        self.lane
            .site
            .round_trip
            .note(context.runtime.boot().since(asked));
        self.hold(None);
        self.lane.note_condition(track, &entered);
        self.waiter.awaits_breaker.store(
            matches!(entered.entry, AdmissionDecision::WaitForBreaker { .. }),
            Ordering::Release,
        );
        Ok(entered.entry)
    }
}
