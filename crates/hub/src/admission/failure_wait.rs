//! The wait of a new request for the results of requests in flight, while their host fails.
//!
//! The failure throttle of `host_health` decides whether a request waits. This module waits, and
//! adds the time to the waits of the request.

use std::pin::pin;

use super::host_health::ThrottleHold;
use super::{AdmissionContext, AdmissionQueue, AdmissionTerms, AdmissionWaits};
use crate::clock::before;
use crate::event::EventKind;
use crate::journey::RequestTrack;

impl AdmissionQueue {
    /// Returns the [`ThrottleHold`] of a request that must wait for the results of requests in
    /// flight; `None` if the request need not wait.
    ///
    /// A request whose terms would end during that wait is sent now. Otherwise it would spend its
    /// time here, and have none left to wait for a rate limit.
    fn held_by_failures(&self, terms: &AdmissionTerms) -> Option<ThrottleHold> {
        let breaker = &self.rules.policy.breaker;
        let site = &self.site;
        let held =
            (site.health.failure_throttle).holds(breaker.fail_max.get(), || site.runtime.boot())?;
        let can_wait = held.until <= terms.latest.min(terms.deadline);
        (can_wait && !breaker.shadow && !self.costs.is_empty()).then_some(held)
    }

    /// Returns whether a request must wait for the results of requests in flight.
    pub(super) fn must_wait_for_failures(&self, terms: &AdmissionTerms) -> bool {
        self.held_by_failures(terms).is_some()
    }

    /// Waits for the results of requests in flight after a failure of the host, if the terms allow
    /// that wait.
    pub(super) async fn wait_while_failing(
        &self,
        terms: &AdmissionTerms,
        context: &AdmissionContext<'_>,
        track: &RequestTrack,
        waits: &mut AdmissionWaits,
    ) {
        if !self.must_wait_for_failures(terms) {
            return;
        }
        let since = context.runtime.boot();
        let mut is_noted = false;
        loop {
            let mut changed = pin!(self.site.health.failure_throttle.changed.notified());
            changed.as_mut().enable();
            let Some(held) = self.held_by_failures(terms) else {
                break;
            };
            if !std::mem::replace(&mut is_noted, true) {
                track.note(&self.key.host, self.key.role, || EventKind::WaitCaution {
                    failures: held.failures,
                });
            }
            if before(&**context.runtime, held.until, changed)
                .await
                .is_none()
            {
                break;
            }
        }
        waits.breaker += context.runtime.boot().since(since);
    }
}
