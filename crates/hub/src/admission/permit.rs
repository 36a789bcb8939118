//! What an admitted attempt holds: its pass, its slots, and the duty to say how it ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use docstokg_policy::classify::Outcome;
use docstokg_policy::site::{Ask, Permit, QueuePosition, Report, Settled, Standing};
use parking_lot::Mutex;

use super::{Gate, Lane, Slots, Terms};
use crate::clock::BootInstant;
use crate::event::What;
use crate::journey::Track;

/// Leave to send one request. Settled once; dropped unsettled it says nothing about the origin.
pub(crate) struct Granted(Arc<Grant>);

/// The part of a grant that a dialled connection may outlive.
pub(crate) struct Grant {
    gate: Arc<Gate>,
    lane: Arc<Lane>,
    terms: Terms,
    pub(crate) permit: Permit,
    slots: Mutex<Option<Slots>>,
    settled: AtomicBool,
    leased: bool,
}

impl Grant {
    fn with_ask<T>(&self, use_it: impl FnOnce(&Ask<'_>) -> T) -> T {
        let costs = self.lane.costs(&self.terms);
        use_it(&self.lane.ask(&costs, &self.terms, QueuePosition::Head))
    }

    /// The connection has to be made first: the grant counts as used now, for as long as that
    /// takes.
    pub(crate) fn hold(&self, longest: Duration) {
        let _ = self.with_ask(|ask| self.gate.site.hold(ask, &self.permit, longest));
    }

    /// The connection has to be made for a grant that counts as used now already: it does so for as
    /// long as that takes.
    pub(crate) fn hold_longer(&self, longest: Duration) {
        let _ = self.with_ask(|ask| self.gate.site.sent(ask, &self.permit, longest));
    }

    /// The connection is up and the request leaves, unless the site was blocked meanwhile.
    ///
    /// A store that does not answer keeps nobody from sending: the grant was given before it went
    /// away.
    pub(crate) async fn sent(&self, longest: Duration) -> Standing {
        self.with_ask(|ask| self.gate.site.sent(ask, &self.permit, longest))
            .await
            .unwrap_or(Standing::Good)
    }

    /// The answer asks for no requests: those that were permitted before it are not sent after it.
    pub(crate) fn note_block(&self) {
        self.gate.note_block();
    }

    /// Tells whether an answer has asked for no requests since this one was permitted.
    pub(crate) fn was_blocked_since(&self) -> bool {
        self.gate.was_blocked_since(&self.permit)
    }

    /// Tells whether the origin closes its connections.
    pub(crate) fn closes(&self) -> bool {
        self.lane.closes.load(Ordering::Relaxed)
    }

    /// The answer begins, or will never: what is still held is used by now.
    pub(crate) fn stamp(&self) {
        let _ = self.with_ask(|ask| self.gate.site.stamp(ask, &self.permit));
    }

    /// Says, once, that the attempt has ended: whoever is first tells the store.
    fn is_first_to_settle(&self) -> bool {
        let first = !self.settled.swap(true, Ordering::AcqRel);
        if first && self.leased {
            self.gate.end_lease(self.permit.id);
        }
        first
    }

    fn spread(&self, settled: Settled, track: &Track) {
        if settled.wakes {
            self.gate.wake_all();
        }
        self.gate
            .note_transition(&self.lane, track, settled.transition);
        if let Some((_, adjustment)) = settled.adjusted {
            track.note(&self.lane.key.host, self.lane.key.role, || {
                What::Adapted(adjustment)
            });
        }
    }
}

impl Granted {
    pub(super) fn new(
        gate: Arc<Gate>,
        lane: Arc<Lane>,
        terms: Terms,
        permit: Permit,
        slots: Slots,
    ) -> Self {
        let leased = permit.probe || lane.costs.iter().any(|cost| cost.slots.is_some());
        if leased {
            gate.begin_lease(permit.id);
        }
        Self(Arc::new(Grant {
            gate,
            lane,
            terms,
            permit,
            slots: Mutex::new(Some(slots)),
            settled: AtomicBool::new(false),
            leased,
        }))
    }

    pub(crate) fn grant(&self) -> &Arc<Grant> {
        &self.0
    }

    /// Gives the grant back unused: another breaker said no, or a block came in between.
    pub(crate) fn give_back(self) {
        if self.0.is_first_to_settle() {
            *self.0.slots.lock() = None;
            let costs = self.0.lane.costs(&self.0.terms);
            self.0
                .gate
                .give_back(&self.0.lane, &costs, &self.0.terms, &self.0.permit);
        }
    }

    /// The headers are there: a probe's verdict.
    pub(crate) async fn settle_headers(&self, outcome: Outcome, track: &Track) {
        if self.0.permit.probe {
            let settled = self.0.with_ask(|ask| {
                self.0
                    .gate
                    .site
                    .settle_headers(ask, &self.0.permit, outcome)
            });
            self.0.spread(settled.await.unwrap_or_default(), track);
        }
    }

    /// The attempt has ended: tells the breaker and frees the slots. Returns the end of the block
    /// in force.
    pub(crate) async fn settle(&self, report: &Report, track: &Track) -> Option<BootInstant> {
        if !self.0.is_first_to_settle() {
            return None;
        }
        let settled = self
            .0
            .with_ask(|ask| self.0.gate.site.settle(ask, &self.0.permit, report));
        *self.0.slots.lock() = None;
        let settled = settled.await.unwrap_or_default();
        let open_until = settled.open_until;
        self.0.spread(settled, track);
        open_until
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        if self.0.is_first_to_settle() {
            *self.0.slots.lock() = None;
            // Sent or not, the tokens stay spent; only a probe's place and shared slots must not be
            // lost.
            self.0.stamp();
            if self.0.leased {
                self.0.gate.wake_if(
                    self.0
                        .with_ask(|ask| self.0.gate.site.leave(ask, self.0.permit.id, None)),
                );
            }
        }
    }
}
