//! A waiting request: its entry in the admission queue, and its reservation in the store.
//!
//! Dropping a [`QueuedRequest`] gives up both, so that a cancelled request leaves nothing behind.

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

/// Minimum wait for a reply after which the store counts as unavailable. A shorter wait was cut by
/// the deadline of the request.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);

/// A waiting request. Dropping it leaves the queue and gives up its reservation.
pub(super) struct QueuedRequest<'a> {
    pub(super) lane: &'a AdmissionQueue,
    terms: &'a AdmissionTerms,
    /// The [`AdmissionRequest`], as it was last sent to the store.
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
    /// Joins the [`AdmissionQueue`] at its end.
    pub(super) fn join(lane: &'a AdmissionQueue, terms: &'a AdmissionTerms) -> Self {
        Self {
            lane,
            terms,
            ask: lane.ask(terms, QueuePosition::Head),
            waiter: lane.queue.join(terms.weight),
            reservation: None,
        }
    }

    /// Records the reservation of this request, or its end, and returns the previous one. Waiters
    /// behind it in the queue read this.
    pub(super) fn hold(&mut self, reservation: Option<u64>) -> Option<u64> {
        self.waiter
            .holds_reservation
            .store(reservation.is_some(), Ordering::Release);
        std::mem::replace(&mut self.reservation, reservation)
    }

    /// Records the first reply of the store. If this is the head, the waiters behind it are woken
    /// to send their own admission requests.
    pub(super) fn settle_in(&self, queue_position: QueuePosition) {
        if !self.waiter.settled_in.swap(true, Ordering::AcqRel)
            && queue_position == QueuePosition::Head
        {
            self.lane.queue.wake_others(&self.waiter);
        }
    }

    /// Gives up the reservation. Other queues of the site may then be admitted earlier than their
    /// reservations say.
    pub(super) fn give_up_reservation(&mut self) {
        if let Some(id) = self.hold(None) {
            let site = &self.lane.site;
            site.wake_if(site.handle.leave(&self.ask, id, None));
            self.lane.site.wake_heads_beside(self.lane);
        }
    }
}

impl QueuedRequest<'_> {
    /// Waits for a reply of the store until the deadline of the request.
    ///
    /// # Errors
    /// Returns a store error if the wait exceeds [`STORE_TIMEOUT`], and a refusal if the deadline
    /// was nearer.
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
