use docstokg_content::reason::Reason;
use docstokg_content::request_failure::RequestFailure;
use docstokg_content::resolver::{Applicability, IdentifierNeed, Resolver, Wayback};
use docstokg_content::work::Work;
use url::Url;

use crate::scripted_web::{Script, fixture, resolve, settings, show, work};

const CDX: &str = "https://web.archive.org/cdx/search/cdx";

fn gone(urls: &[&str]) -> Work {
    let mut gone = work("10.1000/a");
    gone.failed_urls = urls.iter().map(|url| Url::parse(url).unwrap()).collect();
    gone
}

fn one(web: &Script, urls: &[&str]) -> String {
    show(&resolve(&Wayback::new(settings()), &[gone(urls)], web)[0])
}

#[test]
fn the_newest_copies_are_taken_as_they_were() {
    let web = Script::new().on(CDX, 200, fixture("wayback/cdx.json"));
    insta::assert_snapshot!(one(&web, &["https://gone.example/a.pdf?x=1"]));
    assert_eq!(
        web.asked(),
        [format!(
            "{CDX}?url=https%3A%2F%2Fgone.example%2Fa.pdf%3Fx%3D1&output=json&fl=timestamp%2Coriginal%2Cmimetype%2Cstatuscode%2Cdigest%2Clength&filter=statuscode%3A200&filter=mimetype%3Aapplication%2Fpdf&collapse=digest&limit=-8"
        )]
    );
}

#[test]
fn nothing_kept_is_a_clean_miss() {
    for body in [
        "",
        "\n",
        "[]",
        "[[\"timestamp\",\"original\",\"statuscode\"]]",
        "[[\"other\"],[\"x\"]]",
    ] {
        assert_eq!(
            one(
                &Script::new().on(CDX, 200, body),
                &["https://gone.example/a"]
            ),
            "not found: no copy was kept\nlearned ",
            "{body}"
        );
    }
    assert_eq!(
        Wayback::new(settings()).applies(&work("10.1000/a")),
        Applicability::No(&[IdentifierNeed::DeadLink])
    );
    assert_eq!(
        Wayback::new(settings()).applies(&gone(&["https://gone.example/a"])),
        Applicability::Yes
    );
}

#[test]
fn wayback_stops_after_a_failed_query() {
    let refused = Script::new().failing(
        CDX,
        RequestFailure::new(Reason::RequestException, "connection refused", None),
    );
    assert!(
        one(
            &refused,
            &["https://gone.example/a", "https://gone.example/b"]
        )
        .starts_with("request_exception")
    );
    assert_eq!(refused.asked().len(), 1);
    assert!(
        one(&Script::new().on(CDX, 429, ""), &["https://gone.example/a"])
            .starts_with("rate_limited Some(429) None")
    );
    assert!(
        one(
            &Script::new().on(CDX, 200, "<html>"),
            &["https://gone.example/a"]
        )
        .starts_with("json_error")
    );
    let second = Script::new()
        .on(
            &format!("{CDX}?url=https%3A%2F%2Fgone.example%2Fa&"),
            200,
            fixture("wayback/cdx.json"),
        )
        .on(CDX, 503, "");
    assert!(
        one(
            &second,
            &["https://gone.example/a", "https://gone.example/b"]
        )
        .starts_with("Pdf ")
    );
}
