//! Readers of answers that panic: a fault of this program, met by one answer. It fails the work
//! that was read, not the run.

use std::task::Poll;

use docstokg_bulk::contained::contained;

use super::{Outcome, RequestFailure, Resolver};
use crate::reason::Reason;
use crate::web::{BoxFuture, Web};
use crate::work::Work;

/// Asks about works, as [`Resolver::resolve`] does. Where that panics, each work is asked for by
/// itself, and the one that makes it panic has failed here: its other sources are asked.
pub async fn resolve(resolver: &dyn Resolver, works: &[Work], web: &dyn Web) -> Vec<Outcome> {
    if let Some(outcomes) = run(resolver.resolve(works, web)).await {
        return outcomes;
    }
    let mut outcomes = Vec::with_capacity(works.len());
    for work in works {
        let alone = if works.len() > 1 {
            run(resolver.resolve(std::slice::from_ref(work), web)).await
        } else {
            None
        };
        outcomes.push(
            alone
                .and_then(|mut outcomes| outcomes.pop())
                .unwrap_or_else(|| unreadable(resolver.spec().title)),
        );
    }
    outcomes
}

fn unreadable(name: &str) -> Outcome {
    let detail = format!("the answer of {name} could not be read; this is a fault of the program");
    RequestFailure::new(Reason::JsonError, detail, None).into()
}

/// Runs work to its end; `None` if it panicked.
async fn run<T>(mut work: BoxFuture<'_, T>) -> Option<T> {
    std::future::poll_fn(|context| {
        match contained(|| work.as_mut().poll(context)) {
            Some(Poll::Ready(value)) => Poll::Ready(Some(value)),
            Some(Poll::Pending) => Poll::Pending,
            // It is not polled again.
            None => Poll::Ready(None),
        }
    })
    .await
}
