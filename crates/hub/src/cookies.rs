//! Cookies of one run, in memory (RFC 6265). A cookie is sent back only to the site that set it.
//!
//! Some publishers set a cookie by their first response or on their identity host, and refuse
//! requests without that cookie. Requests opt in by [`Request::cookies`](crate::Request::cookies);
//! requests for metadata never use a jar. A jar is bounded in count and size, and never persisted,
//! recorded or shown. A cookie for a public suffix (such as `co.uk`) is kept for the host that set
//! it alone, or rejected. So no site can set or read cookies of another.

use std::fmt;

use cookie_store::{CookieStore, RawCookie};
use http::header::SET_COOKIE;
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;
use url::Url;

/// Maximum size of a cookie that is kept, in bytes, with its name, value and attributes.
const MAX_COOKIE_BYTES: usize = 4_096;
/// Maximum number of cookies that one response may set.
const MAX_PER_ANSWER: usize = 32;
/// Maximum number of cookies of one host or domain.
const MAX_PER_DOMAIN: usize = 64;
/// Maximum number of cookies in a jar.
const MAX_COOKIES: usize = 4_096;
/// Maximum length of the `Cookie` header that is sent, in bytes.
const MAX_HEADER_BYTES: usize = 8_192;

/// The cookies of a run.
#[derive(Default)]
pub struct CookieJar {
    store: Mutex<CookieStore>,
}

impl fmt::Debug for CookieJar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CookieJar").finish_non_exhaustive()
    }
}

