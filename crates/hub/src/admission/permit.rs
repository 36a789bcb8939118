//! The permit of an admitted attempt at one site, its slots, and the duty to report its outcome.
//!
//! A [`HeldPermit`] is settled once. A connection that is still being dialled may outlive the
//! attempt and shares only the [`PermitState`].

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

/// A permit of one site. Settled once; if dropped unsettled, it reports nothing about the origin.
pub(crate) struct HeldPermit(Arc<PermitState>);

/// The part of a [`HeldPermit`] that a connection being dialled may outlive.
pub(crate) struct PermitState {
    lane: AdmissionQueue,
    /// The [`AdmissionRequest`] behind the permit. The attempt gives back exactly its costs, even
    /// if the host has declared other limits since.
    ask: AdmissionRequest,
    pub(crate) permit: Permit,
    slots: Mutex<Option<Slots>>,
    settled: AtomicBool,
    /// `true` if the headers of the response have arrived or will never arrive.
    answered: AtomicBool,
    leased: bool,
}

impl PermitState {
    /// Counts the permit as used from now on, for at most `longest`, while the connection is made.
    pub(crate) fn hold(&self, longest: Duration) {
        let _ = self.lane.site.handle.hold(&self.ask, &self.permit, longest);
    }

    /// Extends a permit that counts as used already: the connection takes up to `longest` more.
    pub(crate) fn hold_longer(&self, longest: Duration) {
        let _ = self.lane.site.handle.sent(&self.ask, &self.permit, longest);
    }

    /// Reports that the connection is up and the request leaves. Returns whether the permit still
    /// applies: the site may have been blocked meanwhile.
    ///
    /// If the store does not reply, the request is sent: it was permitted before the store became
    /// unavailable.
    pub(crate) async fn sent(&self, longest: Duration) -> PermitStanding {
        (self.lane.site.handle.sent(&self.ask, &self.permit, longest))
            .await
            .unwrap_or(PermitStanding::Good)
    }

    /// Records that the response blocks the site: requests that were permitted earlier are not
    /// sent.
    pub(crate) fn note_block(&self) {
        let site = &self.lane.site;
        site.health.note_block(site.runtime.boot());
    }

    /// Returns whether a response has blocked the site since this permit was given.
    pub(crate) fn was_blocked_since(&self) -> bool {
        self.lane.site.health.was_blocked_since(&self.permit)
    }

    /// Returns whether the origin closes its connections.
    pub(crate) fn closes(&self) -> bool {
        self.lane.closes.load(Ordering::Relaxed)
    }

    /// Marks the permit as used: the response begins or will never begin.
    pub(crate) fn stamp(&self) {
        let _ = self.lane.site.handle.stamp(&self.ask, &self.permit);
    }

    /// Records that the headers of the response have arrived or will never arrive. `outcome` is
    /// their meaning, if known.
    pub(crate) fn note_answer(&self, outcome: Option<AttemptMeaning>) {
        if !self.answered.swap(true, Ordering::AcqRel) {
            let site = &self.lane.site;
            if matches!(
                outcome,
                Some(AttemptMeaning::Failure | AttemptMeaning::Throttled)
            ) {
                site.health.note_failure(self.permit.at);
            }
            // An isolated role has its own breaker, and does not affect the throttle of the others.
            let outcome = outcome.filter(|_| !self.lane.rules.policy.isolated);
            let throttle = &site.health.failure_throttle;
            throttle.note_answer(outcome, || site.runtime.boot());
        }
    }

    /// Claims the settlement of the attempt. Returns `true` for the first caller, which alone
    /// reports to the store.
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

    /// Returns the [`Role`] of the request.
    pub(super) fn role(&self) -> Role {
        self.lane.key.role
    }

    /// Returns whether the site waits for the response to learn a limit from it.
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

/// The expected duration of the body of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyAhead {
    /// A short body: the attempt ends soon.
    Short,
    /// A body without a bound on its duration.
    Long,
}

/// The effect of an ended attempt on the next one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Consequence {
    /// The end of the current block, if the site is blocked.
    pub(crate) open_until: Option<BootInstant>,
    /// `true` if the retry budget of the site is used up.
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

    /// Returns whether the request is a probe of a half-open breaker.
    pub(super) fn is_probe(&self) -> bool {
        self.0.permit.probe
    }

    /// Gives the permit back unused: another breaker refused the request, or the site was blocked
    /// meanwhile.
    pub(super) fn give_back(self) {
        if self.0.claim_settlement(None) {
            *self.0.slots.lock() = None;
            let state = &self.0;
            state.lane.give_back(&state.ask, &state.permit);
        }
    }

    /// Reports the headers of the response, which decide a probe. If the body may take long, the
    /// site also learns from them now.
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

    /// Reports the quotas that the headers declare, which apply to all later requests of the queue.
    /// Returns whether they delay the next request.
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
        // Without the store, quotas are unknown; the limits of this process still apply.
        let heard = stated.await.unwrap_or_default();
        state.lane.take_limits(&statement.reading, track.now());
        if heard.calls_next {
            site.wake_heads();
        }
        heard.holds
    }

    /// Reports the [`AttemptResult`] to the breaker and frees the slots.
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
            // Sent or not, the permits stay used. Only the lease of a probe and shared slots must
            // be released.
            state.stamp();
            if state.leased || state.teaches() {
                let site = &state.lane.site;
                site.wake_if(site.handle.leave(&state.ask, state.permit.id, None));
            }
        }
    }
}
