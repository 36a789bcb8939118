//! URLs as they may be shown: without credentials, keys and tokens, wherever in the URL they are.
//!
//! Credentials and the fragment go. In the query, values whose name says that they are secret
//! become `***`; in the path, what follows such a name (`/token/…`, `;jsessionid=…`) and segments
//! that look like a key: long, and of a mixture that words and identifiers do not have. A URL that
//! is hidden too much is read once more in the run's own input; one that is hidden too little is a
//! leak.

use url::Url;

/// Names of parameters that are secrets as a whole, written as one word in lower case.
const SECRET_NAMES: [&str; 19] = [
    "auth",
    "authorization",
    "bearer",
    "pwd",
    "sig",
    "session",
    "sid",
    "email",
    "mailto",
    "policy",
    "keypairid",
    "awsaccesskeyid",
    "hdnea",
    "hdnts",
    "hdntl",
    "hmac",
    "otp",
    "pin",
    "csrf",
];

/// Words that make a name secret if it ends with them, in whatever spelling: `authtoken`,
/// `sessionToken`, `X-Amz-Signature`.
const SECRET_ENDINGS: [&str; 18] = [
    "token",
    "apikey",
    "accesskey",
    "secretkey",
    "authkey",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "signature",
    "ticket",
    "jwt",
    "credential",
    "credentials",
    "sessionid",
    "authorization",
    "cookie",
    "assertion",
];

/// Words that end with `key` and are none.
const NO_KEYS: [&str; 8] = [
    "monkey", "turkey", "donkey", "hockey", "jockey", "whiskey", "sortkey", "lackey",
];

/// How often a name may be percent-encoded: a URL within a URL within a URL has its own encoded
/// once more each time.
const MOST_ENCODED: usize = 8;

/// Beginnings of keys that well-known services hand out.
const KEY_BEGINNINGS: [&str; 9] = [
    "sk_",
    "sk-",
    "pk_",
    "ghp_",
    "gho_",
    "github_pat_",
    "AKIA",
    "xoxb-",
    "eyJ",
];

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
        shown.push('?');
        for pair in query.split_inclusive(['&', ';']) {
            let end = pair.len() - usize::from(pair.ends_with(['&', ';']));
            redact_pair(&pair[..end], &mut shown);
            shown.push_str(&pair[end..]);
        }
    }
    shown
}

/// Returns text that may have a URL in it, or be a part of one, as it may be shown: a line that
/// could not be read is quoted in messages.
#[must_use]
pub fn redact_text(text: &str) -> String {
    const ENDS: [char; 8] = [' ', '?', '&', ';', '#', ',', '"', '\''];
    let mut shown = String::with_capacity(text.len());
    for piece in text.split_inclusive(ENDS) {
        let end = piece.len()
            - piece
                .chars()
                .next_back()
                .filter(|last| ENDS.contains(last))
                .map_or(0, char::len_utf8);
        let (word, rest) = piece.split_at(end);
        // A name and password before a host.
        match word
            .split_once("://")
            .and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?.1)))
        {
            Some((scheme, host)) => shown.push_str(&format!("{scheme}://{HIDDEN}@{host}")),
            None if word.contains('=') || word.contains('%') => redact_pair(word, &mut shown),
            None => shown.push_str(word),
        }
        shown.push_str(rest);
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
        // A title may end with such a word; a name that announces a secret is short.
        after_a_name = segment.len() <= 24 && is_secret(segment);
    }
}

fn redact_pair(pair: &str, shown: &mut String) {
    match pair.split_once('=').or_else(|| split_encoded(pair)) {
        Some((name, value))
            if !value.is_empty()
                && (is_secret(name)
                    || is_key(value)
                    || hides_a_url(value)
                    || hides_a_pair(value)) =>
        {
            shown.push_str(name);
            shown.push('=');
            shown.push_str(HIDDEN);
        }
        None if is_key(pair) => shown.push_str(HIDDEN),
        _ => shown.push_str(pair),
    }
}

/// Splits a pair whose `=` is percent-encoded.
fn split_encoded(pair: &str) -> Option<(&str, &str)> {
    let place = pair.find("%3D").or_else(|| pair.find("%3d"))?;
    Some((&pair[..place], &pair[place + 3..]))
}

