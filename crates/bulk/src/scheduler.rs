//! The scheduler of a run: one task that decides, many that run steps.
//!
//! Inputs are read into the queue's file while the first items are already active. Before each step
//! an item stands in the lane of the site it goes to. What waits for a rate waits in the hub's own
//! queues and holds nothing; what a host asked to wait for is deferred and comes back when it is
//! due.

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

/// Why a run could not go on. What is done is done, and the rest is in the queue.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RunError {
    /// The queue cannot be read or written.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// Files cannot be written.
    #[error("{0}")]
    Halted(String),
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// Nothing is left to do.
    Complete,
    /// It was cancelled.
    Stopped {
        /// Items left.
        left: u64,
    },
    /// The machine has no network; nothing was sent.
    Offline {
        /// Items left.
        left: u64,
    },
    /// What is left is deferred for longer than the run waits.
    Deferred {
        /// Items left.
        left: u64,
        /// The time until the first of them is due.
        due_in: Duration,
    },
    /// The bytes that a run may fetch are used up.
    BytesSpent {
        /// Items left.
        left: u64,
    },
}

/// How much of a run is really done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunMode {
    /// All of it.
    #[default]
    Full,
    /// No request is made at all.
    DryRun,
    /// Candidate locations are looked up and listed, files are not fetched.
    ListOnly,
}

/// The bounds of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunBounds {
    /// The most steps at once; those that only wait for a host do not count.
    pub workers: usize,
    /// The most bytes of files.
    pub max_bytes: Option<u64>,
    /// The longest wait for paused hosts when nothing else is left to do.
    pub max_wait: Duration,
}

/// Where items come from.
pub trait ItemFeed: Send {
    /// Returns the next few; `None` at the end.
    fn next(&mut self) -> BoxFuture<'_, Option<Vec<NewItem>>>;
}

/// What a run of a job is made of.
pub struct Scheduler<J: Job> {
    /// The job.
    pub job: Arc<J>,
    /// What scheduler and job share.
    pub context: RunContext,
    /// Bounds.
    pub limits: RunBounds,
    /// How much is really done.
    pub mode: RunMode,
}

impl<J: Job> Scheduler<J> {
    /// Works until nothing is left to do, or the run is cancelled.
    ///
    /// # Errors
    /// The run cannot go on; what is left stays queued.
    pub async fn run(self: &Arc<Self>, feed: Box<dyn ItemFeed>) -> Result<RunEnd, RunError> {
        let (events, mut arrived) = mpsc::unbounded_channel();
        let retry_limit = self.limits.max_wait.max(RETRY_WAIT);
        self.context.progress.requests().bound_retries(retry_limit);
        if self.mode == RunMode::Full {
            // Sources and circumstances may have changed since an earlier run deferred an item.
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
                // All that has arrived is taken in before anything new is decided.
                while let Ok(event) = arrived.try_recv() {
                    schedule.take(event)?;
                }
            }
        }
    }

    /// Waits for the next event, or, while every worker is busy, until a step starts to wait.
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

    /// Sends an event whenever a breaker changes.
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

    /// Reads all inputs into the queue, beside the loop.
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
                // What has not been queued is given again with the next run.
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
