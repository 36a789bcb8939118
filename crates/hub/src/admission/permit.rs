//! What an admitted attempt holds of one site: its permit, its slots, and the duty to report how it
//! ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use docstokg_policy::classify::AttemptMeaning;
use docstokg_policy::host_model::quotas::QuotaStatement;
use docstokg_policy::role::Role;
use docstokg_policy::site::{
    AdmissionRequest, AttemptResult, Permit, PermitStanding, SettleEffect,
};
use parking_lot::Mutex;

use super::AdmissionQueue;
use super::slots::Slots;
use crate::clock::BootInstant;
use crate::event::EventKind;
use crate::journey::RequestTrack;

/// A permit of one site. Settled once; dropped unsettled it says nothing about the origin.
pub(crate) struct HeldPermit(Arc<PermitState>);

/// The part of a held permit that a connection being dialled may outlive.
pub(crate) struct PermitState {
    lane: AdmissionQueue,
    /// The question that was permitted: the attempt gives back what it took, whatever the host has
    /// stated since.
    ask: AdmissionRequest,
    pub(crate) permit: Permit,
    slots: Mutex<Option<Slots>>,
    settled: AtomicBool,
    /// The headers of the answer have come, or there will be none.
    answered: AtomicBool,
    leased: bool,
}

impl PermitState {
    /// The connection has to be made first: the permit counts as used now, for as long as that
    /// takes.
    pub(crate) fn hold(&self, longest: Duration) {
        let _ = self.lane.site.handle.hold(&self.ask, &self.permit, longest);
    }

    /// The connection has to be made for a permit that counts as used now already: it does so for
    /// as long as that takes.
    pub(crate) fn hold_longer(&self, longest: Duration) {
        let _ = self.lane.site.handle.sent(&self.ask, &self.permit, longest);
    }

    /// The connection is up and the request leaves, unless the site was blocked meanwhile.
    ///
    /// A store that does not answer keeps no request from being sent: it was permitted before the
    /// store became unavailable.
    pub(crate) async fn sent(&self, longest: Duration) -> PermitStanding {
        (self.lane.site.handle.sent(&self.ask, &self.permit, longest))
            .await
            .unwrap_or(PermitStanding::Good)
    }

    /// The answer asks for no requests: those that were permitted before it are not sent after it.
    pub(crate) fn note_block(&self) {
        let site = &self.lane.site;
        site.health.note_block(site.runtime.boot());
    }

    /// Returns whether an answer has asked for no requests since this one was permitted.
    pub(crate) fn was_blocked_since(&self) -> bool {
        self.lane.site.health.was_blocked_since(&self.permit)
    }

    /// Returns whether the origin closes its connections.
    pub(crate) fn closes(&self) -> bool {
        self.lane.closes.load(Ordering::Relaxed)
    }

    /// The answer begins, or will never: what is still held is used by now.
    pub(crate) fn stamp(&self) {
        let _ = self.lane.site.handle.stamp(&self.ask, &self.permit);
    }

    /// Takes note of the headers of the answer, or that there will be none; with what they mean,
    /// where that is known.
    pub(crate) fn note_answer(&self, outcome: Option<AttemptMeaning>) {
        if !self.answered.swap(true, Ordering::AcqRel) {
            let site = &self.lane.site;
            if matches!(
                outcome,
                Some(AttemptMeaning::Failure | AttemptMeaning::Throttled)
            ) {
                site.health.note_failure(self.permit.at);
            }
            // A role that counts for itself has a breaker of its own.
            let outcome = outcome.filter(|_| !self.lane.rules.policy.isolated);
            let throttle = &site.health.failure_throttle;
            throttle.note_answer(outcome, || site.runtime.boot());
        }
    }

    /// Claims the settlement of the attempt, and returns whether no caller has claimed it before:
    /// only the first reports to the store.
    fn claim_settlement(&self, outcome: Option<AttemptMeaning>) -> bool {
        let first = !self.settled.swap(true, Ordering::AcqRel);
        if first {
            self.note_answer(outcome);
            if self.leased {
                self.lane.site.end_lease(self.permit.id);
            }
        }
        first
    }

    /// Returns the role of the request.
    pub(super) fn role(&self) -> Role {
        self.lane.key.role
    }

    /// Returns whether the site waits for the answer to learn from it.
    fn teaches(&self) -> bool {
        self.lane.rules.policy.learn.is_some() && !self.permit.clean
    }

