//! RFC 9111 section 3: which responses are stored, and which of their fields.

use std::time::Duration;

use docstokg_policy::freshness::{
    CacheExchange, CacheRequest, ExchangeTimes, FreshnessRules, NotStored, OriginResponse,
    Overrides, SetCookie, StorageDecision, storable,
};
use http::{HeaderMap, Method, StatusCode};

use super::{NOON, PRIVATE, SHARED, fields, hash, store, stored};

fn refused(
    rules: &FreshnessRules,
    asked: &[&str],
    status: u16,
    answered: &[&str],
) -> Option<NotStored> {
    match store(rules, &fields(asked), status, &fields(answered)) {
        StorageDecision::Store(_) => None,
        StorageDecision::No(reason) => Some(reason),
    }
}

#[test]
fn section_3_what_is_stored_in_each_mode() {
    use NotStored::{
        Authorization, NoStore, NoUse, NotCacheable, NotUnderstood, Private, RequestNoStore,
        Status, VaryAny,
    };
    const AGE: &str = "cache-control: max-age=60";
    const AUTH: &str = "authorization: Bearer x";
    let ask_no_store = "cache-control: No-Store";
    // Request fields, status, response fields; the reason in private mode and in shared mode.
    for (asked, status, answered, private, shared) in [
        (&[][..], 200, &[AGE][..], None, None),
        (&[], 200, &["expires: @60"], None, None),
        (&[], 200, &["etag: \"a\""], None, None),
        (&[], 200, &["last-modified: @-60"], None, None),
        (&[], 200, &[], Some(NoUse), Some(NoUse)),
        (
            &[],
            200,
            &["cache-control: max-age=0"],
            Some(NoUse),
            Some(NoUse),
        ),
        (
            &[],
            200,
            &["cache-control: max-age=60, no-cache"],
            Some(NoUse),
            Some(NoUse),
        ),
        (
            &[],
            200,
            &["cache-control: no-cache", "etag: \"a\""],
            None,
            None,
        ),
        (&[], 200, &["cache-control: s-maxage=60"], Some(NoUse), None),
        (
            &[],
            200,
            &["cdn-cache-control: max-age=60"],
            Some(NoUse),
            None,
        ),
        (
            &[],
            200,
            &["cache-control: no-store", "cdn-cache-control: max-age=60"],
            Some(NoStore),
            None,
        ),
        (
            &[],
            200,
            &[AGE, "cdn-cache-control: no-store"],
            None,
            Some(NoStore),
        ),
        (&[], 200, &[AGE, "cdn-cache-control: No-Store"], None, None),
        // Section 5.2.2.5, in any case and also in malformed lines.
        (
            &[],
            200,
            &["cache-control: max-age=60, nO-sToRe"],
            Some(NoStore),
            Some(NoStore),
        ),
        (
            &[],
            200,
            &["cache-control: max-age=60; no-store"],
            Some(NoStore),
            Some(NoStore),
        ),
        (
            &[],
            200,
            &["cache-control: x=\"open, no-store"],
            Some(NoStore),
            Some(NoStore),
        ),
        (
            &[],
            200,
            &[AGE, "cache-control: no-store=yes"],
            Some(NoStore),
            Some(NoStore),
        ),
        (
            &[],
            200,
            &["cache-control: max-age=60, x=\"no-store\""],
            None,
            None,
        ),
        (
            &[ask_no_store],
            200,
            &[AGE],
            Some(RequestNoStore),
            Some(RequestNoStore),
        ),
        // Section 5.2.2.3.
        (
            &[],
            200,
            &["cache-control: max-age=60, no-store, must-understand"],
            None,
            None,
        ),
        (
            &[],
            299,
            &["cache-control: max-age=60, must-understand"],
            Some(NotUnderstood),
            Some(NotUnderstood),
        ),
        // Section 5.2.2.7.
        (
            &[],
            200,
            &["cache-control: private, max-age=60"],
            None,
            Some(Private),
        ),
        (
            &[],
            200,
            &["cache-control: private=\"x\", max-age=60"],
            None,
            None,
        ),
        (
            &[],
            200,
            &["cache-control: private=\"date\", max-age=60"],
            None,
            Some(Private),
        ),
        // Section 3.5.
        (&[AUTH], 200, &[AGE], None, Some(Authorization)),
        (
            &[AUTH],
            200,
            &["cache-control: max-age=60, public"],
            None,
            None,
        ),
        (
            &[AUTH],
            200,
            &["cache-control: max-age=60, must-revalidate"],
            None,
            None,
        ),
        (
            &[AUTH],
            200,
            &["cache-control: s-maxage=60", "etag: \"a\""],
            None,
            None,
        ),
        // Section 4.1.
        (
            &[],
            200,
            &[AGE, "vary: accept, *"],
            Some(VaryAny),
            Some(VaryAny),
        ),
        (
            &[],
            200,
            &[AGE, "vary: not a name"],
            Some(VaryAny),
            Some(VaryAny),
        ),
        // Statuses: final, whole, and about more than one request.
        (&[], 302, &[AGE], None, None),
        (
            &[],
            302,
            &["etag: \"a\""],
            Some(NotCacheable),
            Some(NotCacheable),
        ),
        (&[], 301, &["etag: \"a\""], None, None),
        (&[], 503, &[AGE], None, None),
        (&[], 299, &[AGE], None, None),
        (
            &[],
            299,
            &["etag: \"a\""],
            Some(NotCacheable),
            Some(NotCacheable),
        ),
        (
            &[],
            299,
            &["etag: \"a\"", "cache-control: public"],
            None,
            None,
        ),
        (
            &[],
            299,
            &["etag: \"a\"", "cache-control: private"],
            None,
            Some(Private),
        ),
        (&[], 103, &[AGE], Some(Status), Some(Status)),
        (
            &["range: bytes=0-1"],
            206,
            &[AGE],
            Some(Status),
            Some(Status),
        ),
        (
            &[],
            200,
            &[AGE, "content-range: bytes 0-1/9"],
            Some(Status),
            Some(Status),
        ),
        (&[], 304, &[AGE], Some(Status), Some(Status)),
        (&[], 412, &[AGE], Some(Status), Some(Status)),
        (
            &["range: bytes=99-"],
            416,
            &[AGE],
            Some(Status),
            Some(Status),
        ),
        (&[], 429, &[AGE], Some(Status), Some(Status)),
        (&[], 999, &[AGE], Some(Status), Some(Status)),
    ] {
        let what = format!("{asked:?} {status} {answered:?}");
        assert_eq!(
            refused(&PRIVATE, asked, status, answered),
            private,
            "private: {what}"
        );
        assert_eq!(
            refused(&SHARED, asked, status, answered),
            shared,
            "shared: {what}"
        );
    }
}

