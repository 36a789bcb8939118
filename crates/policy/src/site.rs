//! A site: the state of what one operator limits as a whole, with one breaker and all budgets.
//!
//! Each decision about a request is one step. `enter` checks the breaker and every budget of a
//! request together. `confirm` checks again at the real instant for a request that waited. A store
//! calls these functions inside its critical section, with a `now` that it read there. `order`
//! decides between waiting requests; `permit` and `settle` follow a permit from its use to its
//! result.

use std::ops::ControlFlow;

use crate::adaptive::AdaptivePolicy;
use crate::breaker::{Breaker, BreakerAdmission, BreakerPolicy, OpenReason, Transition};
use crate::budget::{Budget, Reservation, ReservationStage, WindowFit};
use crate::host_model::LimitEvent;
use crate::rate::Window;
use crate::role::Role;
use crate::time::BootInstant;
use crate::windows::{Multiplier, Windows};

mod admission_request;
mod limits;
mod operation;
mod order;
mod permit;
mod settle;
mod shared;
mod site_extras;

pub use admission_request::{
    AdmissionDecision, AdmissionRequest, AdmissionResult, BudgetCost, LanePolicy, Patience, Permit,
    PermitStanding, QueuePosition, Refusal, RefusalReason, ReservedSlot,
};
pub use operation::{RequestOperation, SiteOperation, SiteResult};
use order::{OwnReservation, RESERVATION_GRACE};
use permit::AdmittedRequest;
pub use settle::{AttemptResult, BreakerCondition, SettleEffect};
use site_extras::SiteExtras;

/// The shared state of a site.
#[derive(Clone, Debug, Default)]
pub struct Site {
    breaker: Breaker,
    /// The breakers of isolated roles. Most sites have no such breakers, so the empty field takes
    /// one machine word.
    #[expect(
        clippy::box_collection,
        reason = "very many sites, few of which have any"
    )]
    isolated: Option<Box<Vec<(Role, Breaker)>>>,
    budgets: Vec<Budget>,
    next_id: u64,
    /// Set if state other than the history of budgets may have changed.
    touched: bool,
    /// The rare parts. Most sites have no such parts, so the empty field takes one machine word.
    added: Option<Box<SiteExtras>>,
}

impl Site {
    /// Ensures that there are at least `count` budgets.
    pub fn ensure_budgets(&mut self, count: usize) {
        if self.budgets.len() < count {
            self.budgets.reserve_exact(count - self.budgets.len());
            self.budgets.resize_with(count, Budget::default);
        }
    }

    /// Requests admission: checks the breaker, blocks and all budgets in one step.
    #[inline]
    pub fn enter(&mut self, ask: &AdmissionRequest, now: BootInstant) -> AdmissionResult {
        // Almost always the breaker is closed and no request waits: then the windows alone decide.
        let is_limited = self.host_model().is_some_and(|model| !model.is_empty());
        let learns = is_limited || ask.searches_upwards();
        let is_behind = ask.queue_position.ahead().is_some();
        if ask.policy.isolated || is_behind || learns || self.breaker.has_tripped() {
            return self.enter_slowly(ask, now);
        }
        let (mut at, mut because) = (now, None);
        let pace = ask.pace();
        let mut is_paced = false;
        for cost in &*ask.costs {
            let budget = &self.budgets[cost.budget];
            if !budget.is_plain() || cost.slots.is_some() || !budget.remembers(&cost.windows) {
                return self.enter_slowly(ask, now);
            }
            is_paced |= !cost.windows.spacings().is_empty();
            if cost.weight > 0
                && let (free, Some(index)) = budget.plain_fit(&cost.windows, cost.weight, at, pace)
            {
                (at, because) = (free, Some((cost, index)));
            }
        }
        if at <= now {
            for cost in &*ask.costs {
                self.budgets[cost.budget].spend(cost.weight, now);
            }
            let clean = self.breaker.failures() == 0 && self.retries().spent() == 0;
            let permit = Permit {
                id: self.fresh_id(),
                generation: self.breaker.generation(),
                at: now,
                stamp: now,
                probe: false,
                clean,
                shadowed: None,
            };
            return AdmissionResult {
                entry: AdmissionDecision::Go(permit),
                transition: None,
            };
        }
        let fit = WindowFit {
            at,
            because: because.map(|(cost, index)| cost.windows.at(index)),
        };
        if !is_paced && is_too_late(ask, None, fit, now) {
            return AdmissionResult {
                entry: refused(fit),
                transition: None,
            };
        }
        self.enter_slowly(ask, now)
    }

