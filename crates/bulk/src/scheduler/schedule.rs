//! The location of every item of a run: in a lane, active, on its way to the file, or deferred.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use docstokg_hub::clock::{BootInstant, Timestamp, before};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::event::{EventSender, SchedulerEvent};
use super::{RunError, Scheduler};
use crate::deferral::Deferral;
use crate::job::{ActiveItem, Job, JobState, LoadedItem, NextStep};
use crate::join::run_all;
use crate::lane::WorkLaneKey;
use crate::lanes::WorkLanes;
use crate::queue::{ClaimedItem, PutBack};
use crate::remaining::LanePaces;
use crate::silence::Silences;
use crate::watches::Watches;

/// The interval at which the loop checks for cancellation.
const CANCELLATION_CHECK: Duration = Duration::from_millis(100);
/// The same interval under simulated time, in which every change wakes the loop.
const SIMULATED_CHECK: Duration = Duration::from_secs(3_600);
/// The delay after its deadline at which a step is dropped, so that the deadline has certainly
/// passed.
const AFTER_DEADLINE: Duration = Duration::from_millis(5);

/// The state of the scheduler's loop.
pub(super) struct Schedule<J: Job> {
    pub(super) run: Arc<Scheduler<J>>,
    pub(super) lanes: WorkLanes<ActiveItem<J>>,
    events: mpsc::UnboundedSender<SchedulerEvent<J>>,
    /// The number of running steps.
    pub(super) active: usize,
    /// The number of running changes of the file.
    pub(super) pending: usize,
    pub(super) all_read: bool,
    /// The time at which the next deferred item is due.
    pub(super) due: Option<Timestamp>,
    /// The number of items that wait for their input lines.
    missing_input: u64,
    /// The time of the latest forecast.
    pub(super) estimated: Option<BootInstant>,
    /// The pace of each lane.
    pub(super) paces: Arc<Mutex<LanePaces>>,
    /// The hosts that deferred items wait for.
    pub(super) watches: Watches,
    /// The times for which these hosts have been silent.
    pub(super) silences: Silences,
    /// A breaker has changed since the hosts were last checked.
    pub(super) has_breaker_changed: bool,
    /// The number of deferred items on their way to the file.
    pub(super) deferring: usize,
    /// The number of such items that were not in the file when all deferred items were planned
    /// again.
    pub(super) missed_by_replan: usize,
    /// The last such item has arrived, so all deferred items must be planned again.
    pub(super) must_replan: bool,
}

impl<J: Job> Schedule<J> {
    pub(super) fn new(
        run: Arc<Scheduler<J>>,
        events: mpsc::UnboundedSender<SchedulerEvent<J>>,
        due: Option<Timestamp>,
    ) -> Self {
        let watches = Watches::new(run.context.hub.clone());
        let now = run.context.clock.runtime().boot();
        Self {
            run,
            lanes: WorkLanes::default(),
            events,
            active: 0,
            pending: 0,
            all_read: false,
            due,
            missing_input: 0,
            estimated: None,
            paces: Arc::new(Mutex::new(LanePaces::new(now))),
            watches,
            silences: Silences::default(),
            has_breaker_changed: false,
            deferring: 0,
            missed_by_replan: 0,
            must_replan: false,
        }
    }

    /// Returns the time at which the loop continues without an event.
    pub(super) fn wake(&self) -> BootInstant {
        let runtime = self.run.context.clock.runtime();
        let check = runtime.boot()
            + if runtime.can_pause() {
                CANCELLATION_CHECK
            } else {
                SIMULATED_CHECK
            };
        match self.due.filter(|_| self.has_free_worker()) {
            Some(due) => check.min(self.run.context.clock.instant(due) + Duration::from_millis(1)),
            None => check,
        }
    }

    /// Tells whether another step may be started. A step that only waits occupies no worker: hosts
    /// with long pauses must not delay the others.
    pub(super) fn has_free_worker(&self) -> bool {
        let waiting = self.run.context.progress.requests().waiting();
        self.active.saturating_sub(waiting) < self.run.limits.workers
    }

