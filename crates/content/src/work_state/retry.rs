//! When something that is refused for now is tried again.
//!
//! Pure. A host that asked for a pause, throttles or may be down is waited for, however long: the
//! run ends when its hosts have been silent for too long, and its works are waiting then. Only two
//! things are given up: a file that its host prepares, after a number of polls, and the look-up in
//! an archive that is asked because all else has failed, when the archive has failed for some
//! minutes. A time that the archive or an operator states is believed. A copy that an archive is
//! known to have is waited for as any other file.

use std::time::Duration;

use docstokg_hub::{Disposition, RetryLater};
use docstokg_policy::time::Timestamp;

use super::QueriedResolver;
use crate::request_failure::RequestFailure;
use crate::resolver::{ResolverCost, spec};

/// The longest that a work waits for a failing source that is asked when all others have failed.
const LAST_RESORT_WAIT: Duration = Duration::from_secs(300);
/// How often a file that is being prepared is asked for.
const MAX_POLLS: u32 = 8;
/// The first wait for a file whose host does not state how long it is prepared. It doubles.
const FIRST_PREPARATION_WAIT: Duration = Duration::from_secs(2);
/// The least wait for a file.
const MIN_FILE_WAIT: Duration = Duration::from_millis(100);

/// Returns the wait for the file of a host that serves none for `wait`.
pub(super) fn wait_for_file(wait: Duration) -> Duration {
    wait.max(MIN_FILE_WAIT)
}

impl QueriedResolver {
    /// Takes in that the resolver did not answer: it is asked again later, or given up.
    pub(super) fn put_off(&mut self, failed: &RequestFailure, now: Timestamp) {
        let is_failing = matches!(&failed.disposition,
            Disposition::Retry(later) if later.stated_by.is_inferred());
        self.failing_since = is_failing.then(|| self.failing_since.unwrap_or(now));
        let retry = failed.disposition.retry();
        let retry = retry.filter(|later| !self.is_given_up(later, now));
        self.again_at = retry.map(|later| now + wait_for_file(later.wait));
    }

    /// Tells whether this is the source of last resort, and fails for too long to be waited for.
    fn is_given_up(&self, later: &RetryLater, now: Timestamp) -> bool {
        let is_last_resort =
            spec(self.resolver).is_some_and(|spec| spec.cost == ResolverCost::Archive);
        let failing = self.failing_since.map(|since| now.since(since));
        is_last_resort && failing.is_some_and(|failing| failing + later.wait > LAST_RESORT_WAIT)
    }
}

/// Returns the wait for a file that is being prepared, after it was asked for `polls` times; `None`
/// if it is given up. The host may state how long that takes.
pub(super) fn wait_for_preparation(stated: Option<Duration>, polls: u32) -> Option<Duration> {
    let unstated = || FIRST_PREPARATION_WAIT * 2_u32.pow(polls.saturating_sub(1));
    (polls < MAX_POLLS).then(|| stated.map_or_else(unstated, wait_for_file))
}
