//! RFC 9111 sections 4.1, 4.3 and 4.4: variants, validation with the origin, invalidation.

use docstokg_policy::freshness::{
    CacheExchange, CacheRequest, ExchangeTimes, FreshnessRules, FromHead, NotStored,
    OriginResponse, StorageDecision, StoredResponse, Update, freshen_from_head, invalidates,
    select, update,
};
use http::{HeaderMap, Method, StatusCode};
use url::Url;

use super::{PRIVATE, SHARED, after, fields, get, hash, store, stored};

/// Stores an answer to a request with these fields that varies by `vary`.
fn variant(rules: &FreshnessRules, asked: &[&str], vary: &str, date: &str) -> StoredResponse {
    let answered = fields(&["cache-control: max-age=60", &format!("vary: {vary}"), date]);
    match store(rules, &fields(asked), 200, &answered) {
        StorageDecision::Store(stored) => *stored,
        StorageDecision::No(reason) => panic!("not stored: {reason}"),
    }
}

#[test]
fn section_4_1_a_request_selects_by_the_fields_that_vary_names() {
    for (before, vary, now, expected) in [
        (&["foo: 1"][..], "Foo", &["foo: 1", "other: 2"][..], true),
        (&["foo: 1"], "Foo", &["foo: 2"], false),
        (&["foo: 1"], "Foo", &[], false),
        (&[], "Foo", &["foo: 1"], false),
        (&[], "Foo", &["foo:"], false),
        (&[], "Foo", &[], true),
        (
            &["foo: 1", "baz: 3"],
            "foo, , BAR,baz",
            &["baz: 3", "foo: 1"],
            true,
        ),
        (
            &["foo: 1", "bar: 2"],
            "foo, bar",
            &["foo: 2", "bar: 1"],
            false,
        ),
        (&["foo: 1, 2"], "foo", &["foo: 1", "foo: 2"], true),
        (&["foo: 1,2"], "foo", &["foo:  1 , 2 "], true),
        (&["foo: \"1, 2\""], "foo", &["foo: \"1,2\""], false),
        (&["foo: a"], "foo", &["foo: A"], false),
        (
            &["accept-language: en, de"],
            "accept-language",
            &["accept-language: eN,De"],
            true,
        ),
        (
            &["accept-language: en, de"],
            "accept-language",
            &["accept-language: de, en"],
            false,
        ),
        (&["cookie: a=1, 2"], "cookie", &["cookie: a=1,2"], false),
        (&["other: 1"], "", &["other: 2"], true),
    ] {
        let held = variant(&SHARED, before, vary, "x: y");
        let now = fields(now);
        let selected = select(get(&now), [&held], &hash).is_some();
        assert_eq!(selected, expected, "{before:?} {vary} {now:?}");
    }
}

#[test]
fn section_4_1_the_most_recent_of_several_variants_is_chosen() {
    let english = variant(&SHARED, &["accept: a"], "accept", "date: @-5");
    let german = variant(&SHARED, &["accept: b"], "accept", "date: @-4");
    let newer = variant(&SHARED, &["accept: a"], "accept, cookie", "date: @-3");
    let any = variant(&SHARED, &[], "", "date: @-9");
    let all = [&english, &german, &newer, &any];
    let choose = |lines: &[&str]| select(get(&fields(lines)), all, &hash);
    assert_eq!(choose(&["accept: a"]), Some(2));
    assert_eq!(choose(&["accept: a", "cookie: x"]), Some(0));
    assert_eq!(choose(&["accept: b"]), Some(1));
    assert_eq!(choose(&["accept: c"]), Some(3));
    assert_eq!(select(get(&HeaderMap::new()), [&english], &hash), None);
    let again = variant(&SHARED, &["accept: a"], "Accept", "date: @0");
    assert_eq!(
        again.variant().digest(),
        english.variant().digest(),
        "it replaces the earlier"
    );
    assert_ne!(newer.variant().digest(), english.variant().digest());
}

#[test]
fn in_private_mode_credentials_select_even_where_vary_does_not_name_them() {
    let mine = variant(
        &PRIVATE,
        &["authorization: Bearer secret-a"],
        "accept",
        "x: y",
    );
    for (asked, expected) in [
        (&["authorization: Bearer secret-a"][..], true),
        (&["authorization: Bearer secret-b"], false),
        (&[], false),
    ] {
        let selected = select(get(&fields(asked)), [&mine], &hash).is_some();
        assert_eq!(selected, expected, "{asked:?}");
    }
}

#[test]
fn secrets_of_requests_are_in_no_form_of_a_stored_response() {
    let asked = [
        "authorization: Bearer hunter2",
        "cookie: session=hunter2",
        "x-key: hunter2",
    ];
    let held = variant(&PRIVATE, &asked, "authorization, cookie, x-key", "x: y");
    let persisted = postcard::to_allocvec(&held).expect("persisted");
    let text = String::from_utf8_lossy(&persisted).into_owned() + &format!("{held:?}");
    assert!(!text.contains("hunter2"), "{text}");
    let read: StoredResponse = postcard::from_bytes(&persisted).expect("read back");
    assert_eq!(read, held);
}