    /// Applies a [`SchedulerEvent`].
    pub(super) fn take(&mut self, event: SchedulerEvent<J>) -> Result<(), RunError> {
        match event {
            SchedulerEvent::Queued(lanes) => {
                for (lane, items) in lanes {
                    self.stored(&lane, items);
                }
            }
            SchedulerEvent::AllRead => {
                self.all_read = true;
                // The forecast counts only the inputs read by then.
                self.estimated = None;
                self.run.context.progress.set_end(None);
                let items = std::mem::take(&mut self.missing_input);
                self.stored(&WorkLaneKey::MissingInput, items);
                self.run
                    .context
                    .progress
                    .count(|counters| counters.all_read = true);
            }
            SchedulerEvent::Listed(asked, found) => {
                self.pending -= 1;
                let job = &self.run.job;
                self.lanes.listed(found, asked, |lane| job.bounds(lane));
            }
            SchedulerEvent::Loaded(lane, asked, found, items) => {
                self.pending -= 1;
                self.lanes.loaded(&lane, asked, found);
                // Most items continue in the lane they were stored in. Some determine their lane
                // only now.
                for item in items {
                    self.place(item);
                }
            }
            SchedulerEvent::Stepped(lane, items) => {
                self.active -= 1;
                self.lanes.ended(&lane);
                self.note_backlog(&lane);
                // A refused request says nothing about the pace of served requests.
                let is_deferred = |item: &ActiveItem<J>| matches!(item.next, NextStep::Wait(_));
                if items.is_empty() || !items.iter().all(is_deferred) {
                    let now = self.run.context.clock.runtime().boot();
                    self.paces.lock().note_end(&lane, now);
                }
                for item in items {
                    self.place(item);
                }
            }
            SchedulerEvent::PutBack(WorkLaneKey::MissingInput) if !self.all_read => {
                self.pending -= 1;
                self.missing_input += 1;
            }
            SchedulerEvent::PutBack(lane) => {
                self.pending -= 1;
                self.stored(&lane, 1);
            }
            SchedulerEvent::Deferred(until, awaited) => {
                self.pending -= 1;
                self.deferring -= 1;
                if self.missed_by_replan > 0 {
                    self.missed_by_replan -= 1;
                    self.must_replan |= self.missed_by_replan == 0;
                }
                self.due = Some(self.due.map_or(until, |due| due.min(until)));
                // The host may have come back while the item was on its way to the file.
                self.has_breaker_changed |= self.watches.add_missed(&awaited);
            }
            SchedulerEvent::BreakerChanged => self.has_breaker_changed = true,
            SchedulerEvent::Broken(error) => return Err(error),
        }
        Ok(())
    }

    /// Counts items that were stored in a lane of the file.
    pub(super) fn stored(&mut self, lane: &WorkLaneKey, items: u64) {
        let job = &self.run.job;
        self.lanes.stored(lane, items, || job.bounds(lane));
    }

    /// Moves an item to its next place: a lane, a later time, or its end.
    pub(super) fn place(&mut self, item: ActiveItem<J>) {
        if item.is_input_missing && !self.all_read {
            // The input line may still be read.
            return self.put_back(item, WorkLaneKey::MissingInput);
        }
        match &item.next {
            NextStep::Wait(until) => {
                let until = *until;
                self.defer(item, until);
            }
            NextStep::End => self.finish(item),
            NextStep::Run(step) => {
                let lane = self.run.job.lane(&item.state, step);
                if self.run.context.progress.is_cancelled() {
                    return self.put_back(item, lane);
                }
                let job = &self.run.job;
                if let Some(item) = self.lanes.push(&lane, item, || job.bounds(&lane)) {
                    self.put_back(item, lane);
                }
            }
        }
    }

    /// Returns an item to the lane of a [`WorkLaneKey`] in the file.
    pub(super) fn put_back(&mut self, item: ActiveItem<J>, lane: WorkLaneKey) {
        let done = SchedulerEvent::PutBack(lane.clone());
        self.write_back(item, lane, None, done);
    }

    /// Defers an [`ActiveItem`] until a time, and watches its host.
    fn defer(&mut self, mut item: ActiveItem<J>, until: Timestamp) {
        let awaited = self.run.job.awaited(&item.state, until);
        let now = self.run.context.clock.now();
        let served_ago = self.served_ago(&awaited.host);
        let failing_for = self.failing_for(&awaited.host);
        (self.silences).begin(&awaited.host, failing_for, served_ago, now);
        self.watches.add(&awaited);
        let due = self.watches.due(&awaited.host, until, now);
        let deferral = Deferral {
            host: awaited.host.clone(),
            until: due,
            why: awaited.why.clone(),
            set_by: awaited.set_by,
            resolver: awaited.paused_resolver.clone(),
            ready_at: (due != until).then_some(until),
        };
        self.run.context.progress.defer(&deferral);
        *item.state.deferral() = Some(deferral);
        self.deferring += 1;
        let done = SchedulerEvent::Deferred(due, awaited);
        self.write_back(item, WorkLaneKey::Start, Some(due), done);
    }

    fn write_back(
        &mut self,
        item: ActiveItem<J>,
        lane: WorkLaneKey,
        not_before: Option<Timestamp>,
        done: SchedulerEvent<J>,
    ) {
        self.pending += 1;
        let run = Arc::clone(&self.run);
        self.spawn(async move {
            let back = PutBack {
                id: item.id,
                lane,
                saved_state: if item.is_input_missing {
                    None
                } else {
                    item.state.encode()
                },
                attempts: item.state.attempts(),
                not_before,
            };
            match run
                .context
                .queue
                .put_back(back, run.context.clock.now())
                .await
            {
                Ok(()) => done,
                Err(error) => SchedulerEvent::Broken(error.into()),
            }
        });
    }

