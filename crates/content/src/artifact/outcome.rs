//! What came of fetching a candidate location.

use std::io;

use docstokg_hub::policy::classify::Fault;
use docstokg_hub::{ErrorKind, FetchError, Head, SavedFile};

use crate::bot_challenge::BotChallenge;
use crate::evidence::Evidence;
use crate::location::Location;
use crate::reason::Reason;
use crate::sniff::Payload;
use crate::web::WebError;
use crate::work::Learned;
use crate::work_state::{Kind, Postponed};

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
    Later(Postponed),
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

pub(super) fn challenged(host: &str, challenge: BotChallenge, status: Option<u16>) -> Fetched {
    let reason = match challenge {
        BotChallenge::Robots { .. } => Reason::BotChallenge,
        BotChallenge::Interstitial { .. } => Reason::Interstitial,
    };
    nothing(reason, challenge.sentence(host), status)
}

/// Returns what a request without a response means.
pub(super) fn failed(error: &FetchError) -> Fetched {
    match &error.kind {
        ErrorKind::Cancelled { .. } => return Fetched::Cancelled,
        ErrorKind::File { source, path } => {
            return Fetched::Halt(match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    format!("there is no room left for {path}")
                }
                _ => format!("{path} cannot be written: {source}"),
            });
        }
        ErrorKind::Store { .. } => return Fetched::Halt(error.sentence()),
        _ => {}
    }
    let failed = WebError::from(error);
    match failed.retry {
        Some(retry) => Fetched::Later(Postponed::until_retry(retry, failed.reason, &failed.text)),
        None => Fetched::Nothing {
            reason: failed.reason,
            detail: failed.text,
            status: None,
            gone: is_unknown_name(&error.kind),
        },
    }
}

/// Tells whether a host has no address.
fn is_unknown_name(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Fault {
            fault: Fault::Dns,
            ..
        }
    )
}
