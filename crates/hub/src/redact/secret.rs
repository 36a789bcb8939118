//! What is a secret: by the name of a parameter, or by the look of a value. Pure.

/// Names of parameters that are secrets as a whole, written as one word in lower case.
const SECRET_NAMES: [&str; 24] = [
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
    "pass",
    "sessid",
    "phpsessid",
    "jsessionid",
    "gda",
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

/// Words that end with `key` and name no secret.
const WORDS_THAT_END_WITH_KEY: [&str; 8] = [
    "monkey", "turkey", "donkey", "hockey", "jockey", "whiskey", "sortkey", "lackey",
];

/// How often a name may be percent-encoded: a URL within a URL within a URL has its own encoded
/// once more each time.
const MAX_ENCODED: usize = 8;

/// Beginnings of API keys that well-known services issue.
const KEY_PREFIXES: [&str; 9] = [
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
const MIN_KEY_LENGTH: usize = 20;

/// Undoes percent-encoding, also where it was applied several times.
pub(super) fn decoded(text: &str) -> String {
    let mut text = text.to_owned();
    for _ in 0..MAX_ENCODED {
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

pub(super) fn is_secret(name: &str) -> bool {
    let name = decoded(name);
    // `auth[token]` is judged by both of its parts.
    name.split(['[', ']']).any(is_secret_name)
}

/// Judges a name in any spelling: `api_key`, `apiKey`, `API-KEY`, `x.api.key`.
pub(super) fn is_secret_name(name: &str) -> bool {
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
        || (word.ends_with("key")
            && !WORDS_THAT_END_WITH_KEY
                .iter()
                .any(|other| word.ends_with(other)));
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

/// Returns whether text looks like a key rather than like a word, a number, a DOI or a file name.
pub(super) fn is_key(text: &str) -> bool {
    if text.len() >= 16 && KEY_PREFIXES.iter().any(|start| text.starts_with(start)) {
        return true;
    }
    if text.len() < MIN_KEY_LENGTH
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
