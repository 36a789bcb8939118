//! What an attempt that gave nothing met, and which of many is the one to report.

use docstokg_hub::{RetryLater, StatedBy};
use serde::{Deserialize, Serialize};

use super::Reason;

/// How far an attempt had come when it gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AttemptStage {
    /// A service was asked where the file is.
    Lookup,
    /// A page was read for the file.
    Page,
    /// The file was requested.
    File,
}

/// What holds a request back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitCause {
    /// The host.
    pub host: String,
    /// Why, in a few words.
    pub why: String,
    /// Whether the server stated until when: a later run obeys that, too.
    #[serde(default)]
    pub is_stated: bool,
}

impl WaitCause {
    /// Describes the host that holds a request back.
    pub(crate) fn new(later: &RetryLater) -> Self {
        Self {
            host: later.host.to_string(),
            why: later.stated_by.sentence().to_owned(),
            is_stated: later.stated_by == StatedBy::Server,
        }
    }
}

/// Why something gave nothing, and what exactly happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReasonedFailure {
    /// The class.
    pub reason: Reason,
    /// What happened, without secrets.
    pub detail: String,
    /// The status, where there was one.
    #[serde(default)]
    pub http_status: Option<u16>,
    /// How far the attempt had come.
    #[serde(default = "lookup")]
    pub stage: AttemptStage,
    /// What holds the next try back, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<WaitCause>,
}

const fn lookup() -> AttemptStage {
    AttemptStage::Lookup
}

impl ReasonedFailure {
    /// Describes what gave nothing.
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

    /// Adds what holds the next try back.
    #[must_use]
    pub fn held_back_by(self, cause: Option<WaitCause>) -> Self {
        Self { cause, ..self }
    }

    /// Returns how decisive it is: the higher, the more it is what stood between the user and the
    /// file.
    ///
    /// A refusal of the file or its page comes before failures that may pass, these before a file
    /// that is another one, a page without a file, a dead link; services that failed or know
    /// nothing come last.
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
            (Reason::HttpStatus, Some(404 | 410)) => 2,
            (Reason::HtmlOnly | Reason::DomainDisallowedMime, _) => 3,
            (Reason::WrongWork, _) => 4,
            (Reason::BotChallenge | Reason::RobotsDisallowed, _)
            | (Reason::HttpStatus, Some(401 | 402 | 403 | 407 | 451)) => 8 + at_file,
            _ => 6 + at_file,
        }
    }

    /// Tells whether the file or its page was refused: asking again does not help.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(self.weight(), 8 | 9)
    }

    /// Returns what it means for a person, with the status where there is one.
    #[must_use]
    pub fn sentence(&self) -> String {
        sentence(self.reason, self.http_status)
    }
}

/// Returns what a reason means for a person, with the status where there is one.
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

/// Returns the decisive one; of equals the first.
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
