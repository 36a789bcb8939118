//! Entry functions of the parsers of foreign text, for the property tests here and for the targets
//! of `fuzz/`: each panics where a rule is broken.

use docstokg_policy::canonical::{for_index, for_request};
use docstokg_policy::host::Host;
use docstokg_policy::rate::{format_rates, parse_rates};
use docstokg_policy::retry_after::{format_http_date, http_date, parse_retry_after};
use docstokg_policy::robots::Robots;
use docstokg_policy::role::Role;
use docstokg_policy::time::Timestamp;
use url::Url;

/// Reads `Retry-After`, with or without a `Date` header.
pub(crate) fn read_retry_after(value: &str, date: Option<&str>, now: Timestamp) {
    let _ = parse_retry_after(value, date, now);
}

/// Reads an HTTP date. One that is read can be written, and read again.
pub(crate) fn read_date(value: &str) {
    if let Some(at) = http_date(value) {
        assert!(http_date(&format_http_date(at)).is_some(), "{value}");
    }
}

/// Reads rates. Those that are read can be written, and are the same when read again.
pub(crate) fn read_rates(text: &str) {
    match parse_rates(text) {
        Ok(windows) => {
            let again = parse_rates(&format_rates(&windows));
            assert_eq!(again.as_ref(), Ok(&windows), "{text}");
        }
        Err(error) => assert!(!error.to_string().is_empty(), "{text}"),
    }
}

/// Reads a host or a URL. A URL in its canonical form stays as it is.
pub(crate) fn read_host_and_url(text: &str) {
    let _ = Host::parse(text);
    if let Ok(url) = Url::parse(text) {
        let _ = (Host::of(&url), for_request(&url, Role::Metadata));
        let once = for_index(&url);
        assert_eq!(for_index(&once), once, "{url}");
    }
}

/// Reads a robots.txt, and asks for its rules and its crawl delay.
pub(crate) fn read_robots(bytes: &[u8]) {
    let robots = Robots::parse(bytes);
    for path in ["/", "/robots.txt", "/a/b.pdf?c=d", "/%7Ea%2F", ""] {
        let _ = robots.allows("docstokg", path);
    }
    let _ = robots.crawl_delay("docstokg");
}
