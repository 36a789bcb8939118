//! A store around another one that counts, delays or fails operations. It keeps the contract as far
//! as it answers.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use docstokg_policy::breaker::{OpenReason, Transition};
use docstokg_policy::classify::Outcome;
use docstokg_policy::quota::{Heard, Statement};
use docstokg_policy::site::{Ask, Condition, Entered, Permit, Report, Settled, Standing};
use docstokg_policy::time::BootInstant;

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

type Hook = Arc<dyn Fn(&'static str) -> Treatment + Send + Sync>;

/// A store that treats every operation as its hook says. The hook receives the name of the
/// operation.
pub struct Wrapped {
    inner: Arc<dyn StateStore>,
    hook: Hook,
    peers: Option<u32>,
}

impl Wrapped {
    /// Wraps a store.
    pub fn new(
        inner: Arc<dyn StateStore>,
        hook: impl Fn(&'static str) -> Treatment + Send + Sync + 'static,
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
    op: &'static str,
    ask: impl FnOnce() -> Answer<T>,
) -> Answer<T> {
    match hook(op) {
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
        treat(&self.hook, "list", || self.inner.list())
    }

    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }

    fn is_remote(&self) -> bool {
        self.inner.is_remote()
    }

    fn flush(&self) -> Answer<()> {
        treat(&self.hook, "flush", || self.inner.flush())
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

    fn enter(&self, ask: &Ask) -> Answer<Entered> {
        treat(&self.hook, "enter", || self.inner.enter(ask))
    }

    fn confirm(&self, ask: &Ask, id: u64) -> Answer<Entered> {
        treat(&self.hook, "confirm", || self.inner.confirm(ask, id))
    }

    fn leave(&self, ask: &Ask, id: u64, spent_at: Option<BootInstant>) -> Answer<bool> {
        treat(&self.hook, "leave", || self.inner.leave(ask, id, spent_at))
    }

    fn hold(&self, ask: &Ask, permit: &Permit, longest: Duration) -> Answer<()> {
        treat(&self.hook, "hold", || self.inner.hold(ask, permit, longest))
    }

    fn sent(&self, ask: &Ask, permit: &Permit, longest: Duration) -> Answer<Standing> {
        treat(&self.hook, "sent", || self.inner.sent(ask, permit, longest))
    }

    fn stamp(&self, ask: &Ask, permit: &Permit) -> Answer<()> {
        treat(&self.hook, "stamp", || self.inner.stamp(ask, permit))
    }

    fn settle_headers(&self, ask: &Ask, permit: &Permit, outcome: Outcome) -> Answer<Settled> {
        treat(&self.hook, "settle_headers", || {
            self.inner.settle_headers(ask, permit, outcome)
        })
    }

    fn state_quotas(&self, ask: &Ask, permit: &Permit, stated: &Statement) -> Answer<Heard> {
        treat(&self.hook, "state_quotas", || {
            self.inner.state_quotas(ask, permit, stated)
        })
    }

    fn settle(&self, ask: &Ask, permit: &Permit, report: &Report) -> Answer<Settled> {
        treat(&self.hook, "settle", || {
            self.inner.settle(ask, permit, report)
        })
    }

    fn renew(&self, ids: &[u64], length: Duration) -> Answer<Condition> {
        treat(&self.hook, "renew", || self.inner.renew(ids, length))
    }

    fn block(&self, length: Duration, reason: &OpenReason) -> Answer<Option<Transition>> {
        treat(&self.hook, "block", || self.inner.block(length, reason))
    }

    fn unblock(&self) -> Answer<Option<Transition>> {
        treat(&self.hook, "unblock", || self.inner.unblock())
    }

    fn forget_learned(&self) -> Answer<bool> {
        treat(&self.hook, "forget_learned", || self.inner.forget_learned())
    }

    fn forget_adaptation(&self) -> Answer<bool> {
        let forget = || self.inner.forget_adaptation();
        treat(&self.hook, "forget_adaptation", forget)
    }

    fn view(&self) -> Answer<SiteView> {
        treat(&self.hook, "view", || self.inner.view())
    }
}
