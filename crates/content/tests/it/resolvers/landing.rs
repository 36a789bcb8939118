use docstokg_content::landing_page;
use docstokg_content::reason::Reason;
use docstokg_content::request_failure::RequestFailure;
use docstokg_content::resolver::{Applicability, IdentifierNeed, LandingPage, Resolver};
use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;
use url::Url;

use crate::scripted_web::{Script, ask, fixture, settings, show, work};

const PAGE: &str = "https://pub.example/article/a";

fn one(web: &Script, id: &str) -> String {
    show(&ask(&LandingPage::new(settings()), &[id], web)[0])
}

#[test]
fn all_signals_of_a_page_are_collected_in_order() {
    let headers = [(
        "link",
        "<https://pub.example/signposted>; rel=\"item\"; type=\"application/pdf\", </x>; rel=cite-as, <data.zip>; rel=item; type=\"application/zip\"",
    )];
    let web = Script::new().with(
        "https://doi.org/10.1000/a",
        200,
        fixture("landing_page/article.html"),
        &headers,
        PAGE,
    );
    insta::assert_snapshot!(one(&web, "10.1000/a"));
    assert_eq!(web.asked(), ["https://doi.org/10.1000/a"]);
}

#[test]
fn the_signal_of_each_candidate_is_named() {
    let html = String::from_utf8(fixture("landing_page/article.html")).unwrap();
    let page = landing_page::extract(&html, &Url::parse(PAGE).unwrap(), &HeaderMap::new(), None);
    let signals: Vec<&str> = page
        .candidates
        .iter()
        .map(|candidate| candidate.signal)
        .collect();
    insta::assert_snapshot!(signals.join(" "));
}

#[test]
fn a_stub_is_followed_once() {
    let next = "https://pub.example/retrieve/article";
    let web = Script::new()
        .on(PAGE, 200, fixture("landing_page/refresh.html"))
        .on(next, 200, fixture("landing_page/article.html"));
    assert!(one(&web, PAGE).starts_with("Pdf https://pub.example/pdf/first.pdf"));
    assert_eq!(web.asked(), [PAGE, next]);
    let form = "https://pub.example/science/article/pii/X";
    let web = Script::new()
        .on(PAGE, 200, fixture("landing_page/redirect_form.html"))
        .on(form, 200, b"%PDF-1.7 ...".to_vec());
    assert_eq!(one(&web, PAGE), format!("Pdf {form} from {PAGE}\nlearned "));
    let endless = Script::new().on(
        "https://pub.example/",
        200,
        fixture("landing_page/refresh.html"),
    );
    assert_eq!(
        one(&endless, PAGE),
        "not found: the page names no file\nlearned "
    );
    assert_eq!(endless.asked().len(), 2);
}

#[test]
fn a_url_that_is_the_file_is_its_own_place() {
    let web = Script::new().with(
        PAGE,
        200,
        b"\n%PDF-1.4".to_vec(),
        &[("content-type", "text/html")],
        "https://cdn.example/a.pdf",
    );
    assert_eq!(one(&web, PAGE), "Pdf https://cdn.example/a.pdf\nlearned ");
    let jats = "<?xml version=\"1.0\"?><article article-type=\"x\"><front></front></article>";
    assert_eq!(
        one(&Script::new().on(PAGE, 200, jats), PAGE),
        format!("Xml {PAGE}\nlearned ")
    );
}

