//! Judgement of a body by its bytes, because headers and names are often wrong.
//!
//! Pages arrive with `application/pdf`, and PDFs with `text/html`. A login form is saved as
//! `paper.pdf`, or a transfer stops in the middle. The first and last few kilobytes and two lengths
//! are enough to judge. So a caller that streams to a file need not keep more.

use std::fmt;

use docstokg_hub::FileEnds;

use crate::reason::Reason;

/// The number of bytes at the beginning of a body that may precede a PDF header.
const PDF_HEADER_WINDOW_BYTES: usize = 1024;

/// The number of bytes at the beginning of a body that [`classify`] reads.
pub const HEAD_BYTES: usize = FileEnds::FIRST;

/// The number of bytes at the end of a body that [`pdf_tail`] reads.
pub const TAIL_BYTES: usize = FileEnds::LAST;

/// Minimum size of a PDF in bytes, unless configured otherwise.
pub const MIN_PDF_BYTES: u64 = 1024;

/// The kind of content that bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Payload {
    /// A PDF file.
    Pdf,
    /// A page.
    Html,
    /// XML of any other kind.
    Xml,
    /// An article in JATS, the XML of PMC and many publishers.
    Jats,
    /// A ZIP archive, or a document format based on ZIP.
    Zip,
    /// A gzip file.
    Gzip,
    /// A tar archive.
    Tar,
    /// No bytes.
    Empty,
    /// Any other content.
    Unknown,
}

impl Payload {
    /// Returns the word used in manifests.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pdf => "pdf",
            Self::Html => "html",
            Self::Xml | Self::Jats => "xml",
            Self::Zip | Self::Gzip | Self::Tar => "archive",
            Self::Empty => "empty",
            Self::Unknown => "unknown",
        }
    }

    /// Returns the usual file extension of this kind.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Pdf => "pdf",
            Self::Html => "html",
            Self::Xml | Self::Jats => "xml",
            Self::Zip => "zip",
            Self::Gzip => "gz",
            Self::Tar => "tar",
            Self::Empty | Self::Unknown => "bin",
        }
    }
}

/// Returns the [`Payload`] that a body is, from its first bytes.
///
/// ```
/// use docstokg_content::sniff::{Payload, classify};
///
/// assert_eq!(classify(b"%PDF-1.7\n"), Payload::Pdf);
/// assert_eq!(classify(b"<!DOCTYPE html><html>"), Payload::Html);
/// assert_eq!(classify(b""), Payload::Empty);
/// ```
#[must_use]
pub fn classify(head: &[u8]) -> Payload {
    if head.is_empty() {
        return Payload::Empty;
    }
    let window = &head[..head.len().min(PDF_HEADER_WINDOW_BYTES + b"%PDF-".len())];
    let text = text_start(head);
    if text.starts_with(b"%PDF-") {
        return Payload::Pdf;
    }
    if head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06") {
        return Payload::Zip;
    }
    if head.starts_with(b"\x1f\x8b") {
        return Payload::Gzip;
    }
    if head.get(257..262) == Some(b"ustar") {
        return Payload::Tar;
    }
    match markup(text) {
        // Some servers put a few lines of their own before the file. A page that mentions the
        // marker is still a page.
        Payload::Unknown if find(window, b"%PDF-").is_some() => Payload::Pdf,
        payload => payload,
    }
}

/// Skips byte order marks and white space.
fn text_start(head: &[u8]) -> &[u8] {
    let mut rest = head;
    loop {
        let trimmed = rest.trim_ascii_start();
        let trimmed = trimmed.strip_prefix(b"\xef\xbb\xbf").unwrap_or(trimmed);
        let trimmed = trimmed
            .strip_prefix(b"\xff\xfe")
            .or_else(|| trimmed.strip_prefix(b"\xfe\xff"))
            .unwrap_or(trimmed);
        if trimmed.len() == rest.len() {
            return rest;
        }
        rest = trimmed;
    }
}

fn markup(text: &[u8]) -> Payload {
    if !text.starts_with(b"<") {
        return Payload::Unknown;
    }
    let lower = text[..text.len().min(8 * 1024)].to_ascii_lowercase();
    let has = |needle: &[u8]| find(&lower, needle).is_some();
    let begins = |needle: &[u8]| lower.starts_with(needle);
    let page = has(b"<html") || has(b"<!doctype html");
    // XHTML begins like XML and is a page.
    if begins(b"<?xml")
        || begins(b"<!doctype article")
        || begins(b"<article ")
        || begins(b"<pmc-articleset")
    {
        let jats = has(b"jats")
            || has(b"//nlm//dtd")
            || has(b"<pmc-articleset")
            || (has(b"<article")
                && (has(b"<front>") || has(b"<journal-meta") || has(b"article-type=")));
        return if jats && !page {
            Payload::Jats
        } else if page {
            Payload::Html
        } else {
            Payload::Xml
        };
    }
    let starts: [&[u8]; 9] = [
        b"<!doctype html",
        b"<html",
        b"<head",
        b"<body",
        b"<script",
        b"<meta",
        b"<title",
        b"<div",
        b"<!--",
    ];
    if page || starts.iter().any(|start| begins(start)) {
        Payload::Html
    } else if lower.get(1).is_some_and(u8::is_ascii_alphabetic) {
        Payload::Xml
    } else {
        Payload::Unknown
    }
}

