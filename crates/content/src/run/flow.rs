//! The run's loop: one task that decides, many that do.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use docstokg_hub::Host;
use docstokg_hub::clock::{BootInstant, before};
use tokio::sync::mpsc;

use super::engine::{Engine, Held, LOST, START};
use super::inputs::Inputs;
use super::lanes::{LaneName, Lanes, Turn};
use super::reopen::Watches;
use super::steps::Waiting;
use crate::pursuit::{Step, Waited};
use crate::queue::{Found, QueueError};

/// How many works that are due are taken in hand at a time.
const DUE_AT_A_TIME: usize = 200;
/// How often the remaining time is worked out.
const ESTIMATE: Duration = Duration::from_secs(1);
/// How often the loop looks whether it was asked to stop.
const LOOK: Duration = Duration::from_millis(100);

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
#[derive(Clone, Debug)]
pub enum Ended {
    /// Nothing is left to do.
    Complete,
    /// It was asked to stop; so many works are left.
    Stopped {
        /// Works left.
        left: u64,
    },
    /// The machine has no network; nothing was sent.
    Offline {
        /// Works left.
        left: u64,
    },
    /// What is left is deferred for longer than the run waits.
    Parked {
        /// Works left.
        left: u64,
        /// The earliest that one of them is due, in seconds from now.
        due_in: Duration,
    },
    /// The bytes that a run may fetch are used up.
    BytesSpent {
        /// Works left.
        left: u64,
    },
}

/// What the loop is told.
pub(crate) enum Event {
    /// Works were queued in these lanes.
    Queued(BTreeMap<LaneName, u64>),
    /// All inputs have been read.
    AllRead,
    /// Lanes were found in the file: so many were asked for.
    Listed(usize, Vec<Found>),
    /// Works were brought into memory: how many were asked for, and found.
    Loaded(LaneName, usize, usize, Vec<Held>),
    /// A step of a lane ended, and these works go on.
    Stepped(LaneName, Vec<Held>),
    /// A work was put back into a lane of the file.
    PutBack(LaneName),
    /// A work was put away until a time.
    PutAway(f64),
    /// The breaker of a host has changed, here or elsewhere.
    BreakerChanged,
    /// The run cannot go on.
    Broken(RunError),
}

impl Engine {
    /// Works until nothing is left to do, or the run is asked to stop.
    ///
    /// # Errors
    /// The run cannot go on; what is left stays queued.
    pub async fn run(self: &Arc<Self>, inputs: Box<dyn Inputs>) -> Result<Ended, RunError> {
        let (tell, mut told) = mpsc::unbounded_channel();
        if self.options.rehearsal == super::Rehearsal::No {
            // What an earlier run deferred is planned anew: sources and circumstances may have
            // changed.
            self.queue.plan_anew(START.to_owned()).await?;
        }
        let due = self.queue.next_due().await?;
        let mut state = Loop {
            engine: self,
            lanes: Lanes::default(),
            tell: tell.clone(),
            in_hand: 0,
            pending: 0,
            all_read: false,
            due,
            lost: 0,
            estimated: None,
            watches: Watches::new(self.hub.clone()),
            changed: false,
        };
        self.tell_changes(tell.clone());
        let counts = self.queue.counts().await?;
        self.board.count(|tally| {
            tally.works = counts.queued + counts.leased + counts.done + counts.failed;
            (tally.done, tally.failed, tally.already) =
                (counts.done, counts.failed, counts.done + counts.failed);
        });
        let reader = Arc::clone(self);
        let tell_read = tell;
        self.runtime.spawn(Box::pin(async move {
            let end = match reader.ingest(inputs, &tell_read).await {
                Ok(()) => Event::AllRead,
                Err(error) => Event::Broken(error.into()),
            };
            let _ = tell_read.send(end);
        }));
        loop {
            if let Some(ended) = state.pump().await? {
                self.lines.flush();
                return Ok(ended);
            }
            let wake = state.wake();
            let event = before(&*self.runtime, wake, told.recv()).await;
            if let Some(Some(event)) = event {
                state.take(event)?;
                // Whatever else has come is taken in before anything new is decided.
                while let Ok(event) = told.try_recv() {
                    state.take(event)?;
                }
            }
        }
    }
}

