//! Header fields on their way through the gateway: pure.

use std::fmt::Write as _;
use std::time::Duration;

use docstokg_hub::policy::freshness::is_hop_by_hop;
use docstokg_hub::{CacheUse, Journey};
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HOST, VIA};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Version};

use super::{NAME, access};

/// What the request is for, as `docstokg fetch --role`.
pub(super) const ROLE: HeaderName = HeaderName::from_static("docstokg-role");
/// The resolver that it belongs to, as `docstokg fetch --resolver`.
pub(super) const RESOLVER: HeaderName = HeaderName::from_static("docstokg-resolver");

const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// Removes the fields that are about one connection (RFC 9110 section 7.6.1).
fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let listed: Vec<HeaderName> = headers
        .keys()
        .filter(|name| is_hop_by_hop(name))
        .cloned()
        .collect();
    for name in named.into_iter().chain(listed) {
        headers.remove(name);
    }
}

fn add_via(headers: &mut HeaderMap, version: Version) {
    let version = if version == Version::HTTP_10 {
        "1.0"
    } else if version == Version::HTTP_2 {
        "2"
    } else {
        "1.1"
    };
    if let Ok(value) = HeaderValue::from_str(&format!("{version} {NAME}")) {
        headers.append(VIA, value);
    }
}

/// Makes the fields of a client's request those of the request to the origin.
pub(super) fn outgoing(headers: &mut HeaderMap, version: Version) {
    strip_hop_by_hop(headers);
    access::strip(headers);
    // The transport sets the first two by the URL and the body; the server has answered the third.
    for name in [HOST, CONTENT_LENGTH, EXPECT, ROLE, RESOLVER] {
        headers.remove(name);
    }
    add_via(headers, version);
}

/// Whether the cache takes an answer on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    Yes,
    No,
}

/// Makes the fields of an answer those that the client gets.
pub(super) fn incoming(
    headers: &mut HeaderMap,
    version: Version,
    method: &Method,
    journey: &Journey,
    stored: Stored,
) {
    strip_hop_by_hop(headers);
    add_via(headers, version);
    let status = cache_status(method, journey.cache, stored);
    for (name, value) in [
        (CACHE_STATUS, status),
        (SERVER_TIMING, server_timing(journey)),
    ] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.append(name, value);
        }
    }
}

/// Says what the cache did (RFC 9211).
fn cache_status(method: &Method, used: CacheUse, stored: Stored) -> String {
    let is_cached = *method == Method::GET || *method == Method::HEAD;
    let mut status = match used {
        CacheUse::Hit { .. } => format!("{NAME}; hit"),
        CacheUse::Stale { reason, .. } => format!("{NAME}; hit; detail=stale-{}", reason.as_str()),
        CacheUse::Revalidated => format!("{NAME}; hit; fwd=stale; fwd-status=304"),
        CacheUse::None | CacheUse::Stored if is_cached => format!("{NAME}; fwd=miss"),
        CacheUse::None | CacheUse::Stored => format!("{NAME}; fwd=method"),
    };
    if stored == Stored::Yes || used == CacheUse::Stored {
        status.push_str("; stored");
    }
    status
}

/// Says what a request waited for, in milliseconds.
pub(super) fn server_timing(journey: &Journey) -> String {
    let mut timing = String::new();
    for (name, took) in [
        ("rate", journey.rate_delay),
        ("slot", journey.slot_wait),
        ("breaker", journey.breaker_wait),
        ("origin", journey.header_time),
        ("total", journey.elapsed),
    ] {
        if took > Duration::ZERO || name == "total" {
            let separator = if timing.is_empty() { "" } else { ", " };
            // Writing to a string does not fail.
            let _ = write!(
                timing,
                "{separator}{name};dur={:.1}",
                took.as_secs_f64() * 1e3
            );
        }
    }
    timing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, value.parse().unwrap());
        }
        headers
    }

    fn shown(headers: &HeaderMap) -> Vec<String> {
        let lines = headers.iter();
        let lines = lines.map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
        let mut lines: Vec<String> = lines.collect();
        lines.sort();
        lines
    }

    #[test]
    fn fields_of_the_connection_and_of_the_gateway_do_not_travel() {
        let mut sent = headers(&[
            ("connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authorization", "Basic eDp5"),
            ("docstokg-token", "secret"),
            ("docstokg-role", "artifact"),
            ("docstokg-resolver", "crossref"),
            ("host", "a.org"),
            ("content-length", "3"),
            ("expect", "100-continue"),
            ("authorization", "Bearer for-the-origin"),
            ("x-unknown", "stays"),
            ("x-unknown", "twice"),
        ]);
        outgoing(&mut sent, Version::HTTP_11);
        assert_eq!(
            shown(&sent),
            [
                "authorization: Bearer for-the-origin",
                "via: 1.1 docstokg",
                "x-unknown: stays",
                "x-unknown: twice",
            ]
        );
    }

    #[test]
    fn an_answer_says_what_the_cache_did_and_what_was_waited_for() {
        let journey = |cache| Journey {
            rate_delay: Duration::from_millis(1500),
            header_time: Duration::from_micros(20_250),
            elapsed: Duration::from_millis(1521),
            cache,
            ..Journey::default()
        };
        let mut got = headers(&[("cache-status", "other; hit"), ("connection", "close")]);
        let asked = journey(CacheUse::None);
        incoming(&mut got, Version::HTTP_2, &Method::GET, &asked, Stored::Yes);
        assert_eq!(
            shown(&got),
            [
                "cache-status: docstokg; fwd=miss; stored",
                "cache-status: other; hit",
                "server-timing: rate;dur=1500.0, origin;dur=20.2, total;dur=1521.0",
                "via: 2 docstokg",
            ]
        );
        let age = Duration::from_secs(3);
        let status = |used| cache_status(&Method::GET, used, Stored::No);
        assert_eq!(status(CacheUse::Hit { age }), "docstokg; hit");
        assert_eq!(
            status(CacheUse::Stale {
                age,
                reason: docstokg_hub::StaleReason::Error
            }),
            "docstokg; hit; detail=stale-error"
        );
        let posted = cache_status(&Method::POST, CacheUse::None, Stored::No);
        assert_eq!(posted, "docstokg; fwd=method");
    }
}
