//! The `Referer` of a request: the page that led to it. Pure functions, without I/O.
//!
//! The rules are the default of browsers (strict-origin-when-cross-origin). A request to the origin
//! of the page has the full URL of the page. A request to another origin has only the origin of the
//! page. No `Referer` is sent from https to http, or from a page whose URL has a credential.

use http::HeaderValue;
use url::Url;

use crate::redact::redact;

/// Returns the `Referer` of a request for `target` from a link on `page`; `None` if no `Referer` is
/// sent.
pub(crate) fn of(page: &Url, target: &Url) -> Option<HeaderValue> {
    let mut page = page.clone();
    page.set_fragment(None);
    if !matches!(page.scheme(), "http" | "https")
        || redact(&page) != page.as_str()
        || (page.scheme() == "https" && target.scheme() == "http")
    {
        return None;
    }
    let text = if page.origin() == target.origin() {
        page.to_string()
    } else {
        format!("{}/", page.origin().ascii_serialization())
    };
    HeaderValue::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_origins_hear_only_where_it_came_from_and_no_one_hears_a_credential() {
        let page = "https://a.org/article/1?view=full#top";
        for (page, target, sent) in [
            (
                page,
                "https://a.org/pdf/1",
                Some("https://a.org/article/1?view=full"),
            ),
            (page, "https://b.org/pdf/1", Some("https://a.org/")),
            (page, "https://a.org:8443/pdf/1", Some("https://a.org/")),
            (page, "http://a.org/pdf/1", None),
            ("https://a.org/x?token=SECRET", "https://a.org/pdf", None),
            ("https://me:pw@a.org/x", "https://a.org/pdf", None),
            ("http://a.org/x", "https://b.org/pdf", Some("http://a.org/")),
            ("file:///etc/passwd", "https://b.org/pdf", None),
        ] {
            let found = of(&Url::parse(page).unwrap(), &Url::parse(target).unwrap());
            assert_eq!(
                found.as_ref().map(|value| value.to_str().unwrap()),
                sent,
                "{page} to {target}"
            );
        }
    }
}