    /// Finishes an item without a step: the item was already at its end when it was loaded, or its
    /// step was dropped.
    fn finish(&mut self, item: ActiveItem<J>) {
        self.active += 1;
        let run = Arc::clone(&self.run);
        self.spawn(async move {
            match run.job.finish(item).await {
                Ok(()) => SchedulerEvent::Stepped(WorkLaneKey::Start, Vec::new()),
                Err(error) => SchedulerEvent::Broken(error),
            }
        });
    }

    /// Lists lanes of the file.
    pub(super) fn list(&mut self, after: Option<WorkLaneKey>, most: usize) {
        self.pending += 1;
        let run = Arc::clone(&self.run);
        self.spawn(async move {
            match run.context.queue.backlog(after, most).await {
                Ok(found) => SchedulerEvent::Listed(most, found),
                Err(error) => SchedulerEvent::Broken(error.into()),
            }
        });
    }

    /// Loads items of a lane into memory.
    pub(super) fn load(&mut self, lane: WorkLaneKey, most: usize) {
        self.pending += 1;
        let run = Arc::clone(&self.run);
        self.spawn(async move {
            match run.context.queue.claim(lane.clone(), most).await {
                Ok(items) => {
                    let found = items.len();
                    let items = items.into_iter().filter_map(|item| run.activate(item));
                    SchedulerEvent::Loaded(lane, most, found, items.collect())
                }
                Err(error) => SchedulerEvent::Broken(error.into()),
            }
        });
    }

    /// Starts a step of a lane.
    pub(super) fn start(&mut self, lane: WorkLaneKey, items: Vec<ActiveItem<J>>) {
        self.active += 1;
        self.note_backlog(&lane);
        let run = Arc::clone(&self.run);
        self.spawn(async move {
            match run.step(items).await {
                Ok(items) => SchedulerEvent::Stepped(lane, items),
                Err(error) => SchedulerEvent::Broken(error),
            }
        });
    }

    /// Reports the remaining requests of a lane to the hub, whose limiter spreads long windows over
    /// them.
    fn note_backlog(&self, lane: &WorkLaneKey) {
        if let Some((site, role)) = self.run.job.site(lane) {
            let requests = u32::try_from(self.lanes.requests(lane)).unwrap_or(u32::MAX);
            let group = self.run.context.progress.requests();
            group.set_backlog(site, role, requests);
        }
    }

    /// Runs a task beside the loop, which receives its [`SchedulerEvent`].
    fn spawn(&self, task: impl Future<Output = SchedulerEvent<J>> + Send + 'static) {
        let sender = EventSender::new(self.events.clone());
        self.run.context.clock.runtime().spawn(Box::pin(async move {
            let event = task.await;
            sender.send(event);
        }));
    }
}

impl<J: Job> Scheduler<J> {
    /// Converts a claimed item into an [`ActiveItem`]; `None` for a row that cannot be decoded.
    pub(super) fn activate(&self, item: ClaimedItem) -> Option<ActiveItem<J>> {
        let (mut state, is_input_missing) = match self.job.load(&item) {
            LoadedItem::Ready(state) => (Box::new(state), false),
            LoadedItem::MissingInput(state) => (Box::new(state), true),
            LoadedItem::Unreadable => return None,
        };
        if let Some(deferral) = state.deferral().take() {
            self.context.progress.resume(&deferral);
        }
        Some(ActiveItem {
            id: item.id,
            name: item.name,
            next: self.job.next(&state, self.context.clock.now()),
            state,
            is_end_recorded: false,
            is_input_missing,
        })
    }

    /// Runs a step of items within their deadline. Items that end are finished, and the others are
    /// returned. A step that exceeds its deadline is dropped, and its items stay unchanged.
    async fn step(&self, mut items: Vec<ActiveItem<J>>) -> Result<Vec<ActiveItem<J>>, RunError> {
        let now = self.context.clock.now();
        let deadlines = items
            .iter()
            .filter_map(|item| self.job.deadline(&item.state, now));
        let until = deadlines.min().map_or(BootInstant::FAR, |deadline| {
            self.context.clock.instant(deadline) + AFTER_DEADLINE
        });
        let step = self.job.run(&mut items, self.context.progress.requests());
        before(&**self.context.clock.runtime(), until, step)
            .await
            .transpose()?;
        let now = self.context.clock.now();
        for item in &mut items {
            item.next = self.job.next(&item.state, now);
        }
        let is_ended = |item: &ActiveItem<J>| matches!(item.next, NextStep::End);
        let (ended, going_on): (Vec<_>, Vec<_>) = items.into_iter().partition(is_ended);
        // Each end waits for a commit, and ends that wait together share one.
        let ends = run_all(ended.into_iter().map(|item| self.job.finish(item))).await;
        ends.into_iter().collect::<Result<(), RunError>>()?;
        Ok(going_on)
    }
}
