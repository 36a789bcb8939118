//! The calls of a site in flight, sent and processed in order.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::super::wire::ScriptReply;
use super::{ExchangeRound, SiteExchange, fail};
use crate::error::StoreError;

/// A call with its round, and its result when complete.
enum PendingCall {
    Sent(Pin<Box<dyn Future<Output = EndedCall> + Send>>),
    Ended(Box<EndedCall>),
}

type EndedCall = (ExchangeRound, Result<ScriptReply, StoreError>);

impl PendingCall {
    /// Polls the call.
    fn poll(&mut self, context: &mut Context<'_>) {
        if let Self::Sent(call) = self
            && let Poll::Ready(ended) = call.as_mut().poll(context)
        {
            *self = Self::Ended(Box::new(ended));
        }
    }
}

/// The task that calls the server until no operation waits.
pub(super) struct RunningExchange {
    exchange: Arc<SiteExchange>,
    /// The calls in flight, in the order in which they were sent.
    calls: VecDeque<PendingCall>,
    /// Set if no operation waits any more.
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

    /// Removes and returns the first call if it has ended.
    fn take_first(&mut self) -> Option<EndedCall> {
        match self.calls.pop_front()? {
            PendingCall::Ended(ended) => Some(*ended),
            call @ PendingCall::Sent(_) => {
                self.calls.push_front(call);
                None
            }
        }
    }

    /// Sends the waiting operations, and returns the first call when it has ended; `None` if there
    /// is no call.
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
            // The first poll sends the call now, in order.
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
        // The runtime has ended, or a reply of the server caused a panic.
        let ended = self.exchange.server.ended();
        let mut state = self.exchange.state.lock();
        state.is_running = false;
        state.copy.distrust();
        fail(&mut state, Vec::new(), &ended);
    }
}
