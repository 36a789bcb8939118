//! Malformed headers, rates, hosts and URLs: read in bounded time, or refused.

use docstokg_policy::time::Timestamp;
use proptest::prelude::*;

use crate::parsers::{
    read_date, read_host_and_url, read_rate_headers, read_rates, read_retry_after, read_robots,
};

/// Parts of dates, numbers and rates, in any order.
fn parts() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("Fri, ".to_owned()),
        Just("31 Dec 1999 ".to_owned()),
        Just("23:59:60 GMT".to_owned()),
        Just("-".to_owned()),
        Just("/SECOND".to_owned()),
        Just("/3HOUR".to_owned()),
        Just("+".to_owned()),
        Just("\u{0}\u{fc}".to_owned()),
        "[0-9]{1,25}",
        ".{0,4}",
    ];
    prop::collection::vec(part, 0..6).prop_map(|parts| parts.concat())
}

/// Parts of the values of rate headers, in any order.
fn rate_value() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("\"default\"".to_owned()),
        Just(";q=".to_owned()),
        Just(";w=".to_owned()),
        Just(";r=".to_owned()),
        Just(";t=".to_owned()),
        Just(";qu=\"concurrent-requests\"".to_owned()),
        Just(";pk=:a2V5:".to_owned()),
        Just("limit=".to_owned()),
        Just(", ".to_owned()),
        Just("Mon, 16 Nov 2026 12:01:00 GMT".to_owned()),
        Just("1s".to_owned()),
        "[0-9]{1,25}",
        "[0-9]{1,3}(\\.[0-9]{1,8})?",
        "[ -~\u{e9}]{0,3}",
    ];
    prop::collection::vec(part, 0..9).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn rate_headers_are_read_or_ignored(
        lines in prop::collection::vec(
            (
                "(ratelimit(-policy)?|date|x-concurrency-limit|\
                  (x-)?rate-?limit-(limit|remaining|reset|used|interval|resource)|\
                  x-ratelimit-(reset-after|credits-used))",
                rate_value(),
            ),
            0..8,
        ),
    ) {
        let line = |(name, value): &(String, String)| format!("{name}: {value}");
        let lines: Vec<_> = lines.iter().map(line).collect();
        read_rate_headers(&lines.join("\n"));
    }

    #[test]
    fn waits_and_dates_are_read_or_ignored(
        value in parts(),
        date in prop::option::of(parts()),
        now in -1_000_000_000_000_000_i64..5_000_000_000_000_000,
    ) {
        read_retry_after(&value, date.as_deref(), Timestamp::from_micros(now));
        read_date(&value);
    }

    #[test]
    fn rates_are_read_or_refused_in_a_sentence(text in parts()) {
        read_rates(&text);
    }

    #[test]
    fn hosts_and_urls_of_any_spelling_have_one_form(
        text in "(https?://)?[a-z0-9.:@%\\[\\]\u{e9}\u{3002}-]{0,30}(/[ -~]{0,20})?",
    ) {
        read_host_and_url(&text);
    }

    #[test]
    fn robots_files_of_any_bytes_are_read(
        lines in prop::collection::vec(
            "((user-agent|allow|disallow|crawl-delay|sitemap)[ :]{0,3})?[ -~\u{e9}*$%]{0,20}",
            0..12,
        ),
        tail in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let mut bytes = lines.join("\n").into_bytes();
        bytes.extend(tail);
        read_robots(&bytes);
    }
}

#[test]
fn values_of_any_depth_and_length_are_read_or_ignored() {
    for part in [
        "(",
        "a=(",
        "\"",
        ";q=",
        "a;",
        ":",
        "?1,",
        "limit=",
        "10/SECOND+",
        "1s;w=",
    ] {
        let value = part.repeat(100_000);
        for name in ["RateLimit", "RateLimit-Policy", "X-RateLimit-Limit"] {
            read_rate_headers(&format!("{name}: {value}"));
        }
        read_retry_after(&value, None, Timestamp::from_micros(0));
        read_date(&value);
        read_rates(&value);
        read_robots(value.as_bytes());
    }
}