/// The end of a PDF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PdfTail {
    /// The PDF has an end mark, which may be followed by a few other bytes.
    Complete,
    /// The PDF has no end mark.
    EofMissing,
    /// The PDF ends with a page: something was appended, or an error page replaced the rest.
    HtmlTail,
}

/// Judges the last bytes of a PDF as a [`PdfTail`].
#[must_use]
pub fn pdf_tail(tail: &[u8]) -> PdfTail {
    let tail = &tail[tail.len().saturating_sub(TAIL_BYTES)..];
    let end = rfind(tail, b"%%EOF");
    let after = tail[end.map_or(0, |at| at)..].to_ascii_lowercase();
    // Markup before the end mark is metadata of the file (XMP). So only the bytes after the mark
    // count, or all bytes if there is no mark.
    let markers: [&[u8]; 4] = [b"</html", b"<html", b"<!doctype html", b"</body"];
    if markers.iter().any(|marker| find(&after, marker).is_some()) {
        PdfTail::HtmlTail
    } else if end.is_some() {
        PdfTail::Complete
    } else {
        PdfTail::EofMissing
    }
}

/// The properties of a received body, as input of [`judge`].
#[derive(Clone, Copy, Debug)]
pub struct ReceivedBody<'a> {
    /// The first bytes: at least [`HEAD_BYTES`], or the whole body.
    pub head: &'a [u8],
    /// The last bytes: at least [`TAIL_BYTES`], or the whole body.
    pub tail: &'a [u8],
    /// The length of the body in bytes.
    pub length: u64,
    /// The length that the server declared; absent if a content encoding was decoded.
    pub declared_length: Option<u64>,
    /// The content that the caller expects.
    pub expected: ExpectedContent,
}

/// The content that the caller expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedContent {
    /// A PDF: the location, the header or the name promised a PDF.
    Pdf,
    /// Any content.
    Anything,
}

/// The judgement of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyJudgement {
    /// The body is complete, as far as its bytes can show.
    Accepted(Payload),
    /// The body must not be kept.
    Rejected {
        /// The kind of content that the body is.
        payload: Payload,
        /// The [`BodyFlaw`] of the body.
        reason: BodyFlaw,
    },
}

/// The flaw for which a body is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BodyFlaw {
    /// The body is empty.
    EmptyBody,
    /// The body is shorter or longer than declared.
    LengthMismatch,
    /// A PDF smaller than any article.
    PdfTooSmall,
    /// A PDF that ends like a page.
    HtmlTailDetected,
    /// A PDF that was cut off.
    PdfEofMissing,
    /// A PDF was promised, but the bytes are of an unknown kind.
    PdfSniffUnknown,
}

impl BodyFlaw {
    /// Returns the word used in manifests.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        Reason::from(self).as_str()
    }
}

impl From<BodyFlaw> for Reason {
    fn from(flaw: BodyFlaw) -> Self {
        match flaw {
            BodyFlaw::EmptyBody => Self::EmptyBody,
            BodyFlaw::LengthMismatch => Self::LengthMismatch,
            BodyFlaw::PdfTooSmall => Self::PdfTooSmall,
            BodyFlaw::HtmlTailDetected => Self::HtmlTailDetected,
            BodyFlaw::PdfEofMissing => Self::PdfEofMissing,
            BodyFlaw::PdfSniffUnknown => Self::PdfSniffUnknown,
        }
    }
}

impl fmt::Display for BodyFlaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Judges a [`ReceivedBody`]. The caller decides whether a page is acceptable in place of a PDF.
#[must_use]
pub fn judge(received: &ReceivedBody<'_>, min_pdf_bytes: u64) -> BodyJudgement {
    let payload = if received.length == 0 {
        Payload::Empty
    } else {
        classify(received.head)
    };
    let mismatch = received
        .declared_length
        .is_some_and(|declared| declared != received.length);
    let rejected = |reason| BodyJudgement::Rejected { payload, reason };
    match payload {
        Payload::Empty => rejected(BodyFlaw::EmptyBody),
        Payload::Pdf => match pdf_tail(received.tail) {
            PdfTail::HtmlTail => rejected(BodyFlaw::HtmlTailDetected),
            // A header declares the length of what is sent, complete or not. Only the file shows
            // whether it is complete.
            PdfTail::EofMissing => rejected(BodyFlaw::PdfEofMissing),
            PdfTail::Complete if received.length < min_pdf_bytes => rejected(BodyFlaw::PdfTooSmall),
            // The end mark counts, whatever length the header declared.
            PdfTail::Complete => BodyJudgement::Accepted(payload),
        },
        _ if mismatch => rejected(BodyFlaw::LengthMismatch),
        Payload::Unknown if received.expected == ExpectedContent::Pdf => {
            rejected(BodyFlaw::PdfSniffUnknown)
        }
        payload => BodyJudgement::Accepted(payload),
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

fn rfind(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .rposition(|window| window == needle)
}
