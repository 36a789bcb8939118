//! Stated quotas within a site: when a request may go by them, and what permits and answers change.

use super::order::OwnReservation;
use super::{Ask, Permit, Site, is_too_late};
use crate::budget::Fit;
use crate::quota::{Heard, Need, Statement};
use crate::time::BootInstant;

impl Site {
    /// Takes in what the headers of an answer state.
    pub fn state_quotas(
        &mut self,
        ask: &Ask<'_>,
        permit: &Permit,
        statement: &Statement,
        now: BootInstant,
    ) -> Heard {
        let Some(lane) = ask.quota_lane else {
            return Heard::default();
        };
        self.touched = true;
        let quotas = self.added_mut().quotas.get_or_insert_default();
        quotas.state(lane, (permit.id, permit.stamp), statement, now)
    }

    /// Applies resets, and forgets statements that are old.
    pub(super) fn advance_quotas(&mut self, now: BootInstant) {
        if let Some(quotas) = self.quotas_mut() {
            quotas.advance(now);
            if quotas.is_over(now) {
                self.added_mut().quotas = None;
            }
        }
    }

    /// Returns when a request may go by the stated quotas, and what holds it back; `None` where
    /// they say nothing.
    ///
    /// The even pacing of what is left refuses no request: one that would be late goes while
    /// anything is left.
    pub(super) fn quota_fit(
        &self,
        ask: &Ask<'_>,
        own: Option<OwnReservation>,
        from: BootInstant,
        now: BootInstant,
    ) -> Option<Fit> {
        let (quotas, lane) = (self.quotas()?, ask.quota_lane?);
        let waiting = self.waiting_before(ask, own);
        let need = Need {
            earlier: waiting.saturating_add(ask.queue_position.ahead().unwrap_or(0)),
            backlog: ask.backlog,
            weight: weight(ask),
        };
        let turn = quotas.turn(lane, need, now)?;
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

    /// Counts a permit in the quotas of its lane.
    #[inline]
    pub(super) fn spend_quotas(&mut self, ask: &Ask<'_>, id: u64, now: BootInstant) {
        if let (Some(quotas), Some(lane)) = (self.quotas_mut(), ask.quota_lane) {
            quotas.spend(lane, id, weight(ask), now);
        }
    }

    /// Counts a permit no longer that was not used.
    pub(super) fn take_back_quotas(&mut self, ask: &Ask<'_>, id: u64) {
        if let (Some(quotas), Some(lane)) = (self.quotas_mut(), ask.quota_lane) {
            quotas.take_back(lane, id);
        }
    }
}

/// Returns what a request weighs.
fn weight(ask: &Ask<'_>) -> u32 {
    let weights = ask.costs.iter().map(|cost| cost.weight);
    weights.max().unwrap_or(0)
}
