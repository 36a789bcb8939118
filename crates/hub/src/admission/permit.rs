//! The permit of an admitted attempt at one site, with its slots. The attempt must report its
//! outcome through the permit.
//!
//! A [`HeldPermit`] is settled once. A connection that is still being dialled may outlive the
//! attempt, so it shares only the [`PermitState`].

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

/// A permit of one site, settled once. If it is dropped unsettled, the outcome of the attempt is
/// not reported.
pub(crate) struct HeldPermit(Arc<PermitState>);

/// The part of a [`HeldPermit`] that it shares with a connection being dialled, which may outlive
/// it.
pub(crate) struct PermitState {
    lane: AdmissionQueue,
    /// The [`AdmissionRequest`] for which the permit was given. Exactly its costs are given back,
    /// even if the host has declared other limits since.
    ask: AdmissionRequest,
    pub(crate) permit: Permit,
    slots: Mutex<Option<Slots>>,
    settled: AtomicBool,
    /// `true` if the headers of the response have arrived or will never arrive.
    answered: AtomicBool,
    leased: bool,
}

impl PermitState {
    /// Lets the permit count as used at the current instant, for at most `longest`, while the
    /// connection is made. The origin will receive the request later than the permit was given.
    pub(crate) fn hold(&self, longest: Duration) {
        let _ = self.lane.site.handle.hold(&self.ask, &self.permit, longest);
    }

    /// Extends the time of [`PermitState::hold`], because the connection takes up to `longest`
    /// more.
    pub(crate) fn hold_longer(&self, longest: Duration) {
        let _ = self.lane.site.handle.sent(&self.ask, &self.permit, longest);
    }

    /// Reports that the connection is made and the request is about to be sent. Returns whether the
    /// permit is still valid: the site may have been blocked since it was given.
    ///
    /// If the store does not reply, the permit is valid: the store gave it before becoming
    /// unavailable.
    pub(crate) async fn sent(&self, longest: Duration) -> PermitStanding {
        (self.lane.site.handle.sent(&self.ask, &self.permit, longest))
            .await
            .unwrap_or(PermitStanding::Good)
    }

    /// Records that the response blocks the site: requests that were permitted earlier must not be
    /// sent.
    pub(crate) fn note_block(&self) {
        let site = &self.lane.site;
        site.health.note_block(site.runtime.boot());
    }

    /// Returns whether a response has blocked the site since this permit was given.
    pub(crate) fn was_blocked_since(&self) -> bool {
        self.lane.site.health.was_blocked_since(&self.permit)
    }

    /// Returns whether the origin closes its connections after each response.
    pub(crate) fn closes(&self) -> bool {
        self.lane.closes.load(Ordering::Relaxed)
    }

    /// Fixes the instant at which the permit counts as used: now, because the response has begun or
    /// will never begin.
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
            // Failures of an isolated role open its own breaker only, so they do not throttle other
            // roles.
            let outcome = outcome.filter(|_| !self.lane.rules.policy.isolated);
            let throttle = &site.health.failure_throttle;
            throttle.note_answer(outcome, || site.runtime.boot());
        }
    }

    /// Claims the right to report the outcome of the attempt to the store. Returns `true` for the
    /// first caller only.
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

    /// Returns whether the site will learn a limit from the response.
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

/// The expected time until the end of a response's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyAhead {
    /// The body is short, so that the attempt ends soon.
    Short,
    /// The end of the body cannot be predicted.
    Long,
}

/// The effect of an ended attempt on the next one of the same request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Consequence {
    /// The instant at which the block of the site ends; `None` if the site is not blocked.
    pub(crate) open_until: Option<BootInstant>,
    /// `true` if the retry budget of the site is used up, so that the request is not retried.
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

    /// Gives the permit back unused, because another breaker refused the request or the site was
    /// blocked since.
    pub(super) fn give_back(self) {
        if self.0.claim_settlement(None) {
            *self.0.slots.lock() = None;
            let state = &self.0;
            state.lane.give_back(&state.ask, &state.permit);
        }
    }

    /// Reports the headers of the response, which decide the result of a probe. If the body may
    /// take long, the site learns limits from the headers now instead of at its end.
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

    /// Reports the quotas that the headers declare. They apply to all later requests of the queue.
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
        // If the store fails, the quotas are not applied; the limits of this process still are.
        let heard = stated.await.unwrap_or_default();
        state.lane.take_limits(&statement.reading, track.now());
        if heard.calls_next {
            site.wake_heads();
        }
        heard.holds
    }

    /// Reports the [`AttemptResult`] to the breaker and frees the slots. Returns the effect on the
    /// next attempt.
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
            // The tokens stay spent even if the request was not sent. Only the lease of a probe and
            // shared slots must be released.
            state.stamp();
            if state.leased || state.teaches() {
                let site = &state.lane.site;
                site.wake_if(site.handle.leave(&state.ask, state.permit.id, None));
            }
        }
    }
}
