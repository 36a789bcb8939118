//! The time of the next try after a temporary refusal.
//!
//! Pure. A host that requested a pause, throttles or may be down is waited for, however long: a run
//! whose hosts are silent for too long ends, and its works stay deferred. Only two things are given
//! up:
//!
//! - a file that its host prepares, after [`MAX_POLLS`] requests;
//! - a look-up of last resort in an archive that fails for [`LAST_RESORT_WAIT`].
//!
//! A time that the archive or an operator declared is obeyed. A copy that an archive is known to
//! have is waited for like any other file.

use std::time::Duration;

use docstokg_hub::{Disposition, RetryLater};
use docstokg_policy::time::Timestamp;

use super::QueriedResolver;
use crate::request_failure::RequestFailure;
use crate::resolver::{ResolverCost, spec};

/// Maximum wait for a failing source of last resort.
const LAST_RESORT_WAIT: Duration = Duration::from_secs(300);
/// Maximum number of requests for a file that is being prepared.
const MAX_POLLS: u32 = 8;
/// The first wait for a file whose host does not declare the time of preparation. The wait doubles.
const FIRST_PREPARATION_WAIT: Duration = Duration::from_secs(2);
/// Minimum wait for a file.
const MIN_FILE_WAIT: Duration = Duration::from_millis(100);

/// Returns the wait for a file whose host sends no file for `wait`.
pub(super) fn wait_for_file(wait: Duration) -> Duration {
    wait.max(MIN_FILE_WAIT)
}

impl QueriedResolver {
    /// Defers the resolver after a failed query, or gives it up.
    pub(super) fn put_off(&mut self, failed: &RequestFailure, now: Timestamp) {
        let is_failing = matches!(&failed.disposition,
            Disposition::Retry(later) if later.stated_by.is_inferred());
        self.failing_since = is_failing.then(|| self.failing_since.unwrap_or(now));
        let retry = failed.disposition.retry();
        let retry = retry.filter(|later| !self.is_given_up(later, now));
        self.again_at = retry.map(|later| now + wait_for_file(later.wait));
    }

    /// Tells whether this is a source of last resort that fails for too long.
    fn is_given_up(&self, later: &RetryLater, now: Timestamp) -> bool {
        let is_last_resort =
            spec(self.resolver).is_some_and(|spec| spec.cost == ResolverCost::Archive);
        let failing = self.failing_since.map(|since| now.since(since));
        is_last_resort && failing.is_some_and(|failing| failing + later.wait > LAST_RESORT_WAIT)
    }
}

/// Returns the wait for a file that is being prepared, after `polls` requests. Returns `None` if
/// the file is given up. `stated` is the time that the host declared.
pub(super) fn wait_for_preparation(stated: Option<Duration>, polls: u32) -> Option<Duration> {
    let unstated = || FIRST_PREPARATION_WAIT * 2_u32.pow(polls.saturating_sub(1));
    (polls < MAX_POLLS).then(|| stated.map_or_else(unstated, wait_for_file))
}
