//! Why a work has no file, or an attempt gave nothing: one type, one spelling.
//!
//! The words are those of manifests, summaries, JSON and documents. Runs of earlier versions wrote
//! some of them differently; [`Reason::read`] knows those spellings, so that their queues and
//! manifests can be taken up.

mod failure;

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(crate) use failure::decisive;
pub use failure::{AttemptStage, ReasonedFailure, WaitCause, sentence};

/// Why something gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// No source knows an open copy.
    NotFound,
    /// The server answered with a status that says no.
    HttpStatus,
    /// The connection failed: no such host, refused, reset, TLS.
    RequestException,
    /// It took too long.
    Timeout,
    /// The machine has no network.
    Offline,
    /// The site keeps automated clients out.
    BotChallenge,
    /// The site wants a browser to wait or to prove work first.
    Interstitial,
    /// robots.txt forbids it.
    RobotsDisallowed,
    /// robots.txt cannot be read for now.
    RobotsUnreachable,
    /// There is a page and no file.
    HtmlOnly,
    /// The file is another work's.
    WrongWork,
    /// The PDF is too small to be one.
    PdfTooSmall,
    /// Nothing was sent.
    EmptyBody,
    /// Less or more was sent than was promised.
    LengthMismatch,
    /// A page is appended to the PDF.
    HtmlTailDetected,
    /// The PDF is cut short.
    PdfEofMissing,
    /// Data of the PDF are missing or overwritten.
    PdfDamaged,
    /// What came instead of the PDF is nothing that is known.
    PdfSniffUnknown,
    /// The file has another checksum than was stated.
    ChecksumMismatch,
    /// The file is larger than is allowed.
    PayloadTooLarge,
    /// The file is of a kind that is not wanted.
    DomainDisallowedMime,
    /// A directory lies where the file has to be written.
    PathBlocked,
    /// The host asked for fewer requests.
    RateLimited,
    /// The host is paused after failures.
    BreakerOpen,
    /// The host is still preparing the file.
    Preparing,
    /// A service answered with something that is not its JSON.
    JsonError,
    /// A service answered with something that is not its XML.
    XmlError,
    /// A service cannot be asked as things are configured.
    ResolverUnavailable,
    /// A service that might know where the file is failed, and no other knew.
    LookupFailed,
    /// The attempts for one work are used up.
    MaxAttemptsReached,
    /// The time for one work is over.
    Deadline,
    /// Another work has the file of this URL.
    DuplicateUrlGlobal,
    /// The input has to be given again: its URL carries a credential.
    InputNeeded,
    /// Nothing was to be requested.
    DryRun,
    /// Files were to be listed only.
    ListOnly,
}

/// Every reason, with its word, the words of earlier versions and what it means for a person.
const REASON_WORDS: [(Reason, &str, &[&str], &str); 35] = [
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
        // The table has every reason; a test sees to that.
        REASON_WORDS
            .iter()
            .find(|(reason, ..)| *reason == self)
            .unwrap_or(&REASON_WORDS[0])
    }

    /// Returns every reason, in the order of the documents.
    pub fn all() -> impl Iterator<Item = Self> {
        REASON_WORDS.iter().map(|(reason, ..)| *reason)
    }

    /// Returns the word used in manifests, summaries and JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.entry().1
    }

    /// Returns the words that earlier versions wrote for it.
    #[must_use]
    pub fn earlier_words(self) -> &'static [&'static str] {
        self.entry().2
    }

    /// Returns what it means, for a person.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        self.entry().3
    }

    /// Reads the word, in its present spelling or that of an earlier version.
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
