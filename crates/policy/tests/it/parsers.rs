//! Entry functions of the parsers of foreign text, for the property tests here and for the targets
//! of `fuzz/`: each panics where a rule is broken.

use docstokg_policy::canonical::{for_index, for_request};
use docstokg_policy::host::Host;
use docstokg_policy::rate::{format_rates, parse_rates};
use docstokg_policy::rate_headers::{
    MAX_QUOTAS, MAX_RESET, MAX_WINDOW, MIN_WINDOW, RateHeaderHints, ResetForm, Trust, read, tighten,
};
use docstokg_policy::retry_after::{format_http_date, http_date, parse_retry_after};
use docstokg_policy::robots::Robots;
use docstokg_policy::role::Role;
use docstokg_policy::time::Timestamp;
use http::{HeaderMap, HeaderName, HeaderValue};
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

/// When the responses of rate headers are received: noon of 2026-11-16.
pub(crate) const RATE_HEADERS_RECEIVED: Timestamp = Timestamp::from_micros(1_794_830_400_000_000);

/// Makes headers of lines `name: value`. Lines that cannot be headers are left out.
pub(crate) fn header_map(text: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in text.lines() {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let name = HeaderName::from_bytes(name.trim().as_bytes());
        let value = HeaderValue::from_bytes(value.trim().as_bytes());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    headers
}

/// Reads rate headers from lines `name: value`, under each form of a reset. Values are within their
/// caps, and the configured windows stay as strict as they are.
pub(crate) fn read_rate_headers(text: &str) {
    let headers = header_map(text);
    let configured = parse_rates("5/SECOND+500/HOUR").unwrap_or_default();
    for reset in [
        ResetForm::Recognise,
        ResetForm::SecondsLeft,
        ResetForm::EpochSeconds,
        ResetForm::EpochMilliseconds,
    ] {
        let hints = RateHeaderHints {
            reset,
            window: None,
        };
        let reading = read(&headers, RATE_HEADERS_RECEIVED, &hints);
        assert!(reading.quotas.len() <= MAX_QUOTAS, "{text}");
        for quota in &reading.quotas {
            assert!(quota.limit.is_some() || quota.remaining.is_some(), "{text}");
            let window = quota.window.unwrap_or(MAX_WINDOW);
            assert!((MIN_WINDOW..=MAX_WINDOW).contains(&window), "{text}");
            let waits = [
                quota.resets_in,
                quota.gap(0),
                quota.gap(1),
                quota.gap(u32::MAX),
            ];
            assert!(
                waits.iter().flatten().all(|wait| *wait <= MAX_RESET),
                "{text}"
            );
        }
        let tightened = tighten(&configured, &reading, Trust::Tighten);
        for window in &configured {
            let as_strict = tightened
                .iter()
                .any(|other| other.per == window.per && other.limit <= window.limit);
            assert!(as_strict, "{text}");
        }
        let _ = tighten(&configured, &reading, Trust::Raise);
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
