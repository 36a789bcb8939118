//! A wrapper around a store that counts, delays or fails operations. Operations that it forwards
//! keep the contract.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use docstokg_policy::site::{SiteOperation, SiteResult};

use crate::error::StoreError;
use crate::handle::{
    BudgetKey, ReplyFuture, SiteHandle, SiteKey, SiteView, StateStore, StoreReply,
};

/// The treatment of an operation.
#[derive(Clone, Debug)]
pub enum Treatment {
    /// Forward the operation.
    Forward,
    /// Forward the operation, and return its reply only after this many polls.
    Delay(u32),
    /// Fail without forwarding the operation.
    Fail(StoreError),
}

type OperationHook = Arc<dyn Fn(Option<&SiteOperation<'_>>) -> Treatment + Send + Sync>;

/// A store that treats every operation as its hook decides. The hook receives the operation, or
/// `None` for `list`, `flush` and `view`.
pub struct HookedStore {
    inner: Arc<dyn StateStore>,
    hook: OperationHook,
    peers: Option<u32>,
}

impl HookedStore {
    /// Wraps a [`StateStore`].
    pub fn new(
        inner: Arc<dyn StateStore>,
        hook: impl Fn(Option<&SiteOperation<'_>>) -> Treatment + Send + Sync + 'static,
    ) -> Self {
        Self {
            inner,
            hook: Arc::new(hook),
            peers: None,
        }
    }

    /// Sets the number of processes that [`StateStore::peers`] returns.
    #[must_use]
    pub fn with_peers(self, peers: u32) -> Self {
        Self {
            peers: Some(peers),
            ..self
        }
    }
}

/// A reply that is pending for a few polls.
struct DelayedReply<T> {
    looks: u32,
    answer: ReplyFuture<T>,
}

impl<T> Future for DelayedReply<T> {
    type Output = Result<T, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.looks > 0 {
            self.looks -= 1;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.answer.as_mut().poll(context)
    }
}

fn treat<T: Send + 'static>(
    hook: &OperationHook,
    operation: Option<&SiteOperation<'_>>,
    ask: impl FnOnce() -> StoreReply<T>,
) -> StoreReply<T> {
    match hook(operation) {
        Treatment::Forward => ask(),
        Treatment::Fail(error) => StoreReply::Ready(Err(error)),
        Treatment::Delay(looks) => {
            let answer: ReplyFuture<T> = match ask() {
                StoreReply::Ready(result) => Box::pin(async move { result }),
                StoreReply::Later(coming) => coming,
            };
            StoreReply::Later(Box::pin(DelayedReply { looks, answer }))
        }
    }
}

impl StateStore for HookedStore {
    fn site(&self, key: &SiteKey) -> Arc<dyn SiteHandle> {
        Arc::new(WrappedSite {
            inner: self.inner.site(key),
            hook: Arc::clone(&self.hook),
        })
    }

    fn list(&self) -> StoreReply<Vec<SiteKey>> {
        treat(&self.hook, None, || self.inner.list())
    }

    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    fn is_remote(&self) -> bool {
        self.inner.is_remote()
    }

    fn flush(&self) -> StoreReply<()> {
        treat(&self.hook, None, || self.inner.flush())
    }

    fn peers(&self) -> Option<u32> {
        self.peers.or_else(|| self.inner.peers())
    }

    fn has_settled_peers(&self) -> bool {
        self.inner.has_settled_peers()
    }

    fn rank(&self) -> u32 {
        self.inner.rank()
    }
}

struct WrappedSite {
    inner: Arc<dyn SiteHandle>,
    hook: OperationHook,
}

impl SiteHandle for WrappedSite {
    fn budget(&self, key: &BudgetKey) -> usize {
        self.inner.budget(key)
    }

    fn apply(&self, operation: &SiteOperation<'_>) -> StoreReply<SiteResult> {
        treat(&self.hook, Some(operation), || self.inner.apply(operation))
    }

    fn view(&self) -> StoreReply<SiteView> {
        treat(&self.hook, None, || self.inner.view())
    }
}
