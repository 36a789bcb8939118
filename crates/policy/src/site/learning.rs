//! The limits of the host itself within a site: when a request may go by them, and what permits and
//! answers change. What they are is in `host_limits`.

use std::time::Duration;

use super::host_limits::Counted;
use super::order::OwnReservation;
use super::{Answered, Ask, Permit, Report, Site, is_too_late};
use crate::budget::{Budget, Fit};
use crate::classify::Outcome;
use crate::learn::Confirmed;
use crate::learned::Taught;
use crate::quota::{Heard, Statement};
use crate::rate::Window;
use crate::time::BootInstant;

impl Site {
    /// Forgets what was learned and what the host stated, and returns whether there was anything.
    pub fn forget_learned(&mut self) -> bool {
        self.touched = true;
        let limits = self.limits_mut().map(std::mem::take);
        limits.is_some_and(|limits| !limits.is_empty())
    }

    /// Lets time pass: gives up what is overdue, applies resets, and forgets what is old.
    pub(super) fn advance_limits(&mut self, now: BootInstant) {
        if let Some(limits) = self.limits_mut() {
            limits.advance(now);
        }
    }

    /// Returns when a request may go by what was learned; `None` where that says nothing.
    pub(super) fn learned_instant(
        &self,
        ask: &Ask,
        own: Option<OwnReservation>,
        is_probe: bool,
        now: BootInstant,
    ) -> Option<BootInstant> {
        let limits = self.limits().filter(|_| !is_probe)?;
        limits.learned_instant(ask, self.waiting_before(ask, own), now)
    }

    /// Returns the learned limit that holds requests back, as a window.
    pub(super) fn learned_window(&self) -> Option<Window> {
        self.limits()?.learned_window()
    }

    /// Returns when a request may go by the stated quotas, and what holds it back; `None` where
    /// they say nothing.
    ///
    /// The even pacing of what is left refuses no request: one that would be late goes while
    /// anything is left.
    pub(super) fn quota_fit(
        &self,
        ask: &Ask,
        own: Option<OwnReservation>,
        from: BootInstant,
        now: BootInstant,
    ) -> Option<Fit> {
        let waiting = self.waiting_before(ask, own);
        let turn = self.limits()?.quota_turn(ask, waiting, now)?;
        let paced = Fit {
            at: turn.paced,
            because: turn.window,
        };
        Some(if is_too_late(ask, own, paced, from) {
            Fit {
                at: turn.earliest,
                ..paced
            }
        } else {
            paced
        })
    }

    /// Notes that a request goes now; returns whether its answer teaches anything.
    #[inline]
    pub(super) fn note_sent(&mut self, ask: &Ask, id: u64, now: BootInstant) -> bool {
        if self.added.is_none() && !ask.searches_upwards() {
            return false;
        }
        let counted = Counted::new(ask, id);
        self.added_mut().limits.permitted(counted, now)
    }

    /// Takes in an answer. A first refusal starts to learn from the history of its budget.
    pub(super) fn learn_from(
        &mut self,
        ask: &Ask,
        permit: &Permit,
        report: &Report,
        now: BootInstant,
    ) -> Option<Confirmed> {
        ask.policy.learn?;
        if self.added.is_none() && report.outcome != Outcome::Throttled {
            return None;
        }
        let answered = Answered::new(ask, permit, report);
        let added = self.added.get_or_insert_default();
        let budget = ask.costs.first().map(|cost| &self.budgets[cost.budget]);
        let history = budget.into_iter().flat_map(Budget::instants);
        added.limits.answered(&answered, history, now)
    }

    /// Takes in the headers of an answer whose body is still to come.
    pub(super) fn hear_headers(
        &mut self,
        ask: &Ask,
        permit: &Permit,
        outcome: Outcome,
        now: BootInstant,
    ) -> Taught {
        let limits = self.limits_mut().filter(|_| ask.policy.learn.is_some());
        limits.map_or_else(Taught::default, |limits| {
            limits.heard(permit.id, outcome, now)
        })
    }

    /// Takes in what the headers of an answer state.
    pub fn state_quotas(
        &mut self,
        ask: &Ask,
        permit: &Permit,
        statement: &Statement,
        now: BootInstant,
    ) -> Heard {
        let Some(lane) = &ask.quota_lane else {
            return Heard::default();
        };
        self.touched = true;
        let limits = &mut self.added_mut().limits;
        limits.state(lane, (permit.id, permit.stamp), statement, now)
    }

    /// Gives up a request: one that was not sent, or one without an answer.
    pub(super) fn leave_limits(&mut self, ask: &Ask, id: u64, spent_at: Option<BootInstant>) {
        if let Some(limits) = self.limits_mut() {
            limits.left(id, spent_at, ask.quota_lane.as_deref());
        }
    }

    /// Returns how long nothing is sent after a refusal, by what was learned.
    pub(super) fn learned_wait(&self, ask: &Ask, now: BootInstant) -> Option<Duration> {
        self.limits()?.throttle_wait(ask, now)
    }
}
