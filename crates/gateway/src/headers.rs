//! Header fields of requests and responses that pass the gateway. Pure functions, without I/O.

use std::fmt::Write as _;
use std::time::Duration;

use docstokg_hub::policy::freshness::{connection_options, is_hop_by_hop};
use docstokg_hub::{CacheUse, ForwardReason, Journey, is_credential};
use http::header::{
    CONTENT_LENGTH, CONTENT_SECURITY_POLICY, EXPECT, HOST, LOCATION, MAX_FORWARDS,
    TRANSFER_ENCODING, VIA,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Version};

use crate::{NAME, access};

/// The field in which a client declares the role of its request, like `docstokg fetch --role`.
pub(crate) const ROLE: HeaderName = HeaderName::from_static("docstokg-role");
/// The field in which a client names the resolver that the request belongs to, like `docstokg fetch
/// --resolver`.
pub(crate) const RESOLVER: HeaderName = HeaderName::from_static("docstokg-resolver");

const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
pub(crate) const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// Response fields that affect a whole origin in a browser, such as cookies or service workers. A
/// browser that requests `http://GATEWAY/https://host/path` takes all sites for one origin, the
/// gateway. These fields would apply to every site there, so they are removed.
const OF_AN_ORIGIN: [&str; 23] = [
    "accept-ch",
    "accept-ch-lifetime",
    "activate-storage-access",
    "alt-svc",
    "clear-site-data",
    "critical-ch",
    "delegate-ch",
    "expect-ct",
    "login-status",
    "nel",
    "origin-agent-cluster",
    "origin-trial",
    "public-key-pins",
    "report-to",
    "reporting-endpoints",
    "sec-session-registration",
    "service-worker-allowed",
    "set-cookie",
    "set-cookie2",
    "set-login",
    "strict-transport-security",
    "use-as-dictionary",
    "www-authenticate",
];

/// The server that responds to a TRACE or OPTIONS request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TraceReach {
    /// The gateway itself responds.
    Gateway,
    /// The origin responds.
    Origin,
}

/// Returns the [`TraceReach`] of a request, that is, the server that responds to it, and decrements
/// `Max-Forwards` in the headers (RFC 9110 section 7.6.2). A number that cannot be read is ignored.
pub(crate) fn spend_forward(method: &Method, headers: &mut HeaderMap) -> TraceReach {
    if ![Method::TRACE, Method::OPTIONS].contains(method) {
        return TraceReach::Origin;
    }
    let stated = headers
        .get(MAX_FORWARDS)
        .and_then(|value| value.to_str().ok());
    let is_number = |text: &&str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let Some(text) = stated.map(str::trim).filter(is_number) else {
        return TraceReach::Origin;
    };
    // A number too large for `u64` cannot be used up by a real chain of proxies.
    match text.parse().unwrap_or(u64::MAX) {
        0 => TraceReach::Gateway,
        left => {
            headers.insert(MAX_FORWARDS, HeaderValue::from(left - 1));
            TraceReach::Origin
        }
    }
}

/// Returns the text of a request as the gateway received it, without credentials: the response to
/// TRACE (RFC 9110 section 9.3.8).
pub(crate) fn trace(line: &str, headers: &HeaderMap) -> Vec<u8> {
    let mut text = format!("{line}\r\n").into_bytes();
    let is_shown = |(name, value): &(&HeaderName, &HeaderValue)| !is_credential(name, value);
    for (name, value) in headers.iter().filter(is_shown) {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            text.extend_from_slice(part);
        }
    }
    text.extend_from_slice(b"\r\n");
    text
}

/// Removes the fields that apply to a single connection (RFC 9110 section 7.6.1).
fn strip_hop_by_hop(headers: &mut HeaderMap) {
    // Beside a transfer coding, `Content-Length` is not the length of the body (RFC 9112 section
    // 6.3).
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
    let named = connection_options(headers);
    remove_where(headers, |name| is_hop_by_hop(name) || named.contains(name));
}

/// Removes all fields whose names `is_unwanted` selects.
fn remove_where(headers: &mut HeaderMap, is_unwanted: impl Fn(&HeaderName) -> bool) {
    let unwanted = headers.keys().filter(|name| is_unwanted(name));
    let unwanted: Vec<HeaderName> = unwanted.cloned().collect();
    for name in unwanted {
        headers.remove(name);
    }
}

fn add_via(headers: &mut HeaderMap, version: Version, name: &str) {
    let version = if version == Version::HTTP_10 {
        "1.0"
    } else if version == Version::HTTP_2 {
        "2"
    } else {
        "1.1"
    };
    if let Ok(value) = HeaderValue::from_str(&format!("{version} {name}")) {
        headers.append(VIA, value);
    }
}

