//! Reads the part of an XML file before its root element, and expands its entities within limits.
//!
//! Real OWL files declare entities for namespaces (`&owl;Class`), so entities cannot simply be
//! refused. The value of each entity is expanded once, where the entity is declared, up to a
//! maximum length. The parser receives a document type whose entities have plain values. Entities
//! outside of the file are never loaded, and entities with markup are never parsed: a file that
//! uses such an entity is invalid.

use std::cell::Cell;
use std::collections::HashMap;

use crate::format::FormatLimits;

/// Maximum length of the text before the root element, in bytes.
pub(crate) const MAX_PROLOG_BYTES: usize = 1 << 20;
/// Maximum nesting of entities within entities.
const MAX_ENTITY_DEPTH: usize = 16;
/// Maximum number of references that are followed while entities are expanded.
const MAX_ENTITY_REFERENCES: usize = 1_000_000;
const PREDEFINED: [(&str, &str); 5] = [
    ("lt", "<"),
    ("gt", ">"),
    ("amp", "&"),
    ("quot", "\""),
    ("apos", "'"),
];

/// The part of an XML file before its root element.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Prolog {
    /// Offset of the root element.
    pub root_at: usize,
    /// Start and end of the document type, as offsets.
    pub doctype: Option<(usize, usize)>,
    /// The text that replaces the document type.
    pub replacement: Vec<u8>,
    /// Length of the expanded value of each entity, in bytes.
    pub entities: HashMap<String, usize>,
    pub warnings: Vec<String>,
}

#[derive(Debug, PartialEq)]
pub(crate) enum ScannedProlog {
    /// More bytes are needed.
    Incomplete,
    Complete(Prolog),
    /// The file is refused: the offset, and the reason.
    Refused(usize, String),
}

enum EntityDeclaration {
    Text(String),
    External,
    Markup,
}

/// Reads the prolog at the start of `bytes`.
pub(crate) fn scan(bytes: &[u8], limits: &FormatLimits) -> ScannedProlog {
    let mut at = if bytes.starts_with(b"\xef\xbb\xbf") {
        3
    } else {
        0
    };
    let mut prolog = Prolog::default();
    loop {
        at += bytes[at..]
            .iter()
            .take_while(|byte| byte.is_ascii_whitespace())
            .count();
        let rest = &bytes[at..];
        let skipped = if rest.starts_with(b"<?") {
            skip_past(rest, b"?>")
        } else if rest.starts_with(b"<!--") {
            skip_past(rest, b"-->")
        } else if rest.starts_with(b"<!DOCTYPE") {
            if prolog.doctype.is_some() {
                return ScannedProlog::Refused(at, "a second document type (DOCTYPE)".to_owned());
            }
            match read_doctype(rest, limits, &mut prolog) {
                Ok(length) => {
                    prolog.doctype = length.map(|length| (at, at + length));
                    length
                }
                Err(reason) => return ScannedProlog::Refused(at, reason),
            }
        } else if b"<!DOCTYPE".starts_with(rest) || b"<!--".starts_with(rest) {
            None
        } else {
            prolog.root_at = at;
            return ScannedProlog::Complete(prolog);
        };
        match skipped {
            Some(length) => at += length,
            None => return ScannedProlog::Incomplete,
        }
    }
}

fn skip_past(bytes: &[u8], end: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, end).map(|at| at + end.len())
}

/// Returns the end of a declaration that starts at 0, past its `>`. Quoted text may contain `>`.
fn declaration_end(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some(step) = memchr::memchr3(b'>', b'"', b'\'', &bytes[at..]) {
        at += step;
        if bytes[at] == b'>' {
            return Some(at + 1);
        }
        at += memchr::memchr(bytes[at], &bytes[at + 1..])? + 2;
    }
    None
}

