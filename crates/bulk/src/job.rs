//! The interface between engine and job: a [`Job`] knows its items, the engine knows queues, lanes
//! and time.
//!
//! An item is a [`JobState`] that takes one step at a time. The next step is a pure function of the
//! state and of `now`, and running a step changes the state. An item whose next step is
//! [`NextStep::End`] is finished, which records its result.

use std::sync::Arc;

pub use docstokg_hub::clock::BoxFuture;
use docstokg_hub::{RequestGroup, StatedBy};
use docstokg_policy::role::Role;
use docstokg_policy::time::Timestamp;
use docstokg_stores::SiteKey;

use crate::bounds::LaneBounds;
use crate::deferral::Deferral;
use crate::lane::WorkLaneKey;
use crate::queue::ClaimedItem;
use crate::scheduler::RunError;

/// The state of one item: known facts and tried steps. The state is persisted between steps, so
/// that another process can continue a deferred item.
pub trait JobState: Sized + Send + Sync + 'static {
    /// Reads a text of [`JobState::encode`], from this version or an earlier version.
    fn decode(text: &str) -> Option<Self>;

    /// Returns the state without secrets; `None` if the state must not be persisted.
    fn encode(&self) -> Option<String>;

    /// Returns the number of requests made for the item.
    fn attempts(&self) -> u32;

    /// Returns the [`Deferral`] of the item, which is persisted with it.
    fn deferral(&mut self) -> &mut Option<Deferral>;

    /// Plans deferred steps again, because circumstances have changed. A wait that a server
    /// declared still applies.
    fn replan(&mut self);

    /// Plans again the steps that were deferred until `until`, because their host is available.
    fn reopen(&mut self, until: Timestamp);
}

/// The next step of an item.
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
    /// The item runs this step.
    Run(S),
    /// The item waits until this time.
    Wait(Timestamp),
    /// The item is finished.
    End,
}

/// The result of [`Job::load`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadedItem<S> {
    /// An item that can continue.
    Ready(S),
    /// An item whose input has not been read again. If it never is, the item ends.
    MissingInput(S),
    /// A row that cannot be decoded.
    Unreadable,
}

/// The host that a deferred item waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwaitedHost {
    /// The name of the host.
    pub host: String,
    /// The cause in a few words.
    pub why: String,
    /// The source whose own breaker may delay the item.
    pub source: Option<String>,
    /// The authority that set the time, where it is known.
    pub set_by: Option<StatedBy>,
    /// The source whose breaker delays the item: the host is not paused.
    pub paused_resolver: Option<String>,
}

/// An item in the memory of the engine.
pub struct ActiveItem<J: Job> {
    /// The number of the item in the queue.
    pub id: i64,
    /// The name under which the item is recorded.
    pub name: String,
    /// The state of the item.
    pub state: Box<J::State>,
    /// The next step of the item.
    pub next: NextStep<J::Step>,
    /// The end of the item is recorded already, together with its file.
    pub is_end_recorded: bool,
    /// The input of the item has not been read again.
    pub(crate) is_input_missing: bool,
}

/// A kind of items, with the implementation of their steps.
pub trait Job: Send + Sync + Sized + 'static {
    /// The state of an item.
    type State: JobState;
    /// The type of a step.
    type Step: Clone + PartialEq + Send + Sync;

    /// Decodes a [`ClaimedItem`], from its persisted state or from its name.
    fn load(&self, item: &ClaimedItem) -> LoadedItem<Self::State>;

    /// Returns the [`NextStep`]. Pure: the same state at the same time results in the same step,
    /// and an end is final.
    fn next(&self, state: &Self::State, now: Timestamp) -> NextStep<Self::Step>;

    /// Returns the [`WorkLaneKey`] of a step.
    fn lane(&self, state: &Self::State, step: &Self::Step) -> WorkLaneKey;

    /// Returns the [`LaneBounds`] of a lane.
    fn bounds(&self, lane: &WorkLaneKey) -> LaneBounds;

    /// Returns the site and role of a lane's requests, if all of them share the same.
    fn site(&self, lane: &WorkLaneKey) -> Option<(SiteKey, Role)> {
        lane.site()
    }

    /// Returns the [`AwaitedHost`] of an item that is deferred until a time.
    fn awaited(&self, state: &Self::State, until: Timestamp) -> AwaitedHost;

    /// Returns the end of the time for an item; `None` if the time is not bounded. The engine drops
    /// a step that takes longer.
    fn deadline(&self, state: &Self::State, now: Timestamp) -> Option<Timestamp>;

    /// Runs the step that these items have in common, and updates their states. An item whose state
    /// does not change runs the step again. If the run is cancelled, requests that only wait are
    /// dropped, and their items stay unchanged.
    fn run<'a>(
        &'a self,
        items: &'a mut [ActiveItem<Self>],
        requests: &'a Arc<RequestGroup>,
    ) -> BoxFuture<'a, Result<(), RunError>>;

    /// Records the result of a finished [`ActiveItem`].
    fn finish(&self, item: ActiveItem<Self>) -> BoxFuture<'_, Result<(), RunError>>;
}