impl Engine {
    /// Tells the loop whenever a breaker changes.
    fn tell_changes(&self, tell: mpsc::UnboundedSender<Event>) {
        let mut changes = self.hub.changes();
        self.runtime.spawn(Box::pin(async move {
            while changes.changed().await.is_ok() {
                if tell.send(Event::BreakerChanged).is_err() {
                    return;
                }
            }
        }));
    }
}

/// The loop's own state.
struct Loop<'a> {
    engine: &'a Arc<Engine>,
    lanes: Lanes<Held>,
    tell: mpsc::UnboundedSender<Event>,
    in_hand: usize,
    /// Changes of the file that are on their way.
    pending: usize,
    all_read: bool,
    /// When the next work that was put away is due, in seconds since 1970.
    due: Option<f64>,
    /// Works that wait for their input lines.
    lost: u64,
    /// When the remaining time was last worked out.
    estimated: Option<BootInstant>,
    /// The hosts that deferred works wait for.
    watches: Watches,
    /// A breaker has changed since they were looked at.
    changed: bool,
}

impl Loop<'_> {
    fn wake(&self) -> BootInstant {
        let now = self.engine.runtime.boot();
        let look = now
            + if self.engine.runtime.can_stall() {
                LOOK
            } else {
                Duration::from_secs(3_600)
            };
        let room = self.in_hand < self.engine.options.workers;
        match self.due.filter(|_| room) {
            Some(due) => look.min(
                now + Duration::from_secs_f64((due - self.engine.now()).clamp(0.0, 86_400.0))
                    + Duration::from_millis(1),
            ),
            None => look,
        }
    }

    fn take(&mut self, event: Event) -> Result<(), RunError> {
        match event {
            Event::Queued(lanes) => {
                for (lane, works) in lanes {
                    self.lanes
                        .stored(&lane, works, || self.engine.bounds(&lane));
                }
            }
            Event::AllRead => {
                self.all_read = true;
                let lane: LaneName = LOST.into();
                self.lanes
                    .stored(&lane, std::mem::take(&mut self.lost), || {
                        self.engine.bounds(&lane)
                    });
                self.engine.board.count(|tally| tally.all_read = true);
            }
            Event::Listed(asked, found) => {
                self.pending -= 1;
                self.lanes
                    .listed(found, asked, |lane| self.engine.bounds(lane));
            }
            Event::Loaded(lane, asked, found, works) => {
                self.pending -= 1;
                self.lanes.loaded(&lane, asked, found);
                // Most go on in the lane they were stored in; some learn only now where they
                // belong.
                for held in works {
                    self.place(held);
                }
            }
            Event::Stepped(lane, works) => {
                self.in_hand -= 1;
                self.lanes.ended(&lane);
                for held in works {
                    self.place(held);
                }
            }
            Event::PutBack(lane) if &*lane == LOST && !self.all_read => {
                self.pending -= 1;
                self.lost += 1;
            }
            Event::PutBack(lane) => {
                self.pending -= 1;
                self.lanes.stored(&lane, 1, || self.engine.bounds(&lane));
            }
            Event::PutAway(at) => {
                self.pending -= 1;
                self.due = Some(self.due.map_or(at, |due| due.min(at)));
            }
            Event::BreakerChanged => self.changed = true,
            Event::Broken(error) => return Err(error),
        }
        Ok(())
    }

    /// Sends a work to where it goes on: a lane, a later time, or its end.
    fn place(&mut self, mut held: Held) {
        if held.lost && !self.all_read {
            // Its line may still come.
            return self.put_back(held, LOST.into(), 0.0);
        }
        self.engine.bound(&mut held);
        match held.step {
            Step::Wait(at) => self.put_back(held, START.into(), at),
            Step::End => {
                // Ended by a step, or known to be at its end when it was taken in hand.
                self.in_hand += 1;
                let engine = Arc::clone(self.engine);
                self.spawn(async move {
                    match engine.end(held).await {
                        Ok(()) => Event::Stepped(START.into(), Vec::new()),
                        Err(error) => Event::Broken(error),
                    }
                });
            }
            _ => {
                let lane = self.engine.lane(&held.pursuit, &held.step);
                if self.engine.board.is_winding_down() {
                    return self.put_back(held, lane, 0.0);
                }
                if let Some(held) = self.lanes.push(&lane, held, || self.engine.bounds(&lane)) {
                    self.put_back(held, lane, 0.0);
                }
            }
        }
    }

    fn put_back(&mut self, mut held: Held, lane: LaneName, not_before: f64) {
        self.pending += 1;
        let engine = Arc::clone(self.engine);
        if not_before > 0.0 {
            let deferral = engine.deferral(&held.pursuit, not_before);
            engine.board.defer(&deferral);
            let resolver = match held.pursuit.waits_for(not_before) {
                Some((Waited::Asking(resolver), _)) => Some(resolver),
                _ => None,
            };
            self.watches.add(&deferral.host, resolver);
            held.pursuit.deferral = Some(deferral);
        }
        self.spawn(async move {
            let text = if held.lost {
                None
            } else {
                held.pursuit.to_text()
            };
            let put = engine.queue.put_back(
                held.id,
                lane.to_string(),
                text,
                held.pursuit.attempts,
                not_before,
                engine.now(),
            );
            match put.await {
                Ok(()) if not_before > 0.0 => Event::PutAway(not_before),
                Ok(()) => Event::PutBack(lane),
                Err(error) => Event::Broken(error.into()),
            }
        });
    }

    /// Starts what can be started. Returns how the run ended, if it has.
    async fn pump(&mut self) -> Result<Option<Ended>, RunError> {
        let engine = self.engine;
        let spent = engine
            .options
            .max_bytes
            .is_some_and(|most| engine.spent.load(Ordering::Relaxed) >= most);
        if spent {
            engine.board.wind_down();
        }
        if engine.board.is_winding_down() {
            for (lane, held) in self.lanes.drain() {
                self.put_back(held, lane, 0.0);
            }
            if self.in_hand == 0 && self.pending == 0 {
                let counts = engine.queue.counts().await?;
                let left = counts.queued + counts.leased;
                return Ok(Some(if left == 0 && self.all_read {
                    Ended::Complete
                } else if engine.board.is_offline() {
                    Ended::Offline { left }
                } else if spent {
                    Ended::BytesSpent { left }
                } else {
                    Ended::Stopped { left }
                }));
            }
            return Ok(None);
        }
        if engine.network.take_back() {
            self.plan_anew().await?;
        }
        if std::mem::take(&mut self.changed) {
            self.take_reopened().await?;
        }
        self.estimate();
        if self.due.is_some_and(|due| due <= engine.now()) && self.in_hand < engine.options.workers
        {
            self.take_due().await?;
        }
        while self.in_hand < engine.options.workers {
            match self.lanes.next() {
                Some(Turn::Start(lane, works)) => self.start(lane, works),
                Some(Turn::Load(lane, most)) => self.load(lane, most),
                Some(Turn::List(after, most)) => self.list(after, most),
                None => break,
            }
        }
        if !(self.all_read && self.in_hand == 0 && self.pending == 0 && self.lanes.is_idle()) {
            engine.board.set_only_waiting(false);
            return Ok(None);
        }
        let Some(due) = self.due else {
            // Counts are kept in memory; the file has the last word.
            if engine.queue.to_do(String::new(), 1).await?.is_empty() {
                return Ok(Some(Ended::Complete));
            }
            self.lanes.list_anew();
            return Ok(None);
        };
        let wait = Duration::from_secs_f64((due - engine.now()).clamp(0.0, 1e9));
        let lost_for = engine
            .network
            .lost_since()
            .map_or(0.0, |since| engine.now() - since);
        if wait <= engine.options.max_wait && lost_for <= engine.options.max_wait.as_secs_f64() {
            engine.board.set_only_waiting(true);
            return Ok(None);
        }
        let counts = engine.queue.counts().await?;
        Ok(Some(Ended::Parked {
            left: counts.queued + counts.leased,
            due_in: wait,
        }))
    }

    /// Plans all deferred works anew: the network is back.
    async fn plan_anew(&mut self) -> Result<(), RunError> {
        let works = self.engine.queue.plan_anew(START.to_owned()).await?;
        if works > 0 {
            self.engine.board.take_all_up();
            self.due = self.engine.queue.next_due().await?;
            let lane: LaneName = START.into();
            self.lanes
                .stored(&lane, works, || self.engine.bounds(&lane));
        }
        Ok(())
    }

    /// Plans the works anew that wait for hosts which may be asked again earlier than they said.
    async fn take_reopened(&mut self) -> Result<(), RunError> {
        for host in self.watches.reopened() {
            if let Ok(host) = Host::parse(&host) {
                self.engine.hub.forget_robots_failure(&host).await;
            }
            let (works, ended) = self.engine.queue.reopen(host, START.to_owned()).await?;
            for deferral in &ended {
                self.engine.board.take_up(deferral);
            }
            if works > 0 {
                self.due = self.engine.queue.next_due().await?;
                let lane: LaneName = START.into();
                self.lanes
                    .stored(&lane, works, || self.engine.bounds(&lane));
            }
        }
        let waited_for: BTreeSet<String> = self
            .engine
            .board
            .waiting()
            .into_iter()
            .map(|wait| wait.host)
            .collect();
        self.watches.keep(|host| waited_for.contains(host));
        Ok(())
    }

    /// Works out, now and then, how long the limits make what is queued take at least.
    fn estimate(&mut self) {
        let now = self.engine.runtime.boot();
        if self
            .estimated
            .is_some_and(|last| now.since(last) < ESTIMATE)
        {
            return;
        }
        self.estimated = Some(now);
        let times = self
            .lanes
            .backlog()
            .filter(|(_, works)| *works > 0)
            .filter_map(|(lane, works)| self.engine.least_time(lane, works));
        self.engine.board.set_backlog(times.max());
    }

    /// Takes works that were put away in hand again.
    async fn take_due(&mut self) -> Result<(), RunError> {
        let engine = self.engine;
        let items = engine.queue.take_due(engine.now(), DUE_AT_A_TIME).await?;
        self.due = engine.queue.next_due().await?;
        for held in items.into_iter().filter_map(|item| engine.hold(item)) {
            self.place(held);
        }
        Ok(())
    }

    fn list(&mut self, after: LaneName, most: usize) {
        self.pending += 1;
        let engine = Arc::clone(self.engine);
        self.spawn(async move {
            match engine.queue.to_do(after.to_string(), most).await {
                Ok(found) => Event::Listed(most, found),
                Err(error) => Event::Broken(error.into()),
            }
        });
    }

    fn load(&mut self, lane: LaneName, most: usize) {
        self.pending += 1;
        let engine = Arc::clone(self.engine);
        self.spawn(async move {
            match engine.queue.take(lane.to_string(), most).await {
                Ok(items) => Event::Loaded(
                    lane,
                    most,
                    items.len(),
                    items
                        .into_iter()
                        .filter_map(|item| engine.hold(item))
                        .collect(),
                ),
                Err(error) => Event::Broken(error.into()),
            }
        });
    }

    fn start(&mut self, lane: LaneName, mut works: Vec<Held>) {
        self.in_hand += 1;
        let engine = Arc::clone(self.engine);
        self.spawn(async move {
            let wait = Waiting::default();
            let until = engine.time_is_over(&works);
            let step = unless_dropped(&engine, &wait, engine.step(&mut works, &wait));
            let done = before(&*engine.runtime, until, Box::pin(step))
                .await
                .flatten();
            match done {
                Some(Err(error)) => Event::Broken(error),
                // Dropped while it only waited, or because time is over: the works stand where they
                // stood.
                Some(Ok(())) | None => Event::Stepped(lane, works),
            }
        });
    }

    /// Does something beside the loop, which is told what came of it; also if it breaks off.
    fn spawn(&self, work: impl Future<Output = Event> + Send + 'static) {
        let mut tell = Teller(Some(self.tell.clone()));
        self.engine.runtime.spawn(Box::pin(async move {
            let event = work.await;
            if let Some(tell) = tell.0.take() {
                // The loop may have ended.
                let _ = tell.send(event);
            }
        }));
    }
}

/// Tells the loop when something breaks off that it waits for.
struct Teller(Option<mpsc::UnboundedSender<Event>>);

impl Drop for Teller {
    fn drop(&mut self) {
        if let Some(tell) = self.0.take() {
            let _ = tell.send(Event::Broken(RunError::Halted(
                "a step broke off unexpectedly; this is a fault of the program".to_owned(),
            )));
        }
    }
}

/// Does a step, unless the run winds down while it only waits.
async fn unless_dropped<T>(
    engine: &Engine,
    wait: &Waiting,
    step: impl Future<Output = T>,
) -> Option<T> {
    let mut step = std::pin::pin!(step);
    let mut wound_down = std::pin::pin!(engine.board.wound_down());
    std::future::poll_fn(|context| {
        if let Poll::Ready(value) = step.as_mut().poll(context) {
            return Poll::Ready(Some(value));
        }
        let _ = wound_down.as_mut().poll(context);
        if engine.board.is_winding_down() && wait.is_idle() {
            Poll::Ready(None)
        } else {
            Poll::Pending
        }
    })
    .await
}