    /// Decides in the general case, with reservations, slots or an open breaker.
    #[cold]
    fn enter_slowly(&mut self, ask: &AdmissionRequest, now: BootInstant) -> AdmissionResult {
        let transition = self.advance(ask, now);
        AdmissionResult {
            entry: self.decide(ask, None, now),
            transition,
        }
    }

    /// Checks again an [`AdmissionRequest`] that has waited: the breaker, and the windows at the
    /// real instant.
    ///
    /// A permit or a refusal ends the reservation. Until then the request keeps its position, even
    /// if its instant moves. A request whose reservation has expired counts as new.
    pub fn confirm(
        &mut self,
        ask: &AdmissionRequest,
        id: u64,
        now: BootInstant,
    ) -> AdmissionResult {
        let transition = self.advance(ask, now);
        for cost in &*ask.costs {
            self.budgets[cost.budget].free_slot(id);
        }
        let entry = self.decide(ask, Some(id), now);
        if !matches!(
            entry,
            AdmissionDecision::Go(_)
                | AdmissionDecision::Wait(_)
                | AdmissionDecision::WaitForSlot { .. }
        ) {
            self.release(ask, id);
            self.breaker_for(ask).release(id);
        }
        AdmissionResult { entry, transition }
    }

    fn release(&mut self, ask: &AdmissionRequest, id: u64) {
        for cost in &*ask.costs {
            self.budgets[cost.budget].release(id);
        }
    }

    /// Applies the passage of time: reservations and leases expire, an open becomes half-open.
    #[inline]
    fn advance(&mut self, ask: &AdmissionRequest, now: BootInstant) -> Option<Box<Transition>> {
        self.touched = true;
        for cost in &*ask.costs {
            let budget = &mut self.budgets[cost.budget];
            budget.remember(&cost.windows);
            budget.expire(now);
        }
        self.tell(&LimitEvent::Advanced, now);
        self.breaker_for(ask).advance(now).map(Box::new)
    }

    /// Decides on an [`AdmissionRequest`] after the passage of time was applied. A process without
    /// an adaptive rate uses the full rate, even if other processes have lowered the multiplier.
    #[inline]
    fn decide(
        &mut self,
        ask: &AdmissionRequest,
        id: Option<u64>,
        now: BootInstant,
    ) -> AdmissionDecision {
        if ask.policy.adaptive.is_some() {
            return self.decide_at_rates(ask, id, now);
        }
        let full = |budget: &mut Budget| budget.replace_multiplier(Multiplier::FULL);
        let adapted: Vec<(usize, Multiplier)> = (ask.costs.iter())
            .map(|cost| (cost.budget, full(&mut self.budgets[cost.budget])))
            .filter(|(_, multiplier)| *multiplier != Multiplier::FULL)
            .collect();
        let entry = self.decide_at_rates(ask, id, now);
        for (budget, multiplier) in adapted {
            self.budgets[budget].replace_multiplier(multiplier);
        }
        entry
    }

