//! The operations of this process on one site. Operations wait for the reply of the call before
//! them, and then go to the server together in one call.
//!
//! - A near server has one call in flight per site; operations that arrive meanwhile go with the
//!   next call.
//! - A distant server has a few calls in flight, which are sent and processed in order.
//!
//! If a reply was lost, the call is repeated, and later calls are then added before it. In that
//! case every process ignores the repeated entry, and its operations fail.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Duration;

use docstokg_policy::host_model::quotas::QuotaEffect;
use docstokg_policy::site::{RequestOperation, SettleEffect, SiteOperation, SiteResult};
use docstokg_policy::time::BootInstant;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::oneshot;

use super::batch::OperationBatch;
use super::copy::{OwnBatch, RemoteSiteCopy, wants_snapshot};
use super::server::Server;
use super::wire::ScriptReply;
use crate::error::StoreError;
use crate::handle::SiteView;
use crate::hash::fnv;
use crate::record_copy::BudgetNames;

mod answer;
mod call;
mod running;
mod waiting;

use answer::{goes_from, is_held_up, to_here};
use running::RunningExchange;
pub(super) use waiting::Receiver;
use waiting::Waiting;

/// The largest number of operations in one call.
const MOST_TOGETHER: usize = 256;

/// The largest number of calls in flight to a distant server.
const MOST_CALLS: usize = 8;
/// The round trip from which a server is distant.
const FAR_ROUND_TRIP: Duration = Duration::from_millis(2);

/// The operations that go to the server together.
struct ExchangeRound {
    waiting: Vec<Waiting>,
    /// The entry of the recorded operations; empty if there are no such operations.
    entry: Vec<u8>,
    /// The number of the entry within this process.
    number: u64,
    /// The lifetime of the record in seconds, if the call must extend it.
    keep: Option<u64>,
    /// The instant at which the round was sent.
    sent: BootInstant,
    /// Set if the round contains an admission request.
    enters: bool,
}

struct ExchangeState {
    copy: RemoteSiteCopy,
    /// The count of data losses when the copy was created.
    losses: u32,
    /// Set if the server has lost its data since the copy was created. The next admission request
    /// reports the loss.
    has_lost: bool,
    queue: VecDeque<Waiting>,
    is_running: bool,
    /// The waker of the task that sends new operations.
    waker: Option<Waker>,
    /// Set if the last admission request was not permitted.
    is_held_up: bool,
    /// The duration of the last call.
    round_trip: Duration,
}

/// The copy of a site in this process, and the operations that wait for the server.
pub(super) struct SiteExchange {
    server: Arc<Server>,
    key: Arc<str>,
    /// The name of this process on the server.
    member: u64,
    /// Set if the script uses the caller's clock instead of the server's.
    uses_caller_clock: bool,
    state: Mutex<ExchangeState>,
}

impl SiteExchange {
    pub(super) fn new(
        server: &Arc<Server>,
        key: &Arc<str>,
        names: &BudgetNames,
        uses_caller_clock: bool,
    ) -> Arc<Self> {
        let name = [server.fresh_id(), fnv(server.who.as_bytes())].map(u64::to_le_bytes);
        let exchange = Arc::new(Self {
            server: Arc::clone(server),
            key: Arc::clone(key),
            member: fnv(name.as_flattened()),
            uses_caller_clock,
            state: Mutex::new(ExchangeState {
                copy: RemoteSiteCopy::naming(names),
                losses: server.losses.load(Ordering::Acquire),
                has_lost: false,
                queue: VecDeque::new(),
                is_running: false,
                waker: None,
                is_held_up: false,
                round_trip: Duration::ZERO,
            }),
        });
        server.note_exchange(&exchange);
        exchange
    }

    /// Returns the index of a budget, and records its name for a child process.
    pub(super) fn name(&self, names: &BudgetNames, name: &str) -> usize {
        self.state.lock().copy.name(names, name)
    }

