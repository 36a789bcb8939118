//! Readers of answers that panic: a fault of this program, met by one answer. It fails the work
//! that was read, not the run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

use super::{LookupFailure, Outcome, Resolver};
use crate::reason::Reason;
use crate::web::{BoxFuture, Web};
use crate::work::Work;

/// Asks about works, as [`Resolver::resolve`] does. Where that panics, each work is asked for by
/// itself, and the one that makes it panic has failed here: its other sources are asked.
pub async fn resolve(resolver: &dyn Resolver, works: &[Work], web: &dyn Web) -> Vec<Outcome> {
    if let Some(outcomes) = contained(resolver.resolve(works, web)).await {
        return outcomes;
    }
    let mut outcomes = Vec::with_capacity(works.len());
    for work in works {
        let alone = if works.len() > 1 {
            contained(resolver.resolve(std::slice::from_ref(work), web)).await
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
    Outcome::Failed(LookupFailure {
        reason: Reason::JsonError,
        detail,
        http_status: None,
        retry: None,
    })
}

/// Runs work to its end; `None` if it panicked.
async fn contained<T>(mut work: BoxFuture<'_, T>) -> Option<T> {
    std::future::poll_fn(|context| {
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
            Ok(Poll::Ready(value)) => Poll::Ready(Some(value)),
            Ok(Poll::Pending) => Poll::Pending,
            // It is not polled again.
            Err(_) => Poll::Ready(None),
        }
    })
    .await
}
