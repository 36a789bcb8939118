//! The rare parts of a site, which most sites do not allocate: the model of the host's limits, the
//! used retry budget, and the additions of later versions.

use super::Site;
use crate::classify::AttemptMeaning;
use crate::extension::Extensions;
use crate::host_model::HostModel;
use crate::host_model::learned::LearnedLimits;
use crate::host_model::quotas::Quotas;
use crate::retry_budget::RetryBudget;
use crate::time::BootInstant;

/// The tag of the retry budget among the [`Extensions`]; the other tags belong to the host model.
const RETRIES_TAG: u8 = 3;

/// The rare parts of a site.
#[derive(Clone, Debug, Default)]
pub(super) struct SiteExtras {
    /// The known limits of the host itself.
    pub(super) host_model: HostModel,
    /// The used part of the [`RetryBudget`].
    pub(super) retries: RetryBudget,
    /// The additions of later versions.
    pub(super) extensions: Extensions,
}

impl Site {
    /// Returns the [`LearnedLimits`] of the host, if any.
    #[inline]
    #[must_use]
    pub fn learned(&self) -> Option<&LearnedLimits> {
        self.host_model()?.learned()
    }

    /// Returns the [`Quotas`] that the host declares, if any.
    #[inline]
    #[must_use]
    pub fn quotas(&self) -> Option<&Quotas> {
        self.host_model()?.quotas()
    }

    #[inline]
    pub(super) fn added_mut(&mut self) -> &mut SiteExtras {
        self.added.get_or_insert_default()
    }

    /// Returns the [`RetryBudget`].
    #[inline]
    #[must_use]
    pub fn retries(&self) -> RetryBudget {
        self.added
            .as_ref()
            .map_or_else(RetryBudget::default, |added| added.retries)
    }

    /// Replaces the [`RetryBudget`] by that of a store.
    pub fn set_retries(&mut self, retries: RetryBudget) {
        if self.added.is_some() || retries.spent() > 0 {
            self.added_mut().retries = retries;
        }
    }

    /// Records the result of an attempt in the retry budget. Returns whether a retry is allowed, if
    /// the attempt wants one.
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

    /// Returns the parts that were added after the first layout of the stores.
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

    /// Replaces the added parts by those that another process wrote. Unreadable parts are dropped,
    /// and learned again.
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

    /// Moves the instants of the added parts to the clock of the current boot.
    pub(super) fn rebase_added(&mut self, shift: &dyn Fn(BootInstant) -> BootInstant) {
        if let Some(added) = &mut self.added {
            added.retries.rebase(shift);
            added.host_model.rebase(shift);
        }
    }
}