    /// Returns the [`Server`].
    pub(super) fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// Returns the result of a [`SiteOperation`] that changes nothing, whatever other processes do;
    /// `None` if the operation must be sent. Such operations follow a permit of this process.
    pub(super) fn known_result(&self, operation: &SiteOperation<'_>) -> Option<SiteResult> {
        let SiteOperation::Request(ask, operation_of_request) = operation else {
            return None;
        };
        match operation_of_request {
            RequestOperation::SettleHeaders { permit, .. } => {
                if !permit.probe && ask.policy.learn.is_none() {
                    return Some(SettleEffect::default().into());
                }
                let (state, here) = (self.state.lock(), self.server.clock.boot());
                let now = state.copy.server_now(here)?;
                state.copy.result_without_change(operation, here, now)
            }
            RequestOperation::StateQuotas { .. } if ask.quota_lane.is_none() => {
                Some(QuotaEffect::default().into())
            }
            _ => None,
        }
    }

    /// Begins a [`SiteOperation`].
    pub(super) fn begin(
        self: &Arc<Self>,
        operation: &Arc<SiteOperation<'static>>,
    ) -> Receiver<SiteResult> {
        let (answer, receiver) = oneshot::channel();
        let state = self.state.lock();
        let waiting = Waiting::Operation {
            operation: Arc::clone(operation),
            id: self.server.fresh_id(),
            reads_first: self.may_change_nothing(&state, operation),
            answer,
        };
        self.enqueue(state, waiting);
        receiver
    }

    /// Begins to read the state.
    pub(super) fn begin_view(self: &Arc<Self>) -> Receiver<SiteView> {
        let (answer, receiver) = oneshot::channel();
        self.enqueue(self.state.lock(), Waiting::View(answer));
        receiver
    }

    /// Begins to read the state if operations wait for the server. The reply comes after theirs.
    pub(super) fn begin_view_if_busy(self: &Arc<Self>) -> Option<Receiver<SiteView>> {
        let is_running = self.state.lock().is_running;
        is_running.then(|| self.begin_view())
    }

    /// Returns whether a [`SiteOperation`] will probably change nothing. If so, the operation is
    /// decided on the copy first, and recorded only if it changes something. A wrong guess costs an
    /// entry or a round trip. A request that may be sent soon is always recorded, because a second
    /// call would be too late.
    fn may_change_nothing(&self, state: &ExchangeState, operation: &SiteOperation<'_>) -> bool {
        match operation {
            SiteOperation::Renew { ids, .. } => ids.is_empty(),
            SiteOperation::Request(_, RequestOperation::Enter { reservation: None }) => {
                let here = self.server.clock.boot();
                let Some(now) = state.copy.server_now(here).filter(|_| state.is_held_up) else {
                    return false;
                };
                let result = state.copy.result_without_change(operation, here, now);
                let goes_from = result.as_ref().and_then(goes_from);
                goes_from.is_some_and(|at| at > now + 2 * state.round_trip)
            }
            _ => false,
        }
    }

