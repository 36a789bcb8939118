//! A copy that is written and read as a whole, for a record that is a log of operations. The
//! operations of all processes are applied one by one.

use std::sync::Arc;

use docstokg_policy::breaker::Breaker;
use docstokg_policy::budget::Budget;
use docstokg_policy::extension::Extensions;
use docstokg_policy::site::{Site, SiteOperation, SiteResult};
use docstokg_policy::time::BootInstant;
use serde::{Deserialize, Serialize};

use super::{CorruptRecord, Replica};

/// A whole site as bytes: its header, and the history of its budgets.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct SiteImage {
    header: Vec<u8>,
    histories: Vec<u8>,
}

impl Replica {
    /// Applies the recorded [`SiteOperation`] of a process at its instant. A new permit or
    /// reservation gets the id `id`, and `who` is recorded as the opener of a breaker.
    pub(crate) fn apply(
        &mut self,
        operation: &SiteOperation<'_>,
        id: u64,
        who: &Arc<str>,
        at: BootInstant,
    ) -> SiteResult {
        // The result must not depend on the windows for which this process extended its history, so
        // that every process reaches the same state.
        for budget in self.site.budgets_mut() {
            budget.forget_windows();
        }
        // The site increases the number before it uses it.
        self.site.number_from(id.wrapping_sub(1));
        let result = self.site.apply(operation, at);
        self.site.sign(who);
        // The log contains the operation, so its changes are not recorded.
        for budget in self.site.budgets_mut() {
            budget.drain_journal(|_| ());
        }
        result
    }

    /// Returns the result of a [`SiteOperation`] if the operation changes nothing.
    pub(crate) fn result_without_change(
        &self,
        operation: &SiteOperation<'_>,
        now: BootInstant,
    ) -> Option<SiteResult> {
        let mut trial = self.site.clone();
        for budget in trial.budgets_mut() {
            budget.keep_journal();
        }
        let result = trial.apply(operation, now);
        let mut changes = 0;
        for budget in trial.budgets_mut() {
            budget.drain_journal(|_| changes += 1);
        }
        let is_same = changes == 0 && self.header_of(&trial) == self.encode_header();
        is_same.then_some(result)
    }

    /// Writes the whole copy as a [`SiteImage`].
    pub(crate) fn write_image(&mut self) -> SiteImage {
        self.include_all_budgets();
        self.encode_snapshot();
        SiteImage {
            header: self.encode_header(),
            histories: self.snapshot.clone(),
        }
    }

    /// Replaces the whole copy by the [`SiteImage`] of a process.
    pub(crate) fn read_image(&mut self, image: &SiteImage) -> Result<(), CorruptRecord> {
        self.clear();
        self.header.clone_from(&image.header);
        self.decode_header()?;
        self.decode_snapshot(&image.histories)?;
        self.include_all_budgets();
        Ok(())
    }

    /// Replaces the whole copy by a [`Site`] whose budgets have these names.
    pub(crate) fn replace(&mut self, site: &mut Site, names: &[String]) {
        self.clear();
        let (breaker, isolated) = site.breakers();
        self.site.set_breakers(breaker.clone(), isolated.to_vec());
        self.site.set_extensions(site.extensions());
        for (name, budget) in names.iter().zip(site.budgets_mut()) {
            let index = self.budget(name);
            self.site.budgets_mut()[index] = std::mem::take(budget);
        }
        self.include_all_budgets();
    }

    /// Returns the names of the budgets, in the order of this process.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    fn clear(&mut self) {
        self.order.clear();
        self.site.set_breakers(Breaker::default(), Vec::new());
        self.site.set_extensions(Extensions::default());
        for budget in self.site.budgets_mut() {
            *budget = Budget::default();
        }
    }

    /// Adds all budgets of this process to the record.
    pub(crate) fn include_all_budgets(&mut self) {
        for index in 0..self.names.len() {
            if !self.order.contains(&index) {
                self.order.push(index);
            }
        }
    }
}
