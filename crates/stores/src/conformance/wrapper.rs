//! A store around another one that counts, delays or fails operations. It keeps the contract as far
//! as it answers.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use docstokg_policy::site::{SiteOperation, SiteResult};

use crate::error::StoreError;
use crate::handle::{Answer, BudgetKey, Coming, SiteHandle, SiteKey, SiteView, StateStore};

/// How an operation is treated.
#[derive(Clone, Debug)]
pub enum Treatment {
    /// It is forwarded.
    Forward,
    /// It is forwarded, and its answer is ready only after this many polls.
    Delay(u32),
    /// It fails without being forwarded.
    Fail(StoreError),
}

type Hook = Arc<dyn Fn(Option<&SiteOperation<'_>>) -> Treatment + Send + Sync>;

/// A store that treats every operation as its hook says. The hook receives the operation, or `None`
/// for what lists, flushes or views.
pub struct Wrapped {
    inner: Arc<dyn StateStore>,
    hook: Hook,
    peers: Option<u32>,
}

impl Wrapped {
    /// Wraps a store.
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

    /// Says that so many processes share the store.
    #[must_use]
    pub fn with_peers(self, peers: u32) -> Self {
        Self {
            peers: Some(peers),
            ..self
        }
    }
}

/// An answer that is pending for a few polls.
struct Delayed<T> {
    looks: u32,
    answer: Coming<T>,
}

impl<T> Future for Delayed<T> {
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
    hook: &Hook,
    operation: Option<&SiteOperation<'_>>,
    ask: impl FnOnce() -> Answer<T>,
) -> Answer<T> {
    match hook(operation) {
        Treatment::Forward => ask(),
        Treatment::Fail(error) => Answer::Ready(Err(error)),
        Treatment::Delay(looks) => {
            let answer: Coming<T> = match ask() {
                Answer::Ready(result) => Box::pin(async move { result }),
                Answer::Later(coming) => coming,
            };
            Answer::Later(Box::pin(Delayed { looks, answer }))
        }
    }
}

impl StateStore for Wrapped {
    fn site(&self, key: &SiteKey) -> Arc<dyn SiteHandle> {
        Arc::new(WrappedSite {
            inner: self.inner.site(key),
            hook: Arc::clone(&self.hook),
        })
    }

    fn list(&self) -> Answer<Vec<SiteKey>> {
        treat(&self.hook, None, || self.inner.list())
    }

    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    fn is_remote(&self) -> bool {
        self.inner.is_remote()
    }

    fn flush(&self) -> Answer<()> {
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
    hook: Hook,
}

impl SiteHandle for WrappedSite {
    fn budget(&self, key: &BudgetKey) -> usize {
        self.inner.budget(key)
    }

    fn apply(&self, operation: &SiteOperation<'_>) -> Answer<SiteResult> {
        treat(&self.hook, Some(operation), || self.inner.apply(operation))
    }

    fn view(&self) -> Answer<SiteView> {
        treat(&self.hook, None, || self.inner.view())
    }
}
