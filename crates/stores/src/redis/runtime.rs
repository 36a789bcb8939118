//! The work of a store in the runtime in which it was opened.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::runtime::Handle;

use super::server::Server;
use crate::error::StoreError;
use crate::handle::StoreReply;

#[expect(
    clippy::disallowed_methods,
    reason = "the server is real, and so is the time it takes to come back"
)]
pub(super) async fn pause(length: Duration) {
    tokio::time::sleep(length).await;
}

/// A future that any task polls within the runtime of the store. If it is dropped early, it
/// completes there.
struct InRuntime<T: Send + 'static> {
    runtime: Handle,
    work: Option<Pin<Box<dyn Future<Output = T> + Send>>>,
    unwanted: Option<Box<dyn FnOnce(T) + Send>>,
}

impl<T: Send + 'static> Future for InRuntime<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let this = self.get_mut();
        let Some(work) = &mut this.work else {
            return Poll::Pending;
        };
        let _entered = this.runtime.enter();
        let done = work.as_mut().poll(context);
        if done.is_ready() {
            this.work = None;
        }
        done
    }
}

impl<T: Send + 'static> Drop for InRuntime<T> {
    fn drop(&mut self) {
        if let (Some(work), Some(unwanted)) = (self.work.take(), self.unwanted.take()) {
            #[expect(
                clippy::disallowed_methods,
                reason = "the store's own background work, in the runtime it was opened in"
            )]
            self.runtime.spawn(async move { unwanted(work.await) });
        }
    }
}

/// Begins the work now, so that calls reach the [`Server`] in order. The reply is pending until the
/// work is complete.
pub(super) fn begin<T: Send + Unpin + 'static>(
    server: &Arc<Server>,
    work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    unwanted: impl FnOnce(Result<T, StoreError>) + Send + 'static,
) -> StoreReply<T> {
    let mut work = InRuntime {
        runtime: server.runtime.clone(),
        work: Some(Box::pin(work)),
        unwanted: Some(Box::new(unwanted)),
    };
    match Pin::new(&mut work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => StoreReply::Ready(done),
        Poll::Pending => StoreReply::Later(Box::pin(work)),
    }
}