impl CookieJar {
    /// Creates an empty jar.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the `Cookie` header for a request, or `None` if no cookie matches.
    pub(crate) fn header(&self, url: &Url) -> Option<HeaderValue> {
        let store = self.store.lock();
        let mut pairs: Vec<String> = store
            .get_request_values(url)
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        drop(store);
        pairs.sort_unstable();
        let mut text = String::new();
        for pair in pairs {
            if text.len() + pair.len() + 2 > MAX_HEADER_BYTES {
                break;
            }
            if !text.is_empty() {
                text.push_str("; ");
            }
            text.push_str(&pair);
        }
        let mut value = HeaderValue::from_str(&text)
            .ok()
            .filter(|value| !value.is_empty())?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Keeps those cookies of a response from `url` that it is allowed to set.
    pub(crate) fn keep(&self, url: &Url, headers: &HeaderMap) {
        let set = headers
            .get_all(SET_COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .filter(|text| text.len() <= MAX_COOKIE_BYTES);
        for text in set.take(MAX_PER_ANSWER) {
            if let Ok(cookie) = RawCookie::parse(text)
                && let Some(cookie) = acceptable(cookie.into_owned(), url)
            {
                self.insert(&cookie, url);
            }
        }
    }

    fn insert(&self, cookie: &RawCookie<'static>, url: &Url) {
        let mut store = self.store.lock();
        let domain = cookie
            .domain()
            .map_or_else(
                || url.host_str().unwrap_or_default(),
                |domain| domain.trim_start_matches('.'),
            )
            .to_owned();
        let of_domain = store
            .iter_any()
            .filter(|kept| String::from(&kept.domain) == domain)
            .count();
        let is_known = store.contains_any(&domain, cookie.path().unwrap_or("/"), cookie.name());
        if !is_known && (of_domain >= MAX_PER_DOMAIN || store.iter_any().count() >= MAX_COOKIES) {
            return;
        }
        // The store refuses a cookie of another site's domain or with an invalid path. It is then
        // not kept.
        let _ = store.insert_raw(cookie, url);
    }
}

/// Returns the cookie in the form in which it is kept, or `None` if the response may not set it.
fn acceptable(mut cookie: RawCookie<'static>, url: &Url) -> Option<RawCookie<'static>> {
    let host = url.host_str()?.to_ascii_lowercase();
    let secure = cookie.secure() == Some(true);
    if secure && url.scheme() != "https" {
        return None;
    }
    // The rules for these prefixes of names are those of RFC 6265bis section 4.1.3.
    if cookie.name().starts_with("__Secure-") && !secure {
        return None;
    }
    if cookie.name().starts_with("__Host-")
        && !(secure && cookie.domain().is_none() && cookie.path() == Some("/"))
    {
        return None;
    }
    let domain = cookie
        .domain()
        .map(|domain| domain.trim_start_matches('.').to_ascii_lowercase());
    match domain {
        Some(domain) if is_public_suffix(&domain) => {
            if domain != host {
                return None;
            }
            // RFC 6265 section 5.3, step 5: the cookie is kept for this host only.
            cookie.unset_domain();
        }
        // A public suffix such as `*.kobe.jp` has separate sites below `kobe.jp`, so the cookie
        // would reach other sites.
        Some(domain) if psl::domain_str(&domain) != psl::domain_str(&host) => return None,
        _ => {}
    }
    Some(cookie)
}

/// Returns whether `domain` is a public suffix, below which anyone may register names.
fn is_public_suffix(domain: &str) -> bool {
    !domain.contains('.') || psl::suffix_str(domain) == Some(domain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn set(jar: &CookieJar, at: &str, cookies: &[&str]) {
        let headers = cookies
            .iter()
            .map(|text| (SET_COOKIE, HeaderValue::from_str(text).unwrap()))
            .collect();
        jar.keep(&url(at), &headers);
    }

    fn sent(jar: &CookieJar, to: &str) -> String {
        jar.header(&url(to))
            .map(|value| value.to_str().unwrap().to_owned())
            .unwrap_or_default()
    }

    #[test]
    fn cookies_go_back_to_their_site_and_no_other() {
        let jar = CookieJar::new();
        set(
            &jar,
            "https://www.pub.example/a",
            &[
                "host=1",
                "site=2; Domain=pub.example",
                "other=3; Domain=other.example",
                "up=4; Domain=example",
            ],
        );
        assert_eq!(sent(&jar, "https://www.pub.example/b"), "host=1; site=2");
        assert_eq!(sent(&jar, "https://idp.pub.example/"), "site=2");
        assert_eq!(sent(&jar, "https://other.example/"), "");
        assert_eq!(sent(&jar, "https://notpub.example/"), "");
    }

    #[test]
    fn a_cookie_for_the_parent_domain_is_sent_there_however_it_is_written() {
        for (domain, is_sent) in [
            ("Domain=pub.example", true),
            ("domain=.pub.example", true),
            ("DOMAIN=PUB.Example", true),
            ("Domain = pub.example", true),
            ("Domain=www.pub.example; Domain=pub.example", true),
            ("Domain=; Path=/", false),
            ("Domain=www.pub.example", false),
        ] {
            let jar = CookieJar::new();
            let cookie = format!("a=1; {domain}; Path=/; Expires=Thu, 01-Jan-2099 00:00:00 GMT");
            set(&jar, "https://www.pub.example/a/b", &[&cookie]);
            let expected = if is_sent { "a=1" } else { "" };
            assert_eq!(
                sent(&jar, "https://pub.example/f.pdf"),
                expected,
                "{domain}"
            );
            assert_eq!(sent(&jar, "https://www.pub.example/"), "a=1", "{domain}");
        }
    }

    #[test]
    fn no_site_sets_a_cookie_for_a_public_suffix() {
        let jar = CookieJar::new();
        set(
            &jar,
            "https://evil.co.uk/",
            &["a=1; Domain=co.uk", "b=2; Domain=.co.uk"],
        );
        set(&jar, "https://evil.github.io/", &["c=3; Domain=github.io"]);
        for suffix in ["xn--55qx5d.cn", "co.uk.", ".CO.UK", "kobe.jp", "a.kobe.jp"] {
            let jar = CookieJar::new();
            let name = suffix.trim_matches('.').to_ascii_lowercase();
            let cookie = format!("d=4; Domain={suffix}");
            set(&jar, &format!("https://evil.{name}/"), &[&cookie]);
            assert_eq!(sent(&jar, &format!("https://bank.{name}/")), "", "{suffix}");
        }
        assert_eq!(
            sent(&jar, "https://bank.co.uk/")
                + &sent(&jar, "https://good.github.io/")
                + &sent(&jar, "https://evil.co.uk/"),
            ""
        );
        set(&jar, "https://github.io/", &["own=1; Domain=github.io"]);
        assert_eq!(
            (
                sent(&jar, "https://github.io/"),
                sent(&jar, "https://x.github.io/")
            ),
            ("own=1".to_owned(), String::new())
        );
    }

    #[test]
    fn cookie_of_a_domain_is_sent_to_its_hosts_alone() {
        let jar = CookieJar::new();
        let cookie = "ticket=1; Domain=pub.example; Secure";
        set(&jar, "https://www.pub.example/article", &[cookie]);
        for (to, expected) in [
            ("https://pub.example/a.pdf", "ticket=1"),
            ("https://pdf.pub.example/a.pdf", "ticket=1"),
            ("https://a.b.pub.example/a.pdf", "ticket=1"),
            ("https://PDF.Pub.Example:8443/a.pdf", "ticket=1"),
            ("http://pdf.pub.example/a.pdf", ""),
            ("https://notpub.example/a.pdf", ""),
            ("https://pub.example.other.example/a.pdf", ""),
            ("https://example/", ""),
        ] {
            assert_eq!(sent(&jar, to), expected, "{to}");
        }
        // A part of an IP address is not a domain.
        let cookies = ["part=1; Domain=0.0.1", "own=2; Domain=127.0.0.1"];
        set(&jar, "http://127.0.0.1/", &cookies);
        assert_eq!(sent(&jar, "http://9.0.0.1/"), "");
        assert_eq!(sent(&jar, "http://127.0.0.1/"), "own=2");
    }

    #[test]
    fn secure_path_prefixes_and_expiry_are_obeyed() {
        let jar = CookieJar::new();
        set(
            &jar,
            "https://a.example/p/q",
            &[
                "s=1; Secure; HttpOnly",
                "deep=2; Path=/p",
                "old=3; Max-Age=0",
                "__Host-x=4; Secure; Path=/; Domain=a.example",
            ],
        );
        set(
            &jar,
            "http://a.example/",
            &["forged=5; Secure", "__Secure-y=6"],
        );
        assert_eq!(sent(&jar, "https://a.example/p/r"), "deep=2; s=1");
        assert_eq!(sent(&jar, "http://a.example/p/r"), "deep=2");
        assert_eq!(sent(&jar, "https://a.example/"), "");
        set(
            &jar,
            "https://a.example/p/q",
            &["deep=2; Path=/p; Max-Age=0"],
        );
        assert_eq!(sent(&jar, "https://a.example/p/r"), "s=1");
    }

    #[test]
    fn a_jar_is_bounded_and_shows_nothing() {
        let jar = CookieJar::new();
        for n in 0..200 {
            set(&jar, "https://a.example/", &[&format!("n{n}=secret-value")]);
        }
        assert_eq!(
            sent(&jar, "https://a.example/").split("; ").count(),
            MAX_PER_DOMAIN
        );
        set(
            &jar,
            "https://b.example/",
            &[&format!("big={}", "x".repeat(MAX_COOKIE_BYTES))],
        );
        assert_eq!(sent(&jar, "https://b.example/"), "");
        assert!(
            jar.header(&url("https://a.example/"))
                .unwrap()
                .is_sensitive()
        );
        assert!(!format!("{jar:?}").contains("secret"));
    }
}
