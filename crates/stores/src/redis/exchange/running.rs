//! The calls of a site that are on their way, sent and taken in in order.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::super::wire::ScriptReply;
use super::{ExchangeRound, SiteExchange, fail};
use crate::error::StoreError;

/// A call with its round, and what came of it once that is there.
enum PendingCall {
    Sent(Pin<Box<dyn Future<Output = EndedCall> + Send>>),
    Ended(Box<EndedCall>),
}

type EndedCall = (ExchangeRound, Result<ScriptReply, StoreError>);

impl PendingCall {
    /// Goes on with it.
    fn poll(&mut self, context: &mut Context<'_>) {
        if let Self::Sent(call) = self
            && let Poll::Ready(ended) = call.as_mut().poll(context)
        {
            *self = Self::Ended(Box::new(ended));
        }
    }
}

/// The task that calls the server until none waits.
pub(super) struct RunningExchange {
    exchange: Arc<SiteExchange>,
    /// The calls that are on their way, in the order in which they were sent.
    calls: VecDeque<PendingCall>,
    /// None waits any more.
    is_done: bool,
}

impl RunningExchange {
    pub(super) fn new(exchange: &Arc<SiteExchange>) -> Self {
        Self {
            exchange: Arc::clone(exchange),
            calls: VecDeque::new(),
            is_done: false,
        }
    }

    pub(super) async fn run(mut self) {
        while let Some((round, outcome)) = poll_fn(|context| self.poll_first(context)).await {
            match outcome {
                Ok(reply) => self.exchange.end_round(round, &reply),
                Err(error) => fail(&mut self.exchange.state.lock(), round.waiting, &error),
            }
        }
        self.is_done = true;
    }

    /// Takes the first call if it has ended.
    fn take_first(&mut self) -> Option<EndedCall> {
        match self.calls.pop_front()? {
            PendingCall::Ended(ended) => Some(*ended),
            call @ PendingCall::Sent(_) => {
                self.calls.push_front(call);
                None
            }
        }
    }

    /// Sends what waits, and returns the first call when it has ended; `None` when there is none.
    fn poll_first(&mut self, context: &mut Context<'_>) -> Poll<Option<EndedCall>> {
        for call in &mut self.calls {
            call.poll(context);
        }
        if let Some(ended) = self.take_first() {
            return Poll::Ready(Some(ended));
        }
        while let Some(round) = self.exchange.begin_round(self.calls.len(), context.waker()) {
            let exchange = Arc::clone(&self.exchange);
            let mut call = PendingCall::Sent(Box::pin(async move {
                let outcome = exchange.call(&round).await;
                (round, outcome)
            }));
            // It is sent now, in its turn.
            call.poll(context);
            self.calls.push_back(call);
            if let Some(ended) = self.take_first() {
                return Poll::Ready(Some(ended));
            }
        }
        if self.calls.is_empty() {
            Poll::Ready(None)
        } else {
            Poll::Pending
        }
    }
}

impl Drop for RunningExchange {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        // The runtime has ended, or what the server sent made the task fail.
        let ended = self.exchange.server.ended();
        let mut state = self.exchange.state.lock();
        state.is_running = false;
        state.copy.distrust();
        fail(&mut state, Vec::new(), &ended);
    }
}
