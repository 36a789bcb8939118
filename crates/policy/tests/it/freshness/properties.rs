//! What holds for every input: nothing is fresh for longer than its fields allow, and no bytes
//! make anything panic.

use std::time::Duration;

use docstokg_policy::freshness::{
    CacheExchange, CacheMode, CacheRequest, ExchangeTimes, FreshnessRules, OriginResponse,
    Overrides, ReuseDecision, StorageDecision, StoredResponse, answer, freshen_from_head,
    invalidates, reuse, select, storable, update,
};
use docstokg_policy::time::Timestamp;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use proptest::prelude::*;
use url::Url;

use super::{NOON, after, get, hash};

/// Parts of the values of the fields that a cache reads, in any order.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let words: &[&str] = &[
        "max-age",
        "s-maxage",
        "no-store",
        "no-cache",
        "private",
        "public",
        "must-understand",
        "stale-while-revalidate",
        "stale-if-error",
        "max-stale",
        "min-fresh",
        "only-if-cached",
        "immutable",
        "must-revalidate",
        "=",
        "=\"",
        "\"",
        "\\",
        ",",
        ", ",
        ";",
        "*",
        "W/",
        "bytes",
        "bytes=",
        "-",
        "-1",
        "Mon, 16 Nov 2026 12:00:00 GMT",
        "accept",
        "close",
        "https://a.example/b",
    ];
    let part = prop_oneof![
        4 => prop::sample::select(words).prop_map(|word| word.as_bytes().to_vec()),
        2 => "[0-9]{1,25}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(part, 0..8).prop_map(|parts| parts.concat())
}

fn headers() -> impl Strategy<Value = HeaderMap> {
    let names: &[&str] = &[
        "cache-control",
        "cache-control",
        "cache-control",
        "cdn-cache-control",
        "expires",
        "date",
        "age",
        "vary",
        "etag",
        "last-modified",
        "pragma",
        "authorization",
        "range",
        "if-range",
        "if-none-match",
        "if-modified-since",
        "connection",
        "set-cookie",
        "content-length",
        "content-range",
        "location",
        "content-location",
        "accept",
    ];
    prop::collection::vec((prop::sample::select(names), value()), 0..9).prop_map(|lines| {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                headers.append(HeaderName::from_static(name), value);
            }
        }
        headers
    })
}

fn rules() -> impl Strategy<Value = FreshnessRules> {
    any::<(bool, Option<u64>, Option<u64>)>().prop_map(|(shared, ttl, stale_if_error)| {
        FreshnessRules {
            overrides: Overrides {
                ttl: ttl.map(Duration::from_secs),
                stale_if_error: stale_if_error.map(Duration::from_secs),
                ..Overrides::default()
            },
            ..FreshnessRules::new(if shared {
                CacheMode::Shared
            } else {
                CacheMode::Private
            })
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_make_anything_panic(
        (asked, answered, newer) in (headers(), headers(), headers()),
        rules in rules(),
        (status, length) in (100_u16..1000, any::<u64>()),
        (sent, received, now) in any::<(i64, i64, i64)>(),
        method in prop::sample::select(&["GET", "GET", "HEAD", "POST"][..]),
    ) {
        let time = Timestamp::from_micros;
        let method: Method = method.parse().expect("a method");
        let status = StatusCode::from_u16(status).expect("a status");
        let request = CacheRequest { method: &method, headers: &asked };
        let times = ExchangeTimes { sent: time(sent), received: time(received) };
        let exchange = |headers, status| CacheExchange {
            request,
            response: OriginResponse { status, headers },
            times,
        };
        let url = Url::parse("https://a.example/").expect("a URL");
        let _ = invalidates(&method, status, &answered, &url);
        let _ = reuse(request, None, &rules, time(now));
        for (headers, status) in [(&answered, status), (&answered, StatusCode::OK)] {
            let StorageDecision::Store(stored) = storable(exchange(headers, status), &rules, &hash) else {
                continue;
            };
            let persisted = postcard::to_allocvec(&stored).expect("persisted");
            let read: StoredResponse = postcard::from_bytes(&persisted).expect("read back");
            prop_assert_eq!(&read, &*stored);
            let _ = (stored.stale_at(&rules), stored.is_whole(length));
            let _ = reuse(request, Some(&stored), &rules, time(now));
            prop_assert_eq!(select(request, [&*stored], &hash), Some(0), "its own request selects it");
            let answer = answer(request, &stored, length);
            let _ = stored.head(answer, stored.age(time(now)));
            let mut conditional = asked.clone();
            stored.validators().apply(&mut conditional);
            let _ = update(&stored, exchange(&newer, StatusCode::NOT_MODIFIED), &rules, &hash);
            let _ = freshen_from_head(&stored, exchange(&newer, StatusCode::OK), &rules, &hash);
        }
    }

    #[test]
    fn persisted_bytes_that_are_damaged_are_read_or_refused(
        position in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let stored = super::stored(&super::SHARED, 200, &["cache-control: max-age=60", "vary: a"]);
        let mut bytes = postcard::to_allocvec(&stored).expect("persisted");
        let position = position.index(bytes.len());
        bytes[position] = byte;
        let _ = postcard::from_bytes::<StoredResponse>(&bytes);
        let _ = postcard::from_bytes::<StoredResponse>(&bytes[..cut.index(bytes.len())]);
    }

    /// The bound is read from the text in the most generous way: the greatest number after any
    /// lifetime directive, and the latest date.
    #[test]
    fn nothing_is_fresh_past_the_most_generous_reading_of_its_fields(
        answered in headers(),
        asked in headers(),
        shared in any::<bool>(),
        later in 0_i64..100_000,
    ) {
        let rules = FreshnessRules::new(if shared { CacheMode::Shared } else { CacheMode::Private });
        let first = HeaderMap::new();
        let exchange = CacheExchange {
            request: get(&first),
            response: OriginResponse { status: StatusCode::OK, headers: &answered },
            times: ExchangeTimes { sent: NOON, received: NOON },
        };
        let StorageDecision::Store(stored) = storable(exchange, &rules, &hash) else {
            return Ok(());
        };
        let text = |name: &str| -> String {
            let lines = answered.get_all(name).iter();
            let lines = lines.map(|line| String::from_utf8_lossy(line.as_bytes()).to_lowercase());
            lines.collect::<Vec<_>>().join("\n")
        };
        let control = text("cache-control") + "\n" + &text("cdn-cache-control");
        let mut numbers: Vec<u64> = Vec::new();
        for name in ["max-age=", "s-maxage="] {
            for (at, _) in control.match_indices(name) {
                let digits = control[at + name.len()..].trim_start_matches('"');
                let end = digits.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(digits.len());
                numbers.push(digits[..end].parse().unwrap_or(if end > 0 { u64::MAX } else { 0 }));
            }
        }
        let expires_later = text("expires").contains("mon, 16 nov 2026 12:00:00 gmt");
        let bound = numbers.into_iter().max().unwrap_or(0).max(u64::from(expires_later));
        if let ReuseDecision::Fresh { age } = reuse(get(&asked), Some(&stored), &rules, after(later)) {
            prop_assert!(later.unsigned_abs() < bound, "fresh after {} of {}", later, bound);
            prop_assert!(age >= Duration::from_secs(later.unsigned_abs()));
            let forbidden = ["no-store", "no-cache"];
            let asked_for = asked.get_all("cache-control").iter();
            let mut lines = asked_for.map(|line| String::from_utf8_lossy(line.as_bytes()).to_lowercase());
            let plain = lines.any(|line| forbidden.contains(&line.trim()));
            prop_assert!(!plain, "the request forbids it");
        }
    }
}
