//! The maximum waits of the requests of a bulk run, for admission and for retries.

use std::time::Duration;

use docstokg_hub::{RateWait, Request};

/// Maximum time that a request of a bulk run waits in the admission queue: so long that a run
/// practically never reaches it. The time after admission is bounded by the timeouts of the
/// transport.
pub const BULK_REQUEST_DEADLINE: Duration = Duration::from_secs(30 * 86_400);

/// Maximum delay before the hub itself retries a request. If the delay would be longer, the item is
/// deferred instead.
pub const RETRY_WAIT: Duration = Duration::from_secs(5);

/// Lets a [`Request`] wait for admission practically without limit, but at most [`RETRY_WAIT`] for
/// a retry.
#[must_use]
pub fn bulk_request(request: Request) -> Request {
    request
        .rate_wait(RateWait::Deadline)
        .deadline(BULK_REQUEST_DEADLINE)
        .retry_wait(RETRY_WAIT)
}
