//! RFC 9111 sections 4 and 4.2, RFC 5861: fresh and stale.

use std::time::Duration;

use docstokg_policy::freshness::{
    BypassReason, CacheMode, CacheRequest, FreshnessRules, Heuristic, Overrides, ReuseDecision,
    StaleUse, ValidationReason, reuse,
};
use http::{HeaderMap, Method};

use super::{NOON, PRIVATE, SHARED, after, fields, get, stored};

/// What becomes of a request some seconds after an answer was stored, in a word.
pub(crate) fn at(
    rules: &FreshnessRules,
    answered: &[&str],
    asked: &[&str],
    seconds: i64,
) -> &'static str {
    let (stored, asked) = (stored(rules, 200, answered), fields(asked));
    match reuse(get(&asked), Some(&stored), rules, after(seconds)) {
        ReuseDecision::Fresh { .. } => "fresh",
        ReuseDecision::Stale { may_serve, .. } if may_serve.at_once(after(seconds)) => {
            "stale-at-once"
        }
        ReuseDecision::Stale { may_serve, .. } if may_serve.on_error(after(seconds)) => {
            "stale-on-error"
        }
        ReuseDecision::Stale { .. } => "stale",
        ReuseDecision::Revalidate { why, .. } => match why {
            ValidationReason::RequestNoCache => "request-no-cache",
            ValidationReason::RequestMaxAge => "request-max-age",
            ValidationReason::RequestMinFresh => "request-min-fresh",
            ValidationReason::ResponseNoCache => "response-no-cache",
            ValidationReason::ClockStepped => "clock-stepped",
        },
        ReuseDecision::Miss => "miss",
        ReuseDecision::Bypass(_) => "bypass",
        ReuseDecision::OnlyIfCachedFailure => "504",
    }
}

#[test]
fn section_4_2_1_the_lifetime_comes_from_the_first_statement() {
    const TAG: &str = "etag: \"a\"";
    // Response fields; until which second the answer is fresh in private and in shared mode.
    for (answered, private, shared) in [
        (&["cache-control: max-age=60"][..], 60, 60),
        (&["cache-control: max-age=60, s-maxage=90"], 60, 90),
        (
            &["cache-control: s-maxage=90", "expires: @30", "date: @0"],
            30,
            90,
        ),
        (
            &["cache-control: max-age=60", "expires: @900", "date: @0"],
            60,
            60,
        ),
        (&["cache-control: max-age=60", "expires: 0"], 60, 60),
        (&["expires: @30", "date: @0"], 30, 30),
        (&["expires: @30", "date: not a date"], 30, 30),
        (&["expires: @30", "date: @0", "date: @1"], 30, 30),
        // The age by the date is already ten seconds.
        (&["expires: @30", "date: @-10"], 30, 30),
        (&["expires: @30", "date: @-10", "age: 25"], 15, 15),
        (&["cache-control: max-age=60", "age: 20"], 40, 40),
        (&["cache-control: max-age=60", "date: @-20"], 40, 40),
        (&["cache-control: max-age=60", "date: @20"], 60, 60),
        (
            &["cache-control: max-age=60", "cdn-cache-control: max-age=20"],
            60,
            20,
        ),
        (
            &["expires: @60", "date: @0", "cdn-cache-control: public", TAG],
            60,
            0,
        ),
        (&["cache-control: max-age=60, max-age=70", TAG], 0, 0),
        (&["cache-control: max-age=abc", "expires: @900", TAG], 0, 0),
        (&["expires: @900", "expires: @901", TAG], 0, 0),
        (&["expires: tomorrow", TAG], 0, 0),
        (&["last-modified: @-1000000", "date: @0"], 0, 0),
    ] {
        for (rules, until) in [(PRIVATE, private), (SHARED, shared)] {
            // The dates have whole seconds, and noon is a quarter past one.
            let word = |second| at(&rules, answered, &[], second);
            let what = format!("{:?} {answered:?}", rules.mode);
            if until > 0 {
                assert_eq!(word(until - 1), "fresh", "{what}");
            }
            assert_eq!(word(until), "stale", "{what}");
        }
    }
}

