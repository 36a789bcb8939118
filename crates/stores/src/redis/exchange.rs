//! The operations of this process on one site: they wait until the call before them is answered, and
//! then go to the server together, in one call.
//!
//! To a server that is near a site has one call on its way, and whatever comes meanwhile goes together
//! with the next; to one that is far away a few calls follow each other. They are sent and taken in
//! in order. If a call is repeated because its answer was lost, those that were sent after it are
//! added before it, and then it is passed over by everybody: its operations fail.

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

/// How many operations go together at most.
const MOST_TOGETHER: usize = 256;

/// How many calls are on their way at most to a server that is far away.
const MOST_CALLS: usize = 8;
/// From this round trip on it is far away.
const FAR_ROUND_TRIP: Duration = Duration::from_millis(2);

/// Those that go to the server together.
struct ExchangeRound {
    waiting: Vec<Waiting>,
    /// The entry of the operations that are recorded; empty without any.
    entry: Vec<u8>,
    /// Its number among those of this process.
    number: u64,
    /// For how many seconds the record is kept, where that has to be said.
    keep: Option<u64>,
    /// When it was sent.
    sent: BootInstant,
    /// Whether one of them asks to send.
    enters: bool,
}

struct ExchangeState {
    copy: RemoteSiteCopy,
    /// The count of data losses when the copy was made.
    losses: u32,
    /// The server has lost its data since, which is to be told to the next that asks to send.
    has_lost: bool,
    queue: VecDeque<Waiting>,
    is_running: bool,
    /// Whom to wake when another one waits.
    waker: Option<Waker>,
    /// Whether the last request that asked was not permitted.
    is_held_up: bool,
    /// How long the last call took.
    round_trip: Duration,
}

/// The copy of a site in this process, and those that wait for the server.
pub(super) struct SiteExchange {
    server: Arc<Server>,
    key: Arc<str>,
    /// Under which name the server knows it.
    member: u64,
    /// Whether the script uses the caller's clock instead of the server's.
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

    /// Returns the index of a budget, and remembers it for a child process.
    pub(super) fn name(&self, names: &BudgetNames, name: &str) -> usize {
        self.state.lock().copy.name(names, name)
    }

    /// Returns the server.
    pub(super) fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// Returns the result of an operation of which this process knows that it changes nothing,
    /// whatever other processes did: what follows a permit of its own.
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

    /// Begins an operation.
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

    /// Begins to read the state if operations wait for the server: the answer comes after theirs.
    pub(super) fn begin_view_if_busy(self: &Arc<Self>) -> Option<Receiver<SiteView>> {
        let is_running = self.state.lock().is_running;
        is_running.then(|| self.begin_view())
    }

    /// Returns whether an operation will probably change nothing, so that it is to be decided by
    /// what the server knows before it is recorded. A wrong guess costs an entry or a round trip. A
    /// request that may go soon is recorded: it would come too late if it had to be sent again.
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

    /// Takes those that wait, while so many calls are on their way. Returns `None` if there are none,
    /// or if they have to wait longer; `waker` is woken when another one waits.
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

    /// Takes in the reply to a round, and answers.
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

/// Answers all that wait with an error: those behind would only meet it later.
fn fail(state: &mut ExchangeState, round: Vec<Waiting>, error: &StoreError) {
    for waiting in round.into_iter().chain(state.queue.drain(..)) {
        match waiting {
            Waiting::View(answer) => drop(answer.send(Err(error.clone()))),
            Waiting::Operation { answer, .. } => drop(answer.send(Err(error.clone()))),
        }
    }
}
