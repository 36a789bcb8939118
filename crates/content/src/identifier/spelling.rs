//! Removal of the brackets, labels and punctuation around identifiers in texts.

use std::borrow::Cow;

/// Longest text repeated in a message, in characters.
const PREVIEW_CHARS: usize = 80;

/// Brackets and quotes that people and programs put around identifiers.
const BRACKET_PAIRS: [(char, char); 9] = [
    ('<', '>'),
    ('(', ')'),
    ('[', ']'),
    ('{', '}'),
    ('"', '"'),
    ('\'', '\''),
    ('\u{201c}', '\u{201d}'),
    ('\u{2018}', '\u{2019}'),
    ('\u{ab}', '\u{bb}'),
];

/// Removes white space, and brackets and quotes on both sides.
pub(crate) fn unwrap(text: &str) -> &str {
    let mut text = text.trim_matches(is_blank);
    while let Some((open, close)) = BRACKET_PAIRS
        .iter()
        .find(|(open, _)| text.starts_with(*open))
    {
        let Some(inner) = text
            .strip_prefix(*open)
            .and_then(|rest| rest.strip_suffix(*close))
        else {
            break;
        };
        text = inner.trim_matches(is_blank);
    }
    text
}

/// Tells whether a character is white space or invisible. Byte order marks and zero-width
/// characters occur in copied text.
pub(crate) fn is_blank(c: char) -> bool {
    c.is_whitespace()
        || c.is_control()
        || matches!(
            c,
            '\u{feff}' | '\u{200b}' | '\u{200c}' | '\u{200d}' | '\u{2060}'
        )
}

/// Removes the characters that end a sentence and not an identifier: punctuation, quotes, and
/// brackets that were never opened.
pub(crate) fn without_trailing_punctuation(text: &str) -> &str {
    let mut text = text;
    loop {
        let Some(last) = text.chars().next_back() else {
            return text;
        };
        let opener = BRACKET_PAIRS
            .iter()
            .find(|(open, close)| *close == last && open != close)
            .map(|(open, _)| *open);
        let drop = match opener {
            Some(open) => text.matches(last).count() > text.matches(open).count(),
            None => is_blank(last) || ".,;:!?\"'`*\u{201c}\u{2018}\u{2026}".contains(last),
        };
        if !drop {
            return text;
        }
        text = &text[..text.len() - last.len_utf8()];
    }
}

/// Undoes percent-encoding if the result is UTF-8.
pub(crate) fn percent_decoded(text: &str) -> Cow<'_, str> {
    percent_encoding::percent_decode_str(text)
        .decode_utf8()
        .unwrap_or(Cow::Borrowed(text))
}

/// Removes a prefix, ignoring ASCII case.
pub(crate) fn strip_prefix_ignore_case<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let head = text.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix)
        .then(|| &text[prefix.len()..])
}

/// Removes a label such as `doi`, followed by a colon, an equals sign or white space.
pub(crate) fn strip_label<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    let rest = strip_prefix_ignore_case(text, label)?;
    let bare = rest.trim_start_matches(is_blank);
    match bare.strip_prefix([':', '=']) {
        Some(value) => Some(value.trim_start_matches(is_blank)),
        None => (bare.len() < rest.len()).then_some(bare),
    }
}

/// Splits a link, with or without its scheme. Returns the host in lower case without `www.`, and
/// the rest after the slash.
pub(crate) fn host_and_path(text: &str) -> Option<(String, &str)> {
    let rest = strip_prefix_ignore_case(text, "https:")
        .or_else(|| strip_prefix_ignore_case(text, "http:"));
    let rest = match rest {
        Some(rest) => rest.strip_prefix("//")?,
        None => text.strip_prefix("//").unwrap_or(text),
    };
    let (host, path) = rest.split_once('/')?;
    let host = host.to_ascii_lowercase();
    let host = host
        .strip_suffix(":443")
        .or_else(|| host.strip_suffix(":80"))
        .unwrap_or(&host);
    let host = host.strip_prefix("www.").unwrap_or(host);
    (!host.is_empty()
        && host
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte)))
    .then(|| (host.to_owned(), path))
}

/// Removes query and fragment from a path.
pub(crate) fn path_alone(path: &str) -> &str {
    path.split(['?', '#']).next().unwrap_or_default()
}

/// Reads up to eighteen digits without sign as a number above zero.
pub(crate) fn number(text: &str) -> Option<u64> {
    (!text.is_empty() && text.len() <= 18 && text.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| text.parse().ok())
        .flatten()
        .filter(|number| *number > 0)
}

/// Returns the first [`PREVIEW_CHARS`] characters of a text for messages, without control
/// characters.
pub(crate) fn preview(text: &str) -> String {
    let beginning: String = text
        .chars()
        .take(PREVIEW_CHARS)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let mut shown = docstokg_hub::redact_text(&beginning);
    if text.chars().nth(PREVIEW_CHARS).is_some() {
        shown.push('\u{2026}');
    }
    shown
}