    /// Decides on an [`AdmissionRequest`] at the current rates: first the breaker, then the
    /// windows, then shared slots.
    #[inline]
    fn decide_at_rates(
        &mut self,
        ask: &AdmissionRequest,
        id: Option<u64>,
        now: BootInstant,
    ) -> AdmissionDecision {
        let admitted = match self.pass_breaker(ask, id, now) {
            ControlFlow::Continue(admitted) => admitted,
            ControlFlow::Break(entry) => return entry,
        };
        let own = id.and_then(|id| self.own_reservation(ask, id));
        let before = self.before(ask, own, now);
        let limit = self.limit_fit(ask, own, (admitted.from, admitted.probe), now);
        let from = limit.map_or(admitted.from, |limit| admitted.from.max(limit.at));
        let mut fit = self.paced_fit(ask, own, &before, from);
        if let Some(limit) = limit.filter(|limit| limit.at == fit.at && fit.at > now) {
            fit.because = limit.because;
        }
        let may_go = ask.queue_position.ahead().is_none();
        if fit.at <= now && may_go && id.is_none() && !admitted.probe {
            fit = self.give_way(ask, &before, fit, now);
        }
        if fit.at <= now && may_go {
            return self.permit_or_wait_for_slot(ask, id, own, admitted, now);
        }
        if fit.at > now && is_too_late(ask, own, fit, admitted.from) {
            return refused(fit);
        }
        if ask.queue_position != QueuePosition::Head {
            return AdmissionDecision::Queue { at: fit.at };
        }
        let at = before.ask_again_at(fit.at);
        let id = self.reserve(ask, id, own, at, |cost| cost.weight > 0);
        if admitted.probe {
            self.breaker_for(ask)
                .lease(id, ask.role, at + ask.policy.lease);
        }
        AdmissionDecision::Wait(ReservedSlot {
            id,
            at,
            because: fit.because,
            probe: admitted.probe,
        })
    }

    /// Checks the breaker. Breaks with the [`AdmissionDecision`] if the request is not admitted.
    #[inline]
    fn pass_breaker(
        &mut self,
        ask: &AdmissionRequest,
        id: Option<u64>,
        now: BootInstant,
    ) -> ControlFlow<AdmissionDecision, AdmittedRequest> {
        let breaker = self.breaker_for(ask);
        let mut admitted = AdmittedRequest {
            generation: breaker.generation(),
            from: now,
            probe: false,
            shadowed: None,
        };
        match breaker.admit(&ask.policy.breaker, ask.role, id, now) {
            BreakerAdmission::Permit => {}
            BreakerAdmission::Probe { jitter } => {
                admitted.from = now + jitter.mul_f64(ask.jitter_sample);
                admitted.probe = true;
            }
            BreakerAdmission::Refused {
                until,
                reason,
                probing,
            } => {
                let refusal = |reason| Refusal {
                    until,
                    reason: RefusalReason::Open { reason, probing },
                };
                match ask.patience {
                    _ if ask.policy.breaker.shadow => {
                        admitted.shadowed = Some(Box::new(refusal(reason)));
                    }
                    Patience::Wait if now < ask.deadline && (until <= ask.deadline || probing) => {
                        return ControlFlow::Break(AdmissionDecision::WaitForBreaker {
                            until: until.min(ask.deadline),
                            reason,
                            probing,
                        });
                    }
                    _ => return ControlFlow::Break(AdmissionDecision::Refused(refusal(reason))),
                }
            }
        }
        ControlFlow::Continue(admitted)
    }

    /// Permits an [`AdmissionRequest`] that fits every window, or reserves its position until a
    /// shared slot is free.
    #[inline]
    fn permit_or_wait_for_slot(
        &mut self,
        ask: &AdmissionRequest,
        id: Option<u64>,
        own: Option<OwnReservation>,
        admitted: AdmittedRequest,
        now: BootInstant,
    ) -> AdmissionDecision {
        if let Some(earlier) = self.waits_for_slot(ask, id, own, now) {
            if ask.queue_position != QueuePosition::Head {
                return AdmissionDecision::Queue { at: now };
            }
            return self.reserve_until_slot(ask, id, own, earlier, now);
        }
        let permit = self.permit(ask, id, admitted, now);
        if permit.probe {
            self.breaker_for(ask)
                .lease(permit.id, ask.role, now + ask.policy.lease);
        }
        AdmissionDecision::Go(permit)
    }

    /// Makes a reservation at `at`, or moves that of `id`, which keeps its position.
    fn reserve(
        &mut self,
        ask: &AdmissionRequest,
        id: Option<u64>,
        own: Option<OwnReservation>,
        at: BootInstant,
        takes_part: impl Fn(&BudgetCost) -> bool,
    ) -> u64 {
        let position = own.map_or_else(|| self.next_position(ask), |own| own.position);
        let id = id.unwrap_or_else(|| self.fresh_id());
        for cost in ask.costs.iter().filter(|cost| takes_part(cost)) {
            let reservation = Reservation {
                id,
                position,
                at,
                weight: cost.weight,
                expires: at + RESERVATION_GRACE,
                stage: ReservationStage::Waiting,
            };
            self.budgets[cost.budget].reserve(reservation);
        }
        id
    }

