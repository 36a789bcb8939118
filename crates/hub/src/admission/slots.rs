//! The slots of a process: they limit the requests in flight, per budget and in the whole process.
//!
//! Other processes have their own slots. Slots that processes share are leases in the store.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::LaneState;

/// The maximum number of semaphores of one request: its budgets with slots, and the process itself.
const MAX_SLOTS: usize = 5;

/// The slots of a request in flight. Released when dropped.
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

    /// Takes all [`Slots`], or returns `None` if one of them is not free now.
    pub(super) fn try_slots(&self, process: Option<&Arc<Semaphore>>) -> Option<Slots> {
        let mut slots = Slots::default();
        for (place, semaphore) in self.all_slots(process) {
            slots.held[place] = Some(Arc::clone(semaphore).try_acquire_owned().ok()?);
        }
        Some(slots)
    }

    /// Waits for all [`Slots`]. The slot of the process comes last, so that no request keeps that
    /// slot while waiting for a site.
    pub(super) async fn wait_slots(&self, process: Option<&Arc<Semaphore>>) -> Slots {
        let mut slots = Slots::default();
        for (place, semaphore) in self.all_slots(process) {
            // Semaphores are never closed. If one were, a request without its slot is better than a
            // hang.
            slots.held[place] = Arc::clone(semaphore).acquire_owned().await.ok();
        }
        slots
    }
}
