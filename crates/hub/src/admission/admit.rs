//! The entrance to a site: a request is tried at once, and waits only if the site does not admit
//! it.
//!
//! Almost every request is admitted at once, without an entry in the queue. The code for waiting is
//! in `states`; its future is boxed, so that a request that does not wait needs no memory for it.

use std::sync::Arc;
use std::time::Duration;

use docstokg_policy::breaker::Transition;
use docstokg_policy::rate::Window;
use docstokg_policy::site::{
    AdmissionDecision, AdmissionRequest, AdmissionResult, Permit, QueuePosition,
};
use docstokg_stores::StoreReply;
use tokio::sync::Semaphore;

use super::queued_request::QueuedRequest;
use super::states::AttemptAdmission;
use super::{AdmissionQueue, AdmissionTerms, AttemptDenial, HeldPermit, SiteAdmission};
use crate::clock::{Random, Runtime};
use crate::event::EventKind;
use crate::journey::RequestTrack;

/// The parts of the process that an admission needs: clock, slots and random numbers.
#[derive(Clone, Copy)]
pub(crate) struct AdmissionContext<'a> {
    pub(crate) runtime: &'a Arc<dyn Runtime>,
    /// The slots of this process; `None` for an admission that only checks a breaker, which takes
    /// no slot.
    pub(crate) process_slots: Option<&'a Arc<Semaphore>>,
    pub(crate) random: &'a Random,
}

impl AdmissionContext<'_> {
    /// Returns the same context without process slots, for an admission that only checks a breaker.
    pub(super) fn without_slots(&self) -> Self {
        Self {
            process_slots: None,
            ..*self
        }
    }
}

/// The times that an admission waited, by cause.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AdmissionWaits {
    pub(crate) rate: Duration,
    /// The window that the request waited for last; `None` if no window delayed it.
    pub(crate) rate_window: Option<Window>,
    pub(crate) slots: Duration,
    pub(crate) breaker: Duration,
}

impl AdmissionQueue {
    /// Admits one attempt. If the site does not admit it at once, waits as long as the
    /// [`AdmissionTerms`] allow.
    ///
    /// # Errors
    /// Returns an [`AttemptDenial`] if the breaker or the limiter refuses, or if the store fails.
    pub(super) async fn admit(
        &self,
        terms: AdmissionTerms,
        context: &AdmissionContext<'_>,
        track: &RequestTrack,
        waits: &mut AdmissionWaits,
    ) -> Result<HeldPermit, AttemptDenial> {
        self.start_slowly(&terms, context, track, waits).await;
        self.wait_while_failing(&terms, context, track, waits).await;
        let join = || QueuedRequest::join(self, &terms);
        let (waiting, first) = if self.site.remote || self.queue.weight() > 0 {
            (join(), None)
        } else {
            let ask = self.ask(&terms, QueuePosition::Head);
            match self.site.handle.enter(&ask) {
                // The common case: the store decides at once and admits the request, which then
                // needs no entry in the queue.
                StoreReply::Ready(entered) => {
                    let entered = entered?;
                    self.note_condition(track, &entered);
                    match entered.entry {
                        AdmissionDecision::Go(permit) => {
                            if let Some(slots) = self.try_slots(context.process_slots) {
                                let lane = self.clone();
                                return Ok(HeldPermit::new(lane, ask, permit, slots));
                            }
                            self.give_back(&ask, &permit);
                            (join(), None)
                        }
                        AdmissionDecision::Refused(refusal) => return Err(refusal.into()),
                        other => {
                            let waiting = join();
                            waiting.settle_in(QueuePosition::Head);
                            (waiting, Some(other))
                        }
                    }
                }
                // The request joins the queue while the store decides, so that later requests queue
                // behind it.
                StoreReply::Later(coming) => {
                    let mut waiting = join();
                    let entry = waiting.wait_for_answer(coming, context, track).await?;
                    if !matches!(entry, AdmissionDecision::Go(_)) {
                        waiting.settle_in(QueuePosition::Head);
                    }
                    (waiting, Some(entry))
                }
            }
        };
        // Boxed, so that a request that is admitted at once does not reserve memory for this
        // future.
        let admission = AttemptAdmission::new(waiting, terms, context, track, waits);
        Box::pin(admission.run(first)).await
    }

    /// Waits until the slow start after an outage lets the request continue, unless its terms end
    /// earlier.
    pub(super) async fn start_slowly(
        &self,
        terms: &AdmissionTerms,
        context: &AdmissionContext<'_>,
        track: &RequestTrack,
        waits: &mut AdmissionWaits,
    ) {
        let now = context.runtime.boot();
        let turn = self.site.health.slow_start_turn(now);
        let patience = terms.latest.min(terms.deadline);
        if let Some(until) = turn.filter(|turn| *turn <= patience && !self.costs.is_empty()) {
            track.note(&self.key.host, self.key.role, || EventKind::WaitSlowStart {
                until,
            });
            context.runtime.sleep_until(until).await;
            waits.breaker += context.runtime.boot().since(now);
        }
    }

    /// Returns an unused [`Permit`] to the site.
    pub(super) fn give_back(&self, ask: &AdmissionRequest, permit: &Permit) {
        let left = self.site.handle.leave(ask, permit.id, Some(permit.stamp));
        self.site.wake_if(left);
    }

    /// Reports a change of the breaker that the reply of the store shows, caused by time or by
    /// another process.
    pub(super) fn note_condition(&self, track: &RequestTrack, entered: &AdmissionResult) {
        if let Some(transition) = &entered.transition {
            self.site
                .note_transition(self, track, Some((**transition).clone()));
        }
        // An isolated role has its own breaker, whose state does not apply to the other roles.
        if self.rules.policy.isolated {
            return;
        }
        let now = self.site.runtime.boot();
        if let Some(transition) = self.site.health.seen_by_answer(&entered.entry, now) {
            track.note(&self.key.host, self.key.role, || EventKind::BreakerSeen {
                key: Arc::clone(&self.site.key),
                transition,
            });
        }
    }
}

impl SiteAdmission {
    pub(crate) fn note_transition(
        &self,
        lane: &AdmissionQueue,
        track: &RequestTrack,
        transition: Option<Transition>,
    ) {
        if let Some(transition) = transition {
            // An isolated role has its own breaker, whose state does not apply to the other roles.
            if !lane.rules.policy.isolated {
                (self.health).note_transition(&transition, self.runtime.boot());
            }
            self.spread_change();
            self.show(&transition);
            let key = lane.breaker_key(&self.key, &transition);
            track.note(&lane.key.host, lane.key.role, || EventKind::Breaker {
                key,
                transition,
            });
        }
    }
}
