//! The reasons why a work has no file, or an attempt failed: one type, one spelling.
//!
//! Manifests, summaries, JSON and documents use the same words. Earlier versions spelt some of them
//! differently. [`Reason::read`] knows those spellings, so that their queues and manifests can be
//! continued.

mod advice;
mod failure;

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use advice::{ReasonAdvice, advice, advice_without_copy};
pub(crate) use failure::decisive;
pub use failure::{AttemptStage, ReasonedFailure, WaitCause, sentence};

/// The reason of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// No source knows an open copy.
    NotFound,
    /// The server responded with a status of refusal or failure.
    HttpStatus,
    /// The connection failed: refused, reset, or TLS.
    RequestException,
    /// The name of the host does not exist.
    NameNotFound,
    /// The address is in a private network, which a URL of others may not reach.
    InternalAddress,
    /// The request exceeded its time limit.
    Timeout,
    /// The machine has no network.
    Offline,
    /// The site refuses automated clients.
    BotChallenge,
    /// The site makes a browser wait, or demands proof of work.
    Interstitial,
    /// robots.txt forbids the request.
    RobotsDisallowed,
    /// robots.txt cannot be read for now.
    RobotsUnreachable,
    /// The response is a page without a file.
    HtmlOnly,
    /// The file is another work's.
    WrongWork,
    /// The PDF is too small to be an article.
    PdfTooSmall,
    /// The response has no content.
    EmptyBody,
    /// The body is shorter or longer than declared.
    LengthMismatch,
    /// A page is appended to the PDF.
    HtmlTailDetected,
    /// The PDF is cut short.
    PdfEofMissing,
    /// Data of the PDF are missing or overwritten.
    PdfDamaged,
    /// The bytes in place of the PDF are of an unknown kind.
    PdfSniffUnknown,
    /// The checksum of the file is not the declared one.
    ChecksumMismatch,
    /// The file is larger than the configured limit.
    PayloadTooLarge,
    /// The file is of an unwanted kind.
    DomainDisallowedMime,
    /// A directory exists at the path of the file.
    PathBlocked,
    /// The host limits the rate of requests.
    RateLimited,
    /// The host is paused after failures.
    BreakerOpen,
    /// The host is still preparing the file.
    Preparing,
    /// The response of a service is not the expected JSON.
    JsonError,
    /// The response of a service is not the expected XML.
    XmlError,
    /// A service cannot be queried with the current configuration.
    ResolverUnavailable,
    /// A service that might know the file failed, and no other service knew the file.
    LookupFailed,
    /// The maximum number of attempts for one work is reached.
    MaxAttemptsReached,
    /// The time limit for one work is reached.
    Deadline,
    /// Another work has the file of this URL.
    DuplicateUrlGlobal,
    /// The input must be given again, because its URL contains a credential.
    InputNeeded,
    /// The run was a dry run, which requests nothing.
    DryRun,
    /// The run only listed files.
    ListOnly,
}

