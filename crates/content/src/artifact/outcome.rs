//! What came of fetching a candidate location.

use std::io;
use std::time::Duration;

use docstokg_hub::policy::breaker::OpenReason;
use docstokg_hub::policy::classify::Fault;
use docstokg_hub::policy::site::RefusalReason;
use docstokg_hub::{ErrorKind, FetchError, Head, Refused, SavedFile};

use crate::bot_challenge::BotChallenge;
use crate::evidence::Evidence;
use crate::hub_web::{PROBES_OUT, ROBOTS_OVERRIDE, is_offline};
use crate::location::Location;
use crate::reason::Reason;
use crate::resolver::OFFLINE_RETRY_MS;
use crate::sniff::Payload;
use crate::work::Learned;
use crate::work_state::Kind;

/// What came of a candidate location.
pub(crate) enum Fetched {
    /// A good file lies in the staging place.
    File(Box<Arrived>),
    /// It is a page, and these are the locations that it names.
    Page(Box<Page>),
    /// Nothing, and never will.
    Nothing {
        reason: Reason,
        detail: String,
        status: Option<u16>,
        gone: bool,
    },
    /// Not now.
    /// With whether it was stated, by the server or an operator, and not inferred from failures.
    Later {
        wait: Duration,
        stated: bool,
        reason: Reason,
        detail: String,
        status: Option<u16>,
    },
    /// The run was cancelled before the file was requested.
    Cancelled,
    /// The run cannot go on: the disk is full or cannot be written.
    Halt(String),
}

/// A page that came where a file was wanted.
pub(crate) struct Page {
    pub(crate) locations: Vec<Location>,
    pub(crate) learned: Learned,
    pub(crate) head: Head,
}

/// A good file in its staging place.
pub(crate) struct Arrived {
    pub(crate) head: Head,
    pub(crate) file: SavedFile,
    pub(crate) kind: Kind,
    pub(crate) payload: Payload,
    /// The PDF has no end mark, but all its bytes.
    pub(crate) without_eof: bool,
    /// What the file itself says for being the right one.
    pub(crate) evidence: Evidence,
}

pub(super) fn nothing(reason: Reason, detail: String, status: Option<u16>) -> Fetched {
    Fetched::Nothing {
        reason,
        detail,
        status,
        gone: false,
    }
}

/// This machine has no network: nothing is known about the file.
fn offline(detail: String) -> Fetched {
    Fetched::Later {
        wait: Duration::from_millis(OFFLINE_RETRY_MS),
        stated: true,
        reason: Reason::Offline,
        detail,
        status: None,
    }
}

pub(super) fn challenged(host: &str, challenge: BotChallenge, status: Option<u16>) -> Fetched {
    let reason = match challenge {
        BotChallenge::Robots { .. } => Reason::BotChallenge,
        BotChallenge::Interstitial { .. } => Reason::Interstitial,
    };
    nothing(reason, challenge.sentence(host), status)
}

/// Returns what a request without an answer means.
pub(super) fn failed(error: &FetchError) -> Fetched {
    let detail = error.sentence();
    let later = |wait, reason| Fetched::Later {
        wait,
        stated: true,
        reason,
        detail: detail.clone(),
        status: None,
    };
    match &error.kind {
        ErrorKind::BreakerOpen(refused) => breaker_open(refused, detail),
        ErrorKind::RateLimited(refused) => later(refused.cooldown_remaining, Reason::RateLimited),
        ErrorKind::RobotsUnread {
            retry_in: Some(wait),
            ..
        } => later(*wait, Reason::RobotsUnreachable),
        ErrorKind::RobotsUnread { retry_in: None, .. } => {
            let detail = format!("{detail}; {ROBOTS_OVERRIDE}");
            nothing(Reason::RobotsUnreachable, detail, None)
        }
        ErrorKind::Cancelled { .. } => Fetched::Cancelled,
        ErrorKind::Disallowed { .. } => nothing(Reason::RobotsDisallowed, detail, None),
        ErrorKind::File { source, path } => match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Fetched::Halt(format!("there is no room left for {path}"))
            }
            _ => Fetched::Halt(format!("{path} cannot be written: {source}")),
        },
        ErrorKind::Store { .. } => Fetched::Halt(detail),
        ErrorKind::TooLarge { .. } => nothing(Reason::PayloadTooLarge, detail, None),
        ErrorKind::Fault {
            fault: Fault::NoRoute,
            cause,
            ..
        } if is_offline(cause.as_str()) => offline(detail),
        ErrorKind::Fault {
            fault: Fault::Dns, ..
        } => Fetched::Nothing {
            reason: Reason::RequestException,
            detail,
            status: None,
            gone: true,
        },
        _ => nothing(Reason::RequestException, detail, None),
    }
}

fn breaker_open(refused: &Refused, detail: String) -> Fetched {
    let (wait, stated) = match &refused.refusal.reason {
        RefusalReason::Open { probing: true, .. } => (PROBES_OUT, true),
        RefusalReason::Open {
            reason: OpenReason::RetryAfter | OpenReason::Operator(_),
            ..
        } => (refused.cooldown_remaining, true),
        _ => (refused.cooldown_remaining, false),
    };
    Fetched::Later {
        wait,
        stated,
        reason: Reason::BreakerOpen,
        detail,
        status: None,
    }
}