    /// Returns `None` if every needed shared slot is free. Otherwise returns the number of earlier
    /// requests that are about to take a slot.
    fn waits_for_slot(
        &self,
        ask: &AdmissionRequest,
        id: Option<u64>,
        own: Option<OwnReservation>,
        now: BootInstant,
    ) -> Option<u32> {
        let mut missing = None;
        for cost in &*ask.costs {
            let Some(most) = cost.slots else { continue };
            let earlier = self.earlier_due(cost, own, now);
            if !self.budgets[cost.budget].has_slot(most.get(), id, earlier) {
                missing = Some(missing.unwrap_or(0).max(earlier));
            }
        }
        missing
    }

    /// Reserves the position of an [`AdmissionRequest`] that fits every window while no shared slot
    /// is free.
    fn reserve_until_slot(
        &mut self,
        ask: &AdmissionRequest,
        id: Option<u64>,
        own: Option<OwnReservation>,
        earlier: u32,
        now: BootInstant,
    ) -> AdmissionDecision {
        let id = self.reserve(ask, id, own, now, |cost| {
            cost.weight > 0 || cost.slots.is_some()
        });
        AdmissionDecision::WaitForSlot { id, earlier }
    }

    /// Returns the [`Breaker`] for a request: that of an isolated role, otherwise that of the host.
    #[inline]
    fn breaker_for(&mut self, ask: &AdmissionRequest) -> &mut Breaker {
        if !ask.policy.isolated {
            return &mut self.breaker;
        }
        let isolated = self.isolated.get_or_insert_default();
        let index = isolated
            .iter()
            .position(|(role, _)| *role == ask.role)
            .unwrap_or_else(|| {
                // A current block also applies to the new breaker; its failures start at zero.
                isolated.push((ask.role, self.breaker.with_same_block()));
                isolated.len() - 1
            });
        &mut isolated[index].1
    }

    /// Returns the [`Breaker`] of the host.
    #[must_use]
    pub fn breaker(&self) -> &Breaker {
        &self.breaker
    }

    /// Returns the budgets, in the order of their indices.
    #[must_use]
    pub fn budgets(&self) -> &[Budget] {
        &self.budgets
    }

    /// Returns whether the site can be dropped.
    #[must_use]
    pub fn is_idle(&self, now: BootInstant) -> bool {
        self.breaker.is_idle(now)
            && self
                .breakers()
                .1
                .iter()
                .all(|(_, breaker)| breaker.is_idle(now))
            && self.budgets.iter().all(|budget| budget.is_idle(now))
            && self.host_model().is_none_or(|model| model.is_over(now))
    }

    #[inline]
    fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}

/// Returns whether an instant is later than the caller waits for the rate. The wait until `from`
/// has another cause, and is limited by the deadline alone.
///
/// A request with a reservation was admitted to wait, so it is not refused if it woke slightly
/// late.
#[inline]
fn is_too_late(
    ask: &AdmissionRequest,
    own: Option<OwnReservation>,
    fit: WindowFit,
    from: BootInstant,
) -> bool {
    fit.at > latest_of(ask, own, from)
}

/// Returns the latest instant to which the caller waits for the rate.
#[inline]
fn latest_of(
    ask: &AdmissionRequest,
    own: Option<OwnReservation>,
    from: BootInstant,
) -> BootInstant {
    let latest = own.map_or(ask.latest, |own| ask.latest.max(own.at + RESERVATION_GRACE));
    latest.max(from).min(ask.deadline)
}

#[inline]
fn refused(fit: WindowFit) -> AdmissionDecision {
    AdmissionDecision::Refused(Refusal {
        until: fit.at,
        reason: RefusalReason::Rate {
            window: fit.because,
        },
    })
}
