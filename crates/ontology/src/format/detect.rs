//! Names the format of a file by its first bytes.
//!
//! Media types and extensions say little: `.owl` may be one of five formats, and error pages come
//! with every extension.

use std::fmt;

use oxttl::{NQuadsParser, NTriplesParser, TriGParser, TurtleParser};
use serde::{Deserialize, Serialize};

use super::{OntologyFormat, Packing};

mod json;
mod xml;

pub(crate) use json::depth as json_depth;

/// Number of leading bytes of a file that [`detect`] uses.
pub const HEAD_BYTES: usize = 64 << 10;

/// The format of a file, detected by its first bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DetectedFormat {
    /// An ontology in this [`OntologyFormat`].
    Ontology(OntologyFormat),
    /// Packed in this [`Packing`]: the format of the content is not known yet.
    Packed(Packing),
    /// Not an ontology; the [`ContentRefusal`] says what the file is.
    Refused(ContentRefusal),
}

/// The kind of a file that is not an ontology.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "detail")]
pub enum ContentRefusal {
    /// No bytes, or only white space.
    Empty,
    /// A web page, in HTML.
    Html,
    /// A PDF document.
    Pdf,
    /// A pointer of Git LFS in place of the file.
    GitLfsPointer,
    /// An XML error of a storage service, by its code.
    StorageError(String),
    /// XML with another root element.
    OtherXml(String),
    /// JSON that is neither JSON-LD nor an OBO graph, by its first keys.
    OtherJson(String),
    /// Text in UTF-16 or UTF-32.
    OtherEncoding,
    /// Text of no known format.
    Text,
    /// Bytes of no known format.
    Binary,
}

impl fmt::Display for ContentRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the file is empty"),
            Self::Html => f.write_str("this is a web page (HTML), not an ontology"),
            Self::Pdf => f.write_str("this is a PDF, not an ontology"),
            Self::GitLfsPointer => {
                f.write_str("this is a Git LFS pointer; the file itself lies in LFS storage")
            }
            Self::StorageError(code) => {
                write!(f, "this is an error answer of a storage service ({code})")
            }
            Self::OtherXml(root) => {
                write!(
                    f,
                    "this is XML with the root element {root}, not an ontology"
                )
            }
            Self::OtherJson(keys) => write!(
                f,
                "this is JSON ({keys}) but neither JSON-LD nor an OBO graph"
            ),
            Self::OtherEncoding => {
                f.write_str("this is text in UTF-16 or UTF-32; only UTF-8 can be read")
            }
            Self::Text => f.write_str("this is text in no known ontology format"),
            Self::Binary => f.write_str("this is binary data in no known format"),
        }
    }
}

/// Names the format of a file that starts with `head`. Only the first [`HEAD_BYTES`] count.
///
/// `hint` is the format that a media type or file name suggests. The hint decides between formats
/// that the bytes leave open (every N-Triples file is Turtle as well). If a text is broken from its
/// beginning, the hint names its format. The hint never overrules the bytes.
///
/// ```
/// use docstokg_ontology::format::{DetectedFormat, OntologyFormat, detect};
///
/// let head = b"format-version: 1.2\nontology: hp\n\n[Term]\nid: HP:0000001\n";
/// assert_eq!(detect(head, None), DetectedFormat::Ontology(OntologyFormat::Obo));
/// ```
#[must_use]
pub fn detect(head: &[u8], hint: Option<OntologyFormat>) -> DetectedFormat {
    // More bytes would cost time and not change the result.
    let head = head.get(..HEAD_BYTES).unwrap_or(head);
    if let Some(detected) = by_magic(head) {
        return detected;
    }
    let text = head
        .strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(head)
        .trim_ascii_start();
    match text.first() {
        None => return DetectedFormat::Refused(ContentRefusal::Empty),
        Some(b'<') => {
            if let Some(detected) = xml::detect(text) {
                return detected;
            }
        }
        Some(b'{') => {
            if hint != Some(OntologyFormat::TriG) || json::has_string_key(text) {
                return json::detect(text);
            }
        }
        Some(b'[') => {
            // Turtle starts so as well: `[] a owl:Ontology`, and OBO: `[Term]`.
            if json::is_array(text) {
                return json::detect(text);
            }
        }
        Some(_) => (),
    }
    if let Some(format) = by_keywords(text).or_else(|| by_statements(text, hint)) {
        return DetectedFormat::Ontology(format);
    }
    if looks_binary(text) {
        return DetectedFormat::Refused(ContentRefusal::Binary);
    }
    match hint {
        Some(hint) if is_plain_text(hint) && !is_prose(text) => DetectedFormat::Ontology(hint),
        _ => DetectedFormat::Refused(ContentRefusal::Text),
    }
}

fn by_magic(head: &[u8]) -> Option<DetectedFormat> {
    let starts = |magic: &[u8]| head.starts_with(magic);
    if starts(b"\x1f\x8b") {
        return Some(DetectedFormat::Packed(Packing::Gzip));
    }
    if starts(b"PK\x03\x04") || starts(b"PK\x05\x06") {
        return Some(DetectedFormat::Packed(Packing::Zip));
    }
    if starts(b"%PDF-") {
        return Some(DetectedFormat::Refused(ContentRefusal::Pdf));
    }
    if starts(b"version https://git-lfs") {
        return Some(DetectedFormat::Refused(ContentRefusal::GitLfsPointer));
    }
    if starts(b"\xff\xfe") || starts(b"\xfe\xff") || starts(b"<\0") || starts(b"\0<") {
        return Some(DetectedFormat::Refused(ContentRefusal::OtherEncoding));
    }
    head.iter()
        .take(1024)
        .any(|&byte| byte == 0)
        .then_some(DetectedFormat::Refused(ContentRefusal::Binary))
}

