//! Reads the values of OBO clauses: identifiers, quoted texts and escapes.

/// The tags whose value is an identifier, which a comment may follow.
const IDENTIFIER_TAGS: [&str; 8] = [
    "id",
    "is_a",
    "alt_id",
    "replaced_by",
    "consider",
    "union_of",
    "disjoint_from",
    "inverse_of",
];

/// Returns the reason why the value of a clause is invalid; `None` if it is valid.
pub(super) fn fault(tag: &str, value: &str) -> Option<&'static str> {
    if tag == "is_obsolete" {
        let is_boolean = matches!(identifier(value), "true" | "false");
        return (!is_boolean).then_some("the value is neither true nor false");
    }
    if IDENTIFIER_TAGS.contains(&tag) && identifier(value).is_empty() {
        return Some("there is no value");
    }
    if tag == "def" {
        let Some((_, rest)) = quoted_text(value) else {
            return Some("the definition has no quotes, or they do not end");
        };
        let rest = rest.trim_start();
        // Some files omit the list of sources, but a list that begins must end.
        return (rest.starts_with('[') && !rest.contains(']'))
            .then_some("the list of sources has no closing bracket");
    }
    None
}

/// Returns the identifier at the start of a value; comments and qualifiers follow it.
pub(crate) fn identifier(value: &str) -> &str {
    value
        .split([' ', '\t', '!', '{'])
        .next()
        .unwrap_or_default()
}

/// Returns the quoted text at the start of a value as written, and the rest of the value.
pub(crate) fn quoted_text(value: &str) -> Option<(&str, &str)> {
    let body = value.strip_prefix('"')?;
    let mut is_escaped = false;
    for (at, byte) in body.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return Some((&body[..at], &body[at + 1..])),
            _ => (),
        }
    }
    None
}

/// Returns a text with its escapes resolved.
pub(crate) fn unescape(text: &str) -> String {
    if !text.contains('\\') {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match characters.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('W') => out.push(' '),
            Some(other) => out.push(other),
            None => out.push('\\'),
        }
    }
    out
}
