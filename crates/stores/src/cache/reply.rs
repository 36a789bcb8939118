//! Replies of the cache, ready at once or after a thread of the store has finished.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

/// A reply of the cache, for any executor. A ready reply costs nothing to await. The operation has
/// begun when the store returns the reply; a dropped reply reverts nothing.
#[must_use = "the answer says whether the operation succeeded"]
pub struct CacheReply<T>(ReplyState<T>);

enum ReplyState<T> {
    Ready(Option<T>),
    Later {
        answer: oneshot::Receiver<T>,
        /// The reply to return if the thread of the store ends without a reply.
        otherwise: Option<T>,
    },
}

impl<T> CacheReply<T> {
    /// Returns a ready reply.
    pub(super) const fn now(value: T) -> Self {
        Self(ReplyState::Ready(Some(value)))
    }

    /// Returns a pending reply and its sender. The reply is `otherwise` if the sender is dropped.
    pub(super) fn later(otherwise: T) -> (oneshot::Sender<T>, Self) {
        let (sender, answer) = oneshot::channel();
        let otherwise = Some(otherwise);
        (sender, Self(ReplyState::Later { answer, otherwise }))
    }

    /// Returns the value if the reply is ready.
    ///
    /// # Errors
    /// Returns the reply itself if it is pending.
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
        // A future must not be polled after completion.
        value.map_or(Poll::Pending, Poll::Ready)
    }
}
