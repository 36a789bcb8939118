//! What the tasks of a run report to its loop.

use std::collections::BTreeMap;

use docstokg_policy::time::Timestamp;
use tokio::sync::mpsc;

use super::RunError;
use crate::job::{ActiveItem, AwaitedHost, Job};
use crate::lane::WorkLaneKey;
use crate::queue::LaneBacklog;

/// What has happened.
pub(super) enum SchedulerEvent<J: Job> {
    /// Items were queued in these lanes.
    Queued(BTreeMap<WorkLaneKey, u64>),
    /// All inputs have been read.
    AllRead,
    /// Lanes were found in the file: so many were asked for.
    Listed(usize, Vec<LaneBacklog>),
    /// Items were brought into memory: how many were asked for, and found.
    Loaded(WorkLaneKey, usize, usize, Vec<ActiveItem<J>>),
    /// A step of a lane ended, and these items go on.
    Stepped(WorkLaneKey, Vec<ActiveItem<J>>),
    /// An item was put back into a lane of the file.
    PutBack(WorkLaneKey),
    /// An item was deferred until a time, and waits for this.
    Deferred(Timestamp, AwaitedHost),
    /// The breaker of a host has changed, here or elsewhere.
    BreakerChanged,
    /// The run cannot go on.
    Broken(RunError),
}

/// Sends the event of a task; also when the task breaks off.
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
