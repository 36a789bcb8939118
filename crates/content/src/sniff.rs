//! Judges what arrived by its bytes, because headers and names lie in both directions.
//!
//! Pages come with `application/pdf` and PDFs with `text/html`; a login form is saved as
//! `paper.pdf`; a transfer stops in the middle. The first and last few kilobytes and two lengths
//! are enough to tell, so a caller that streams to a file need not keep more than those.

use std::fmt;

use docstokg_hub::FileEnds;

use crate::reason::Reason;

/// How far into a body a PDF header may stand.
const PDF_HEADER_WINDOW_BYTES: usize = 1024;

/// How much of the beginning [`classify`] looks at. More than this is not needed.
pub const HEAD_BYTES: usize = FileEnds::FIRST;

/// How much of the end [`pdf_tail`] looks at. More than this is not needed.
pub const TAIL_BYTES: usize = FileEnds::LAST;

/// The least a PDF has, unless configured otherwise.
pub const MIN_PDF_BYTES: u64 = 1024;

/// What bytes are.
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
    /// A ZIP archive, or a document that is one inside.
    Zip,
    /// Something gzipped.
    Gzip,
    /// A tar archive.
    Tar,
    /// Nothing at all.
    Empty,
    /// Something else.
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

    /// Returns the usual ending of a file of this kind.
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

/// Says what a body is, from its first bytes.
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
        // Some servers put a few lines of their own before the file; a page that mentions the
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

/// How a PDF ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PdfTail {
    /// With its end mark, perhaps followed by a little garbage.
    Complete,
    /// Without an end mark.
    EofMissing,
    /// With a page: something was appended, or an error page took over.
    HtmlTail,
}

/// Judges the last bytes of a PDF.
#[must_use]
pub fn pdf_tail(tail: &[u8]) -> PdfTail {
    let tail = &tail[tail.len().saturating_sub(TAIL_BYTES)..];
    let end = rfind(tail, b"%%EOF");
    let after = tail[end.map_or(0, |at| at)..].to_ascii_lowercase();
    // Markup before the end mark is metadata inside the file (XMP); only what follows counts, and
    // everything when there is no mark.
    let markers: [&[u8]; 4] = [b"</html", b"<html", b"<!doctype html", b"</body"];
    if markers.iter().any(|marker| find(&after, marker).is_some()) {
        PdfTail::HtmlTail
    } else if end.is_some() {
        PdfTail::Complete
    } else {
        PdfTail::EofMissing
    }
}

/// What arrived, as far as it matters.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedBody<'a> {
    /// The first bytes, at least [`HEAD_BYTES`] of them where there are as many.
    pub head: &'a [u8],
    /// The last bytes, at least [`TAIL_BYTES`] of them where there are as many.
    pub tail: &'a [u8],
    /// How many bytes there are.
    pub length: u64,
    /// How many the server promised, where it did and no encoding was undone.
    pub declared_length: Option<u64>,
    /// What was expected.
    pub expected: ExpectedContent,
}

/// What the caller went out for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedContent {
    /// A PDF: the location, the header or the name promised one.
    Pdf,
    /// Whatever is there.
    Anything,
}

/// The judgement on a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyJudgement {
    /// It is whole, as far as bytes can tell.
    Accepted(Payload),
    /// It is not to be kept.
    Rejected {
        /// What it is.
        payload: Payload,
        /// Why not.
        reason: BodyFlaw,
    },
}

/// Why a body is not to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BodyFlaw {
    /// Nothing arrived.
    EmptyBody,
    /// Less or more arrived than was promised.
    LengthMismatch,
    /// A PDF of a size that no article has.
    PdfTooSmall,
    /// A PDF that ends as a page.
    HtmlTailDetected,
    /// A PDF that was cut off.
    PdfEofMissing,
    /// A PDF was promised, and these bytes are neither one nor anything else known.
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

/// Judges a body that arrived. Whether a page is welcome where a PDF was expected is the caller's
/// business.
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
            // Headers promise the length of what is sent, be it whole or not: only the file says
            // whether it is whole.
            PdfTail::EofMissing => rejected(BodyFlaw::PdfEofMissing),
            PdfTail::Complete if received.length < min_pdf_bytes => rejected(BodyFlaw::PdfTooSmall),
            // The end mark is there, whatever the header promised.
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
