//! What the engine runs: a [`Job`] knows its items, the engine knows queues, lanes and time.
//!
//! An item is a [`JobState`] that takes one step at a time. Which step comes next is a pure
//! function of the state and of `now`; running a step changes the state; an item whose next step is
//! [`NextStep::End`] is finished, which records what it gave.

use std::sync::Arc;

use docstokg_hub::RequestGroup;
pub use docstokg_hub::clock::BoxFuture;
use docstokg_policy::role::Role;
use docstokg_policy::time::Timestamp;
use docstokg_stores::SiteKey;

use crate::bounds::LaneBounds;
use crate::deferral::Deferral;
use crate::lane::WorkLaneKey;
use crate::queue::ClaimedItem;
use crate::scheduler::RunError;

/// What is known about one item, and what was tried. Persisted between steps, so that an item can
/// be deferred and continued by another process.
pub trait JobState: Sized + Send + Sync + 'static {
    /// Reads what [`JobState::encode`] wrote, in this version or an earlier one.
    fn decode(text: &str) -> Option<Self>;

    /// Writes the state without secrets; `None` where it must not be persisted.
    fn encode(&self) -> Option<String>;

    /// Returns the requests made for the item so far.
    fn attempts(&self) -> u32;

    /// Returns what the item is deferred for, which is persisted with it.
    fn deferral(&mut self) -> &mut Option<Deferral>;

    /// Plans anew what is deferred: circumstances have changed. What a server asked for still
    /// holds.
    fn replan(&mut self);

    /// Plans anew what was deferred until `until`: its host may be asked again.
    fn reopen(&mut self, until: Timestamp);
}

/// What comes next for an item.
///
/// ```
/// use docstokg_bulk::job::NextStep;
/// use docstokg_policy::time::Timestamp;
///
/// /// An item that is fetched once it is due.
/// fn next(due: Timestamp, is_fetched: bool, now: Timestamp) -> NextStep<&'static str> {
///     match (is_fetched, due > now) {
///         (true, _) => NextStep::End,
///         (false, true) => NextStep::Wait(due),
///         (false, false) => NextStep::Run("fetch"),
///     }
/// }
/// let at = Timestamp::from_micros;
/// assert_eq!(next(at(9), false, at(5)), NextStep::Wait(at(9)));
/// assert_eq!(next(at(9), false, at(9)), NextStep::Run("fetch"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep<S> {
    /// Run this step.
    Run(S),
    /// Nothing before this time.
    Wait(Timestamp),
    /// Nothing more.
    End,
}

/// What a claimed item turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadedItem<S> {
    /// An item that can go on.
    Ready(S),
    /// An item whose input has to be read again, and has not been. It ends if that never happens.
    MissingInput(S),
    /// A row that cannot be read.
    Unreadable,
}

/// What a deferred item waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwaitedHost {
    /// The host.
    pub host: String,
    /// Why, in a few words.
    pub why: String,
    /// The source whose own breaker may be what holds the item back.
    pub source: Option<String>,
}

/// An item that the engine has in memory.
pub struct ActiveItem<J: Job> {
    /// Its number in the queue.
    pub id: i64,
    /// The name under which it is recorded.
    pub name: String,
    /// What is known about it.
    pub state: Box<J::State>,
    /// What comes next.
    pub next: NextStep<J::Step>,
    /// Its end is recorded already, together with its file.
    pub is_end_recorded: bool,
    /// Its input has not been read again.
    pub(crate) is_input_missing: bool,
}

/// A kind of items, and how they are worked on.
pub trait Job: Send + Sync + Sized + 'static {
    /// What is known about an item.
    type State: JobState;
    /// One step of an item.
    type Step: Clone + PartialEq + Send + Sync;

    /// Reads a claimed item: what was persisted about it, or what its name says.
    fn load(&self, item: &ClaimedItem) -> LoadedItem<Self::State>;

    /// Says what comes next. Pure: the same state at the same time gives the same step, and an end
    /// stays an end.
    fn next(&self, state: &Self::State, now: Timestamp) -> NextStep<Self::Step>;

    /// Returns the lane of a step.
    fn lane(&self, state: &Self::State, step: &Self::Step) -> WorkLaneKey;

    /// Returns how much a lane may have active at once.
    fn bounds(&self, lane: &WorkLaneKey) -> LaneBounds;

    /// Returns the site and role that a lane's requests go to, where one is known for all of them.
    fn site(&self, lane: &WorkLaneKey) -> Option<(SiteKey, Role)> {
        lane.site()
    }

    /// Says what an item waits for until a time.
    fn awaited(&self, state: &Self::State, until: Timestamp) -> AwaitedHost;

    /// Returns when the time for an item is over; `None` where it is not bounded. The engine drops
    /// a step that takes longer.
    fn deadline(&self, state: &Self::State, now: Timestamp) -> Option<Timestamp>;

    /// Runs the step that these items have in common. The items keep what it gave in their states;
    /// an item that is left as it was runs the step again. Requests that only wait are given up
    /// when the run is cancelled, and leave their items as they were.
    fn run<'a>(
        &'a self,
        items: &'a mut [ActiveItem<Self>],
        requests: &'a Arc<RequestGroup>,
    ) -> BoxFuture<'a, Result<(), RunError>>;

    /// Records what an item that has come to its end gave.
    fn finish(&self, item: ActiveItem<Self>) -> BoxFuture<'_, Result<(), RunError>>;
}
