//! Several futures that are awaited together.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// Runs all futures together on the task of the caller, and returns their results in order.
pub async fn run_all<W: Future>(works: impl Iterator<Item = W>) -> Vec<W::Output> {
    let mut slots: Vec<FutureSlot<W>> = works
        .map(|work| FutureSlot::Running(Box::pin(work)))
        .collect();
    poll_fn(|context| {
        let mut is_running = false;
        for slot in &mut slots {
            if let FutureSlot::Running(work) = slot {
                match work.as_mut().poll(context) {
                    Poll::Ready(value) => *slot = FutureSlot::Done(value),
                    Poll::Pending => is_running = true,
                }
            }
        }
        if is_running {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })
    .await;
    let done = |slot| match slot {
        FutureSlot::Done(value) => Some(value),
        FutureSlot::Running(_) => None,
    };
    slots.into_iter().filter_map(done).collect()
}

enum FutureSlot<W: Future> {
    Running(Pin<Box<W>>),
    Done(W::Output),
}
