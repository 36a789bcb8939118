//! When something that is refused for now is tried again.
//!
//! Pure. A host that asked for a pause, throttles or may be down is waited for, however long: the
//! run ends when its hosts have been silent for too long, and its works are waiting then. Only two
//! things are given up: a file that its host prepares, after a number of polls, and the look-up in
//! an archive that is asked because all else has failed, after some minutes. A copy that an archive
//! is known to have is waited for as any other file.

use std::time::Duration;

use crate::resolver::{Cost, ResolverId, spec};

/// The longest that a work waits for the source that is asked when all others have failed.
const LAST_RESORT_WAIT: Duration = Duration::from_secs(300);
/// How often a file that is being prepared is asked for.
const MAX_POLLS: u32 = 8;
/// How long a file may still need whose host does not state how long.
const LONGEST_PREPARATION: Duration = Duration::from_secs(240);
/// The least wait for a file.
const MIN_FILE_WAIT: Duration = Duration::from_millis(100);
/// How many times the wait between two polls doubles.
const MAX_DOUBLINGS: u32 = 10;

/// Returns the wait for the file of a host that serves none for `wait`.
pub(super) fn wait_for_file(wait: Duration) -> Duration {
    wait.max(MIN_FILE_WAIT)
}

/// Returns the wait for a resolver that answers nothing for `wait`; `None` if only an archive would
/// be waited for, and for too long. `waited` is the time that the work has waited for it already.
pub(super) fn wait_for_lookup(
    resolver: ResolverId,
    wait: Duration,
    waited: Duration,
) -> Option<Duration> {
    let is_last_resort = spec(resolver).is_some_and(|spec| spec.cost == Cost::Archive);
    let gives_up = is_last_resort && waited + wait > LAST_RESORT_WAIT;
    (!gives_up).then(|| wait_for_file(wait))
}

/// Returns the wait for a file that is being prepared, after it was asked for `polls` times; `None`
/// if it is given up. The host states how long that takes, or `wait` is the first of growing waits.
pub(super) fn wait_for_preparation(
    wait: Duration,
    is_stated: bool,
    polls: u32,
) -> Option<Duration> {
    if polls >= MAX_POLLS {
        return None;
    }
    if is_stated {
        return Some(wait_for_file(wait));
    }
    let doublings = polls.saturating_sub(1).min(MAX_DOUBLINGS);
    (wait < LONGEST_PREPARATION).then(|| wait.saturating_mul(1 << doublings))
}
