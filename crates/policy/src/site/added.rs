//! What few sites have beside breaker and budgets, together behind one word: what was learned, what
//! the host states, what retries have spent, and what later versions add.

use super::Site;
use crate::classify::Outcome;
use crate::extension::Extensions;
use crate::learned::Learned;
use crate::quota::Quotas;
use crate::retry_budget::RetryBudget;
use crate::time::BootInstant;

/// The tag of what was learned among the extensions.
const LEARNED: u8 = 1;
/// The tag of stated quotas.
const QUOTAS: u8 = 2;
/// The tag of what retries have spent.
const RETRIES: u8 = 3;

/// What few sites have.
#[derive(Clone, Debug, Default)]
pub(super) struct Added {
    /// What was learned of the host's limits.
    pub(super) learned: Option<Learned>,
    /// What the host states about its quotas.
    pub(super) quotas: Option<Quotas>,
    /// What retries have spent.
    pub(super) retries: RetryBudget,
    /// What later versions add.
    pub(super) extensions: Extensions,
}

impl Site {
    /// Returns what was learned of the host's limits.
    #[inline]
    #[must_use]
    pub fn learned(&self) -> Option<&Learned> {
        self.added.as_ref()?.learned.as_ref()
    }

    /// Returns the quotas that the host states.
    #[inline]
    #[must_use]
    pub fn quotas(&self) -> Option<&Quotas> {
        self.added.as_ref()?.quotas.as_ref()
    }

    #[inline]
    pub(super) fn added_mut(&mut self) -> &mut Added {
        self.added.get_or_insert_default()
    }

    #[inline]
    pub(super) fn learned_mut(&mut self) -> Option<&mut Learned> {
        self.added.as_mut()?.learned.as_mut()
    }

    #[inline]
    pub(super) fn quotas_mut(&mut self) -> Option<&mut Quotas> {
        self.added.as_mut()?.quotas.as_mut()
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
        outcome: Outcome,
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
        let learned = added.learned.as_ref();
        extensions.set(
            LEARNED,
            learned.and_then(|learned| postcard::to_allocvec(learned).ok()),
        );
        let quotas = added.quotas.as_ref();
        extensions.set(
            QUOTAS,
            quotas.and_then(|quotas| postcard::to_allocvec(quotas).ok()),
        );
        let retries = postcard::to_allocvec(&added.retries).ok();
        extensions.set(RETRIES, retries.filter(|_| added.retries.spent() > 0));
        extensions
    }

    /// Replaces what was added by what another process wrote. What cannot be read is forgotten: it
    /// is learned again.
    pub fn set_extensions(&mut self, mut extensions: Extensions) {
        if extensions == Extensions::default() {
            self.added = None;
            return;
        }
        let learned = extensions.get(LEARNED).map(postcard::from_bytes);
        let quotas = extensions.get(QUOTAS).map(postcard::from_bytes);
        let retries = extensions.get(RETRIES).map(postcard::from_bytes);
        let added = Added {
            learned: learned.and_then(Result::ok),
            quotas: quotas.and_then(Result::ok),
            retries: retries.and_then(Result::ok).unwrap_or_default(),
            extensions: {
                extensions.set(LEARNED, None);
                extensions.set(QUOTAS, None);
                extensions.set(RETRIES, None);
                extensions
            },
        };
        self.added = Some(Box::new(added));
    }

    /// Moves the instants of what was added to the clock of the current boot of the machine.
    pub(super) fn rebase_added(&mut self, shift: &dyn Fn(BootInstant) -> BootInstant) {
        if let Some(added) = &mut self.added {
            added.retries.rebase(shift);
            if let Some(learned) = &mut added.learned {
                learned.rebase(shift);
            }
            if let Some(quotas) = &mut added.quotas {
                quotas.rebase(shift);
            }
        }
    }
}
