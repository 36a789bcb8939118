//! The interface for stores that share a site with other processes: its parts, and their changes.

use std::sync::Arc;

use super::Site;
use crate::breaker::Breaker;
use crate::budget::Budget;
use crate::role::Role;
use crate::time::BootInstant;
use crate::windows::Windows;

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

    /// Creates a site from its parts.
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

    /// Returns whether state other than the history may have changed since the last call of this
    /// function.
    pub fn take_touched(&mut self) -> bool {
        std::mem::take(&mut self.touched)
    }

    /// Returns the [`Breaker`] of the host, and those of isolated roles.
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

    /// Returns the budgets for synchronisation with other processes.
    pub fn budgets_mut(&mut self) -> &mut Vec<Budget> {
        &mut self.budgets
    }

    /// Counts `weight` of a budget as used at `now`, because another store permitted it.
    pub fn note_spent(&mut self, budget: usize, windows: &Windows, weight: u32, now: BootInstant) {
        if let Some(budget) = self.budgets.get_mut(budget) {
            budget.remember(windows);
            budget.spend(weight, now);
        }
    }

    /// Reverts a use at `at` that [`Site::note_spent`] counted.
    pub fn note_unspent(&mut self, budget: usize, weight: u32, at: BootInstant) {
        if let Some(budget) = self.budgets.get_mut(budget) {
            budget.take_back(weight, at);
        }
    }

    /// Records `who` as the process or operator that opened the breakers which have just opened.
    pub fn sign(&mut self, who: &Arc<str>) {
        self.breaker.sign(who);
        for (_, breaker) in self.isolated.iter_mut().flat_map(|own| own.iter_mut()) {
            breaker.sign(who);
        }
    }

    /// Moves every instant to the clock of the current boot, at `now`.
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
