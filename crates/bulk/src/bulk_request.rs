//! How long requests of a bulk run wait, and for what.

use std::time::Duration;

use docstokg_hub::{RateWait, Request};

/// The longest that a request of a bulk run may wait in line: as good as for ever. What it does on
/// the wire is bounded by the transport's own timeouts.
pub const BULK_REQUEST_DEADLINE: Duration = Duration::from_secs(30 * 86_400);

/// The longest that a request waits for its own retry; what takes longer is deferred and comes
/// back.
pub const RETRY_WAIT: Duration = Duration::from_secs(5);

/// Lets a request wait in line as long as it takes, but not for its own retry.
#[must_use]
pub fn bulk_request(request: Request) -> Request {
    request
        .rate_wait(RateWait::Deadline)
        .deadline(BULK_REQUEST_DEADLINE)
        .retry_wait(RETRY_WAIT)
}