/// Returns the [`OntologyFormat`] that a keyword at the start of the text names, after comments.
fn by_keywords(text: &[u8]) -> Option<OntologyFormat> {
    let lines = text
        .split(|&byte| matches!(byte, b'\n' | b'\r'))
        .map(<[u8]>::trim_ascii);
    let mut candidates =
        lines.filter(|line| !line.is_empty() && !line.starts_with(b"!") && !line.starts_with(b"#"));
    let line = candidates.next()?;
    if line.starts_with(b"Prefix(") || line.starts_with(b"Ontology(") {
        return Some(OntologyFormat::OwlFunctional);
    }
    if line.starts_with(b"Prefix:") || line.starts_with(b"Ontology:") {
        return Some(OntologyFormat::OwlManchester);
    }
    let is_stanza = |line: &[u8]| {
        [b"[Term]".as_slice(), b"[Typedef]", b"[Instance]"]
            .iter()
            .any(|s| line.starts_with(s))
    };
    let is_obo_header = |line: &[u8]| {
        let Some(colon) = memchr::memchr(b':', line) else {
            return false;
        };
        OBO_HEADER_TAGS.contains(&&line[..colon]) && line.get(colon + 1).is_none_or(|&b| b == b' ')
    };
    (is_stanza(line) || is_obo_header(line)).then_some(OntologyFormat::Obo)
}

const OBO_HEADER_TAGS: [&[u8]; 18] = [
    b"format-version",
    b"data-version",
    b"date",
    b"saved-by",
    b"auto-generated-by",
    b"import",
    b"subsetdef",
    b"synonymtypedef",
    b"default-namespace",
    b"namespace-id-rule",
    b"idspace",
    b"ontology",
    b"remark",
    b"treat-xrefs-as-equivalent",
    b"treat-xrefs-as-is_a",
    b"property_value",
    b"owl-axioms",
    b"default-relationship-id-prefix",
];

/// Tells the RDF text formats apart by parsing the first statements with each parser.
fn by_statements(text: &[u8], hint: Option<OntologyFormat>) -> Option<OntologyFormat> {
    // The last line is usually cut.
    let whole = match memchr::memrchr(b'\n', text) {
        Some(end) if text.len() >= HEAD_BYTES / 2 => &text[..end],
        _ => text,
    };
    let before_error = |results: &mut dyn Iterator<Item = bool>| {
        let mut count = 0;
        for is_read in results {
            if !is_read {
                return (count, true);
            }
            count += 1;
        }
        (count, false)
    };
    let triples = before_error(&mut NTriplesParser::new().for_slice(whole).map(|s| s.is_ok()));
    let quads = before_error(&mut NQuadsParser::new().for_slice(whole).map(|s| s.is_ok()));
    let base = "http://base.invalid/";
    let turtle = TurtleParser::new().with_base_iri(base).unwrap_or_default();
    let turtle = before_error(&mut turtle.for_slice(text).map(|s| s.is_ok())).0;
    let trig = TriGParser::new().with_base_iri(base).unwrap_or_default();
    let trig = before_error(&mut trig.for_slice(text).map(|s| s.is_ok())).0;
    let starts_with_directive = ["@prefix", "@base", "prefix ", "base "].iter().any(|word| {
        first_line(text)
            .get(..word.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
    });
    if trig > turtle && trig > quads.0 {
        return Some(OntologyFormat::TriG);
    }
    if triples.0 > 0 && !triples.1 {
        return Some(match hint {
            Some(
                hint @ (OntologyFormat::Turtle | OntologyFormat::TriG | OntologyFormat::NQuads),
            ) => hint,
            _ => OntologyFormat::NTriples,
        });
    }
    if quads.0 > 0 && (!quads.1 || quads.0 > turtle) {
        return Some(
            if hint == Some(OntologyFormat::TriG) && !quads.1 && trig >= quads.0 {
                OntologyFormat::TriG
            } else {
                OntologyFormat::NQuads
            },
        );
    }
    if turtle > 0 || starts_with_directive {
        return Some(match hint {
            Some(hint @ (OntologyFormat::TriG | OntologyFormat::NTriples))
                if hint == OntologyFormat::TriG || triples.0 > 0 =>
            {
                hint
            }
            _ => OntologyFormat::Turtle,
        });
    }
    None
}

/// Returns the first line that is neither empty nor a comment.
fn first_line(text: &[u8]) -> &[u8] {
    text.split(|&byte| matches!(byte, b'\n' | b'\r'))
        .map(<[u8]>::trim_ascii)
        .find(|line| !line.is_empty() && !line.starts_with(b"#"))
        .unwrap_or_default()
}

fn looks_binary(text: &[u8]) -> bool {
    let sample = &text[..text.len().min(4096)];
    let odd = sample
        .iter()
        .filter(|&&b| b < 0x20 && !matches!(b, b'\t' | b'\n' | b'\r' | 0x0c));
    odd.count() * 50 > sample.len()
}

fn is_plain_text(format: OntologyFormat) -> bool {
    matches!(
        format,
        OntologyFormat::Turtle
            | OntologyFormat::NTriples
            | OntologyFormat::NQuads
            | OntologyFormat::TriG
            | OntologyFormat::Obo
    )
}

/// Returns true if a text has none of the characters that statements and clauses consist of.
fn is_prose(text: &[u8]) -> bool {
    let line = first_line(text);
    !line
        .iter()
        .any(|byte| matches!(byte, b'<' | b'@' | b':' | b'[' | b'_' | b'{'))
}

#[cfg(test)]
#[path = "detect/tests.rs"]
mod tests;