/// Returns the length of the document type, or `None` if the declaration continues beyond `bytes`.
fn read_doctype(
    bytes: &[u8],
    limits: &FormatLimits,
    prolog: &mut Prolog,
) -> Result<Option<usize>, String> {
    let Some(mut at) = memchr::memchr2(b'[', b'>', bytes) else {
        return Ok(None);
    };
    let external = bytes[..at]
        .windows(6)
        .any(|word| word == b"SYSTEM" || word == b"PUBLIC");
    if external {
        prolog
            .warnings
            .push("the external document type (DTD) is not loaded".to_owned());
        // Public identifiers are quoted and may contain brackets.
        match external_subset_end(bytes) {
            Some(end) => at = end,
            None => return Ok(None),
        }
    }
    let mut declared: HashMap<String, EntityDeclaration> = HashMap::new();
    if bytes[at] == b'[' {
        let Some(end) = read_internal_subset(bytes, at + 1, &mut declared)? else {
            return Ok(None);
        };
        at = end;
    }
    let Some(close) = memchr::memchr(b'>', &bytes[at..]) else {
        return Ok(None);
    };
    let length = at + close + 1;
    write_replacement(&bytes[..length], &declared, limits, prolog)?;
    Ok(Some(length))
}

fn external_subset_end(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let byte = *bytes.get(at)?;
        match byte {
            b'[' | b'>' => return Some(at),
            b'"' | b'\'' => at += memchr::memchr(byte, &bytes[at + 1..])? + 2,
            _ => at += 1,
        }
    }
}

fn read_internal_subset(
    bytes: &[u8],
    mut at: usize,
    declared: &mut HashMap<String, EntityDeclaration>,
) -> Result<Option<usize>, String> {
    loop {
        let rest = &bytes[at..];
        let length = match rest {
            [] => None,
            [b']', ..] => return Ok(Some(at + 1)),
            [b'%', ..] => skip_past(rest, b";"),
            [b'<', b'?', ..] => skip_past(rest, b"?>"),
            [b'<', b'!', b'-', b'-', ..] => skip_past(rest, b"-->"),
            [b'<', ..] => {
                let length = declaration_end(rest);
                if let Some(length) = length {
                    read_declaration(&rest[..length], declared)?;
                }
                length
            }
            [byte, ..] if byte.is_ascii_whitespace() => Some(1),
            _ => return Err("the document type (DOCTYPE) is not well-formed".to_owned()),
        };
        match length {
            Some(length) => at += length,
            None => return Ok(None),
        }
    }
}

fn read_declaration(
    declaration: &[u8],
    declared: &mut HashMap<String, EntityDeclaration>,
) -> Result<(), String> {
    let Some(body) = declaration.strip_prefix(b"<!ENTITY") else {
        return Ok(());
    };
    let body = std::str::from_utf8(body).map_err(|_| "an entity is not valid UTF-8".to_owned())?;
    let body = body.trim_start();
    if body.starts_with('%') {
        return Ok(()); // for use within document types only
    }
    let malformed = || "an entity declaration has no name and value".to_owned();
    let (name, value) = body.split_once(char::is_whitespace).ok_or_else(malformed)?;
    let value = value.trim_start();
    let entity = match value.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            let (text, _) = value[1..].split_once(quote).ok_or_else(malformed)?;
            let text = expand_characters(text)
                .ok_or_else(|| format!("the entity {name} has an invalid character reference"))?;
            if text.contains('<') {
                EntityDeclaration::Markup
            } else {
                EntityDeclaration::Text(text)
            }
        }
        _ if value.starts_with("SYSTEM") || value.starts_with("PUBLIC") => {
            EntityDeclaration::External
        }
        _ => return Err(malformed()),
    };
    // The first declaration of a name is the valid one.
    declared.entry(name.to_owned()).or_insert(entity);
    Ok(())
}

/// Replaces character references. XML expands no other references in the declaration of an entity.
fn expand_characters(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("&#") {
        out.push_str(&rest[..at]);
        let (reference, after) = rest[at + 2..].split_once(';')?;
        out.push(character(reference)?);
        rest = after;
    }
    out.push_str(rest);
    Some(out)
}

fn character(reference: &str) -> Option<char> {
    let code = match reference.strip_prefix('x') {
        Some(hexadecimal) => u32::from_str_radix(hexadecimal, 16).ok()?,
        None => reference.parse().ok()?,
    };
    char::from_u32(code).filter(|&c| c != '\0')
}

