//! How the history of a budget is written down and read again by a store that several processes
//! share.

use serde::{Deserialize, Serialize};

use super::{Budget, Change};
use crate::rate::Window;
use crate::ring::{Bucket, Coarse};
use crate::time::BootInstant;

/// The history of a budget, whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// The exact grants, oldest first.
    grants: Vec<BootInstant>,
    /// The buckets of each large window.
    coarse: Vec<(Window, Vec<Bucket>)>,
}

impl Budget {
    /// Starts to write down changes of the history, for whoever shares it.
    pub fn keep_journal(&mut self) {
        self.journal = Some(Box::default());
    }

    /// Hands over the changes since the last call.
    #[inline]
    pub fn hand_over_journal(&mut self, mut to: impl FnMut(Change)) {
        if let Some(journal) = &mut self.journal {
            journal.iter().copied().for_each(&mut to);
            journal.clear();
        }
    }

    /// Repeats a change that another process made.
    pub fn replay(&mut self, change: Change) {
        let journal = self.journal.take();
        match change {
            Change::Spent { weight, at } => self.spend(weight, at),
            Change::TakenBack { weight, at } => self.take_back(weight, at),
        }
        self.journal = journal;
    }

    /// Returns the history, whole.
    #[must_use]
    pub fn history(&self) -> History {
        History {
            grants: self.ring.iter().collect(),
            coarse: self
                .coarse
                .iter()
                .map(|coarse| (coarse.window(), coarse.buckets().collect()))
                .collect(),
        }
    }

    /// Replaces the history.
    pub fn restore(&mut self, history: History) {
        self.ring.restore(history.grants);
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

    /// Takes over everything but the history from what another process wrote.
    pub fn adopt(&mut self, other: Self) {
        let Self {
            keep,
            coarse,
            reservations,
            slots,
            multiplier,
            tally,
            waits,
            extensions,
            ..
        } = other;
        let mut mine = std::mem::take(&mut self.coarse);
        self.coarse = coarse
            .into_iter()
            .map(|theirs| {
                match mine
                    .iter()
                    .position(|coarse| coarse.window() == theirs.window())
                {
                    Some(place) => {
                        let mut same = mine.swap_remove(place);
                        same.widen(theirs.width());
                        same
                    }
                    None => theirs,
                }
            })
            .collect::<Vec<Coarse>>();
        // Another process may have written before it had heard of our windows.
        self.remembered = 0;
        (self.keep, self.reservations, self.slots) = (keep, reservations, slots);
        (self.multiplier, self.tally, self.waits) = (multiplier, tally, waits);
        self.extensions = extensions;
    }

    /// Moves every instant to another clock.
    ///
    /// Whatever the wall clock says, no grant lies ahead of `now`.
    pub fn rebase(&mut self, shift: &dyn Fn(BootInstant) -> BootInstant, now: BootInstant) {
        let shift = &|instant| shift(instant).min(now);
        let history = self.history();
        self.ring
            .restore(history.grants.into_iter().map(shift).collect());
        for coarse in &mut self.coarse {
            let buckets: Vec<Bucket> = coarse.buckets().map(|bucket| bucket.moved(shift)).collect();
            coarse.restore(buckets);
        }
        // Whoever waited, or held a slot, is gone with the machine's last start.
        self.reservations.clear();
        self.slots.clear();
        self.tally = None;
        self.waits = None;
    }
}
