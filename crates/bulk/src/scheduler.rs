//! The scheduler of a run: a single task decides, and many tasks run steps.
//!
//! Inputs are read into the queue's file while the first items are already active. Before each
//! step, an item waits in the lane of its site. A request that waits for a rate limit waits in the
//! hub's queues and does not occupy a worker. If a host declares a pause, its item is deferred and
//! queued again when it is due.

mod event;
mod forecast;
mod schedule;
mod tick;

use std::sync::Arc;
use std::time::Duration;

use docstokg_hub::clock::before;
use tokio::sync::mpsc;

use crate::bulk_request::RETRY_WAIT;
use crate::job::{BoxFuture, Job};
use crate::queue::{AddedItem, NewItem, QueueError};
use crate::run_context::RunContext;
use event::SchedulerEvent;
use schedule::Schedule;

/// The error that ended a run. Finished items are recorded, and unfinished items stay in the queue.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RunError {
    /// The queue cannot be read or written.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// Files cannot be written.
    #[error("{0}")]
    Halted(String),
}

/// The way in which a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// All items are finished.
    Complete,
    /// The run was cancelled.
    Stopped {
        /// The number of unfinished items.
        left: u64,
    },
    /// The machine has no network, so nothing was sent.
    Offline {
        /// The number of unfinished items.
        left: u64,
    },
    /// All unfinished items are deferred, for longer than the maximum wait of the run.
    Deferred {
        /// The number of unfinished items.
        left: u64,
        /// The time until the first item is due.
        due_in: Duration,
    },
    /// The files have reached [`RunBounds::max_bytes`].
    BytesSpent {
        /// The number of unfinished items.
        left: u64,
    },
}

/// The extent of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunMode {
    /// All steps are run, including downloads.
    #[default]
    Full,
    /// No request is sent. The first request of each item is only counted.
    DryRun,
    /// Candidate locations are looked up and listed. Files are not fetched.
    ListOnly,
}

/// The bounds of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunBounds {
    /// Maximum number of concurrent steps. Steps that only wait for a host are not counted.
    pub workers: usize,
    /// Maximum total size of the files that the run fetches, in bytes.
    pub max_bytes: Option<u64>,
    /// Maximum wait for paused hosts if no other step can be run.
    pub max_wait: Duration,
}

/// The inputs of a run, read as items.
pub trait ItemFeed: Send {
    /// Returns the next [`NewItem`]s; `None` at the end.
    fn next(&mut self) -> BoxFuture<'_, Option<Vec<NewItem>>>;
}

/// Runs the items of a [`Job`] within the bounds of a run.
pub struct Scheduler<J: Job> {
    /// The job whose items are run.
    pub job: Arc<J>,
    /// The context that scheduler and job share.
    pub context: RunContext,
    /// The [`RunBounds`] on concurrent steps, on the size of files and on waiting.
    pub limits: RunBounds,
    /// The [`RunMode`], which determines whether requests are sent and files are fetched.
    pub mode: RunMode,
}

impl<J: Job> Scheduler<J> {
    /// Runs the items of `feed` and of the queue until no step is left or the run is cancelled.
    ///
    /// # Errors
    /// Returns a [`RunError`] if the run cannot continue. Unfinished items stay queued.
    pub async fn run(self: &Arc<Self>, feed: Box<dyn ItemFeed>) -> Result<RunEnd, RunError> {
        let (events, mut arrived) = mpsc::unbounded_channel();
        let retry_limit = self.limits.max_wait.max(RETRY_WAIT);
        self.context.progress.requests().bound_retries(retry_limit);
        if self.mode == RunMode::Full {
            // Queue deferred items again: sources and circumstances may have changed since an
            // earlier run deferred them.
            self.context.queue.replan::<J::State>().await?;
        }
        let due = self.context.queue.next_due().await?;
        let mut schedule = Schedule::new(Arc::clone(self), events.clone(), due);
        self.watch_breakers(events.clone());
        let counts = self.context.queue.counts().await?;
        self.context.progress.count(|counters| {
            counters.items = counts.left() + counts.ended();
            (counters.done, counters.failed) = (counts.done, counts.failed);
            counters.already = counts.ended();
        });
        self.read_inputs(feed, events);
        loop {
            if let Some(ended) = schedule.tick().await? {
                self.context.manifest.flush();
                return Ok(ended);
            }
            let wake = schedule.wake();
            let event = self.next_event(&schedule, &mut arrived);
            let event = before(&**self.context.clock.runtime(), wake, event).await;
            if let Some(Some(event)) = event {
                schedule.take(event)?;
                // Apply all events that have arrived before the next decision.
                while let Ok(event) = arrived.try_recv() {
                    schedule.take(event)?;
                }
            }
        }
    }

    /// Waits for the next event. While every worker is busy, also returns, with `None`, when a step
    /// begins to wait, because the step then occupies no worker.
    async fn next_event(
        &self,
        schedule: &Schedule<J>,
        arrived: &mut mpsc::UnboundedReceiver<SchedulerEvent<J>>,
    ) -> Option<SchedulerEvent<J>> {
        if schedule.has_free_worker() {
            return arrived.recv().await;
        }
        tokio::select! {
            event = arrived.recv() => event,
            () = self.context.progress.requests().more_wait() => None,
        }
    }

    /// Sends an event for every change of a breaker.
    fn watch_breakers(&self, events: mpsc::UnboundedSender<SchedulerEvent<J>>) {
        let mut changes = self.context.hub.changes();
        self.context.clock.runtime().spawn(Box::pin(async move {
            while changes.changed().await.is_ok() {
                if events.send(SchedulerEvent::BreakerChanged).is_err() {
                    return;
                }
            }
        }));
    }

    /// Starts a task that reads all inputs into the queue.
    fn read_inputs(
        self: &Arc<Self>,
        feed: Box<dyn ItemFeed>,
        events: mpsc::UnboundedSender<SchedulerEvent<J>>,
    ) {
        let reader = Arc::clone(self);
        self.context.clock.runtime().spawn(Box::pin(async move {
            let end = match reader.ingest(feed, &events).await {
                Ok(()) => SchedulerEvent::AllRead,
                Err(error) => SchedulerEvent::Broken(error.into()),
            };
            let _ = events.send(end);
        }));
    }

    async fn ingest(
        &self,
        mut feed: Box<dyn ItemFeed>,
        events: &mpsc::UnboundedSender<SchedulerEvent<J>>,
    ) -> Result<(), QueueError> {
        while let Some(items) = feed.next().await {
            if self.context.progress.is_cancelled() {
                // A later run reads the remaining inputs again.
                break;
            }
            let lanes: Vec<_> = items.iter().map(|item| item.lane.clone()).collect();
            let added = self
                .context
                .queue
                .add(items, self.context.clock.now())
                .await?;
            let mut queued = std::collections::BTreeMap::new();
            let mut duplicates = 0;
            for (added, lane) in added.into_iter().zip(lanes) {
                match added {
                    AddedItem::New(_) => *queued.entry(lane).or_default() += 1,
                    AddedItem::Known(..) => duplicates += 1,
                }
            }
            self.context.progress.count(|counters| {
                counters.items += queued.values().sum::<u64>();
                counters.duplicates += duplicates;
            });
            if !queued.is_empty() && events.send(SchedulerEvent::Queued(queued)).is_err() {
                return Ok(());
            }
        }
        Ok(())
    }
}