/// Undoes percent-encoding, also where it was applied several times.
fn decoded(text: &str) -> String {
    let mut text = text.to_owned();
    for _ in 0..MOST_ENCODED {
        if !text.contains('%') {
            break;
        }
        let once = percent_encoding::percent_decode_str(&text)
            .decode_utf8_lossy()
            .into_owned();
        if once == text {
            break;
        }
        text = once;
    }
    text
}

fn is_secret(name: &str) -> bool {
    let name = decoded(name);
    // `auth[token]` is judged by both of its parts.
    name.split(['[', ']']).any(is_secret_name)
}

/// Judges a name in any spelling: `api_key`, `apiKey`, `API-KEY`, `x.api.key`.
fn is_secret_name(name: &str) -> bool {
    let word: String = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|letter| letter.to_ascii_lowercase())
        .collect();
    if word.is_empty() {
        return false;
    }
    let last = last_word(name).to_ascii_lowercase();
    let is_key = last == "key"
        || (word.ends_with("key") && !NO_KEYS.iter().any(|other| word.ends_with(other)));
    let endings = SECRET_ENDINGS
        .iter()
        .chain(["sig", "auth", "pwd", "session", "email"].iter());
    is_key
        || SECRET_NAMES.contains(&word.as_str())
        || SECRET_ENDINGS.iter().any(|ending| word.ends_with(ending))
        || endings.into_iter().any(|ending| last == *ending)
}

/// Returns the last word of a name, by its separators or its capitals.
fn last_word(name: &str) -> &str {
    let name = name.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric());
    let start = name
        .rfind(|letter: char| !letter.is_ascii_alphanumeric())
        .map_or(0, |place| place + 1);
    let word = name.get(start..).unwrap_or(name);
    let bytes = word.as_bytes();
    let capital = (1..bytes.len())
        .rev()
        .find(|place| bytes[*place].is_ascii_uppercase() && bytes[place - 1].is_ascii_lowercase());
    capital.and_then(|place| word.get(place..)).unwrap_or(word)
}

/// Tells whether a value holds pairs of its own, one of which is a secret.
fn hides_a_pair(value: &str) -> bool {
    let value = decoded(value);
    let mut pairs = value
        .split(['&', ';', '?', '#', '~', ' '])
        .filter_map(|pair| pair.split_once('='));
    pairs.any(|(name, value)| {
        !value.is_empty()
            && (is_secret_name(name.rsplit(['/', ':']).next().unwrap_or(name)) || is_key(value))
    })
}

/// Tells whether a value is a URL that has something to hide itself.
fn hides_a_url(value: &str) -> bool {
    if !value.contains("://") && !value.contains("%3A") && !value.contains("%3a") {
        return false;
    }
    let decoded: String = url::form_urlencoded::parse(format!("u={value}").as_bytes())
        .map(|(_, value)| value.into_owned())
        .collect();
    Url::parse(&decoded).is_ok_and(|inner| redact(&inner) != inner.as_str())
}

/// Tells whether text looks like a key rather than like a word, a number, a DOI or a file name.
fn is_key(text: &str) -> bool {
    if text.len() >= 16 && KEY_BEGINNINGS.iter().any(|start| text.starts_with(start)) {
        return true;
    }
    if text.len() < LONG
        || !text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+' | b'~'))
    {
        return false;
    }
    let has = |class: fn(&u8) -> bool| text.as_bytes().iter().any(class);
    let (lower, upper, digit) = (
        has(u8::is_ascii_lowercase),
        has(u8::is_ascii_uppercase),
        has(u8::is_ascii_digit),
    );
    let hex = text.len() >= 32
        && text
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
        && digit;
    let mixed = digit && lower && upper && !looks_like_words(text);
    hex || mixed || (text.len() >= 32 && digit && (lower || upper) && !looks_like_words(text))
}

