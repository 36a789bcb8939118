//! The events that the tasks of a run send to its loop.

use std::collections::BTreeMap;

use docstokg_policy::time::Timestamp;
use tokio::sync::mpsc;

use super::RunError;
use crate::job::{ActiveItem, AwaitedHost, Job};
use crate::lane::WorkLaneKey;
use crate::queue::LaneBacklog;

/// An event of a task.
pub(super) enum SchedulerEvent<J: Job> {
    /// These numbers of items were queued in these lanes.
    Queued(BTreeMap<WorkLaneKey, u64>),
    /// All inputs have been read.
    AllRead,
    /// Lanes were found in the file. The number is that of the requested lanes.
    Listed(usize, Vec<LaneBacklog>),
    /// Items were loaded into memory, with the numbers of requested and found items.
    Loaded(WorkLaneKey, usize, usize, Vec<ActiveItem<J>>),
    /// A step of a lane ended, and these items continue.
    Stepped(WorkLaneKey, Vec<ActiveItem<J>>),
    /// An item returned to a lane of the file.
    PutBack(WorkLaneKey),
    /// An item was deferred until a time, and waits for this host.
    Deferred(Timestamp, AwaitedHost),
    /// The breaker of a host has changed, in this process or another.
    BreakerChanged,
    /// The run cannot continue.
    Broken(RunError),
}

/// Sends the [`SchedulerEvent`] of a task, even if the task panics or is dropped.
pub(super) struct EventSender<J: Job>(Option<mpsc::UnboundedSender<SchedulerEvent<J>>>);

impl<J: Job> EventSender<J> {
    pub(super) const fn new(events: mpsc::UnboundedSender<SchedulerEvent<J>>) -> Self {
        Self(Some(events))
    }

    pub(super) fn send(mut self, event: SchedulerEvent<J>) {
        if let Some(events) = self.0.take() {
            // The loop may have ended.
            let _ = events.send(event);
        }
    }
}

impl<J: Job> Drop for EventSender<J> {
    fn drop(&mut self) {
        if let Some(events) = self.0.take() {
            let _ = events.send(SchedulerEvent::Broken(RunError::Halted(
                "a step broke off unexpectedly; this is a fault of the program".to_owned(),
            )));
        }
    }
}