/// What the origin answers a request for validation with, two seconds after noon.
fn exchange<'a>(
    request: CacheRequest<'a>,
    status: u16,
    headers: &'a HeaderMap,
) -> CacheExchange<'a> {
    CacheExchange {
        request,
        response: OriginResponse {
            status: StatusCode::from_u16(status).expect("a status"),
            headers,
        },
        times: ExchangeTimes {
            sent: after(100),
            received: after(102),
        },
    }
}

#[test]
fn section_4_3_1_validators_replace_the_callers_conditions() {
    let held = stored(&PRIVATE, 200, &["etag: W/\"a\"", "last-modified: @-60"]);
    let mut asked = fields(&[
        "if-none-match: \"mine\"",
        "if-modified-since: @0",
        "range: bytes=0-",
    ]);
    held.validators().apply(&mut asked);
    assert_eq!(
        asked,
        fields(&[
            "if-none-match: W/\"a\"",
            "if-modified-since: @-60",
            "range: bytes=0-"
        ])
    );
    let plain = stored(
        &PRIVATE,
        200,
        &["cache-control: max-age=5", "last-modified: soon"],
    );
    assert!(
        plain.validators().is_empty(),
        "a date that cannot be read is no validator"
    );
    let mut asked = fields(&["if-none-match: \"mine\""]);
    plain.validators().apply(&mut asked);
    assert_eq!(asked, fields(&["if-none-match: \"mine\""]));
}

#[test]
fn section_4_3_4_a_304_updates_the_response_that_it_is_about() {
    for (held, new, expected) in [
        (&["etag: \"a\""][..], &["etag: \"a\""][..], true),
        (&["etag: \"a\""], &["etag: \"b\""], false),
        (&["etag: \"a\""], &["etag: W/\"a\""], true),
        (&["etag: W/\"a\""], &["etag: W/\"b\""], false),
        (&["etag: bare"], &["etag: bare"], true),
        (&["etag: bare"], &["etag: \"bare\""], false),
        (&["etag: \"a\""], &[], true),
        (&["last-modified: @-9"], &["last-modified: @-9"], true),
        (&["last-modified: @-9"], &["last-modified: @-8"], false),
        (&["last-modified: @-9"], &["etag: \"a\""], false),
        (
            &["last-modified: @-9"],
            &["etag: \"a\"", "last-modified: @-9"],
            true,
        ),
        (
            &["last-modified: @-9", "etag: \"a\""],
            &["etag: \"a\"", "last-modified: @-5"],
            true,
        ),
    ] {
        let (asked, new) = (HeaderMap::new(), fields(new));
        let held = stored(&SHARED, 200, held);
        let updated = update(&held, exchange(get(&asked), 304, &new), &SHARED, &hash);
        let is_about = matches!(updated, Update::Freshened(_));
        assert_eq!(is_about, expected, "{held:?} {new:?}");
        assert_eq!(updated == Update::Mismatch, !expected);
    }
}

#[test]
fn section_3_2_a_304_replaces_fields_but_not_those_of_the_body() {
    let held = stored(
        &SHARED,
        200,
        &[
            "cache-control: max-age=1",
            "etag: \"a\"",
            "age: 50",
            "date: @-50",
            "x-old: 1",
            "x-both: 1",
            "x-both: 2",
            "content-length: 9",
            "content-encoding: gzip",
            "content-type: text/plain",
        ],
    );
    let new = fields(&[
        "cache-control: max-age=60, no-cache=\"x-secret\"",
        "date: @101",
        "x-both: 3",
        "x-new: 1",
        "content-length: 0",
        "content-encoding: br",
        "content-type: text/html",
        "set-cookie: a=b",
        "connection: x-hop",
        "x-hop: 1",
        "x-secret: 1",
    ]);
    let asked = HeaderMap::new();
    let Update::Freshened(renewed) =
        update(&held, exchange(get(&asked), 304, &new), &SHARED, &hash)
    else {
        panic!("it is not freshened");
    };
    let expected = fields(&[
        "cache-control: max-age=60, no-cache=\"x-secret\"",
        "etag: \"a\"",
        "date: @101",
        "x-old: 1",
        "x-both: 3",
        "x-new: 1",
        "content-length: 9",
        "content-encoding: gzip",
        "content-type: text/html",
    ]);
    assert_eq!(*renewed.headers(), expected);
    assert_eq!(renewed.status(), StatusCode::OK);
    // The age begins anew: two seconds of delay, and not the fifty of before.
    assert_eq!(renewed.age(after(102)).as_secs(), 2);
    assert_eq!(renewed.stale_at(&SHARED), after(160));
}

