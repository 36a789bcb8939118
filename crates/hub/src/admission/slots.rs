//! Slots: how many requests run at once, per budget and in the process.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::LaneState;

/// The most budgets with slots that one request costs, and the process's own.
const MAX_SLOTS: usize = 5;

/// The slots held by a request in flight. Free again when dropped.
#[derive(Default)]
pub(crate) struct Slots {
    held: [Option<OwnedSemaphorePermit>; MAX_SLOTS],
}

impl LaneState {
    fn all_slots<'a>(
        &'a self,
        process: Option<&'a Arc<Semaphore>>,
    ) -> impl Iterator<Item = (usize, &'a Arc<Semaphore>)> {
        self.slots.iter().chain(process).take(MAX_SLOTS).enumerate()
    }

    /// Takes all slots if all are free now.
    pub(super) fn try_slots(&self, process: Option<&Arc<Semaphore>>) -> Option<Slots> {
        let mut slots = Slots::default();
        for (place, semaphore) in self.all_slots(process) {
            slots.held[place] = Some(Arc::clone(semaphore).try_acquire_owned().ok()?);
        }
        Some(slots)
    }

    /// Waits for all slots, the process's own last: no request holds it while waiting for a site.
    pub(super) async fn wait_slots(&self, process: Option<&Arc<Semaphore>>) -> Slots {
        let mut slots = Slots::default();
        for (place, semaphore) in self.all_slots(process) {
            // Semaphores are never closed; if one were, going on without it is better than hanging.
            slots.held[place] = Arc::clone(semaphore).acquire_owned().await.ok();
        }
        slots
    }
}
