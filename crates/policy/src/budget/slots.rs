//! Slots for concurrent requests, shared through the store: leases that expire unless their holder
//! renews them.

use serde::{Deserialize, Serialize};

use super::Budget;
use crate::time::BootInstant;

/// A slot shared through the store, with the id of the request that holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SlotLease {
    id: u64,
    pub(super) expires: BootInstant,
}

impl Budget {
    /// Returns whether the request `id` may use one of `most` shared slots: because the request has
    /// a slot already, or because a slot stays free after `earlier_due` earlier requests took
    /// theirs.
    #[must_use]
    pub(crate) fn has_slot(&self, most: u32, id: Option<u64>, earlier_due: u32) -> bool {
        let taken = self.slots.len() as u64 + u64::from(earlier_due);
        taken < u64::from(most) || id.is_some_and(|id| self.slots.iter().any(|slot| slot.id == id))
    }

    /// Takes a shared slot for the request `id`, or renews the slot that the request has.
    pub fn take_slot(&mut self, id: u64, expires: BootInstant) {
        match self.slots.iter_mut().find(|slot| slot.id == id) {
            Some(slot) => slot.expires = expires,
            None => self.slots.push(SlotLease { id, expires }),
        }
    }

    /// Releases the shared slot of `id`, and returns whether there was a slot.
    pub fn free_slot(&mut self, id: u64) -> bool {
        let before = self.slots.len();
        self.slots.retain(|slot| slot.id != id);
        self.slots.len() < before
    }

    /// Renews the shared slots of `ids`.
    pub fn renew(&mut self, ids: &[u64], expires: BootInstant) {
        for slot in self.slots.iter_mut().filter(|slot| ids.contains(&slot.id)) {
            slot.expires = slot.expires.max(expires);
        }
    }

    /// Returns how many shared slots are in use at `now`.
    #[must_use]
    pub fn slots_held(&self, now: BootInstant) -> usize {
        self.slots.iter().filter(|slot| slot.expires > now).count()
    }
}
