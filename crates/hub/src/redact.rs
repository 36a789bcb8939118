//! URLs as they may be shown: without credentials, keys and tokens.

use url::Url;

/// Words that make a query parameter a secret.
const SECRET_NAMES: [&str; 12] =
    ["api_key", "apikey", "key", "token", "access_token", "auth", "secret", "password", "signature", "sig", "credential", "email"];

/// Returns the URL as text fit for messages, events and logs.
#[must_use]
pub fn redact(url: &Url) -> String {
    let mut shown = url.clone();
    // Neither call can fail on a URL with a host; one without has no userinfo to hide.
    let _ = shown.set_username("");
    let _ = shown.set_password(None);
    shown.set_fragment(None);
    if let Some(query) = url.query() {
        let pairs: Vec<String> = query.split('&').map(redact_pair).collect();
        shown.set_query(Some(&pairs.join("&")));
    }
    shown.to_string()
}

fn redact_pair(pair: &str) -> String {
    match pair.split_once('=') {
        Some((name, value)) if !value.is_empty() && is_secret(name) => format!("{name}=***"),
        _ => pair.to_owned(),
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    SECRET_NAMES.iter().any(|secret| name == *secret || name.ends_with(&format!("_{secret}")) || name.ends_with(&format!("-{secret}")))
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
        ] {
            assert_eq!(redact(&Url::parse(url).unwrap()), shown);
        }
    }
}