#[test]
fn walls_are_named_and_other_failures_have_their_reasons() {
    for status in [200, 403, 503] {
        let shown = one(
            &Script::new().on(PAGE, status, fixture("landing_page/wall.html")),
            PAGE,
        );
        assert_eq!(
            shown,
            format!(
                "bot_challenge Some({status}) None: pub.example keeps robots out (recognised by '<title>just a moment')"
            )
        );
    }
    assert_eq!(
        one(
            &Script::new().on(PAGE, 200, fixture("landing_page/nothing.html")),
            PAGE
        ),
        "not found: the page names no file\nlearned "
    );
    assert_eq!(
        one(&Script::new().on(PAGE, 404, "x"), PAGE),
        "http_status Some(404) None: pub.example answered 404: x"
    );
    assert!(
        one(&Script::new().on(PAGE, 403, "<h1>Forbidden</h1>"), PAGE)
            .starts_with("http_status Some(403)")
    );
    assert!(one(&Script::new().on(PAGE, 200, ""), PAGE).starts_with("http_status Some(200)"));
    assert!(
        one(
            &Script::new().with(PAGE, 429, "x", &[("retry-after", "9")], PAGE),
            PAGE
        )
        .starts_with("rate_limited Some(429) Some(9000)")
    );
    assert!(
        one(
            &Script::new().failing(
                PAGE,
                RequestFailure::new(Reason::RobotsDisallowed, "no robots", None)
            ),
            PAGE
        )
        .starts_with("robots_disallowed")
    );
    assert_eq!(
        LandingPage::new(settings()).applies(&work("pmid:1")),
        Applicability::No(&[IdentifierNeed::Url, IdentifierNeed::Doi])
    );
}

#[test]
fn the_doi_of_a_page_is_found_wherever_it_is_stated_and_a_bad_one_hides_none() {
    let doi = |head: &str, url: &str| {
        let page = landing_page::extract(
            &format!("<html><head>{head}</head></html>"),
            &Url::parse(url).unwrap(),
            &HeaderMap::new(),
            None,
        );
        page.learned.identifiers.doi.map(|doi| doi.to_string())
    };
    for head in [
        r#"<meta name="citation_doi" content="not available"><meta name="prism.doi" content="doi:10.5555/a">"#,
        r#"<meta name="dc.Identifier" scheme="publisher-id" content="x77"><meta name="dc.Identifier" scheme="coden" content="10.5555/wrong"><meta name="dc.Identifier" scheme="doi" content="10.5555/A">"#,
        r#"<meta name="DC.identifier" content="1234-5678"><meta name="DC.identifier" content="https://doi.org/10.5555/a">"#,
        r#"<meta name="publication_doi" content="10.5555/a">"#,
        r#"<script type="application/ld+json">{"@type":"ScholarlyArticle","citation":[{"@type":"ScholarlyArticle","identifier":"10.5555/cited"}],"identifier":{"@type":"PropertyValue","value":"https://doi.org/10.5555/a"}}</script>"#,
        r#"<script type="application/ld+json">{"@graph":[{"@type":"Organization","url":"https://x.example"},{"@type":["Article"],"sameAs":"https://doi.org/10.5555/a"}]}</script>"#,
    ] {
        assert_eq!(
            doi(head, "https://pub.example/x").as_deref(),
            Some("10.5555/a"),
            "{head}"
        );
    }
    assert_eq!(
        doi("", "https://pub.example/doi/full/10.5555/a").as_deref(),
        Some("10.5555/a")
    );
    assert_eq!(doi("", "https://pub.example/x"), None);
    let title = r#"<meta name="citation_title" content="On &amp;lt;i&amp;gt;E. coli&amp;lt;/i&amp;gt; &amp;amp; friends">"#;
    let page = landing_page::extract(
        title,
        &Url::parse("https://pub.example/x").unwrap(),
        &HeaderMap::new(),
        None,
    );
    assert_eq!(page.learned.title.as_deref(), Some("On E. coli & friends"));
}

proptest! {
    #[test]
    fn landing_page_of_any_bytes_is_read_without_a_panic(html in "(<(meta|a|link|base|input|script|iframe) (name|href|content|rel|type|http-equiv|value)=\"?[a-z:/.%;=' -]{0,20}\"?>|.{0,10}){0,12}", header in "[ -~]{0,60}") {
        let headers: HeaderMap = HeaderValue::from_str(&header).ok().map(|value| (http::header::LINK, value)).into_iter().collect();
        let page = landing_page::extract(&html, &Url::parse("https://pub.example/a").unwrap(), &headers, None);
        prop_assert!(page.candidates.iter().all(|candidate| matches!(candidate.url.scheme(), "http" | "https")));
    }
}