#[test]
fn section_4_2_2_heuristics_apply_only_where_asked_for_and_allowed() {
    let rules = |percent| FreshnessRules {
        heuristic: Some(Heuristic {
            percent,
            at_most: Duration::from_secs(300),
        }),
        ..SHARED
    };
    let modified = ["last-modified: @-1000", "date: @0"];
    assert_eq!(at(&rules(10), &modified, &[], 99), "fresh");
    assert_eq!(at(&rules(10), &modified, &[], 100), "stale");
    assert_eq!(
        at(&rules(200), &modified, &[], 299),
        "fresh",
        "at most the bound"
    );
    assert_eq!(at(&rules(200), &modified, &[], 300), "stale");
    let pragma = ["last-modified: @-1000", "pragma: no-cache"];
    assert_eq!(at(&rules(10), &pragma, &[], 1), "stale");
    let future = ["last-modified: @1000", "date: @0"];
    assert_eq!(at(&rules(10), &future, &[], 1), "stale");
    let stated = [
        "last-modified: @-1000",
        "cache-control: max-age=5",
        "date: @0",
    ];
    assert_eq!(at(&rules(10), &stated, &[], 50), "stale");
    // Not for a status that is not heuristically cacheable, unless the response is public.
    let other = |line| {
        stored(
            &rules(10),
            403,
            &["last-modified: @-1000", "date: @0", line],
        )
    };
    let public = other("cache-control: public");
    assert_eq!(public.lifetime(&rules(10)), Duration::from_secs(100));
}

#[test]
fn section_4_2_4_stale_answers_need_a_permission_that_nothing_takes_away() {
    for (answered, second, private, shared) in [
        ("max-age=10", 11, "stale", "stale"),
        (
            "max-age=10, stale-while-revalidate=10",
            19,
            "stale-at-once",
            "stale-at-once",
        ),
        (
            "max-age=10, stale-while-revalidate=10",
            20,
            "stale",
            "stale",
        ),
        (
            "max-age=10, stale-if-error=10",
            19,
            "stale-on-error",
            "stale-on-error",
        ),
        ("max-age=10, stale-if-error=10", 20, "stale", "stale"),
        ("max-age=10, stale-if-error=x", 11, "stale", "stale"),
        (
            "max-age=10, stale-if-error=10, must-revalidate",
            11,
            "stale",
            "stale",
        ),
        (
            "max-age=10, stale-if-error=10, proxy-revalidate",
            11,
            "stale-on-error",
            "stale",
        ),
        (
            "max-age=10, s-maxage=10, stale-if-error=10",
            11,
            "stale-on-error",
            "stale",
        ),
        (
            "max-age=10, stale-while-revalidate=10, must-revalidate",
            11,
            "stale",
            "stale",
        ),
    ] {
        let answered = format!("cache-control: {answered}");
        assert_eq!(
            at(&PRIVATE, &[&answered], &[], second),
            private,
            "{answered}"
        );
        assert_eq!(at(&SHARED, &[&answered], &[], second), shared, "{answered}");
    }
    let rules = FreshnessRules {
        overrides: Overrides {
            stale_if_error: Some(Duration::from_secs(50)),
            ..Overrides::default()
        },
        ..SHARED
    };
    assert_eq!(
        at(&rules, &["cache-control: max-age=10"], &[], 59),
        "stale-on-error"
    );
    assert_eq!(at(&rules, &["cache-control: max-age=10"], &[], 60), "stale");
    let strict = ["cache-control: max-age=10, must-revalidate"];
    assert_eq!(at(&rules, &strict, &[], 11), "stale");
    let longer = ["cache-control: max-age=10, stale-if-error=99"];
    assert_eq!(at(&rules, &longer, &[], 100), "stale-on-error");
}

#[test]
fn section_4_2_4_disconnected_use_is_reported_and_forbidden_where_the_response_forbids_it() {
    let may_serve = |line: &str| {
        let (stored, asked) = (stored(&SHARED, 200, &[line]), HeaderMap::new());
        match reuse(get(&asked), Some(&stored), &SHARED, after(50)) {
            ReuseDecision::Stale { may_serve, .. } => may_serve,
            other => panic!("{other:?}"),
        }
    };
    assert!(may_serve("cache-control: max-age=10").when_disconnected);
    let never = may_serve("cache-control: max-age=10, must-revalidate");
    assert_eq!(never, StaleUse::default());
}

