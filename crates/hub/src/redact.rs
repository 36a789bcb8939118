//! URLs as they may be shown: without credentials, keys and tokens, wherever in the URL they are.
//!
//! Credentials and the fragment go. In the query, values whose name says that they are secret become `***`; in the
//! path, what follows such a name (`/token/…`, `;jsessionid=…`) and segments that look like a key: long, and of a
//! mixture that words and identifiers do not have. A URL that is hidden too much is read once more in the run's own
//! input; one that is hidden too little is a leak.

use url::Url;

/// Words that make a parameter or the next path segment a secret.
const SECRET_NAMES: [&str; 22] = [
    "api_key",
    "apikey",
    "key",
    "token",
    "access_token",
    "auth",
    "authorization",
    "bearer",
    "jwt",
    "secret",
    "password",
    "passwd",
    "pwd",
    "signature",
    "sig",
    "credential",
    "credentials",
    "session",
    "sessionid",
    "jsessionid",
    "email",
    "mailto",
];

/// Beginnings of keys that well-known services hand out.
const KEY_BEGINNINGS: [&str; 9] = ["sk_", "sk-", "pk_", "ghp_", "gho_", "github_pat_", "AKIA", "xoxb-", "eyJ"];

/// The fewest characters that make a segment of letters and digits look like a key.
const LONG: usize = 20;

const HIDDEN: &str = "***";

/// Returns the URL as text fit for messages, events and logs.
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
    redact_path(url.path(), &mut shown);
    if let Some(query) = url.query() {
        for (place, pair) in query.split('&').enumerate() {
            shown.push(if place == 0 { '?' } else { '&' });
            redact_pair(pair, &mut shown);
        }
    }
    shown
}

fn redact_path(path: &str, shown: &mut String) {
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
                redact_pair(part, shown);
            }
        }
        after_a_name = is_secret(segment);
    }
}

fn redact_pair(pair: &str, shown: &mut String) {
    match pair.split_once('=') {
        Some((name, value)) if !value.is_empty() && (is_secret(name) || is_key(value) || hides_a_url(value)) => {
            shown.push_str(name);
            shown.push('=');
            shown.push_str(HIDDEN);
        }
        None if is_key(pair) => shown.push_str(HIDDEN),
        _ => shown.push_str(pair),
    }
}

fn is_secret(name: &str) -> bool {
    let same = |part: &str| {
        let bytes = part.bytes().map(|byte| if byte == b'-' { b'_' } else { byte.to_ascii_lowercase() });
        SECRET_NAMES.iter().any(|secret| bytes.clone().eq(secret.bytes()))
    };
    // `api_key`, and `X-Amz-Signature` or `wiley_tdm_token` by its last word.
    same(name) || name.rsplit_once(['_', '-', '.']).is_some_and(|(_, last)| same(last))
}

/// Tells whether a value is a URL that has something to hide itself.
fn hides_a_url(value: &str) -> bool {
    if !value.contains("://") && !value.contains("%3A") && !value.contains("%3a") {
        return false;
    }
    let decoded: String = url::form_urlencoded::parse(format!("u={value}").as_bytes()).map(|(_, value)| value.into_owned()).collect();
    Url::parse(&decoded).is_ok_and(|inner| redact(&inner) != inner.as_str())
}

/// Tells whether text looks like a key rather than like a word, a number, a DOI or a file name.
fn is_key(text: &str) -> bool {
    if text.len() >= 16 && KEY_BEGINNINGS.iter().any(|start| text.starts_with(start)) {
        return true;
    }
    if text.len() < LONG || !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+' | b'~')) {
        return false;
    }
    let has = |class: fn(&u8) -> bool| text.as_bytes().iter().any(class);
    let (lower, upper, digit) = (has(u8::is_ascii_lowercase), has(u8::is_ascii_uppercase), has(u8::is_ascii_digit));
    let hex = text.len() >= 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') && digit;
    let mixed = digit && lower && upper && !looks_like_words(text);
    hex || mixed || (text.len() >= 32 && digit && (lower || upper) && !looks_like_words(text))
}

/// Words joined by hyphens or underscores, as titles in URLs are.
fn looks_like_words(text: &str) -> bool {
    let pieces: Vec<&str> = text.split(['-', '_']).filter(|piece| !piece.is_empty()).collect();
    pieces.len() > 2 && pieces.iter().all(|piece| piece.len() <= 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_do_not_show() {
        for (url, shown) in [
            ("https://me:pw@example.org/a?b=1#f", "https://example.org/a?b=1"),
            ("https://example.org/?api_key=SECRET&q=x&X-Amz-Signature=abc", "https://example.org/?api_key=***&q=x&X-Amz-Signature=***"),
            ("https://example.org/?email=me@home.org&keyword=x&token=", "https://example.org/?email=***&keyword=x&token="),
            ("https://example.org:8443/token/abc/file.pdf", "https://example.org:8443/token/***/file.pdf"),
            ("https://example.org/a;jsessionid=12AB/b", "https://example.org/a;jsessionid=***/b"),
            ("https://example.org/d/eyJhbGciOi.eyJzdWIi.c2ln/x.pdf", "https://example.org/d/***/x.pdf"),
            ("https://example.org/s/aB3dE5fG7hI9jK1lM3nO5/x.pdf", "https://example.org/s/***/x.pdf"),
            ("https://example.org/s/d41d8cd98f00b204e9800998ecf8427e", "https://example.org/s/***"),
            ("https://example.org/f?u=aB3dE5fG7hI9jK1lM3nO5", "https://example.org/f?u=***"),
            ("https://example.org/cdx?url=http%3A%2F%2Fa.org%2Fx%3Fapi_key%3DSECRET&x=1", "https://example.org/cdx?url=***&x=1"),
        ] {
            assert_eq!(redact(&Url::parse(url).unwrap()), shown);
        }
    }

    #[test]
    fn what_is_no_secret_shows() {
        for url in [
            "https://api.crossref.org/works/10.1016/S0140-6736(20)30183-5",
            "https://www.nature.com/articles/s41586-020-2649-2.pdf",
            "https://example.org/a-long-title-of-a-paper-from-2020-that-goes-on",
            "https://export.arxiv.org/pdf/2101.00001v2",
            "https://pmc-oa-opendata.s3.amazonaws.com/PMC7029759.1/PMC7029759.1.pdf?md5=x",
            "https://api.openalex.org/works?filter=doi:10.1/a%7C10.1/b&per_page=100",
            "http://127.0.0.1:8080/",
            "http://[::1]:8080/a?",
        ] {
            assert_eq!(redact(&Url::parse(url).unwrap()), url);
        }
    }
}
