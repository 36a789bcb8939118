//! The slots of a process. They limit its requests in flight, for each budget and in total.
//!
//! Other processes have their own slots. Slots that all processes share are leases in the store.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::LaneState;

/// The maximum number of slots of one request: one for each budget with slots, and that of the
/// process.
const MAX_SLOTS: usize = 5;

/// The slots that a request occupies until they are dropped.
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

    /// Waits until all [`Slots`] are free and takes them. The slot of the process is taken last, so
    /// that no request occupies it while waiting for a slot of a site.
    pub(super) async fn wait_slots(&self, process: Option<&Arc<Semaphore>>) -> Slots {
        let mut slots = Slots::default();
        for (place, semaphore) in self.all_slots(process) {
            // Semaphores are never closed. If one were, the request would rather continue without
            // its slot than wait forever.
            slots.held[place] = Arc::clone(semaphore).acquire_owned().await.ok();
        }
        slots
    }
}
