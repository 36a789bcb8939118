//! The events that the tasks of a run send to the scheduler's loop.

use std::collections::BTreeMap;

use docstokg_policy::time::Timestamp;
use tokio::sync::mpsc;

use super::RunError;
use crate::job::{ActiveItem, AwaitedHost, Job};
use crate::lane::WorkLaneKey;
use crate::queue::LaneBacklog;

/// An event of a task.
pub(super) enum SchedulerEvent<J: Job> {
    /// Items were queued: the number of new items in each lane.
    Queued(BTreeMap<WorkLaneKey, u64>),
    /// The reader of the inputs has ended: all inputs are read, or the run was cancelled.
    AllRead,
    /// A query for lanes of the file has ended: the maximum number of requested lanes, and the
    /// lanes found.
    Listed(usize, Vec<LaneBacklog>),
    /// Items of a lane were loaded into memory: the lane, the requested number, the number found,
    /// and the items.
    Loaded(WorkLaneKey, usize, usize, Vec<ActiveItem<J>>),
    /// A step of a lane ended, and these items need further steps.
    Stepped(WorkLaneKey, Vec<ActiveItem<J>>),
    /// An item was stored in a lane of the file again.
    PutBack(WorkLaneKey),
    /// An item was deferred until a time, and waits for this host.
    Deferred(Timestamp, AwaitedHost),
    /// The breaker of a host has changed, in this process or another.
    BreakerChanged,
    /// The run cannot continue.
    Broken(RunError),
}

/// Sends the [`SchedulerEvent`] of a task. If the task panics or is dropped before, an event is
/// sent that ends the run.
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
