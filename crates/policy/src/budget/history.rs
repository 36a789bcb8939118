//! The history of a budget in the form that a store records for several processes.

use serde::{Deserialize, Serialize};

use super::{Budget, BudgetChange};
use crate::rate::Window;
use crate::ring::{Bucket, BucketRing};
use crate::time::BootInstant;

/// The complete history of a [`Budget`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// The exact permits, oldest first.
    permits: Vec<BootInstant>,
    /// The buckets of each large [`Window`].
    coarse: Vec<(Window, Vec<Bucket>)>,
}

impl Budget {
    /// Starts a journal of changes of the history, for processes that share it.
    pub fn keep_journal(&mut self) {
        self.journal = Some(Box::default());
    }

    /// Clears the record of the windows for which the history was last extended. A process that has
    /// just read the history does not have this record, so all processes then take the same steps.
    pub fn forget_windows(&mut self) {
        self.remembered = 0;
    }

    /// Calls `to` with each [`BudgetChange`] since the last call, and clears the journal.
    #[inline]
    pub fn drain_journal(&mut self, mut to: impl FnMut(BudgetChange)) {
        if let Some(journal) = &mut self.journal {
            journal.iter().copied().for_each(&mut to);
            journal.clear();
        }
    }

    /// Applies a [`BudgetChange`] that another process recorded.
    pub fn replay(&mut self, change: BudgetChange) {
        let journal = self.journal.take();
        match change {
            BudgetChange::Spent { weight, at } => self.spend(weight, at),
            BudgetChange::TakenBack { weight, at } => self.take_back(weight, at),
        }
        self.journal = journal;
    }

    /// Returns the instants of the exact permits, oldest first.
    pub fn instants(&self) -> impl Iterator<Item = BootInstant> {
        self.ring.iter()
    }

    /// Returns the complete [`History`].
    #[must_use]
    pub fn history(&self) -> History {
        History {
            permits: self.ring.iter().collect(),
            coarse: self
                .coarse
                .iter()
                .map(|coarse| (coarse.window(), coarse.buckets().collect()))
                .collect(),
        }
    }

    /// Replaces the [`History`].
    pub fn restore(&mut self, history: History) {
        self.ring.restore(history.permits);
        for (window, buckets) in history.coarse {
            if let Some(coarse) = self
                .coarse
                .iter_mut()
                .find(|coarse| coarse.window() == window)
            {
                coarse.restore(buckets);
            }
        }
    }

    /// Replaces all state except the history by the state that another process wrote.
    pub fn adopt(&mut self, other: Self) {
        let Self {
            keep,
            coarse,
            reservations,
            slots,
            multiplier,
            counts,
            waits,
            extensions,
            ..
        } = other;
        let mut own = std::mem::take(&mut self.coarse);
        self.coarse = coarse
            .into_iter()
            .map(|theirs| {
                match own
                    .iter()
                    .position(|coarse| coarse.window() == theirs.window())
                {
                    Some(index) => {
                        let mut same = own.swap_remove(index);
                        same.widen(theirs.width());
                        same
                    }
                    None => theirs,
                }
            })
            .collect::<Vec<BucketRing>>();
        // The other process may not have known the windows of this process, so the history is
        // extended for them again.
        self.remembered = 0;
        (self.keep, self.reservations, self.slots) = (keep, reservations, slots);
        (self.multiplier, self.counts, self.waits) = (multiplier, counts, waits);
        self.extensions = extensions;
    }

    /// Moves every instant to another clock.
    ///
    /// No permit is later than `now`, even if the wall clock says so.
    pub fn rebase(&mut self, shift: &dyn Fn(BootInstant) -> BootInstant, now: BootInstant) {
        let shift = &|instant| shift(instant).min(now);
        let history = self.history();
        self.ring
            .restore(history.permits.into_iter().map(shift).collect());
        for coarse in &mut self.coarse {
            let buckets: Vec<Bucket> = coarse.buckets().map(|bucket| bucket.moved(shift)).collect();
            coarse.restore(buckets);
        }
        // The holders of reservations and slots ended with the reboot.
        self.reservations.clear();
        self.slots.clear();
        self.counts = None;
        self.waits = None;
    }
}
