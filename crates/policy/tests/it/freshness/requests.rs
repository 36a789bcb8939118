//! RFC 9111 section 5.2.1 and RFC 8246: what requests ask for.

use super::reusing::at;
use super::{PRIVATE, SHARED};

#[test]
fn section_5_2_1_requests_tighten_and_loosen() {
    const AGE: &str = "cache-control: max-age=100, stale-while-revalidate=50";
    for (answered, asked, second, expected) in [
        (AGE, "cache-control: no-cache", 1, "request-no-cache"),
        (AGE, "pragma: no-cache", 1, "request-no-cache"),
        (AGE, "cache-control: max-age=0", 0, "request-max-age"),
        (AGE, "cache-control: max-age=10", 9, "fresh"),
        (AGE, "cache-control: max-age=10", 11, "request-max-age"),
        (AGE, "cache-control: max-age=ten", 1, "request-max-age"),
        (AGE, "cache-control: min-fresh=90", 9, "fresh"),
        (AGE, "cache-control: min-fresh=90", 11, "request-min-fresh"),
        (AGE, "cache-control: min-fresh=x", 1, "request-min-fresh"),
        (AGE, "cache-control: min-fresh=1", 101, "stale"),
        (AGE, "cache-control: max-age=200", 101, "stale"),
        (AGE, "cache-control: unknown", 101, "stale-at-once"),
        (AGE, "cache-control: no-store", 1, "bypass"),
        (AGE, "cache-control: only-if-cached", 1, "fresh"),
        (AGE, "cache-control: only-if-cached", 101, "stale-at-once"),
        (AGE, "cache-control: only-if-cached", 151, "504"),
        (AGE, "cache-control: only-if-cached, no-cache", 1, "504"),
        (AGE, "cache-control: only-if-cached, no-store", 1, "504"),
        (AGE, "if-match: \"a\"", 1, "bypass"),
        (AGE, "if-unmodified-since: @0", 1, "bypass"),
        (
            "cache-control: max-age=10",
            "cache-control: max-stale",
            99999,
            "stale-at-once",
        ),
        (
            "cache-control: max-age=10",
            "cache-control: max-stale=5",
            15,
            "stale-at-once",
        ),
        (
            "cache-control: max-age=10",
            "cache-control: max-stale=5",
            16,
            "stale",
        ),
        (
            "cache-control: max-age=10",
            "cache-control: max-stale=x",
            11,
            "stale",
        ),
        (
            "cache-control: max-age=10",
            "cache-control: max-stale=9, max-age=12",
            12,
            "stale-at-once",
        ),
        (
            "cache-control: max-age=10",
            "cache-control: max-stale=9, max-age=12",
            13,
            "stale",
        ),
        (
            "cache-control: max-age=10, must-revalidate",
            "cache-control: max-stale",
            11,
            "stale",
        ),
        (
            "cache-control: max-age=10",
            "cache-control: stale-if-error=5",
            14,
            "stale-on-error",
        ),
        (
            "cache-control: max-age=10, stale-if-error=9",
            "cache-control: stale-if-error=5",
            16,
            "stale",
        ),
        (
            "cache-control: max-age=10",
            "cache-control: max-stale, only-if-cached",
            99,
            "stale-at-once",
        ),
    ] {
        let age = "age: 0";
        assert_eq!(
            at(&SHARED, &[answered, age], &[asked], second),
            expected,
            "{answered} {asked} {second}"
        );
    }
}

#[test]
fn rfc_8246_immutable_answers_are_not_validated_on_reload_while_fresh() {
    let answered = ["cache-control: max-age=60, immutable", "etag: \"a\""];
    let reload = ["cache-control: max-age=0"];
    assert_eq!(at(&PRIVATE, &answered, &reload, 10), "fresh");
    assert_eq!(at(&PRIVATE, &answered, &reload, 60), "stale");
    assert_eq!(
        at(&PRIVATE, &answered, &["cache-control: no-cache"], 10),
        "request-no-cache"
    );
    assert_eq!(at(&SHARED, &answered, &reload, 10), "request-max-age");
}
