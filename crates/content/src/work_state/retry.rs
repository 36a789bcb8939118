//! How often and how long a work waits for what is refused for now: back-off, polls, giving up.
//!
//! Pure. A server or an operator that states a time is believed, however long it is; failures that
//! are only inferred from a host's behaviour are counted, and after a few the source is given up.

use std::time::Duration;

use docstokg_policy::time::Timestamp;

use crate::resolver::{Cost, ResolverId, spec};

/// How often a service that throttles is asked about one work.
const MAX_ANSWERS: u32 = 3;
/// How often a host may be found failing before it is given up.
const MAX_REFUSALS: u32 = 3;
/// How often a file that is being prepared is asked for.
const MAX_POLLS: u32 = 8;
/// A refusal of at most this length is about a probe that is under way.
const PROBE_WAIT: Duration = Duration::from_secs(2);
/// One of at least this length means that several probes have failed in a row.
const HOPELESS_WAIT: Duration = Duration::from_secs(240);
/// One of at least this length was stated by the server or an operator.
const STATED_WAIT: Duration = Duration::from_secs(1_800);
/// A refusal of a file for less than this ends with an early probe: its host has been down for less
/// than a minute.
const EARLY_PROBE_WAIT: Duration = Duration::from_secs(10);
/// How often a file may be refused until an early probe. They come closely one after the other: a
/// work that is back for each of them meets this many in the first minute of an outage.
const MAX_EARLY_REFUSALS: u32 = 20;
/// The least wait for a file.
const MIN_FILE_WAIT: Duration = Duration::from_millis(100);
/// How many times the wait between two polls doubles.
const MAX_DOUBLINGS: u32 = 10;

/// The longest that a work waits for the source that is asked when all others have failed.
const LAST_RESORT_WAIT: Duration = Duration::from_secs(300);

fn is_last_resort(resolver: ResolverId) -> bool {
    spec(resolver).is_some_and(|spec| spec.cost == Cost::Archive)
}

/// When something that is refused for now is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    /// At this time.
    At(Timestamp),
    /// Never.
    GiveUp,
}

/// Why something was refused for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RefusedBy {
    /// The server or an operator stated how long to wait.
    Statement,
    /// The file is being prepared, and the server said how long that takes, or did not.
    Preparation { is_stated: bool },
    /// The host fails.
    Failures,
}

/// Decides about a file that is refused for `wait`, after it was refused `times` times in a way
/// that counts. Returns when to try again, and how often that has been by now.
pub(super) fn of_file(
    resolver: ResolverId,
    refused_by: RefusedBy,
    wait: Duration,
    times: u32,
    now: Timestamp,
) -> (Retry, u32) {
    let counts = refused_by != RefusedBy::Statement;
    let times = times + u32::from(counts);
    let is_overdue = is_last_resort(resolver) && wait > LAST_RESORT_WAIT;
    let (wait_for, most, is_hopeless) = match refused_by {
        RefusedBy::Statement => (wait.max(MIN_FILE_WAIT), MAX_EARLY_REFUSALS, false),
        RefusedBy::Failures if wait < EARLY_PROBE_WAIT => {
            (wait.max(MIN_FILE_WAIT), MAX_EARLY_REFUSALS, false)
        }
        RefusedBy::Failures => (wait.max(MIN_FILE_WAIT), MAX_REFUSALS, wait >= HOPELESS_WAIT),
        RefusedBy::Preparation { is_stated: true } => (wait.max(MIN_FILE_WAIT), MAX_POLLS, false),
        RefusedBy::Preparation { is_stated: false } => {
            let doublings = times.saturating_sub(1).min(MAX_DOUBLINGS);
            let doubled = wait.saturating_mul(1 << doublings);
            (doubled, MAX_POLLS, wait >= HOPELESS_WAIT)
        }
    };
    // A host that has failed its probes again and again is not waited for any longer.
    if times >= most || is_overdue || is_hopeless {
        return (Retry::GiveUp, times);
    }
    (Retry::At(now + wait_for), times)
}

/// Tells whether a refusal to let a request out counts as a failure of its host. A probe that is
/// under way has its result soon, and what a server or an operator stated holds.
pub(super) fn is_failure_of_host(wait: Duration) -> bool {
    wait > PROBE_WAIT && wait < STATED_WAIT
}

/// Decides about a page whose host was found failing `times` times and refuses it for `wait`.
pub(super) fn of_page(wait: Duration, times: u32, now: Timestamp) -> Retry {
    if times >= MAX_REFUSALS {
        Retry::GiveUp
    } else {
        Retry::At(now + wait)
    }
}

/// How a look-up that is to be repeated stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lookup {
    /// The resolver.
    pub(super) resolver: ResolverId,
    /// How often it answered.
    pub(super) answers: u32,
    /// How often its host was found failing.
    pub(super) refusals: u32,
    /// Whether this time its host was found failing, and not a network that is missing or a permit
    /// that has not come.
    pub(super) is_host_failing: bool,
    /// When it was first found waiting.
    pub(super) waits_since: Timestamp,
}

/// Decides about a look-up that is refused for `wait`.
pub(super) fn of_lookup(lookup: Lookup, wait: Duration, now: Timestamp) -> Retry {
    let is_hopeless = lookup.is_host_failing && (HOPELESS_WAIT..STATED_WAIT).contains(&wait);
    let again_at = now + wait;
    let is_overdue =
        is_last_resort(lookup.resolver) && again_at.since(lookup.waits_since) > LAST_RESORT_WAIT;
    let is_used_up = lookup.answers > MAX_ANSWERS || lookup.refusals >= MAX_REFUSALS;
    if is_used_up || is_hopeless || is_overdue {
        Retry::GiveUp
    } else {
        Retry::At(again_at)
    }
}