#[test]
fn section_3_only_answers_to_get_are_stored() {
    let (asked, answered) = (HeaderMap::new(), fields(&["cache-control: max-age=60"]));
    for method in [Method::HEAD, Method::POST, Method::PUT, Method::OPTIONS] {
        let exchange = CacheExchange {
            request: CacheRequest {
                method: &method,
                headers: &asked,
            },
            response: OriginResponse {
                status: StatusCode::OK,
                headers: &answered,
            },
            times: ExchangeTimes {
                sent: NOON,
                received: NOON,
            },
        };
        let storing = storable(exchange, &SHARED, &hash);
        assert_eq!(storing, StorageDecision::No(NotStored::Method), "{method}");
    }
}

#[test]
fn section_3_1_fields_of_a_connection_and_of_one_user_are_not_stored() {
    let answered = [
        "cache-control: max-age=60, no-cache=\"x-fresh\", private=\"x-mine\"",
        "connection: close, x-hop, cache-control, etag",
        "etag: \"a\"",
        "keep-alive: timeout=5",
        "proxy-authenticate: Basic",
        "proxy-anything: x",
        "te: trailers",
        "trailer: x",
        "transfer-encoding: chunked",
        "upgrade: h2c",
        "age: 5",
        "x-hop: 1",
        "x-fresh: 1",
        "x-mine: 1",
        "x-kept: 1",
        "x-kept: 2",
        "set-cookie: a=b",
        "set-cookie2: a=b",
    ];
    let names = |rules: &FreshnessRules| {
        let stored = stored(rules, 200, &answered);
        let mut names: Vec<_> = stored.headers().keys().map(ToString::to_string).collect();
        names.sort();
        assert_eq!(stored.headers().get_all("x-kept").iter().count(), 2);
        names
    };
    assert_eq!(
        names(&PRIVATE),
        ["cache-control", "date", "etag", "x-kept", "x-mine"]
    );
    assert_eq!(names(&SHARED), ["cache-control", "date", "etag", "x-kept"]);
    let keep = FreshnessRules {
        set_cookie: SetCookie::Keep,
        ..SHARED
    };
    let kept = [
        "cache-control",
        "date",
        "etag",
        "set-cookie",
        "set-cookie2",
        "x-kept",
    ];
    assert_eq!(names(&keep), kept);
}

#[test]
fn section_3_3_a_body_of_another_length_is_not_whole() {
    let known = stored(
        &PRIVATE,
        200,
        &["cache-control: max-age=60", "content-length: 9"],
    );
    assert!(known.is_whole(9));
    assert!(!known.is_whole(8));
    assert!(!known.is_whole(10));
    let unknown = stored(&PRIVATE, 200, &["cache-control: max-age=60"]);
    assert!(unknown.is_whole(0) && unknown.is_whole(99));
    let odd = stored(
        &PRIVATE,
        200,
        &["cache-control: max-age=60", "content-length: 9, 9"],
    );
    assert!(
        !odd.is_whole(9),
        "a length that cannot be read is not believed"
    );
}

#[test]
fn overrides_bypass_and_lengthen_only_what_they_name() {
    let with = |overrides| FreshnessRules {
        overrides,
        ..PRIVATE
    };
    let hour = Some(Duration::from_secs(3600));
    let bypass = with(Overrides {
        bypass: true,
        ..Overrides::default()
    });
    let age = ["cache-control: max-age=60"];
    assert_eq!(refused(&bypass, &[], 200, &age), Some(NotStored::Bypass));
    let ttl = with(Overrides {
        ttl: hour,
        negative_ttl: hour,
        ..Overrides::default()
    });
    assert_eq!(refused(&ttl, &[], 200, &[]), None);
    assert_eq!(refused(&ttl, &[], 404, &[]), None);
    assert_eq!(refused(&ttl, &[], 410, &[]), Some(NotStored::NoUse));
    assert_eq!(refused(&ttl, &[], 500, &[]), Some(NotStored::NotCacheable));
    let no_store = ["cache-control: no-store"];
    assert_eq!(refused(&ttl, &[], 200, &no_store), Some(NotStored::NoStore));
    let shared = FreshnessRules {
        mode: SHARED.mode,
        ..ttl
    };
    assert_eq!(
        refused(&shared, &[], 200, &[]),
        Some(NotStored::NoUse),
        "private mode only"
    );
}