#[test]
fn section_4_3_4_a_304_can_end_storing() {
    for (line, expected) in [
        ("cache-control: no-store", NotStored::NoStore),
        ("cache-control: private", NotStored::Private),
        ("vary: *", NotStored::VaryAny),
    ] {
        let held = stored(&SHARED, 200, &["cache-control: max-age=1", "etag: \"a\""]);
        let (asked, new) = (HeaderMap::new(), fields(&[line]));
        let updated = update(&held, exchange(get(&asked), 304, &new), &SHARED, &hash);
        assert!(
            matches!(updated, Update::Forget(_, reason) if reason == expected),
            "{line}"
        );
    }
    // A new Vary selects by the request that led to it.
    let held = stored(&SHARED, 200, &["cache-control: max-age=1", "etag: \"a\""]);
    let (asked, new) = (fields(&["accept: a"]), fields(&["vary: accept"]));
    let updated = update(&held, exchange(get(&asked), 304, &new), &SHARED, &hash);
    let Update::Freshened(renewed) = updated else {
        panic!("it is not freshened");
    };
    assert!(renewed.variant().matches(get(&asked), &hash));
    assert!(!renewed.variant().matches(get(&HeaderMap::new()), &hash));
}

#[test]
fn section_4_3_5_a_response_to_head_freshens_or_outdates() {
    let held = || {
        stored(
            &SHARED,
            200,
            &[
                "cache-control: max-age=1",
                "etag: \"a\"",
                "content-length: 9",
                "x-old: 1",
            ],
        )
    };
    let asked = HeaderMap::new();
    let asking = CacheRequest {
        method: &Method::HEAD,
        headers: &asked,
    };
    let outcome = |request, status, lines: &[&str]| {
        let new = fields(lines);
        match freshen_from_head(&held(), exchange(request, status, &new), &SHARED, &hash) {
            FromHead::Freshened(renewed) => renewed.lifetime(&SHARED).as_secs().to_string(),
            FromHead::Outdated => "outdated".to_owned(),
            FromHead::Nothing => "nothing".to_owned(),
        }
    };
    let age = "cache-control: max-age=60";
    assert_eq!(
        outcome(asking, 200, &[age, "etag: \"a\"", "content-length: 9"]),
        "60"
    );
    assert_eq!(outcome(asking, 200, &[age]), "60");
    assert_eq!(outcome(asking, 200, &[age, "etag: \"b\""]), "outdated");
    assert_eq!(
        outcome(asking, 200, &[age, "content-length: 10"]),
        "outdated"
    );
    assert_eq!(
        outcome(asking, 200, &[age, "last-modified: @0"]),
        "outdated"
    );
    assert_eq!(
        outcome(asking, 200, &["cache-control: no-store"]),
        "outdated"
    );
    assert_eq!(outcome(asking, 410, &[age]), "nothing");
    assert_eq!(outcome(get(&asked), 200, &[age]), "nothing");
}

#[test]
fn section_4_4_unsafe_methods_invalidate_on_their_own_origin() {
    let url = Url::parse("https://a.example/x/y?z#f").expect("a URL");
    let urls = |method: &str, status: u16, lines: &[&str]| -> Vec<String> {
        let method = method.parse().expect("a method");
        let status = StatusCode::from_u16(status).expect("a status");
        let urls = invalidates(&method, status, &fields(lines), &url);
        urls.iter().map(ToString::to_string).collect()
    };
    let own = "https://a.example/x/y?z";
    for method in ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH"] {
        assert_eq!(urls(method, 200, &[]), [own], "{method}");
        assert_eq!(urls(method, 303, &[]), [own], "{method}");
        assert!(urls(method, 500, &[]).is_empty(), "{method}");
        assert!(urls(method, 404, &[]).is_empty(), "{method}");
    }
    for method in ["GET", "HEAD", "OPTIONS", "TRACE"] {
        assert!(urls(method, 200, &["location: /b"]).is_empty(), "{method}");
    }
    let both = ["location: b#f", "content-location: https://a.example:443/c"];
    let expected = [own, "https://a.example/x/b", "https://a.example/c"];
    assert_eq!(urls("POST", 201, &both), expected);
    for other in [
        "https://b.example/",
        "http://a.example/",
        "https://a.example:8443/",
        "data:x",
        "//[",
    ] {
        assert_eq!(
            urls("POST", 201, &[&format!("location: {other}")]),
            [own],
            "{other}"
        );
    }
    assert_eq!(urls("POST", 201, &["location: ?z"]), [own], "each URL once");
}

#[test]
fn what_was_read_of_a_response_before_a_304_does_not_outlive_it() {
    let seconds = std::time::Duration::from_secs;
    let held = stored(&PRIVATE, 200, &["cache-control: max-age=1", "etag: \"a\""]);
    let unread = held.clone();
    assert_eq!(held.lifetime(&PRIVATE), seconds(1));
    assert_eq!(held, unread, "reading changes nothing");
    let (asked, new) = (HeaderMap::new(), fields(&["cache-control: max-age=90"]));
    let updated = update(&held, exchange(get(&asked), 304, &new), &PRIVATE, &hash);
    let Update::Freshened(renewed) = updated else {
        panic!("{updated:?}");
    };
    assert_eq!(renewed.lifetime(&PRIVATE), seconds(90));
    assert_eq!(held.lifetime(&PRIVATE), seconds(1));
}