struct Expansion<'a> {
    declared: &'a HashMap<String, EntityDeclaration>,
    limit: usize,
    /// The number of references that may still be followed. The length of the text alone is not a
    /// limit, because entities without text cost time as well.
    references_left: Cell<usize>,
}

impl Expansion<'_> {
    /// Appends the expanded text of an entity to `out`. Returns `Ok(false)` if the entity has no
    /// usable text.
    fn append(&self, name: &str, depth: usize, out: &mut String) -> Result<bool, String> {
        let Some(EntityDeclaration::Text(text)) = self.declared.get(name) else {
            return Ok(false);
        };
        if depth == MAX_ENTITY_DEPTH {
            return Err(format!(
                "the entity {name} refers to itself, or entities are nested more than \
                 {MAX_ENTITY_DEPTH} deep"
            ));
        }
        let mut rest = text.as_str();
        while let Some(at) = rest.find('&') {
            let Some(references_left) = self.references_left.get().checked_sub(1) else {
                return Err("the entities hold too many references to each other".to_owned());
            };
            self.references_left.set(references_left);
            out.push_str(&rest[..at]);
            let Some((reference, after)) = rest[at + 1..].split_once(';') else {
                return Err(format!("the entity {name} holds an & that is no reference"));
            };
            if let Some(code) = reference.strip_prefix('#') {
                let invalid = || format!("the entity {name} has an invalid character reference");
                out.push(character(code).ok_or_else(invalid)?);
            } else if let Some((_, text)) = PREDEFINED.iter().find(|(name, _)| *name == reference) {
                out.push_str(text);
            } else if !self.append(reference, depth + 1, out)? {
                return Ok(false);
            }
            if out.len() > self.limit {
                return Err(self.too_long(name));
            }
            rest = after;
        }
        out.push_str(rest);
        if out.len() > self.limit {
            Err(self.too_long(name))
        } else {
            Ok(true)
        }
    }

    fn too_long(&self, name: &str) -> String {
        format!(
            "the entity {name} expands to more than {} bytes",
            self.limit
        )
    }
}

/// Writes a document type with expanded entities. It has as many lines as the original, so that
/// line numbers in messages are right.
fn write_replacement(
    doctype: &[u8],
    declared: &HashMap<String, EntityDeclaration>,
    limits: &FormatLimits,
    prolog: &mut Prolog,
) -> Result<(), String> {
    let expansion = Expansion {
        declared,
        limit: limits.max_entity_bytes,
        references_left: Cell::new(MAX_ENTITY_REFERENCES),
    };
    let mut out = String::from("<!DOCTYPE x [");
    let mut names: Vec<_> = declared.keys().collect();
    names.sort_unstable();
    for name in names {
        if PREDEFINED.iter().any(|(predefined, _)| predefined == name) {
            continue;
        }
        let mut value = String::new();
        if !expansion.append(name, 0, &mut value)? {
            let why = match declared[name] {
                EntityDeclaration::External => "lies outside the file and is not loaded",
                EntityDeclaration::Markup => "holds markup and is not expanded",
                EntityDeclaration::Text(_) => "refers to an entity that is not available",
            };
            prolog.warnings.push(format!("the entity {name} {why}"));
            continue;
        }
        prolog.entities.insert(name.clone(), value.len());
        out.push_str("<!ENTITY ");
        out.push_str(name);
        out.push_str(" \"");
        for c in value.chars() {
            match c {
                '&' => out.push_str("&amp;"),
                '<' => out.push_str("&lt;"),
                '>' => out.push_str("&gt;"),
                '"' => out.push_str("&quot;"),
                '\n' => out.push_str("&#10;"),
                other => out.push(other),
            }
        }
        out.push_str("\">");
        if out.len() > MAX_PROLOG_BYTES * 4 {
            return Err("the entities expand to more than 4 MiB together".to_owned());
        }
    }
    out.push(']');
    out.extend(memchr::memchr_iter(b'\n', doctype).map(|_| '\n'));
    out.push('>');
    prolog.replacement = out.into_bytes();
    Ok(())
}

#[cfg(test)]
#[path = "doctype_tests.rs"]
mod tests;