#[test]
fn section_5_2_2_4_no_cache_demands_validation_unless_it_names_fields() {
    let tag = "etag: \"a\"";
    for line in [
        "max-age=60, no-cache",
        "max-age=60, No-Cache=\"\"",
        "max-age=60, no-cache=\"etag\"",
    ] {
        let line = format!("cache-control: {line}");
        assert_eq!(
            at(&PRIVATE, &[&line, tag], &[], 1),
            "response-no-cache",
            "{line}"
        );
        assert_eq!(
            at(&PRIVATE, &[&line, tag], &[], 61),
            "response-no-cache",
            "{line}"
        );
    }
    let named = ["cache-control: max-age=60, no-cache=\"x\"", "x: 1", tag];
    assert_eq!(at(&PRIVATE, &named, &[], 1), "fresh");
}

#[test]
fn nothing_stored_is_a_miss_and_modes_do_not_mix() {
    let asked = HeaderMap::new();
    assert_eq!(reuse(get(&asked), None, &SHARED, NOON), ReuseDecision::Miss);
    let only = fields(&["cache-control: only-if-cached"]);
    assert_eq!(
        reuse(get(&only), None, &SHARED, NOON),
        ReuseDecision::OnlyIfCachedFailure
    );
    let private = stored(&PRIVATE, 200, &["cache-control: max-age=60"]);
    assert_eq!(private.mode(), CacheMode::Private);
    assert_eq!(
        reuse(get(&asked), Some(&private), &SHARED, NOON),
        ReuseDecision::Miss
    );
    let request = |method| CacheRequest {
        method,
        headers: &asked,
    };
    let age = private.age(after(5));
    assert_eq!(
        reuse(request(&Method::HEAD), Some(&private), &PRIVATE, after(5)),
        ReuseDecision::Fresh { age }
    );
    let post = reuse(request(&Method::POST), Some(&private), &PRIVATE, after(5));
    assert_eq!(post, ReuseDecision::Bypass(BypassReason::Method));
    let rules = FreshnessRules {
        overrides: Overrides {
            bypass: true,
            ..Overrides::default()
        },
        ..PRIVATE
    };
    let bypassed = reuse(get(&asked), Some(&private), &rules, after(5));
    assert_eq!(bypassed, ReuseDecision::Bypass(BypassReason::Operator));
}

#[test]
fn an_operators_lifetime_is_a_minimum_that_begins_on_arrival() {
    let rules = FreshnessRules {
        overrides: Overrides {
            ttl: Some(Duration::from_secs(100)),
            ..Overrides::default()
        },
        ..PRIVATE
    };
    for line in [
        "cache-control: max-age=0",
        "cache-control: max-age=10, must-revalidate",
        "expires: 0",
        "x: y",
    ] {
        assert_eq!(at(&rules, &[line, "age: 5000"], &[], 99), "fresh", "{line}");
        assert_eq!(
            at(&rules, &[line, "age: 5000"], &[], 100),
            "stale",
            "{line}"
        );
    }
    assert_eq!(
        at(&rules, &["cache-control: max-age=500"], &[], 499),
        "fresh"
    );
    let no_cache = ["cache-control: no-cache", "etag: \"a\""];
    assert_eq!(at(&rules, &no_cache, &[], 1), "response-no-cache");
    // Withdrawn by a later configuration, it no longer holds for what is stored.
    let held = stored(&rules, 200, &["etag: \"a\""]);
    let asked = HeaderMap::new();
    assert!(matches!(
        reuse(get(&asked), Some(&held), &PRIVATE, after(1)),
        ReuseDecision::Stale { .. }
    ));
}

#[test]
fn ages_are_not_believed_when_the_clock_steps_back() {
    let line = ["cache-control: max-age=100"];
    assert_eq!(at(&PRIVATE, &line, &[], -1), "fresh", "a small correction");
    assert_eq!(at(&PRIVATE, &line, &[], -3600), "clock-stepped");
    let held = stored(&PRIVATE, 200, &line);
    assert_eq!(held.age(after(-3600)), held.age(NOON));
    assert_eq!(held.stale_at(&PRIVATE), after(100));
    let old = stored(
        &PRIVATE,
        200,
        &["cache-control: max-age=100", "age: 300", "etag: \"a\""],
    );
    assert_eq!(old.stale_at(&PRIVATE), after(-200));
}
