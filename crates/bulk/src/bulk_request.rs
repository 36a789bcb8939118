//! The waits that requests of a bulk run accept.

use std::time::Duration;

use docstokg_hub::{RateWait, Request};

/// Maximum time of a request of a bulk run in the admission queue, which is practically unbounded.
/// The timeouts of the transport bound the time on the wire.
pub const BULK_REQUEST_DEADLINE: Duration = Duration::from_secs(30 * 86_400);

/// Maximum wait of a request for its own retry. An item with a longer wait is deferred.
pub const RETRY_WAIT: Duration = Duration::from_secs(5);

/// Lets a [`Request`] wait for admission without practical limit, but not for its own retry.
#[must_use]
pub fn bulk_request(request: Request) -> Request {
    request
        .rate_wait(RateWait::Deadline)
        .deadline(BULK_REQUEST_DEADLINE)
        .retry_wait(RETRY_WAIT)
}
