//! Recognition of secrets, by the name of a parameter or by the form of a value.
//! Pure functions, without I/O.

/// Names of parameters whose values are secret. They are compared with the whole name, in lower
/// case and without separators.
const SECRET_NAMES: [&str; 28] = [
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
    "codeverifier",
    "sign",
    "keyid",
    "sessiondata",
];

/// Endings that make a name secret, however it is written: `authtoken`, `sessionToken`,
/// `X-Amz-Signature`.
const SECRET_ENDINGS: [&str; 19] = [
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
    "authentication",
    "cookie",
    "assertion",
];

/// Parts that make the name of a parameter secret at any position: `auth_code`, `credentials_json`,
/// `sessiondata`. They are compared with the name in lower case and without separators.
const SECRET_PARTS: [&str; 13] = [
    "accesscode",
    "apikey",
    "auth",
    "credential",
    "csrf",
    "devicecode",
    "jwt",
    "passcode",
    "passphrase",
    "passw",
    "saml",
    "verificationcode",
    "xsrf",
];

/// Words that contain one of the [`SECRET_PARTS`], but do not name a secret.
const ORDINARY_WORDS: [&str; 1] = ["author"];

/// Words that may follow the name of a secret, which stays secret: `token_hash`,
/// `X-Hub-Signature-256`, `api_key_2`.
const QUALIFIERS: [&str; 12] = [
    "code", "data", "hash", "header", "hex", "id", "index", "info", "json", "sha", "v", "value",
];

/// Maximum length of the value of `code` that, outside a sign-in, counts as an item of a catalogue.
const MAX_CATALOGUE_CODE: usize = 4;

/// Names of one-time credentials in the URLs of sign-ins (OAuth 2.0, OIDC). Elsewhere they are
/// ordinary: `code=10` may be the number of an item in a catalogue.
const SIGN_IN_SECRETS: [&str; 2] = ["code", "nonce"];

/// Names of parameters that accompany [`SIGN_IN_SECRETS`] (RFC 6749, RFC 7636, OIDC).
const SIGN_IN_NAMES: [&str; 7] = [
    "state",
    "sessionstate",
    "redirecturi",
    "clientid",
    "responsetype",
    "codechallenge",
    "codeverifier",
];

/// Prefixes of path segments that mark the URL of a sign-in, in lower case and without separators.
const SIGN_IN_SEGMENTS: [&str; 6] = [
    "oauth",
    "oidc",
    "openid",
    "authorize",
    "signinoidc",
    "callback",
];

/// Words that end with `key`, but do not name a secret.
const WORDS_THAT_END_WITH_KEY: [&str; 8] = [
    "monkey", "turkey", "donkey", "hockey", "jockey", "whiskey", "sortkey", "lackey",
];

/// Maximum number of times that percent-encoding of a name is decoded. A URL within a URL adds one
/// level.
const MAX_ENCODED: usize = 8;

/// Prefixes of API keys that well-known services issue.
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

/// Minimum number of letters and digits in a path segment that may be a key.
const MIN_KEY_LENGTH: usize = 20;

/// Decodes percent-encoding, even if it was applied several times.
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

/// The context of a name: an ordinary URL, or the URL of a sign-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameContext {
    Ordinary,
    SignIn,
}

