//! Redaction of URLs for display: the result has no credentials and no tokens.
//!
//! Credentials and the fragment are removed. In the query, values of secret names become `***`. In
//! the path, the value after a secret name (`/token/…`, `;jsessionid=…`) and segments that look
//! like keys become `***`. Hiding too much is harmless, because the run's own input has the full
//! URL. Hiding too little is a leak.
//!
//! A `code` and a `nonce` are one-time credentials in the URLs of sign-ins, and are hidden there.
//! In other URLs, a `nonce` is shown, and a `code` only if it is short or a number. [`field`]
//! recognises credentials in header fields by the same names.

use url::Url;

mod field;
mod secret;

pub(crate) use field::FieldKind;
pub use field::is_credential;
use secret::{NameContext, decoded, is_key, is_sign_in_code};

const HIDDEN: &str = "***";

/// Returns a URL without its secrets, as text for messages, events and logs.
///
/// ```
/// use docstokg_hub::redact;
///
/// let url = "https://me:pass@api.example/work?api_key=s3cret&page=2".parse()?;
/// assert_eq!(redact(&url), "https://api.example/work?api_key=***&page=2");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn redact(url: &Url) -> String {
    let mut shown = String::with_capacity(url.as_str().len());
    shown.push_str(url.scheme());
    shown.push_str("://");
    shown.push_str(url.host_str().unwrap_or_default());
    if let Some(port) = url.port() {
        shown.push(':');
        shown.push_str(&port.to_string());
    }
    let pairs = url.query().unwrap_or_default().split(['&', ';']);
    let names = NameContext::of(url.path(), &pairs);
    redact_path(url.path(), names, &mut shown);
    if let Some(query) = url.query() {
        shown.push('?');
        for pair in query.split_inclusive(['&', ';']) {
            let end = pair.len() - usize::from(pair.ends_with(['&', ';']));
            redact_pair(&pair[..end], names, &mut shown);
            shown.push_str(&pair[end..]);
        }
    }
    shown
}

/// Returns a text without its secrets, for display. The text may contain a URL or be a part of one,
/// such as an unreadable line that a message quotes.
#[must_use]
pub fn redact_text(text: &str) -> String {
    const ENDS: [char; 8] = [' ', '?', '&', ';', '#', ',', '"', '\''];
    let mut shown = String::with_capacity(text.len());
    let names = NameContext::of(text, &text.split(ENDS));
    for piece in text.split_inclusive(ENDS) {
        let end = piece.len()
            - piece
                .chars()
                .next_back()
                .filter(|last| ENDS.contains(last))
                .map_or(0, char::len_utf8);
        let (word, rest) = piece.split_at(end);
        // In `SCHEME://NAME:PASSWORD@HOST`, the name and the password are hidden.
        match word
            .split_once("://")
            .and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?.1)))
        {
            Some((scheme, host)) => shown.push_str(&format!("{scheme}://{HIDDEN}@{host}")),
            None if word.contains(['=', '%', ':']) => {
                redact_pair(word, names, &mut shown);
            }
            None => shown.push_str(word),
        }
        shown.push_str(rest);
    }
    shown
}

fn redact_path(path: &str, names: NameContext, shown: &mut String) {
    let mut after_a_name = false;
    for (place, segment) in path.split('/').enumerate() {
        if place > 0 {
            shown.push('/');
        }
        if after_a_name && !segment.is_empty() {
            shown.push_str(HIDDEN);
        } else {
            for (place, part) in segment.split(';').enumerate() {
                if place > 0 {
                    shown.push(';');
                }
                redact_pair(part, names, shown);
            }
        }
        // A long segment may be a title that ends with such a word. The name of a secret is short.
        after_a_name = segment.len() <= 24 && NameContext::Ordinary.announces_secret(segment);
    }
}

fn redact_pair(pair: &str, names: NameContext, shown: &mut String) {
    if let Some(end) = end_of_announcement(pair, names) {
        shown.push_str(&pair[..end]);
        shown.push_str(HIDDEN);
        return;
    }
    match pair.split_once('=').or_else(|| split_encoded(pair)) {
        Some((name, value))
            if !value.is_empty()
                && (names.hides(name, value) || hides_a_url(value) || hides_a_pair(value)) =>
        {
            shown.push_str(name);
            shown.push('=');
            shown.push_str(HIDDEN);
        }
        None if is_key(pair) => shown.push_str(HIDDEN),
        _ => shown.push_str(pair),
    }
}

/// Returns the position of the value in `NAME:VALUE` if the name is secret, otherwise `None`.
fn end_of_announcement(pair: &str, names: NameContext) -> Option<usize> {
    let name_end = pair.find('=').unwrap_or(pair.len());
    let announces = |(place, end): &(usize, usize)| {
        let (before, value) = (&pair[..*place], &pair[*end..]);
        let name = before.rsplit(['/', ':']).next().unwrap_or_default();
        // `mailto:` is the scheme of an address, and not a name with a value.
        let is_address = name.eq_ignore_ascii_case("mailto");
        let is_secret = names.is_secret(name) || is_sign_in_code(name, value);
        !value.is_empty() && !is_address && is_secret
    };
    let plain = pair[..name_end].match_indices(':');
    let plain = plain.map(|(place, _)| (place, place + 1));
    let encoded = encoded_places(&pair[..name_end], "3A");
    let places = plain.chain(encoded).filter(announces);
    places.map(|(_, end)| end).min()
}

/// Splits a pair whose `=` is percent-encoded.
fn split_encoded(pair: &str) -> Option<(&str, &str)> {
    let (place, end) = encoded_places(pair, "3D").min()?;
    Some((&pair[..place], &pair[end..]))
}

/// Returns the position of each character whose percent-encoding is `code`, even if it was encoded
/// several times: the beginning and the end of its encoded form.
fn encoded_places<'a>(text: &'a str, code: &str) -> impl Iterator<Item = (usize, usize)> + 'a {
    let codes = [code.to_owned(), code.to_ascii_lowercase()];
    let places = codes.into_iter().flat_map(move |code| {
        let places = text.match_indices(&code).map(|(place, _)| place);
        places.collect::<Vec<_>>()
    });
    places.filter_map(move |place| {
        // The percent sign itself may be encoded as `%25`, and that several times.
        let before = text[..place].trim_end_matches("25");
        before.ends_with('%').then(|| (before.len() - 1, place + 2))
    })
}

/// Returns whether a value contains name-value pairs, at least one of which is secret.
fn hides_a_pair(value: &str) -> bool {
    let value = decoded(value);
    let pairs = value.split(['&', ';', '?', '#', '~', ' ']);
    let names = NameContext::of(&value, &pairs);
    let mut pairs = pairs;
    pairs.any(|pair| {
        let is_hidden = |(name, value): (&str, &str)| {
            let name = name.rsplit(['/', ':']).next().unwrap_or(name);
            !value.is_empty() && names.hides(name, value)
        };
        end_of_announcement(pair, names).is_some() || pair.split_once('=').is_some_and(is_hidden)
    })
}

/// Returns whether a value is a URL with a part that must be hidden.
fn hides_a_url(value: &str) -> bool {
    if !value.contains("://") && !value.contains("%3A") && !value.contains("%3a") {
        return false;
    }
    let decoded: String = url::form_urlencoded::parse(format!("u={value}").as_bytes())
        .map(|(_, value)| value.into_owned())
        .collect();
    Url::parse(&decoded).is_ok_and(|inner| redact(&inner) != inner.as_str())
}

#[cfg(test)]
mod tests;
