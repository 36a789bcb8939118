//! The steps of a look-up.

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::message::{LookupRequest, LookupResponse};

/// The next step of a look-up. `T` is the type of its result, `F` the error of a request that
/// brought no response.
///
/// A step is a value, and sends nothing itself. The caller sends the request of a
/// [`PendingRequest`] and passes the response to [`PendingRequest::next`], so a test needs only a
/// table of responses.
#[derive(Debug)]
#[must_use = "a step does nothing until its request is sent"]
pub enum LookupStep<'a, T, F> {
    /// The look-up is finished.
    Done(T),
    /// A request must be sent.
    Request(Box<PendingRequest<'a, T, F>>),
    /// A response that is expensive to parse must be parsed.
    Parse(Box<PendingParse<'a, T, F>>),
}

/// A batch of look-ups. The first requests are for the batch as a whole. Their result is one
/// [`LookupStep`] for each subject, in order; these steps are independent of each other.
pub type BatchStep<'a, T, F> = LookupStep<'a, Vec<LookupStep<'a, T, F>>, F>;

type ResponseReader<'a, T, F> =
    Box<dyn FnOnce(Result<LookupResponse, F>) -> LookupStep<'a, T, F> + Send + 'a>;

type ParseJob = Box<dyn FnOnce() + Send>;

type NextStep<'a, T, F> = Box<dyn FnOnce() -> LookupStep<'a, T, F> + Send + 'a>;

/// A [`LookupRequest`], and the reader of its response.
pub struct PendingRequest<'a, T, F> {
    /// The request.
    pub request: LookupRequest,
    read: ResponseReader<'a, T, F>,
}

/// A response that is expensive to parse, its parser, and the function that uses the parsed value.
pub struct PendingParse<'a, T, F> {
    parse: ParseJob,
    next: NextStep<'a, T, F>,
}

impl<'a, T: 'a, F: 'a> LookupStep<'a, T, F> {
    /// Creates the step that sends a [`LookupRequest`] and reads its response.
    pub fn request(
        request: LookupRequest,
        read: impl FnOnce(Result<LookupResponse, F>) -> Self + Send + 'a,
    ) -> Self {
        Self::Request(Box::new(PendingRequest {
            request,
            read: Box::new(read),
        }))
    }

    /// Creates the step that parses up to `most` bytes of a response on another thread. `next` gets
    /// the result of `parse`, or `None` if `parse` panicked.
    pub fn parse<P: Send + 'static>(
        response: LookupResponse,
        most: u64,
        parse: impl FnOnce(io::Result<Bytes>) -> P + Send + 'static,
        next: impl FnOnce(Option<P>) -> Self + Send + 'a,
    ) -> Self {
        let parsed = Arc::new(Mutex::new(None));
        let kept = Arc::clone(&parsed);
        Self::Parse(Box::new(PendingParse {
            parse: Box::new(move || {
                let value = parse(response.read(most));
                *kept.lock() = Some(value);
            }),
            next: Box::new(move || {
                let value = parsed.lock().take();
                next(value)
            }),
        }))
    }

    /// Continues with `next`, which gets the result of this look-up.
    pub fn then<U: 'a>(
        self,
        next: impl FnOnce(T) -> LookupStep<'a, U, F> + Send + 'a,
    ) -> LookupStep<'a, U, F> {
        match self {
            Self::Done(value) => next(value),
            Self::Request(pending) => {
                let PendingRequest { request, read } = *pending;
                LookupStep::request(request, move |result| read(result).then(next))
            }
            Self::Parse(pending) => {
                let PendingParse { parse, next: read } = *pending;
                LookupStep::Parse(Box::new(PendingParse {
                    parse,
                    next: Box::new(move || read().then(next)),
                }))
            }
        }
    }
}

impl<'a, T, F> PendingRequest<'a, T, F> {
    /// Passes the response, or the error of the request, to the reader, and returns the next step.
    pub fn next(self, result: Result<LookupResponse, F>) -> LookupStep<'a, T, F> {
        (self.read)(result)
    }

    pub(crate) fn split(self) -> (LookupRequest, ResponseReader<'a, T, F>) {
        (self.request, self.read)
    }
}

impl<'a, T, F> PendingParse<'a, T, F> {
    /// Parses the response on this thread, and returns the next step. The call may block to read
    /// the response from a file.
    pub fn next(self) -> LookupStep<'a, T, F> {
        (self.parse)();
        (self.next)()
    }

    pub(crate) fn split(self) -> (ParseJob, NextStep<'a, T, F>) {
        (self.parse, self.next)
    }
}

impl<T, F> fmt::Debug for PendingRequest<'_, T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.request.fmt(f)
    }
}

impl<T, F> fmt::Debug for PendingParse<'_, T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PendingParse")
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, StatusCode};
    use url::Url;

    use super::*;

    type TextStep<'a> = LookupStep<'a, String, &'static str>;

    fn request(path: &str) -> LookupRequest {
        let url = Url::parse("https://service.example/").unwrap();
        LookupRequest::metadata(url.join(path).unwrap(), "example")
    }

    fn response(body: &'static str) -> LookupResponse {
        LookupResponse::new(
            request("").url,
            StatusCode::OK,
            HeaderMap::new(),
            body.into(),
        )
    }

    fn text<'a>(path: &str) -> TextStep<'a> {
        LookupStep::request(request(path), |result: Result<_, &str>| match result {
            Ok(response) => LookupStep::Done(String::from_utf8_lossy(&response.body).into_owned()),
            Err(why) => LookupStep::Done(why.to_owned()),
        })
    }

    #[test]
    fn a_look_up_continues_behind_the_last_of_its_requests() {
        let step = text("a").then(|first| {
            text("b").then(move |second| LookupStep::Done(format!("{first} {second}")))
        });
        let LookupStep::Request(first) = step else {
            panic!("it begins with a request")
        };
        assert_eq!(first.request.url.path(), "/a");
        let LookupStep::Request(second) = first.next(Ok(response("one"))) else {
            panic!("it goes on with a request")
        };
        assert_eq!(second.request.url.path(), "/b");
        let LookupStep::Done(text) = second.next(Err("none")) else {
            panic!("it is over")
        };
        assert_eq!(text, "one none");
    }

    #[test]
    fn what_was_parsed_is_there_for_the_next_step() {
        let step: TextStep<'_> = LookupStep::parse(
            response("parsed"),
            3,
            |body| body.unwrap().len(),
            |length| LookupStep::Done(format!("{length:?}")),
        );
        let LookupStep::Parse(pending) = step.then(|text| LookupStep::Done(text + "!")) else {
            panic!("it has something to parse")
        };
        let LookupStep::Done(text) = pending.next() else {
            panic!("it is over")
        };
        assert_eq!(text, "Some(3)!");
    }
}
