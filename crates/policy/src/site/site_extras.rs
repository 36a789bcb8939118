//! What few sites have beside breaker and budgets, together behind one word: the model of the
//! host's own limits, what retries have spent, and what later versions add.

use super::Site;
use crate::classify::AttemptMeaning;
use crate::extension::Extensions;
use crate::host_model::HostModel;
use crate::host_model::learned::LearnedLimits;
use crate::host_model::quotas::Quotas;
use crate::retry_budget::RetryBudget;
use crate::time::BootInstant;

/// The tag of what retries have spent among the extensions; the others are of the host model.
const RETRIES_TAG: u8 = 3;

/// What few sites have.
#[derive(Clone, Debug, Default)]
pub(super) struct SiteExtras {
    /// What is known of the host's own limits.
    pub(super) host_model: HostModel,
    /// What retries have spent.
    pub(super) retries: RetryBudget,
    /// What later versions add.
    pub(super) extensions: Extensions,
}

impl Site {
    /// Returns what was learned of the host's limits.
    #[inline]
    #[must_use]
    pub fn learned(&self) -> Option<&LearnedLimits> {
        self.host_model()?.learned()
    }

    /// Returns the quotas that the host declares.
    #[inline]
    #[must_use]
    pub fn quotas(&self) -> Option<&Quotas> {
        self.host_model()?.quotas()
    }

    #[inline]
    pub(super) fn added_mut(&mut self) -> &mut SiteExtras {
        self.added.get_or_insert_default()
    }

    /// Returns what retries have spent.
    #[inline]
    #[must_use]
    pub fn retries(&self) -> RetryBudget {
        self.added
            .as_ref()
            .map_or_else(RetryBudget::default, |added| added.retries)
    }

    /// Replaces what retries have spent by what a store knows.
    pub fn set_retries(&mut self, retries: RetryBudget) {
        if self.added.is_some() || retries.spent() > 0 {
            self.added_mut().retries = retries;
        }
    }

    /// Takes in how an attempt ended. Returns whether it may be repeated, if it wants that.
    pub(super) fn settle_retries(
        &mut self,
        outcome: AttemptMeaning,
        wants_retry: bool,
        now: BootInstant,
    ) -> bool {
        let mut retries = self.retries();
        let may = retries.settle(outcome, wants_retry, now);
        self.set_retries(retries);
        may
    }

    /// Returns what was added to the site after the first layout of the stores.
    #[must_use]
    pub fn extensions(&self) -> Extensions {
        let Some(added) = &self.added else {
            return Extensions::default();
        };
        let mut extensions = added.extensions.clone();
        added.host_model.write_to(&mut extensions);
        let retries = postcard::to_allocvec(&added.retries).ok();
        extensions.set(RETRIES_TAG, retries.filter(|_| added.retries.spent() > 0));
        extensions
    }

    /// Replaces what was added by what another process wrote. What cannot be read is forgotten: it
    /// is learned again.
    pub fn set_extensions(&mut self, mut extensions: Extensions) {
        if extensions == Extensions::default() {
            self.added = None;
            return;
        }
        let host_model = HostModel::take_from(&mut extensions);
        let retries = extensions.get(RETRIES_TAG).map(postcard::from_bytes);
        let added = SiteExtras {
            host_model,
            retries: retries.and_then(Result::ok).unwrap_or_default(),
            extensions: {
                extensions.set(RETRIES_TAG, None);
                extensions
            },
        };
        self.added = Some(Box::new(added));
    }

    /// Moves the instants of what was added to the clock of the current boot of the machine.
    pub(super) fn rebase_added(&mut self, shift: &dyn Fn(BootInstant) -> BootInstant) {
        if let Some(added) = &mut self.added {
            added.retries.rebase(shift);
            added.host_model.rebase(shift);
        }
    }
}
