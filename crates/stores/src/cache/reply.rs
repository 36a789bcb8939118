//! Answers of the cache: there at once, or when a thread of the store has given them.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

/// An answer of the cache. Awaiting one that is there costs nothing; no executor in particular is
/// needed for the others. The operation has begun when the store returns this; dropping it undoes
/// nothing.
#[must_use = "the answer says whether the operation succeeded"]
pub struct CacheReply<T>(ReplyState<T>);

enum ReplyState<T> {
    Ready(Option<T>),
    Later {
        answer: oneshot::Receiver<T>,
        /// The answer where the thread of the store has ended.
        otherwise: Option<T>,
    },
}

impl<T> CacheReply<T> {
    /// An answer that is there.
    pub(super) const fn now(value: T) -> Self {
        Self(ReplyState::Ready(Some(value)))
    }

    /// An answer that a thread sends, or `otherwise` if it ends without.
    pub(super) fn later(otherwise: T) -> (oneshot::Sender<T>, Self) {
        let (sender, answer) = oneshot::channel();
        let otherwise = Some(otherwise);
        (sender, Self(ReplyState::Later { answer, otherwise }))
    }

    /// Returns the answer if it was there at once.
    ///
    /// # Errors
    /// It is not: it has to be awaited.
    pub fn ready(self) -> Result<T, Self> {
        match self.0 {
            ReplyState::Ready(Some(value)) => Ok(value),
            other => Err(Self(other)),
        }
    }
}

impl<T: Unpin> Future for CacheReply<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let value = match &mut self.get_mut().0 {
            ReplyState::Ready(value) => value.take(),
            ReplyState::Later { answer, otherwise } => match Pin::new(answer).poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(value)) => Some(value),
                Poll::Ready(Err(_)) => otherwise.take(),
            },
        };
        // A future that has given its answer is not polled again.
        value.map_or(Poll::Pending, Poll::Ready)
    }
}