impl NameContext {
    /// Returns the context of a URL, from its path and the names of its pairs. If no pair has a
    /// name that is secret only in a sign-in, the context is [`NameContext::Ordinary`].
    pub(super) fn of<'a>(path: &str, pairs: &(impl Iterator<Item = &'a str> + Clone)) -> Self {
        let has = |names: &[&str]| pairs.clone().any(|pair| is_named(pair, names));
        if !has(&SIGN_IN_SECRETS) {
            return Self::Ordinary;
        }
        let signs_in = |segment: &str| {
            let word = as_one_word(segment);
            SIGN_IN_SEGMENTS.iter().any(|start| word.starts_with(start))
        };
        if has(&SIGN_IN_NAMES) || decoded(path).split(['/', '?', '#']).any(signs_in) {
            Self::SignIn
        } else {
            Self::Ordinary
        }
    }

    /// Returns whether the name of a pair or header field is secret. The name may be
    /// percent-encoded.
    pub(super) fn is_secret(self, name: &str) -> bool {
        let name = decoded(name);
        // In `auth[token]`, both `auth` and `token` are checked.
        let mut parts = name.split(['[', ']']);
        parts.any(|part| {
            self.is_secret_name(part)
                || self.is_secret_name(without_qualifiers(part))
                || has_part(part, &SECRET_PARTS, &ORDINARY_WORDS)
        })
    }

    /// Returns whether a path segment is a name after which the next segment is secret. A name with
    /// a number is not: `/session-12/paper.pdf`.
    pub(super) fn announces_secret(self, segment: &str) -> bool {
        let segment = decoded(segment);
        segment
            .split(['[', ']'])
            .any(|part| self.is_secret_name(part))
    }

    /// Returns whether the value of a pair must be hidden. Some names are secret only if the value
    /// looks like a secret.
    pub(super) fn hides(self, name: &str, value: &str) -> bool {
        self.is_secret(name) || is_key(value) || is_sign_in_code(name, value)
    }

    /// Returns whether a name is secret, however it is written: `api_key`, `apiKey`, `API-KEY`,
    /// `x.api.key`.
    pub(super) fn is_secret_name(self, name: &str) -> bool {
        is_secret_anywhere(name)
            || (self == Self::SignIn && SIGN_IN_SECRETS.contains(&as_one_word(name).as_str()))
    }
}

/// Returns whether a name contains one of `parts` outside of the `ordinary_words`.
pub(super) fn has_part(name: &str, parts: &[&str], ordinary_words: &[&str]) -> bool {
    // The longer word is removed first: of "authorized", the ordinary word "author" must not be
    // removed.
    let mut word = as_one_word(name)
        .replace("authoriz", "auth")
        .replace("authoris", "auth");
    for ordinary in ordinary_words {
        word = word.replace(ordinary, " ");
    }
    parts.iter().any(|part| word.contains(part))
}

/// Returns a name without trailing [`QUALIFIERS`], which only describe the form of a secret.
fn without_qualifiers(name: &str) -> &str {
    let mut name = name;
    loop {
        let shorter = name.trim_end_matches(|letter: char| !letter.is_ascii_alphabetic());
        let last = last_word(shorter);
        let is_qualifier = QUALIFIERS
            .iter()
            .any(|word| last.eq_ignore_ascii_case(word));
        let rest = shorter.strip_suffix(last).filter(|_| is_qualifier);
        match rest.filter(|rest| !rest.is_empty()) {
            Some(rest) => name = rest,
            None => return shorter,
        }
    }
}

/// Returns whether a pair is the `code` of a sign-in (RFC 6749), although no other part of the URL
/// shows a sign-in. A `code` that is short or a number belongs to a catalogue instead.
pub(super) fn is_sign_in_code(name: &str, value: &str) -> bool {
    as_one_word(&decoded(name)) == "code"
        && value.len() > MAX_CATALOGUE_CODE
        && value.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// Returns whether a word, in lower case, is the name of a secret by itself, such as `sid` or
/// `otp`. Header fields are checked for such words; in URLs, the words are too common as parts of
/// other names.
pub(super) fn is_secret_word(word: &str) -> bool {
    SECRET_NAMES.contains(&word)
}

/// Returns whether the name of a pair is one of `names`, however it is written.
fn is_named(pair: &str, names: &[&str]) -> bool {
    let pair = decoded(pair);
    let Some((name, _)) = pair.split_once('=') else {
        return false;
    };
    let name = name.rsplit(['/', ':']).next().unwrap_or(name);
    name.split(['[', ']'])
        .any(|part| names.contains(&as_one_word(part).as_str()))
}

/// Converts a name to one word in lower case, without separators.
pub(super) fn as_one_word(name: &str) -> String {
    name.chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|letter| letter.to_ascii_lowercase())
        .collect()
}

fn is_secret_anywhere(name: &str) -> bool {
    let word = as_one_word(name);
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

/// Returns the last word of a name. Separators and capitals begin a word.
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

/// Returns whether a text looks like a key. Words, numbers, DOIs and file names do not.
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

/// Returns whether a text consists of words with hyphens or underscores between them, like a title
/// in a URL.
fn looks_like_words(text: &str) -> bool {
    let pieces: Vec<&str> = text
        .split(['-', '_'])
        .filter(|piece| !piece.is_empty())
        .collect();
    pieces.len() > 2 && pieces.iter().all(|piece| piece.len() <= 16)
}
