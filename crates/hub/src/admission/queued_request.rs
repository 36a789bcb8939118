//! A waiting request: its entry in the admission queue, and its reservation in the store.
//!
//! Dropping a [`QueuedRequest`] gives both up, so that a cancelled request leaves nothing behind.

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

/// Minimum wait for a reply after which the store counts as unavailable. If the deadline of the
/// request ended the wait earlier, the store is not to blame.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);

/// A waiting request. Dropping it removes it from the queue and gives up its reservation.
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

    /// Replaces the recorded reservation of this request, and returns the previous one; `None` for
    /// no reservation. Waiters behind it need this to know whom the store counts.
    pub(super) fn hold(&mut self, reservation: Option<u64>) -> Option<u64> {
        self.waiter
            .holds_reservation
            .store(reservation.is_some(), Ordering::Release);
        std::mem::replace(&mut self.reservation, reservation)
    }

    /// Records that the store has replied for the first time. If this is the head, wakes the
    /// waiters behind it to send their own admission requests.
    pub(super) fn settle_in(&self, queue_position: QueuePosition) {
        if !self.waiter.settled_in.swap(true, Ordering::AcqRel)
            && queue_position == QueuePosition::Head
        {
            self.lane.queue.wake_others(&self.waiter);
        }
    }

    /// Gives up the reservation. Requests in other queues of the site may then be admitted earlier
    /// than before, so the heads of these queues are woken.
    pub(super) fn give_up_reservation(&mut self) {
        if let Some(id) = self.hold(None) {
            let site = &self.lane.site;
            site.wake_if(site.handle.leave(&self.ask, id, None));
            self.lane.site.wake_heads_beside(self.lane);
        }
    }
}

impl QueuedRequest<'_> {
    /// Waits for a reply of the store, at most until the deadline of the request.
    ///
    /// # Errors
    /// Without a reply until then, returns a store error if the wait took at least
    /// [`STORE_TIMEOUT`], otherwise a refusal. Also returns the error of a reply.
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
