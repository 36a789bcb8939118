//! Addresses with credentials: how to recognise them, and which part may be recorded.

use docstokg_hub::redact;
use url::Url;

/// Returns true if an address contains something that must not be shown. A fragment alone is not a
/// secret: a client never sends it, and many names of ontologies end with a fragment.
pub(super) fn has_secret(url: &Url) -> bool {
    let mut plain = url.clone();
    plain.set_fragment(None);
    redact(&plain) != plain.as_str()
}

/// Returns an address as it may be persisted: secrets are replaced, and the fragment is removed.
pub(super) fn without_secrets(url: &Url) -> Url {
    redact(url).parse().unwrap_or_else(|_| {
        // An address that cannot be shown is reduced to its host.
        let mut bare = url.clone();
        let _ = bare.set_username("");
        let _ = bare.set_password(None);
        bare.set_path("");
        bare.set_query(None);
        bare.set_fragment(None);
        bare
    })
}

/// Returns the base address for relative names in a file. Names become statements, so parameters
/// with secrets are removed. A new signature in the address therefore does not change the
/// statements.
pub(super) fn base(url: &Url) -> Url {
    let mut base = without_secrets(url);
    if let (Some(given), Some(shown)) = (url.query(), base.query().map(str::to_owned)) {
        let pairs = given.split(['&', ';']).zip(shown.split(['&', ';']));
        let kept: Vec<&str> = pairs
            .filter(|(given, shown)| given == shown)
            .map(|(_, shown)| shown)
            .collect();
        if kept.len() < given.split(['&', ';']).count() {
            base.set_query(Some(kept.join("&").as_str()).filter(|query| !query.is_empty()));
        }
    }
    base
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().unwrap()
    }

    #[test]
    fn a_base_keeps_what_is_no_secret() {
        for (address, wanted) in [
            ("https://a.org/x.ttl", "https://a.org/x.ttl"),
            ("https://a.org/x?v=2;w=3#f", "https://a.org/x?v=2;w=3"),
            ("https://a.org/x?token=abc", "https://a.org/x"),
            ("https://a.org/x?v=2&token=abc&w", "https://a.org/x?v=2&w"),
            ("https://me:pass@a.org/x?sig=1", "https://a.org/x"),
        ] {
            assert_eq!(base(&url(address)).as_str(), wanted);
        }
    }

    #[test]
    fn what_is_persisted_is_an_address_without_secrets() {
        let signed = url("https://me:pass@a.org:8443/x?token=abc&v=2");
        assert!(has_secret(&signed));
        let kept = without_secrets(&signed);
        assert_eq!(kept.as_str(), "https://a.org:8443/x?token=***&v=2");
        assert_eq!(without_secrets(&kept), kept);
        assert!(!has_secret(&url("http://www.w3.org/2002/07/owl#")));
    }
}
