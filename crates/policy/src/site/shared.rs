//! What a store that shares a site with other processes needs: its parts, what has changed, and
//! questions that own their data.

use std::sync::Arc;
use std::time::Duration;

use super::{Ask, Cost, Patience, QueuePosition, Site};
use crate::adaptive::AdaptivePolicy;
use crate::breaker::{Breaker, BreakerPolicy};
use crate::budget::Budget;
use crate::learned::LearnPolicy;
use crate::role::Role;
use crate::time::BootInstant;
use crate::windows::Windows;

/// A question that owns its parts, for stores that answer it on another thread or machine.
#[derive(Clone, Debug)]
pub struct OwnedAsk {
    role: Role,
    isolated: bool,
    costs: Vec<Cost>,
    breaker: BreakerPolicy,
    adaptive: Option<AdaptivePolicy>,
    latest: BootInstant,
    deadline: BootInstant,
    patience: Patience,
    queue_position: QueuePosition,
    jitter_sample: f64,
    lease: Duration,
    asked: BootInstant,
    learn: Option<LearnPolicy>,
    quota_lane: Option<Arc<str>>,
    credits: u32,
    backlog: u32,
}

impl Ask<'_> {
    /// Copies the question.
    #[must_use]
    pub fn to_owned(&self) -> OwnedAsk {
        OwnedAsk {
            role: self.role,
            isolated: self.isolated,
            costs: self.costs.to_vec(),
            breaker: self.breaker.clone(),
            adaptive: self.adaptive.copied(),
            latest: self.latest,
            deadline: self.deadline,
            patience: self.patience,
            queue_position: self.queue_position,
            jitter_sample: self.jitter_sample,
            lease: self.lease,
            asked: self.asked,
            learn: self.learn.copied(),
            quota_lane: self.quota_lane.cloned(),
            credits: self.credits,
            backlog: self.backlog,
        }
    }
}

impl OwnedAsk {
    /// Returns the question.
    #[must_use]
    pub fn as_ask(&self) -> Ask<'_> {
        Ask {
            role: self.role,
            isolated: self.isolated,
            costs: &self.costs,
            breaker: &self.breaker,
            adaptive: self.adaptive.as_ref(),
            latest: self.latest,
            deadline: self.deadline,
            patience: self.patience,
            queue_position: self.queue_position,
            jitter_sample: self.jitter_sample,
            lease: self.lease,
            asked: self.asked,
            learn: self.learn.as_ref(),
            quota_lane: self.quota_lane.as_ref(),
            credits: self.credits,
            backlog: self.backlog,
        }
    }

    /// Replaces the costs.
    #[must_use]
    pub fn with_costs(self, costs: Vec<Cost>) -> Self {
        Self { costs, ..self }
    }
}

#[expect(clippy::box_collection, reason = "one word where there are none")]
fn boxed(isolated: Vec<(Role, Breaker)>) -> Option<Box<Vec<(Role, Breaker)>>> {
    (!isolated.is_empty()).then(|| Box::new(isolated))
}

impl Site {
    /// Numbers reservations and permits from `first` on. Processes that share a site must not use
    /// the same ids.
    pub fn number_from(&mut self, first: u64) {
        self.next_id = first;
    }

    /// Puts a site together from its parts.
    #[must_use]
    pub fn from_parts(
        breaker: Breaker,
        isolated: Vec<(Role, Breaker)>,
        budgets: Vec<Budget>,
    ) -> Self {
        Self {
            breaker,
            isolated: boxed(isolated),
            budgets,
            ..Self::default()
        }
    }

    /// Returns whether anything but history may have changed since the last call.
    pub fn take_touched(&mut self) -> bool {
        std::mem::take(&mut self.touched)
    }

    /// Returns the breakers: the host's, and those of isolated roles.
    #[must_use]
    pub fn breakers(&self) -> (&Breaker, &[(Role, Breaker)]) {
        (
            &self.breaker,
            self.isolated.as_deref().map_or(&[], Vec::as_slice),
        )
    }

    /// Replaces the breakers by those that another process wrote.
    pub fn set_breakers(&mut self, breaker: Breaker, isolated: Vec<(Role, Breaker)>) {
        (self.breaker, self.isolated) = (breaker, boxed(isolated));
    }

    /// Returns the budgets, to be brought up to date with other processes.
    pub fn budgets_mut(&mut self) -> &mut Vec<Budget> {
        &mut self.budgets
    }

    /// Counts `weight` of a budget as used at `now`: another store permitted it.
    pub fn note_spent(&mut self, budget: usize, windows: &Windows, weight: u32, now: BootInstant) {
        if let Some(budget) = self.budgets.get_mut(budget) {
            budget.remember(windows);
            budget.spend(weight, now);
        }
    }

    /// Notes that what [`Site::note_spent`] counted at an instant was not used after all.
    pub fn note_unspent(&mut self, budget: usize, weight: u32, at: BootInstant) {
        if let Some(budget) = self.budgets.get_mut(budget) {
            budget.take_back(weight, at);
        }
    }

    /// Records who opened the breakers that have just opened.
    pub fn sign(&mut self, who: &Arc<str>) {
        self.breaker.sign(who);
        for (_, breaker) in self.isolated.iter_mut().flat_map(|own| own.iter_mut()) {
            breaker.sign(who);
        }
    }

    /// Moves every instant to the clock of the current boot of the machine, at `now`.
    pub fn rebase(&mut self, shift: &dyn Fn(BootInstant) -> BootInstant, now: BootInstant) {
        self.breaker.rebase(shift);
        for (_, breaker) in self.isolated.iter_mut().flat_map(|own| own.iter_mut()) {
            breaker.rebase(shift);
        }
        for budget in &mut self.budgets {
            budget.rebase(shift, now);
        }
        self.rebase_added(shift);
        self.touched = true;
    }
}