    fn spread(&self, settled: SettleEffect, track: &RequestTrack) {
        let (site, key) = (&self.lane.site, &self.lane.key);
        site.note_transition(&self.lane, track, settled.transition);
        if settled.wakes {
            site.wake_all();
        } else if settled.calls_next {
            site.wake_heads();
        }
        if let Some((_, adjustment)) = settled.adjusted {
            site.has_adapted.store(true, Ordering::Relaxed);
            track.note(&key.host, key.role, || EventKind::Adapted(adjustment));
        }
        if let Some(limit) = settled.learned {
            track.note(&key.host, key.role, || EventKind::Learned(limit));
        }
    }
}

/// How long the body of an answer may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyAhead {
    /// A moment.
    Short,
    /// As long as it likes.
    Long,
}

/// What the end of an attempt means for the next one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Consequence {
    /// The end of the block in force.
    pub(crate) open_until: Option<BootInstant>,
    /// The site's budget for retries is used up.
    pub(crate) retry_refused: bool,
}

impl HeldPermit {
    pub(super) fn new(
        lane: AdmissionQueue,
        ask: AdmissionRequest,
        permit: Permit,
        slots: Slots,
    ) -> Self {
        let has_shared_slots = ask.costs.iter().any(|cost| cost.slots.is_some());
        let leased = permit.probe || has_shared_slots;
        if leased {
            lane.site.begin_lease(permit.id);
        }
        lane.site.health.failure_throttle.note_sent();
        Self(Arc::new(PermitState {
            lane,
            ask,
            permit,
            slots: Mutex::new(Some(slots)),
            settled: AtomicBool::new(false),
            answered: AtomicBool::new(false),
            leased,
        }))
    }

    pub(crate) fn state(&self) -> &Arc<PermitState> {
        &self.0
    }

    /// Returns whether it is a probe of a half-open breaker.
    pub(super) fn is_probe(&self) -> bool {
        self.0.permit.probe
    }

    /// Gives the permit back unused: another breaker refused the request, or a block came in
    /// between.
    pub(super) fn give_back(self) {
        if self.0.claim_settlement(None) {
            *self.0.slots.lock() = None;
            let state = &self.0;
            state.lane.give_back(&state.ask, &state.permit);
        }
    }

    /// The headers are there: the result of a probe. Of a body that may take long, what is learned
    /// is learned now.
    pub(crate) async fn settle_headers(
        &self,
        outcome: AttemptMeaning,
        body: BodyAhead,
        track: &RequestTrack,
    ) {
        let state = &self.0;
        if state.permit.probe || (body == BodyAhead::Long && state.teaches()) {
            let handle = &state.lane.site.handle;
            let settled = handle.settle_headers(&state.ask, &state.permit, outcome);
            state.spread(settled.await.unwrap_or_default(), track);
        }
    }

    /// The headers state quotas: all requests of the lane obey them from now on. Returns whether
    /// they hold the next one back.
    pub(crate) async fn state_quotas(
        &self,
        statement: QuotaStatement,
        track: &RequestTrack,
    ) -> bool {
        let state = &self.0;
        let site = &state.lane.site;
        let statement = Arc::new(statement);
        let handle = &site.handle;
        let stated = handle.state_quotas(&state.ask, &state.permit, &statement);
        // Without the store nothing is known of quotas; the limits of this process still hold.
        let heard = stated.await.unwrap_or_default();
        state.lane.take_limits(&statement.reading, track.now());
        if heard.calls_next {
            site.wake_heads();
        }
        heard.holds
    }

    /// The attempt has ended: reports it to the breaker and frees the slots.
    pub(crate) async fn settle(&self, report: &AttemptResult, track: &RequestTrack) -> Consequence {
        let state = &self.0;
        if !state.claim_settlement(Some(report.outcome)) {
            return Consequence::default();
        }
        let handle = &state.lane.site.handle;
        let settled = handle.settle(&state.ask, &state.permit, report);
        *state.slots.lock() = None;
        let settled = settled.await.unwrap_or_default();
        let consequence = Consequence {
            open_until: settled.open_until,
            retry_refused: settled.retry_refused,
        };
        state.spread(settled, track);
        consequence
    }
}

impl Drop for HeldPermit {
    fn drop(&mut self) {
        let state = &self.0;
        if state.claim_settlement(None) {
            *state.slots.lock() = None;
            // Sent or not, the tokens stay spent; only the lease of a probe and shared slots must
            // not be lost.
            state.stamp();
            if state.leased || state.teaches() {
                let site = &state.lane.site;
                site.wake_if(site.handle.leave(&state.ask, state.permit.id, None));
            }
        }
    }
}
