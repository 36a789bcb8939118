//! Waits for several futures at once.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use crate::web::BoxFuture;

/// Runs all futures together and returns what they gave, in their order. How many requests are out
/// at a time is the web's business.
pub(crate) async fn join_all<'a, T>(futures: impl Iterator<Item = BoxFuture<'a, T>>) -> Vec<T> {
    let mut slots: Vec<Slot<'a, T>> = futures.map(Slot::Waiting).collect();
    poll_fn(|context| {
        let mut waiting = false;
        for slot in &mut slots {
            if let Slot::Waiting(future) = slot {
                match Pin::as_mut(future).poll(context) {
                    Poll::Ready(value) => *slot = Slot::Done(value),
                    Poll::Pending => waiting = true,
                }
            }
        }
        if waiting {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })
    .await;
    slots
        .into_iter()
        .filter_map(|slot| {
            if let Slot::Done(value) = slot {
                Some(value)
            } else {
                None
            }
        })
        .collect()
}

enum Slot<'a, T> {
    Waiting(BoxFuture<'a, T>),
    Done(T),
}