/// Every [`Reason`] with its word, the words of earlier versions, and its meaning for a person.
const REASON_WORDS: [(Reason, &str, &[&str], &str); 37] = [
    (
        Reason::NotFound,
        "not_found",
        &["resolver_not_found", "resolver_missing", "not-found"],
        "no open copy found",
    ),
    (
        Reason::HttpStatus,
        "http_status",
        &["http-error"],
        "the server refused or failed",
    ),
    (
        Reason::RequestException,
        "request_exception",
        &["connection-error"],
        "the connection failed",
    ),
    (
        Reason::NameNotFound,
        "name_not_found",
        &[],
        "the name of the host does not exist",
    ),
    (
        Reason::InternalAddress,
        "internal_address",
        &[],
        "the address is in a private network",
    ),
    (Reason::Timeout, "timeout", &[], "the server took too long"),
    (Reason::Offline, "offline", &[], "no network"),
    (
        Reason::BotChallenge,
        "bot_challenge",
        &["bot_wall", "bot-wall"],
        "the site blocks automated downloads",
    ),
    (
        Reason::Interstitial,
        "interstitial",
        &[],
        "the site serves the file to browsers only",
    ),
    (
        Reason::RobotsDisallowed,
        "robots_disallowed",
        &["robots-disallowed"],
        "the site's robots.txt forbids it",
    ),
    (
        Reason::RobotsUnreachable,
        "robots_unreachable",
        &["robots_later"],
        "the site's robots.txt could not be read",
    ),
    (
        Reason::HtmlOnly,
        "html_only",
        &[],
        "only a web page, no PDF",
    ),
    (
        Reason::WrongWork,
        "wrong_work",
        &[],
        "the file found belongs to another work",
    ),
    (
        Reason::PdfTooSmall,
        "pdf_too_small",
        &[],
        "the PDF is too small to be the work",
    ),
    (
        Reason::EmptyBody,
        "empty_body",
        &[],
        "the server sent an empty file",
    ),
    (
        Reason::LengthMismatch,
        "length_mismatch",
        &[],
        "the file is incomplete",
    ),
    (
        Reason::HtmlTailDetected,
        "html_tail_detected",
        &[],
        "the PDF ends in a web page",
    ),
    (
        Reason::PdfEofMissing,
        "pdf_eof_missing",
        &[],
        "PDF is cut short",
    ),
    (Reason::PdfDamaged, "pdf_damaged", &[], "the PDF is damaged"),
    (
        Reason::PdfSniffUnknown,
        "pdf_sniff_unknown",
        &[],
        "the file is not a PDF",
    ),
    (
        Reason::ChecksumMismatch,
        "checksum_mismatch",
        &[],
        "the file is damaged (wrong checksum)",
    ),
    (
        Reason::PayloadTooLarge,
        "payload_too_large",
        &[],
        "the file is too large",
    ),
    (
        Reason::DomainDisallowedMime,
        "domain_disallowed_mime",
        &[],
        "only another kind of file",
    ),
    (
        Reason::PathBlocked,
        "path_blocked",
        &[],
        "a directory has the name of its file",
    ),
    (
        Reason::RateLimited,
        "rate_limited",
        &["rate-limit"],
        "the host asked for fewer requests",
    ),
    (
        Reason::BreakerOpen,
        "breaker_open",
        &["breaker-open"],
        "the host is paused after failures",
    ),
    (
        Reason::Preparing,
        "preparing",
        &[],
        "the host did not finish preparing the file",
    ),
    (
        Reason::JsonError,
        "json_error",
        &["json-error"],
        "a service gave an unreadable answer",
    ),
    (
        Reason::XmlError,
        "xml_error",
        &["xml-error"],
        "a service gave an unreadable answer",
    ),
    (
        Reason::ResolverUnavailable,
        "resolver_unavailable",
        &["resolver-unavailable"],
        "a service is not configured",
    ),
    (
        Reason::LookupFailed,
        "lookup_failed",
        &[],
        "a look-up service failed",
    ),
    (
        Reason::MaxAttemptsReached,
        "max_attempts_reached",
        &[],
        "too many attempts",
    ),
    (
        Reason::Deadline,
        "deadline",
        &[],
        "the time for this work was over",
    ),
    (
        Reason::DuplicateUrlGlobal,
        "duplicate_url_global",
        &[],
        "another work has the same file",
    ),
    (
        Reason::InputNeeded,
        "input_needed",
        &[],
        "its URL was not kept; give the input again with --retry-failed",
    ),
    (Reason::DryRun, "dry_run", &[], "dry run"),
    (Reason::ListOnly, "list_only", &[], "listed only"),
];

impl Reason {
    fn entry(self) -> &'static (Self, &'static str, &'static [&'static str], &'static str) {
        // A test ensures that the table has every reason.
        REASON_WORDS
            .iter()
            .find(|(reason, ..)| *reason == self)
            .unwrap_or(&REASON_WORDS[0])
    }

    /// Returns every reason, in the order of the table.
    pub fn all() -> impl Iterator<Item = Self> {
        REASON_WORDS.iter().map(|(reason, ..)| *reason)
    }

    /// Returns the word used in manifests, summaries and JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.entry().1
    }

    /// Returns the words that earlier versions wrote for this reason.
    #[must_use]
    pub fn earlier_words(self) -> &'static [&'static str] {
        self.entry().2
    }

    /// Returns the meaning of the reason for a person.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        self.entry().3
    }

    /// Reads the word of a reason, in its present spelling or that of an earlier version.
    ///
    /// ```
    /// use docstokg_content::reason::Reason;
    ///
    /// for reason in Reason::all() {
    ///     assert_eq!(Reason::read(reason.as_str()), Some(reason));
    /// }
    /// assert_eq!(Reason::read("no such reason"), None);
    /// ```
    #[must_use]
    pub fn read(word: &str) -> Option<Self> {
        REASON_WORDS
            .iter()
            .find(|(_, known, earlier, _)| *known == word || earlier.contains(&word))
            .map(|(reason, ..)| *reason)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Reason {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let word = String::deserialize(from)?;
        Self::read(&word).ok_or_else(|| {
            serde::de::Error::custom(format!("'{word}' is not a reason that this version knows"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_snake_case_stands_once_and_reads_back() {
        let mut seen = std::collections::HashSet::new();
        for reason in Reason::all() {
            assert_eq!(Reason::read(reason.as_str()), Some(reason));
            assert!(
                reason
                    .as_str()
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte == b'_'),
                "{reason}"
            );
            assert!(!reason.sentence().is_empty());
            for word in reason.earlier_words().iter().chain([&reason.as_str()]) {
                assert_eq!(Reason::read(word), Some(reason));
                assert!(seen.insert(*word), "{word} stands twice");
            }
        }
        assert_eq!(
            Reason::all()
                .map(|reason| reason as usize)
                .collect::<Vec<_>>(),
            (0..REASON_WORDS.len()).collect::<Vec<_>>()
        );
        assert_eq!(Reason::read("no such reason"), None);
    }
}
