//! Runs look-ups: sends the request of each step, and passes the response to the step's reader.
//!
//! A reader that panics on a response has a fault of this program. Its look-up then has no result,
//! and the run continues.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use docstokg_bulk::blocking::run_blocking;
pub use docstokg_bulk::job::BoxFuture;
use docstokg_bulk::join::run_all;
use docstokg_bulk::panic_containment::contained;

use crate::message::{LookupRequest, LookupResponse};
use crate::step::{BatchStep, LookupStep};

/// Sends the requests of look-ups: programs use the hub, and tests use prepared responses.
pub trait RequestSender: Send + Sync {
    /// The error of a request that brought no response.
    type Failure: Send;

    /// Sends a [`LookupRequest`] and reads the body of its response, into memory or into a file as
    /// the request demands.
    fn send(&self, request: LookupRequest) -> BoxFuture<'_, Result<LookupResponse, Self::Failure>>;
}

/// Looks up a single subject. `begin` returns the first [`LookupStep`]. Returns `None` if a reader
/// panicked.
pub async fn look_up<'a, T: Send, F: Send>(
    begin: impl FnOnce() -> LookupStep<'a, T, F> + Send,
    sender: &dyn RequestSender<Failure = F>,
) -> Option<T> {
    run_contained(async { run_step(begin(), sender).await }).await
}

/// Looks up several subjects together, and returns the results in the order of the subjects. If a
/// reader panics, each subject is looked up alone; the result of a subject whose reader panics
/// again is `None`.
pub async fn look_up_batch<'a, S: Sync, T: Send, F: Send>(
    subjects: &'a [S],
    begin: impl Fn(&'a [S]) -> BatchStep<'a, T, F> + Send + Sync,
    sender: &dyn RequestSender<Failure = F>,
) -> Vec<Option<T>> {
    let together = run_contained(async { run_batch(begin(subjects), sender).await });
    if let Some(results) = together.await {
        return results.into_iter().map(Some).collect();
    }
    let mut results = Vec::with_capacity(subjects.len());
    for subject in subjects {
        let alone = if subjects.len() > 1 {
            let subject = std::slice::from_ref(subject);
            run_contained(async { run_batch(begin(subject), sender).await }).await
        } else {
            None
        };
        results.push(alone.and_then(|mut results| results.pop()));
    }
    results
}

/// Returns the message for a look-up whose reader panicked. `title` is the name of the source.
#[must_use]
pub fn unreadable(title: &str) -> String {
    format!("the answer of {title} could not be read; this is a fault of the program")
}

async fn run_batch<T: Send, F: Send>(
    step: BatchStep<'_, T, F>,
    sender: &dyn RequestSender<Failure = F>,
) -> Vec<T> {
    let steps = run_step(step, sender).await;
    run_all(steps.into_iter().map(|step| run_step(step, sender))).await
}

async fn run_step<T: Send, F: Send>(
    mut step: LookupStep<'_, T, F>,
    sender: &dyn RequestSender<Failure = F>,
) -> T {
    loop {
        step = match step {
            LookupStep::Done(value) => return value,
            LookupStep::Request(pending) => {
                let (request, read) = pending.split();
                read(sender.send(request).await)
            }
            LookupStep::Parse(pending) => {
                let (parse, next) = pending.split();
                // The next step gets the parsed value, or `None` if parsing panicked.
                let _ = run_blocking(parse).await;
                next()
            }
        }
    }
}

/// Runs a future to its end. Returns `None` if it panicked.
async fn run_contained<T>(work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    poll_fn(|context| {
        match contained(|| work.as_mut().poll(context)) {
            Some(Poll::Ready(value)) => Poll::Ready(Some(value)),
            Some(Poll::Pending) => Poll::Pending,
            // A future that panicked must not be polled again.
            None => Poll::Ready(None),
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use http::{HeaderMap, StatusCode};

    use super::*;

    /// Responds to every request with the path of its URL as the body.
    struct Echo;

    impl RequestSender for Echo {
        type Failure = ();

        fn send(&self, request: LookupRequest) -> BoxFuture<'_, Result<LookupResponse, ()>> {
            let body = request.url.path().to_owned().into();
            let response = LookupResponse::new(request.url, StatusCode::OK, HeaderMap::new(), body);
            Box::pin(std::future::ready(Ok(response)))
        }
    }

    fn run<T>(work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            if let Poll::Ready(value) = work.as_mut().poll(&mut Context::from_waker(Waker::noop()))
            {
                return value;
            }
        }
    }

    /// Returns the length of the body at a path; the path `/poison` makes the reader panic.
    fn length(path: &str) -> LookupStep<'_, usize, ()> {
        let url = format!("https://service.example{path}").parse().unwrap();
        LookupStep::request(LookupRequest::metadata(url, "example"), move |result| {
            assert!(path != "/poison", "a fault of a reader");
            LookupStep::Done(result.unwrap().body.len())
        })
    }

    fn lengths<'a>(paths: &'a [&'a str]) -> BatchStep<'a, usize, ()> {
        LookupStep::Done(paths.iter().map(|path| length(path)).collect())
    }

    #[test]
    fn a_reader_that_panics_costs_one_look_up_of_a_batch() {
        let results = run(look_up_batch(&["/ab", "/poison", "/c"], lengths, &Echo));
        assert_eq!(results, [Some(3), None, Some(2)]);
        assert_eq!(run(look_up_batch(&["/poison"], lengths, &Echo)), [None]);
        assert_eq!(run(look_up(|| length("/poison"), &Echo)), None);
        assert_eq!(run(look_up(|| length("/a"), &Echo)), Some(2));
    }
}