/// Words joined by hyphens or underscores, as titles in URLs are.
fn looks_like_words(text: &str) -> bool {
    let pieces: Vec<&str> = text
        .split(['-', '_'])
        .filter(|piece| !piece.is_empty())
        .collect();
    pieces.len() > 2 && pieces.iter().all(|piece| piece.len() <= 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_do_not_show() {
        for (url, shown) in [
            (
                "https://me:pw@example.org/a?b=1#f",
                "https://example.org/a?b=1",
            ),
            (
                "https://example.org/?api_key=SECRET&q=x&X-Amz-Signature=abc",
                "https://example.org/?api_key=***&q=x&X-Amz-Signature=***",
            ),
            (
                "https://example.org/?email=me@home.org&keyword=x&token=",
                "https://example.org/?email=***&keyword=x&token=",
            ),
            (
                "https://example.org:8443/token/abc/file.pdf",
                "https://example.org:8443/token/***/file.pdf",
            ),
            (
                "https://example.org/a;jsessionid=12AB/b",
                "https://example.org/a;jsessionid=***/b",
            ),
            (
                "https://example.org/d/eyJhbGciOi.eyJzdWIi.c2ln/x.pdf",
                "https://example.org/d/***/x.pdf",
            ),
            (
                "https://example.org/s/aB3dE5fG7hI9jK1lM3nO5/x.pdf",
                "https://example.org/s/***/x.pdf",
            ),
            (
                "https://example.org/s/d41d8cd98f00b204e9800998ecf8427e",
                "https://example.org/s/***",
            ),
            (
                "https://example.org/f?u=aB3dE5fG7hI9jK1lM3nO5",
                "https://example.org/f?u=***",
            ),
            (
                "https://example.org/cdx?url=http%3A%2F%2Fa.org%2Fx%3Fapi_key%3DSECRET&x=1",
                "https://example.org/cdx?url=***&x=1",
            ),
            (
                "https://example.org/?a=1;token=SECRET;b=2",
                "https://example.org/?a=1;token=***;b=2",
            ),
            (
                "https://example.org/?auth[token]=SECRET&user%5Bpassword%5D=SECRET",
                "https://example.org/?auth[token]=***&user%5Bpassword%5D=***",
            ),
            (
                "https://example.org/?%74oken=SECRET&apiKey=SECRET&sessionToken=SECRET",
                "https://example.org/?%74oken=***&apiKey=***&sessionToken=***",
            ),
            (
                "https://example.org/?insttoken=SECRET&httpAccept=x&hdnea=SECRET",
                "https://example.org/?insttoken=***&httpAccept=x&hdnea=***",
            ),
            (
                "https://example.org/?Policy=SECRET&Signature=SECRET&Key-Pair-Id=SECRET",
                "https://example.org/?Policy=***&Signature=***&Key-Pair-Id=***",
            ),
            (
                "https://example.org/?sv=2020&sig=SECRET&se=2026",
                "https://example.org/?sv=2020&sig=***&se=2026",
            ),
            (
                "https://example.org/?next=%2Fa%3Fticket%3DSECRET",
                "https://example.org/?next=***",
            ),
        ] {
            assert_eq!(redact(&Url::parse(url).unwrap()), shown);
        }
    }

    #[test]
    fn secrets_do_not_show_in_text_that_is_no_url() {
        for (text, shown) in [
            (
                "W27R.example/x.pdf?token=SECRET",
                "W27R.example/x.pdf?token=***",
            ),
            (
                "http:/\u{202e}/a.example/x.pdf?a=1&apiKey=SECRET&b",
                "http:/\u{202e}/a.example/x.pdf?a=1&apiKey=***&b",
            ),
            (
                "see http://me:SECRET@a b.example/",
                "see http://***@a b.example/",
            ),
            (
                "10.1000/182 A title; with = signs, and 100 %",
                "10.1000/182 A title; with = signs, and 100 %",
            ),
            ("", ""),
        ] {
            assert_eq!(redact_text(text), shown);
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
            "https://example.org/search?keyword=monkey&tokens=3&keys=a,b&signatures=2",
            "https://example.org/turkey/istanbul?author=smith&page=3",
            "http://127.0.0.1:8080/",
            "http://[::1]:8080/a?",
        ] {
            assert_eq!(redact(&Url::parse(url).unwrap()), url);
        }
    }

    use proptest::prelude::*;

    proptest! {
        /// A planted secret never appears, however its name is spelled and wherever the pair
        /// stands.
        #[test]
        fn a_secret_under_any_spelling_does_not_show(
            start in prop_oneof![Just(""), Just("x"), Just("amz"), Just("inst"), Just("user")],
            word in prop_oneof![Just("token"), Just("key"), Just("secret"), Just("password"), Just("signature"), Just("ticket"), Just("jwt")],
            style in 0..6u8,
            encoded in prop::collection::vec(any::<bool>(), 30),
            separator in prop_oneof![Just("&"), Just(";")],
            before in any::<bool>(),
            secret in "[a-z]{6,9}",
        ) {
            let capital = |text: &str| text.chars().take(1).map(|letter| letter.to_ascii_uppercase()).chain(text.chars().skip(1)).collect::<String>();
            let name = match (start, style) {
                ("", 0) => word.to_ascii_uppercase(),
                ("", _) => word.to_owned(),
                (start, 0) => format!("{start}_{word}"),
                (start, 1) => format!("{start}-{}", capital(word)),
                (start, 2) => format!("{start}{}", capital(word)),
                (start, 3) => format!("{start}[{word}]"),
                (start, 4) => format!("{start}.{word}"),
                (start, _) => format!("{}_{}", start.to_ascii_uppercase(), word.to_ascii_uppercase()),
            };
            let name: String = name.bytes().zip(encoded.into_iter().chain(std::iter::repeat(false)))
                .map(|(byte, encode)| if encode { format!("%{byte:02X}") } else { char::from(byte).to_string() }).collect();
            let other = format!("q=words{separator}page=2");
            let query = if before { format!("{name}={secret}{separator}{other}") } else { format!("{other}{separator}{name}={secret}") };
            let url = Url::parse(&format!("https://example.org/a/b?{query}")).unwrap();
            let shown = redact(&url);
            prop_assert!(!shown.contains(&secret), "{url} is shown as {shown}");
            prop_assert!(shown.contains("page=2"));
        }

        /// The same in the path, before the host, after the fragment's mark, within another URL,
        /// and in text that is none.
        #[test]
        fn fuzz_a_secret_anywhere_does_not_show(
            name in prop_oneof![Just("token"), Just("api_key"), Just("sessionToken"), Just("auth%54oken"), Just("X-Amz-Signature"), Just("user[password]"), Just("jwt")],
            form in 0..7u8,
            times in 0..3usize,
            words in "[a-z]{3,8}",
            secret in "[a-z]{6,9}",
        ) {
            // A word of the URL itself is no secret.
            prop_assume!(!format!("https://example.org/{words}/{name}/next/x/url").contains(&secret));
            let nested = |times: usize| (0..times).fold(format!("https://other.example/{words}?{name}={secret}"), |url, _| {
                percent_encoding::utf8_percent_encode(&url, percent_encoding::NON_ALPHANUMERIC).to_string()
            });
            let text = match form {
                0 => format!("https://{words}:{secret}@example.org/{words}"),
                1 => format!("https://example.org/{words};{name}={secret}/x"),
                2 => format!("https://example.org/{words}#{name}={secret}"),
                3 => format!("https://example.org/{words}?next={}", nested(times + 1)),
                4 => format!("https://example.org/{words}?a=1&{name}={secret}&{name}={secret}"),
                5 => format!("https://example.org/{words}?{name}%3D{secret}"),
                _ => format!("https://example.org/{words}?{words}=1;{name}={secret}"),
            };
            let url = Url::parse(&text).unwrap();
            let shown = redact(&url);
            prop_assert!(!shown.contains(&secret), "{text} is shown as {shown}");
            let quoted = redact_text(&format!("{words} {text} {words}"));
            prop_assert!(!quoted.contains(&secret), "{text} is quoted as {quoted}");
        }

        #[test]
        fn fuzz_any_text_is_shown_without_a_panic(text in ".{0,200}", seed in any::<u64>()) {
            let _ = redact_text(&text);
            let bytes = docstokg_origin_sim::hostile::mutated(seed, b"https://me:pw@example.org:80/a;jsessionid=1/token/x?a[b]=%3D%25&url=http%3A%2F%2Fa%3Fkey%3D1#f");
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let _ = redact_text(&text);
            if let Ok(url) = Url::parse(&text) {
                let _ = redact(&url);
            }
        }
    }
}
