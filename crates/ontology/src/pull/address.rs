//! Recognises credentials in URLs, and removes them before a URL is recorded.

use docstokg_hub::redact;
use url::Url;

/// Returns true if a URL contains something that must not be shown. A fragment does not count as
/// secret: clients never send it, and many IRIs of ontologies end with a fragment.
pub(super) fn has_secret(url: &Url) -> bool {
    let mut plain = url.clone();
    plain.set_fragment(None);
    redact(&plain) != plain.as_str()
}

/// Returns a URL as it may be stored: secrets are replaced, and the fragment is removed.
pub(super) fn without_secrets(url: &Url) -> Url {
    redact(url).parse().unwrap_or_else(|_| {
        // If even this URL contains a secret, reduce it to its host.
        let mut bare = url.clone();
        let _ = bare.set_username("");
        let _ = bare.set_password(None);
        bare.set_path("");
        bare.set_query(None);
        bare.set_fragment(None);
        bare
    })
}

/// Returns the base address for the relative IRIs in a file. Parameters with secrets are removed,
/// because the IRIs become part of statements. So a new signature in the URL of a file does not
/// change its statements.
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
