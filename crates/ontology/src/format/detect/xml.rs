//! Tells RDF/XML, OWL/XML, web pages and error responses apart by their root element.

use super::{ContentRefusal, DetectedFormat};
use crate::format::OntologyFormat;

const RDF: &str = "http://www.w3.org/1999/02/22-rdf-syntax-ns#";
const OWL: &str = "http://www.w3.org/2002/07/owl#";

/// Returns the [`DetectedFormat`] of an XML or HTML text. Returns `None` for other texts, such as
/// Turtle, which also starts with `<`.
pub(super) fn detect(text: &[u8]) -> Option<DetectedFormat> {
    let start = &text[..text.len().min(64)];
    let is_xml = start.starts_with(b"<?xml");
    let root = root_tag(text);
    let Some(tag) = root else {
        // The root element may be cut off at the end of `text`; the format is XML nevertheless.
        let is_markup = is_xml || text.starts_with(b"<!DOCTYPE") || text.starts_with(b"<!--");
        let is_rdf = memchr::memmem::find(text, RDF.as_bytes()).is_some();
        return is_markup.then(|| {
            if is_rdf {
                DetectedFormat::Ontology(OntologyFormat::RdfXml)
            } else {
                DetectedFormat::Refused(ContentRefusal::OtherXml("(not found)".to_owned()))
            }
        });
    };
    let name_end = tag
        .find(|c: char| c.is_whitespace() || c == '/')
        .unwrap_or(tag.len());
    let name = &tag[..name_end];
    let local = name.rsplit(':').next().unwrap_or(name);
    let is_name = name.starts_with(|c: char| c.is_alphabetic() || c == '_');
    if !is_name
        || tag
            .split_whitespace()
            .next()
            .is_some_and(|word| word.contains("://"))
    {
        return None;
    }
    let attributes = &tag[name_end..];
    if !is_xml && attributes.trim_matches([' ', '/']).is_empty() && name.contains(':') {
        return None; // `<urn:x>` is an IRI
    }
    Some(match local {
        _ if local.eq_ignore_ascii_case("html") => DetectedFormat::Refused(ContentRefusal::Html),
        "RDF" => DetectedFormat::Ontology(OntologyFormat::RdfXml),
        "Ontology" if attributes.contains(OWL) && !uses_rdf_attributes(attributes) => {
            DetectedFormat::Ontology(OntologyFormat::OwlXml)
        }
        "Error" => DetectedFormat::Refused(ContentRefusal::StorageError(error_code(text))),
        // RDF/XML with a single subject need not have `rdf:RDF` as its root.
        _ if attributes.contains(RDF) => DetectedFormat::Ontology(OntologyFormat::RdfXml),
        _ if is_html_fragment(local) => DetectedFormat::Refused(ContentRefusal::Html),
        _ => DetectedFormat::Refused(ContentRefusal::OtherXml(name.chars().take(80).collect())),
    })
}

fn uses_rdf_attributes(attributes: &str) -> bool {
    attributes.contains("rdf:about") || attributes.contains("rdf:ID")
}

fn is_html_fragment(name: &str) -> bool {
    [
        "head", "body", "title", "script", "div", "p", "h1", "center", "meta",
    ]
    .iter()
    .any(|tag| name.eq_ignore_ascii_case(tag))
}

fn starts_with_ignoring_case(text: &[u8], start: &[u8]) -> bool {
    text.get(..start.len())
        .is_some_and(|head| head.eq_ignore_ascii_case(start))
}

/// Returns the first start tag, without its brackets.
fn root_tag(text: &[u8]) -> Option<String> {
    let mut at = 0;
    loop {
        at += text[at..]
            .iter()
            .take_while(|byte| byte.is_ascii_whitespace())
            .count();
        let rest = &text[at..];
        if starts_with_ignoring_case(rest, b"<!doctype html") {
            return Some("html".to_owned());
        }
        at += if rest.starts_with(b"<?") {
            memchr::memmem::find(rest, b"?>")? + 2
        } else if rest.starts_with(b"<!--") {
            memchr::memmem::find(rest, b"-->")? + 3
        } else if starts_with_ignoring_case(rest, b"<!doctype") {
            doctype_end(rest)?
        } else {
            let body = rest.strip_prefix(b"<")?;
            let end = memchr::memchr(b'>', body)?;
            return Some(String::from_utf8_lossy(&body[..end]).into_owned());
        };
    }
}

fn doctype_end(bytes: &[u8]) -> Option<usize> {
    let (mut at, mut is_inside) = (0, false);
    loop {
        let byte = *bytes.get(at)?;
        match byte {
            b'"' | b'\'' => at += memchr::memchr(byte, &bytes[at + 1..])? + 1,
            b'<' if bytes[at..].starts_with(b"<!--") => {
                at += memchr::memmem::find(&bytes[at..], b"-->")? + 2;
            }
            b'[' => is_inside = true,
            b']' => is_inside = false,
            b'>' if !is_inside => return Some(at + 1),
            _ => (),
        }
        at += 1;
    }
}

/// Returns the code of an error response such as `<Error><Code>AccessDenied</Code>…`.
fn error_code(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(&text[..text.len().min(2048)]).into_owned();
    let code = text
        .split_once("<Code>")
        .and_then(|(_, rest)| rest.split_once("</Code>"));
    code.map_or_else(
        || "no code".to_owned(),
        |(code, _)| code.trim().chars().take(80).collect(),
    )
}
