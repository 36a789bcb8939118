//! The lifecycle of a permit: spent, pending during the connection, sent, stamped, or given back.

use std::time::Duration;

use super::{AdmissionRequest, Permit, PermitStanding, Refusal, RefusalReason, Site};
use crate::budget::{EndedWait, Reservation, ReservationStage};
use crate::host_model::LimitEvent;
use crate::time::BootInstant;

/// A request that the breaker admits.
pub(super) struct AdmittedRequest {
    /// The generation of the breaker.
    pub(super) generation: u32,
    /// The earliest instant: now, or later by the jitter of a probe.
    pub(super) from: BootInstant,
    /// Set for a probe of a half-open breaker.
    pub(super) probe: bool,
    /// The [`Refusal`] that a breaker in shadow mode would have decided.
    pub(super) shadowed: Option<Box<Refusal>>,
}

impl Site {
    /// Spends the cost in every budget now, and returns the [`Permit`].
    #[inline]
    pub(super) fn permit(
        &mut self,
        ask: &AdmissionRequest,
        waited: Option<u64>,
        admitted: AdmittedRequest,
        now: BootInstant,
    ) -> Permit {
        let id = waited.unwrap_or_else(|| self.fresh_id());
        for cost in &*ask.costs {
            let budget = &mut self.budgets[cost.budget];
            if waited.is_some() {
                budget.release(id);
            }
            budget.spend(cost.weight, now);
            if cost.slots.is_some() {
                budget.take_slot(id, now + ask.policy.lease);
            }
            if waited.is_some() && cost.weight > 0 {
                budget.note_wait(EndedWait {
                    at: now,
                    length: now.since(ask.asked),
                });
            }
        }
        let teaches = self.note_sent(ask, id, now);
        let earns = self.retries().spent() > 0;
        let breaker = self.breaker_for(ask);
        let clean = !breaker.has_tripped() && breaker.failures() == 0 && !teaches && !earns;
        Permit {
            id,
            generation: admitted.generation,
            at: now,
            stamp: now,
            probe: admitted.probe,
            clean,
            shadowed: admitted.shadowed,
        }
    }

    /// Gives back a reservation, or a permit that was never used. Reverts its cost, and releases
    /// the lease of its probe.
    pub fn leave(
        &mut self,
        ask: &AdmissionRequest,
        id: u64,
        spent_at: Option<BootInstant>,
    ) -> bool {
        self.touched = true;
        for cost in &*ask.costs {
            let budget = &mut self.budgets[cost.budget];
            budget.free_slot(id);
            if !budget.release(id)
                && let Some(at) = spent_at
            {
                budget.take_back(cost.weight, at);
            }
        }
        if self.added.is_some() {
            let event = LimitEvent::left(ask, id, spent_at);
            // The event has no instant of its own, so it gets that of the permit.
            self.tell(&event, spent_at.unwrap_or_default());
        }
        self.breaker_for(ask).release(id)
    }

    /// Replaces a [`Permit`] by a reservation that counts as used now, until its connection is
    /// ready.
    pub fn hold(&mut self, ask: &AdmissionRequest, permit: &Permit, expires: BootInstant) {
        self.touched = true;
        for cost in &*ask.costs {
            let budget = &mut self.budgets[cost.budget];
            budget.take_back(cost.weight, permit.stamp);
            if cost.weight > 0 {
                // The request may have been sent even if its holder ends, so its use is recorded at
                // expiry.
                let (id, at, weight) = (permit.id, permit.stamp, cost.weight);
                budget.reserve(Reservation {
                    id,
                    position: 0,
                    at,
                    weight,
                    expires,
                    stage: ReservationStage::Sent,
                });
            }
        }
    }

    /// Records that the connection of a pending permit is ready and its request is about to be
    /// sent. Returns whether the request may still be sent.
    ///
    /// The origin reads the request slightly later. The permit therefore counts as used now until
    /// [`Site::stamp`], for `longest` at most.
    pub fn sent(
        &mut self,
        ask: &AdmissionRequest,
        permit: &Permit,
        longest: Duration,
        now: BootInstant,
    ) -> PermitStanding {
        self.touched = true;
        for cost in &*ask.costs {
            self.budgets[cost.budget].sent(permit.id, now + longest);
        }
        let breaker = self.breaker_for(ask);
        match breaker.open_until(now) {
            Some((until, reason))
                if breaker.generation() != permit.generation && !ask.policy.breaker.shadow =>
            {
                PermitStanding::Blocked(Refusal {
                    until,
                    reason: RefusalReason::Open {
                        reason: reason.clone(),
                        probing: false,
                    },
                })
            }
            _ => PermitStanding::Good,
        }
    }

    /// Spends the pending cost of a [`Permit`] at `now`, when its response has begun or its request
    /// has ended.
    pub fn stamp(&mut self, ask: &AdmissionRequest, permit: &Permit, now: BootInstant) {
        self.touched = true;
        for cost in &*ask.costs {
            let budget = &mut self.budgets[cost.budget];
            budget.expire(now);
            if budget.release(permit.id) {
                budget.spend(cost.weight, now);
            }
        }
    }
}
