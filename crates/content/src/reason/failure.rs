//! The failure of an attempt, and the choice of the failure to report for a work.

use docstokg_hub::{RetryLater, StatedBy};
use serde::{Deserialize, Serialize};

use super::Reason;

/// The stage at which an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AttemptStage {
    /// A query to a service for the location of the file.
    Lookup,
    /// The reading of a page that may link to the file.
    Page,
    /// The request for the file.
    File,
}

/// The cause for which a request has to wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitCause {
    /// The host that is waited for.
    pub host: String,
    /// The cause in a few words.
    pub why: String,
    /// The server declared the end of the wait, so later runs obey it, too.
    #[serde(default)]
    pub is_stated: bool,
    /// The authority that set the time, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_by: Option<StatedBy>,
    /// The source whose breaker delays the request: its host is not paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolver: Option<String>,
}

impl WaitCause {
    /// Describes the host and the cause of a deferred request.
    pub(crate) fn new(later: &RetryLater) -> Self {
        Self {
            host: later.host.to_string(),
            why: later.sentence(),
            is_stated: later.stated_by == StatedBy::Server,
            set_by: Some(later.stated_by),
            resolver: later.by.resolver().map(str::to_owned),
        }
    }
}

/// The failure of an attempt, with its [`Reason`] and details.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReasonedFailure {
    /// The [`Reason`] as the class of the failure.
    pub reason: Reason,
    /// The details, without secrets.
    pub detail: String,
    /// The HTTP status, if there was a response.
    #[serde(default)]
    pub http_status: Option<u16>,
    /// The stage of the attempt.
    #[serde(default = "lookup")]
    pub stage: AttemptStage,
    /// The cause that delays the next try, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<WaitCause>,
}

const fn lookup() -> AttemptStage {
    AttemptStage::Lookup
}

impl ReasonedFailure {
    /// Describes a failed attempt.
    #[must_use]
    pub fn new(
        stage: AttemptStage,
        reason: Reason,
        detail: &str,
        http_status: Option<u16>,
    ) -> Self {
        Self {
            reason,
            detail: detail.to_owned(),
            http_status,
            stage,
            cause: None,
        }
    }

    /// Adds the [`WaitCause`] that delays the next try.
    #[must_use]
    pub fn held_back_by(self, cause: Option<WaitCause>) -> Self {
        Self { cause, ..self }
    }

    /// Returns how decisive the failure is. The highest weight is reported as the obstacle between
    /// the user and the file.
    ///
    /// From the highest weight to the lowest:
    ///
    /// - a refusal of the file or its page;
    /// - a failure that may pass;
    /// - an address in a private network;
    /// - another work's file, a page without a file, or a dead link;
    /// - a service that failed or knows nothing.
    #[must_use]
    pub fn weight(&self) -> u8 {
        if self.reason == Reason::Offline {
            return 10;
        }
        let at_file = u8::from(self.stage == AttemptStage::File);
        match (self.reason, self.http_status) {
            (Reason::NotFound | Reason::DuplicateUrlGlobal, _) => 0,
            (Reason::HttpStatus, Some(404 | 410)) if self.stage == AttemptStage::Lookup => 0,
            _ if self.stage == AttemptStage::Lookup => 1,
            (Reason::HttpStatus, Some(404 | 410)) | (Reason::NameNotFound, _) => 2,
            (Reason::HtmlOnly | Reason::DomainDisallowedMime, _) => 3,
            (Reason::WrongWork, _) => 4,
            (Reason::InternalAddress, _) => 5,
            (Reason::BotChallenge | Reason::RobotsDisallowed, _)
            | (Reason::HttpStatus, Some(401 | 402 | 403 | 407 | 451)) => 8 + at_file,
            _ => 6 + at_file,
        }
    }

    /// Tells whether the file or its page was refused, so that another request would not help.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self.weight(), 8 | 9)
    }

    /// Returns the meaning of the failure for a person, with the HTTP status if there is one.
    #[must_use]
    pub fn sentence(&self) -> String {
        sentence(self.reason, self.http_status)
    }
}

/// Returns the meaning of a [`Reason`] for a person, with the HTTP status if there is one.
#[must_use]
pub fn sentence(reason: Reason, http_status: Option<u16>) -> String {
    match (reason, http_status) {
        (Reason::HttpStatus, Some(status @ (401 | 402 | 403 | 407 | 451))) => {
            format!("the site refused access ({status})")
        }
        (Reason::HttpStatus, Some(status @ (404 | 410))) => format!("the link is dead ({status})"),
        (Reason::HttpStatus, Some(status)) => format!("server error ({status})"),
        _ => reason.sentence().to_owned(),
    }
}

/// Returns the most decisive failure by [`ReasonedFailure::weight`]; the first among equals.
pub(crate) fn decisive<'a>(
    failures: impl Iterator<Item = &'a ReasonedFailure>,
) -> Option<&'a ReasonedFailure> {
    failures.fold(None, |best, next| match best {
        Some(best) if best.weight() >= next.weight() => Some(best),
        _ => Some(next),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_file_is_more_decisive_than_a_service_that_knows_nothing() {
        let refused = ReasonedFailure::new(
            AttemptStage::File,
            Reason::HttpStatus,
            "pub.example answered 403",
            Some(403),
        );
        let unknown = ReasonedFailure::new(
            AttemptStage::Lookup,
            Reason::NotFound,
            "Europe PMC does not know it",
            None,
        );
        let dead = ReasonedFailure::new(
            AttemptStage::File,
            Reason::HttpStatus,
            "old.example answered 404",
            Some(404),
        );
        let service = ReasonedFailure::new(
            AttemptStage::Lookup,
            Reason::HttpStatus,
            "api.example answered 403",
            Some(403),
        );
        let challenged = ReasonedFailure::new(
            AttemptStage::Page,
            Reason::BotChallenge,
            "pub.example",
            Some(403),
        );
        let all = [&unknown, &dead, &service, &challenged, &refused, &unknown];
        assert_eq!(decisive(all.into_iter()), Some(&refused));
        assert_eq!(
            decisive([&unknown, &service, &dead].into_iter()),
            Some(&dead)
        );
        assert_eq!(decisive([&unknown, &service].into_iter()), Some(&service));
        assert_eq!(refused.sentence(), "the site refused access (403)");
    }
}