/// Returns whether a request has already passed through the gateway that `name` identifies in
/// `Via`.
pub(crate) fn has_passed(headers: &HeaderMap, name: &str) -> bool {
    let lines = headers.get_all(VIA).iter();
    let texts = lines.filter_map(|line| line.to_str().ok());
    let mut hops = texts.flat_map(|line| line.split(','));
    hops.any(|hop| hop.split_whitespace().nth(1) == Some(name))
}

/// Converts the fields of a client's request to those for the origin. The gateway adds `name` to
/// `Via`, so that it recognises the request if it comes back.
pub(crate) fn outgoing(headers: &mut HeaderMap, version: Version, name: &str) {
    strip_hop_by_hop(headers);
    access::strip(headers);
    // The transport sets `Host` and `Content-Length` from the URL and the body. The server has
    // already responded to `Expect`.
    remove_where(headers, |name| {
        [HOST, CONTENT_LENGTH, EXPECT].contains(name) || name.as_str().starts_with("docstokg-")
    });
    add_via(headers, version, name);
}

/// Isolates the page in a response from the gateway. A browser sees every page that the gateway
/// returns as part of the gateway's origin. The changed fields let it give the page another origin,
/// so that scripts of the page cannot use the gateway.
pub(crate) fn isolate(headers: &mut HeaderMap) {
    remove_where(headers, |name| {
        let name = name.as_str();
        OF_AN_ORIGIN.contains(&name)
            || name.starts_with("access-control-")
            || name.starts_with("attribution-reporting-")
    });
    headers.append(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
}

/// Replaces https by http in the `Location` of a redirect. The client then sends its next request
/// through the gateway, which fetches the URL by https.
pub(crate) fn downgrade_location(headers: &mut HeaderMap) {
    let location = headers.get(LOCATION).and_then(|value| value.to_str().ok());
    let Some(url) = location.and_then(|text| url::Url::parse(text).ok()) else {
        return;
    };
    if url.scheme() == "https" && url.port().is_none() {
        let mut url = url;
        // Both schemes are special in the URL standard, so that this does not fail.
        let _ = url.set_scheme("http");
        if let Ok(value) = HeaderValue::from_str(url.as_str()) {
            headers.insert(LOCATION, value);
        }
    }
}

/// The decision whether the cache stores a response while the response is relayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResponseStorage {
    Yes,
    No,
}

/// Converts the fields of a response to those for the client.
pub(crate) fn incoming(
    headers: &mut HeaderMap,
    version: Version,
    journey: &Journey,
    stored: ResponseStorage,
) {
    strip_hop_by_hop(headers);
    add_via(headers, version, NAME);
    let status = cache_status(journey, stored);
    for (name, value) in [
        (CACHE_STATUS, status),
        (SERVER_TIMING, server_timing(journey)),
    ] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.append(name, value);
        }
    }
}

/// Returns the [`CacheUse`] of a response as `Cache-Status` (RFC 9211).
fn cache_status(journey: &Journey, stored: ResponseStorage) -> String {
    let used = journey.cache;
    let mut status = match used {
        CacheUse::Hit { .. } => format!("{NAME}; hit"),
        CacheUse::Stale { reason, .. } => format!("{NAME}; hit; detail=stale-{}", reason.as_str()),
        CacheUse::Revalidated => format!("{NAME}; fwd=stale; fwd-status=304"),
        CacheUse::None | CacheUse::Stored => {
            let forward = journey.forward.unwrap_or(ForwardReason::Miss);
            format!("{NAME}; fwd={}", forward.as_str())
        }
    };
    if stored == ResponseStorage::Yes || used == CacheUse::Stored {
        status.push_str("; stored");
    }
    status
}