    fn enqueue(self: &Arc<Self>, mut state: MutexGuard<'_, ExchangeState>, waiting: Waiting) {
        state.queue.push_back(waiting);
        if std::mem::replace(&mut state.is_running, true) {
            let waker = state.waker.take();
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
            return;
        }
        // A runtime that has ended drops the task at once, which takes the lock.
        drop(state);
        let running = RunningExchange::new(self);
        #[expect(
            clippy::disallowed_methods,
            reason = "the store's own background work, in the runtime it was opened in"
        )]
        self.server.runtime.spawn(running.run());
    }

    /// Returns the next [`ExchangeRound`] of waiting operations, with `calls` calls in flight.
    /// Returns `None` if no operation waits, or if the operations must wait longer. `waker` is
    /// woken by the next operation.
    fn begin_round(&self, calls: usize, waker: &Waker) -> Option<ExchangeRound> {
        let mut state = self.state.lock();
        let state = &mut *state;
        if state.queue.is_empty() && calls == 0 {
            state.is_running = false;
            return None;
        }
        let losses = self.server.losses.load(Ordering::Acquire);
        let is_far = state.round_trip >= FAR_ROUND_TRIP && state.copy.position().is_some();
        let most = if is_far && state.losses == losses {
            MOST_CALLS
        } else {
            1
        };
        if state.queue.is_empty() || calls >= most {
            state.waker = Some(waker.clone());
            return None;
        }
        if state.losses != losses {
            (state.losses, state.has_lost) = (losses, false);
            state.copy.distrust();
        }
        let sent = self.server.clock.boot();
        let count = state.queue.len().min(MOST_TOGETHER);
        let waiting: Vec<Waiting> = state.queue.drain(..count).collect();
        let number = self.server.fresh_id();
        let is_due = state.copy.renew(sent);
        let mut longest_block = Duration::ZERO;
        let mut batch = OperationBatch::new(self.member, number, &self.server.who);
        for one in &waiting {
            if let Waiting::Operation {
                operation,
                id,
                reads_first: false,
                ..
            } = one
            {
                batch.add(*id, operation, state.copy.names(), sent);
                if let SiteOperation::Block { length, .. } = &**operation {
                    longest_block = longest_block.max(*length);
                }
            }
        }
        let entry = if batch.is_empty() {
            Vec::new()
        } else {
            batch.write()
        };
        let is_due = is_due || !longest_block.is_zero();
        Some(ExchangeRound {
            entry,
            number,
            keep: is_due.then(|| {
                let now = state.copy.server_now(sent).unwrap_or(BootInstant::FAR);
                state.copy.keep(now, longest_block)
            }),
            enters: waiting.iter().any(Waiting::enters),
            waiting,
            sent,
        })
    }

    /// Applies the [`ScriptReply`] to a round, and sends the results.
    fn end_round(&self, round: ExchangeRound, reply: &ScriptReply) {
        let mut state = self.state.lock();
        let state = &mut *state;
        state.round_trip = reply.here.since(round.sent);
        let recorded = |waiting: &Waiting| waiting.recorded(round.sent, reply.now);
        let own = (!round.entry.is_empty()).then(|| OwnBatch {
            entry: &round.entry,
            member: self.member,
            number: round.number,
            who: &self.server.who,
            operations: round.waiting.iter().filter_map(recorded).collect(),
        });
        let Ok(results) = state.copy.absorb(reply, own.as_ref()) else {
            return fail(state, round.waiting, &self.server.malformed());
        };
        let mut results = results.into_iter().flatten();
        let mut recorded_next = Vec::new();
        for waiting in round.waiting {
            match waiting {
                Waiting::View(answer) => drop(answer.send(Ok(state.copy.view(reply.now)))),
                Waiting::Operation {
                    operation,
                    id,
                    reads_first,
                    answer,
                } => {
                    let result = if reads_first {
                        state
                            .copy
                            .result_without_change(&operation, reply.here, reply.now)
                    } else {
                        results.next()
                    };
                    if let Some(result) = result {
                        state.is_held_up = is_held_up(&result).unwrap_or(state.is_held_up);
                        drop(answer.send(Ok(to_here(result, reply, round.sent))));
                    } else if reads_first {
                        recorded_next.push(Waiting::Operation {
                            operation,
                            id,
                            reads_first: false,
                            answer,
                        });
                    } else {
                        drop(answer.send(Err(self.server.unanswered())));
                    }
                }
            }
        }
        for waiting in recorded_next.into_iter().rev() {
            state.queue.push_front(waiting);
        }
        if wants_snapshot(reply, &round.entry) {
            self.replace_log(&mut state.copy, reply.now);
        }
    }
}

/// Sends an error to all [`Waiting`] operations, because later ones would meet the same error.
fn fail(state: &mut ExchangeState, round: Vec<Waiting>, error: &StoreError) {
    for waiting in round.into_iter().chain(state.queue.drain(..)) {
        match waiting {
            Waiting::View(answer) => drop(answer.send(Err(error.clone()))),
            Waiting::Operation { answer, .. } => drop(answer.send(Err(error.clone()))),
        }
    }
}
