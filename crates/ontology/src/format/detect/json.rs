//! Tells JSON-LD, OBO graphs and other JSON apart by the keys of the outermost objects.

use super::{ContentRefusal, DetectedFormat};
use crate::format::OntologyFormat;

/// Returns the keys of the outermost object, or of the objects in the outermost array. `text` may
/// be cut off: later keys are then missing.
fn keys(text: &[u8]) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    let mut stack: Vec<u8> = Vec::new();
    let mut at = 0;
    while at < text.len() && keys.len() < 64 {
        match text[at] {
            open @ (b'{' | b'[') => stack.push(open),
            b'}' | b']' => {
                stack.pop();
            }
            b'"' => {
                let Some(end) = string_end(&text[at..]) else {
                    break;
                };
                let string = &text[at + 1..at + end - 1];
                let after = text[at + end..].trim_ascii_start();
                let is_outer = matches!(stack.as_slice(), [b'{'] | [b'[', b'{']);
                if is_outer && after.first() == Some(&b':') {
                    keys.push(String::from_utf8_lossy(string).into_owned());
                }
                at += end;
                continue;
            }
            _ => (),
        }
        at += 1;
    }
    keys
}

/// Returns the length of the string at the start, with its quotes.
fn string_end(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

pub(super) fn detect(text: &[u8]) -> DetectedFormat {
    let keys = keys(text);
    let has = |key: &str| keys.iter().any(|other| other == key);
    if has("graphs") && !has("@context") {
        return DetectedFormat::Ontology(OntologyFormat::OboGraph);
    }
    if keys.iter().any(|key| key.starts_with('@')) {
        return DetectedFormat::Ontology(OntologyFormat::JsonLd);
    }
    // Some exports have the keys of a single graph at the top level.
    if has("nodes") && has("edges") {
        return DetectedFormat::Ontology(OntologyFormat::OboGraph);
    }
    let mut shown: Vec<_> = keys
        .iter()
        .take(3)
        .map(|key| key.chars().take(40).collect::<String>())
        .collect();
    if shown.is_empty() {
        shown.push("no keys".to_owned());
    }
    DetectedFormat::Refused(ContentRefusal::OtherJson(shown.join(", ")))
}

/// Returns true if the text begins with `{` and a quoted key, as JSON does and `TriG` does not.
pub(super) fn has_string_key(text: &[u8]) -> bool {
    matches!(text[1..].trim_ascii_start().first(), Some(b'"' | b'}'))
}

/// Returns true if `[` starts an array of values, and neither a blank node nor a stanza.
pub(super) fn is_array(text: &[u8]) -> bool {
    let rest = text[1..].trim_ascii_start();
    match rest.first() {
        Some(b'{' | b'"' | b'[') => true,
        Some(b']') => rest[1..].trim_ascii().is_empty(),
        _ => false,
    }
}

/// Returns the deepest nesting of a JSON text, well-formed or not.
pub(crate) fn depth(text: &[u8]) -> usize {
    let (mut depth, mut deepest, mut at) = (0_usize, 0, 0);
    while at < text.len() {
        match text[at] {
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => match string_end(&text[at..]) {
                Some(length) => at += length - 1,
                None => break,
            },
            _ => (),
        }
        at += 1;
    }
    deepest
}
