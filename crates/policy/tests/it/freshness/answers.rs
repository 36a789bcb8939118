//! RFC 9111 section 4.3.2, RFC 9110 sections 13 and 14: conditions, ranges and HEAD answered from
//! a stored response.

use std::time::Duration;

use docstokg_policy::freshness::{ByteRange, CacheRequest, ServedPart, StoredResponse, answer};
use http::{HeaderMap, Method, StatusCode};

use super::{PRIVATE, fields, get, stored};

const TAGGED: [&str; 4] = [
    "cache-control: max-age=60",
    "etag: \"a,b\"",
    "last-modified: @-100",
    "content-type: text/plain",
];

fn tagged() -> StoredResponse {
    stored(&PRIVATE, 200, &TAGGED)
}

#[test]
fn the_callers_own_conditions_are_answered_with_304() {
    let dated = stored(&PRIVATE, 200, &["cache-control: max-age=60", "date: @0"]);
    let weak = stored(
        &PRIVATE,
        200,
        &["cache-control: max-age=60", "etag: W/\"w\""],
    );
    let odd = stored(&PRIVATE, 200, &["cache-control: max-age=60", "etag: bare"]);
    for (held, asked, expected) in [
        (&tagged(), &["if-none-match: \"a,b\""][..], true),
        (&tagged(), &["if-none-match: W/\"a,b\""], true),
        (&tagged(), &["if-none-match: \"x\", \"a,b\" , \"y\""], true),
        (
            &tagged(),
            &["if-none-match: \"x\"", "if-none-match: \"a,b\""],
            true,
        ),
        (&tagged(), &["if-none-match: *"], true),
        (&tagged(), &["if-none-match: \"a\""], false),
        (&tagged(), &["if-none-match: a,b"], false),
        (&tagged(), &["if-none-match: \"a,b"], false),
        (
            &tagged(),
            &["if-none-match: \"x\"", "if-modified-since: @0"],
            false,
        ),
        (
            &tagged(),
            &["if-none-match: \"a,b\"", "if-modified-since: @-900"],
            true,
        ),
        (&tagged(), &["if-modified-since: @-100"], true),
        (&tagged(), &["if-modified-since: @-50"], true),
        (&tagged(), &["if-modified-since: @-101"], false),
        (&tagged(), &["if-modified-since: yesterday"], false),
        (
            &tagged(),
            &["if-modified-since: @0", "if-modified-since: @1"],
            false,
        ),
        (&weak, &["if-none-match: \"w\""], true),
        (&weak, &["if-none-match: w/\"w\""], false),
        (&odd, &["if-none-match: bare"], false),
        (&odd, &["if-none-match: \"bare\""], false),
        (&dated, &["if-modified-since: @0"], true),
        (&dated, &["if-modified-since: @-1"], false),
        (&dated, &["if-none-match: \"x\""], false),
    ] {
        let asked = fields(asked);
        let expected = if expected {
            ServedPart::NotModified
        } else {
            ServedPart::Whole
        };
        assert_eq!(
            answer(get(&asked), held, 10),
            expected,
            "{asked:?} of {held:?}"
        );
    }
}

#[test]
fn ranges_are_served_from_the_whole() {
    let part = |first, last| ServedPart::Part {
        range: ByteRange { first, last },
        length: 10,
    };
    for (asked, expected) in [
        (&["range: bytes=2-4"][..], part(2, 4)),
        (&["range: bytes=-3"], part(7, 9)),
        (
            &["range: bytes=10-"],
            ServedPart::Unsatisfiable { length: 10 },
        ),
        (&["range: bytes=0-1, 4-5"], ServedPart::Whole),
        (&["range: bytes=2-4", "range: bytes=2-4"], ServedPart::Whole),
        (&["range: bytes=2-4", "if-range: \"a,b\""], part(2, 4)),
        (
            &["range: bytes=2-4", "if-range: W/\"a,b\""],
            ServedPart::Whole,
        ),
        (&["range: bytes=2-4", "if-range: \"x\""], ServedPart::Whole),
        (&["range: bytes=2-4", "if-range: @-100"], part(2, 4)),
        (&["range: bytes=2-4", "if-range: @-99"], ServedPart::Whole),
        (&["range: bytes=99-", "if-range: \"x\""], ServedPart::Whole),
        (
            &["range: bytes=2-4", "if-none-match: \"a,b\""],
            ServedPart::NotModified,
        ),
        (&["range: bytes=2-4", "if-none-match: \"x\""], part(2, 4)),
    ] {
        let asked = fields(asked);
        assert_eq!(answer(get(&asked), &tagged(), 10), expected, "{asked:?}");
    }
    // A date as old as the answer itself is a weak validator.
    let new = stored(
        &PRIVATE,
        200,
        &["cache-control: max-age=60", "last-modified: @0", "date: @0"],
    );
    let asked = fields(&["range: bytes=2-4", "if-range: @0"]);
    assert_eq!(answer(get(&asked), &new, 10), ServedPart::Whole);
    let missing = stored(&PRIVATE, 404, &TAGGED);
    let asked = fields(&["range: bytes=2-4", "if-none-match: \"a,b\""]);
    assert_eq!(
        answer(get(&asked), &missing, 10),
        ServedPart::Whole,
        "conditions are for successes"
    );
}

#[test]
fn head_is_answered_without_a_body_and_without_ranges() {
    let head = |lines: &[&str]| {
        let (method, headers) = (&Method::HEAD, &fields(lines));
        answer(CacheRequest { method, headers }, &tagged(), 10)
    };
    assert_eq!(head(&[]), ServedPart::HeadOnly);
    assert_eq!(head(&["range: bytes=2-4"]), ServedPart::HeadOnly);
    assert_eq!(head(&["if-none-match: \"a,b\""]), ServedPart::NotModified);
}

#[test]
fn heads_have_the_fields_of_their_status() {
    let age = Duration::from_millis(7_900);
    let held = tagged();
    let text = |headers: &HeaderMap, name: &str| {
        headers
            .get(name)
            .map(|value| value.to_str().expect("text").to_owned())
    };
    let (status, headers) = held.head(ServedPart::Whole, age);
    assert_eq!(
        (status, text(&headers, "age")),
        (StatusCode::OK, Some("7".to_owned()))
    );
    let (status, headers) = held.head(ServedPart::NotModified, age);
    assert_eq!(status, StatusCode::NOT_MODIFIED);
    assert!(headers.contains_key("etag") && headers.contains_key("date"));
    assert!(!headers.contains_key("content-type"));
    let range = ByteRange { first: 2, last: 4 };
    let (status, headers) = held.head(ServedPart::Part { range, length: 10 }, age);
    assert_eq!(status, StatusCode::PARTIAL_CONTENT);
    assert_eq!(
        text(&headers, "content-range"),
        Some("bytes 2-4/10".to_owned())
    );
    assert_eq!(text(&headers, "content-length"), Some("3".to_owned()));
    let (status, headers) = held.head(ServedPart::Unsatisfiable { length: 10 }, age);
    assert_eq!(status, StatusCode::RANGE_NOT_SATISFIABLE);
    assert_eq!(
        text(&headers, "content-range"),
        Some("bytes */10".to_owned())
    );
    assert_eq!(text(&headers, "content-length"), Some("0".to_owned()));
}