/// Returns the waits in a [`Journey`] as `Server-Timing`, in milliseconds.
pub(crate) fn server_timing(journey: &Journey) -> String {
    let mut timing = String::new();
    for (name, took) in [
        ("rate", journey.rate_delay),
        ("slot", journey.slot_wait),
        ("breaker", journey.breaker_wait),
        ("flight", journey.flight_wait),
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
        outgoing(&mut sent, Version::HTTP_11, "docstokg-1");
        assert!(has_passed(&sent, "docstokg-1"));
        assert!(!has_passed(&sent, "docstokg-2"));
        assert_eq!(
            shown(&sent),
            [
                "authorization: Bearer for-the-origin",
                "via: 1.1 docstokg-1",
                "x-unknown: stays",
                "x-unknown: twice",
            ]
        );
    }

    #[test]
    fn a_length_beside_a_transfer_coding_is_dropped() {
        let mut got = headers(&[("transfer-encoding", "chunked"), ("content-length", "3")]);
        strip_hop_by_hop(&mut got);
        assert!(got.is_empty());
    }

    #[test]
    fn what_the_cache_needs_is_no_option_of_a_connection() {
        let mut got = headers(&[
            ("connection", "cache-control, x-hop"),
            ("cache-control", "no-store"),
            ("x-hop", "1"),
        ]);
        strip_hop_by_hop(&mut got);
        assert_eq!(shown(&got), ["cache-control: no-store"]);
    }

    #[test]
    fn a_page_of_another_site_gets_an_origin_of_its_own() {
        let mut got = headers(&[
            ("access-control-allow-origin", "*"),
            ("set-cookie", "session=1"),
            ("set-cookie2", "session=1"),
            ("clear-site-data", "\"*\""),
            ("service-worker-allowed", "/"),
            ("alt-svc", "h2=\"evil.example:443\""),
            ("login-status", "logged-out"),
            ("sec-session-registration", "(ES256); path=\"start\""),
            ("activate-storage-access", "load"),
            ("attribution-reporting-register-source", "{}"),
            ("critical-ch", "sec-ch-ua-model"),
            ("strict-transport-security", "max-age=600"),
            ("www-authenticate", "Basic realm=\"gateway\""),
            ("origin-trial", "token"),
            ("origin-agent-cluster", "?1"),
            ("content-security-policy", "default-src 'self'"),
        ]);
        isolate(&mut got);
        assert_eq!(
            shown(&got),
            [
                "content-security-policy: default-src 'self'",
                "content-security-policy: sandbox",
            ]
        );
    }

    #[test]
    fn the_last_forward_ends_at_the_gateway() {
        for (method, stated, reach, left) in [
            (Method::TRACE, "0", TraceReach::Gateway, "0"),
            (Method::OPTIONS, " 00", TraceReach::Gateway, " 00"),
            (Method::OPTIONS, "1", TraceReach::Origin, "0"),
            (Method::TRACE, "17", TraceReach::Origin, "16"),
            (Method::TRACE, "-1", TraceReach::Origin, "-1"),
            (Method::TRACE, "many", TraceReach::Origin, "many"),
            (
                Method::TRACE,
                "99999999999999999999",
                TraceReach::Origin,
                "18446744073709551614",
            ),
            (Method::GET, "0", TraceReach::Origin, "0"),
        ] {
            let mut sent = headers(&[("max-forwards", stated)]);
            assert_eq!(
                spend_forward(&method, &mut sent),
                reach,
                "{method} {stated}"
            );
            assert_eq!(sent["max-forwards"], left, "{method} {stated}");
        }
        let mut none = HeaderMap::new();
        assert_eq!(spend_forward(&Method::TRACE, &mut none), TraceReach::Origin);
        assert!(none.is_empty());
    }

    #[test]
    fn a_traced_request_shows_no_credentials() {
        let sent = headers(&[
            ("host", "a.org"),
            ("private-token", "SECRET"),
            ("cookie", "SECRET"),
            ("docstokg-token", "SECRET"),
            ("x-odd", "yes"),
        ]);
        let text = String::from_utf8(trace("TRACE /x HTTP/1.1", &sent)).unwrap();
        assert_eq!(
            text,
            "TRACE /x HTTP/1.1\r\nhost: a.org\r\nx-odd: yes\r\n\r\n"
        );
    }

    #[test]
    fn redirects_to_https_lead_back_to_a_gateway_that_upgrades() {
        for (stated, passed) in [
            ("https://a.org/x?y=1", "http://a.org/x?y=1"),
            ("https://a.org:8443/x", "https://a.org:8443/x"),
            ("http://a.org/x", "http://a.org/x"),
            ("/x", "/x"),
        ] {
            let mut got = headers(&[("location", stated)]);
            downgrade_location(&mut got);
            assert_eq!(got["location"], passed);
        }
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
        incoming(&mut got, Version::HTTP_2, &asked, ResponseStorage::Yes);
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
        let status = |used| cache_status(&journey(used), ResponseStorage::No);
        assert_eq!(status(CacheUse::Hit { age }), "docstokg; hit");
        assert_eq!(
            status(CacheUse::Stale {
                age,
                reason: docstokg_hub::StaleReason::Error
            }),
            "docstokg; hit; detail=stale-error"
        );
        for (forward, expected) in [
            (ForwardReason::Method, "docstokg; fwd=method"),
            (ForwardReason::Stale, "docstokg; fwd=stale"),
            (ForwardReason::Bypass, "docstokg; fwd=bypass"),
            (ForwardReason::Request, "docstokg; fwd=request"),
            (ForwardReason::Miss, "docstokg; fwd=miss"),
        ] {
            let asked = Journey {
                forward: Some(forward),
                ..journey(CacheUse::None)
            };
            assert_eq!(cache_status(&asked, ResponseStorage::No), expected);
        }
    }
}
