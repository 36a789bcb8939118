//! Cancelling a step: only while it waits in the hub's queues, where nothing is lost by it.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use tokio_util::sync::CancellationToken;

/// Whether a step only waits, in the hub's queues and nowhere else: then it can be dropped without
/// loss.
#[derive(Default)]
pub struct StepToken {
    in_hub: AtomicBool,
    on_the_wire: Arc<AtomicBool>,
}

impl StepToken {
    /// Runs a request of the step.
    pub async fn in_hub<T>(&self, request: impl Future<Output = T>) -> T {
        self.in_hub.store(true, Ordering::Release);
        let value = request.await;
        self.in_hub.store(false, Ordering::Release);
        value
    }

    /// Returns the flag in which the hub shows that a request is on the wire.
    #[must_use]
    pub const fn on_the_wire(&self) -> &Arc<AtomicBool> {
        &self.on_the_wire
    }

    fn only_waits(&self) -> bool {
        self.in_hub.load(Ordering::Acquire) && !self.on_the_wire.load(Ordering::Acquire)
    }

    /// Runs a step; `None` if the run is cancelled while the step only waits.
    pub(crate) async fn unless_cancelled<T>(
        &self,
        run: &CancellationToken,
        step: impl Future<Output = T>,
    ) -> Option<T> {
        let mut step = std::pin::pin!(step);
        let mut cancelled = std::pin::pin!(run.cancelled());
        std::future::poll_fn(|context| {
            if let Poll::Ready(value) = step.as_mut().poll(context) {
                return Poll::Ready(Some(value));
            }
            let is_cancelled = run.is_cancelled() || cancelled.as_mut().poll(context).is_ready();
            if is_cancelled && self.only_waits() {
                Poll::Ready(None)
            } else {
                Poll::Pending
            }
        })
        .await
    }
}
