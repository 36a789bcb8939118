//! What a person can do about a work without a file, by its reason.

use super::Reason;

/// The advice for a work without a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReasonAdvice {
    /// The advice, in a sentence.
    pub text: &'static str,
    /// The options of a `download` that tries the work again; `None` where that does not help.
    pub options: Option<&'static [&'static str]>,
}

const RETRY: Option<&[&str]> = Some(&["--retry-failed"]);

const fn again(text: &'static str) -> ReasonAdvice {
    ReasonAdvice {
        text,
        options: RETRY,
    }
}

const fn with(text: &'static str, options: &'static [&'static str]) -> ReasonAdvice {
    ReasonAdvice {
        text,
        options: Some(options),
    }
}

const fn only(text: &'static str) -> ReasonAdvice {
    ReasonAdvice {
        text,
        options: None,
    }
}

/// Returns what a person can do about a work without a file, by its reason and the status that the
/// reason is about.
#[must_use]
pub const fn advice(reason: Reason, http_status: Option<u16>) -> ReasonAdvice {
    match (reason, http_status) {
        (Reason::HttpStatus, Some(401 | 402 | 403 | 407 | 451)) => advice_without_copy(),
        (Reason::HttpStatus, Some(404 | 410)) => {
            only("the link is dead: look for the work under another address or identifier")
        }
        _ => by_reason(reason),
    }
}

/// Returns the advice for a work of which no source knows a copy, although Unpaywall was queried.
#[must_use]
pub const fn advice_without_copy() -> ReasonAdvice {
    only("open the link in a browser, or get access through a library")
}

const fn by_reason(reason: Reason) -> ReasonAdvice {
    match reason {
        Reason::NotFound => with(
            "more sources may know it: give --mailto, without which Unpaywall is skipped",
            &["--retry-failed", "--mailto", "YOUR_ADDRESS"],
        ),
        Reason::HtmlOnly | Reason::BotChallenge | Reason::Interstitial => {
            only("open the link in a browser")
        }
        Reason::RobotsDisallowed | Reason::RobotsUnreachable => with(
            "if you may ignore the site's robots.txt, --ignore-robots does",
            &["--retry-failed", "--ignore-robots"],
        ),
        Reason::HttpStatus
        | Reason::RequestException
        | Reason::Timeout
        | Reason::Offline
        | Reason::BreakerOpen
        | Reason::RateLimited
        | Reason::Preparing
        | Reason::LookupFailed
        | Reason::JsonError
        | Reason::XmlError
        | Reason::LengthMismatch
        | Reason::EmptyBody
        | Reason::ChecksumMismatch => again("try again later"),
        Reason::NameNotFound => only("check the name of the host in the input"),
        Reason::InternalAddress => {
            only("if you trust the list, give it without --untrusted-input in a new directory")
        }
        Reason::WrongWork => only("check the identifier of the work"),
        Reason::PdfTooSmall => with(
            "if the work is that short, allow smaller files",
            &["--retry-failed", "--min-pdf-bytes", "1"],
        ),
        Reason::HtmlTailDetected
        | Reason::PdfEofMissing
        | Reason::PdfDamaged
        | Reason::PdfSniffUnknown => only("open the link in a browser: the host's own copy is bad"),
        Reason::PayloadTooLarge => only("raise transport.max_file_bytes in the configuration"),
        Reason::DomainDisallowedMime => with(
            "accept further kinds of files",
            &["--retry-failed", "--kinds", "pdf,xml,html"],
        ),
        Reason::PathBlocked => again("remove or rename the directory, and try again"),
        Reason::ResolverUnavailable => again("configure the service, and try again"),
        Reason::MaxAttemptsReached => with(
            "allow more requests for one work",
            &["--retry-failed", "--max-attempts", "50"],
        ),
        Reason::Deadline => again("try again without --item-deadline, or with a longer one"),
        Reason::DuplicateUrlGlobal => only("the file of the other work is the same"),
        Reason::InputNeeded => again("give the input again"),
        Reason::DryRun | Reason::ListOnly => only("download it without that option"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the documentation has every reason with its advice.
    #[test]
    fn the_documentation_has_the_advice_for_every_reason() {
        let page = include_str!("../../../../docs/reference/reasons.md");
        for reason in Reason::all() {
            let advice = by_reason(reason);
            let row = page.lines().find(|line| {
                line.starts_with("| ")
                    && line.contains(&format!("`{reason}`"))
                    && line.contains(advice.text)
            });
            assert!(row.is_some(), "{reason}: {}", advice.text);
        }
    }
}
