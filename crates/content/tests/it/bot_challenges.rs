use docstokg_content::bot_challenge::{BotChallenge, detect};
use http::StatusCode;

fn marker(status: u16, page: &str) -> Option<&'static str> {
    detect(StatusCode::from_u16(status).unwrap(), page.as_bytes()).map(BotChallenge::marker)
}

#[test]
fn walls_are_named_by_their_mark() {
    assert_eq!(
        marker(403, "<html><head><title>Just a moment...</title>"),
        Some("<title>just a moment")
    );
    assert_eq!(
        marker(200, "<script>window._cf_chl_opt={}</script>"),
        Some("cf_chl_")
    );
    assert_eq!(
        marker(503, "<h1>Request unsuccessful. Incapsula incident ID</h1>"),
        Some("request unsuccessful. incapsula")
    );
    assert_eq!(
        marker(200, "<p>Please solve the CAPTCHA</p>"),
        Some("captcha")
    );
    assert_eq!(
        marker(403, "<H1>Access Denied</H1> errors.edgesuite.net akamai"),
        Some("access denied")
    );
    assert_eq!(
        detect(StatusCode::OK, b"<title>Preparing to download ...</title>"),
        Some(BotChallenge::Interstitial {
            marker: "preparing to download"
        })
    );
}

#[test]
fn who_denies_access_counts() {
    for (status, page, wanted) in [
        // An archive without the file, an embargo, a closed repository.
        (
            403,
            "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>",
            None,
        ),
        (
            401,
            "<h1>Access denied</h1><p>This item is under embargo until 2031.</p>",
            None,
        ),
        (
            403,
            "<html><title>Access Denied</title><p>You are not authorized to access this page.</p>",
            None,
        ),
        (
            403,
            "<H1>Access Denied</H1> You don't have permission. Reference&#32;&#35;18&#46;2d",
            Some("access denied"),
        ),
        (
            403,
            "<h1>Access denied</h1><p>Automated requests are not allowed.</p>",
            Some("access denied"),
        ),
        (
            403,
            "<h1>Access denied</h1> Solve the CAPTCHA",
            Some("captcha"),
        ),
    ] {
        assert_eq!(marker(status, page), wanted, "{page}");
    }
}

#[test]
fn good_pages_with_the_same_words_are_no_walls() {
    let article = format!(
        "<meta name=\"citation_title\" content=\"Captcha\"><script src=/cdn-cgi/challenge-platform/x.js></script>{}",
        "text ".repeat(10)
    );
    assert_eq!(marker(200, &article), None);
    let long = format!(
        "<html>{}<script src=\"https://x/recaptcha.js\"></script></html>",
        "words ".repeat(5000)
    );
    assert_eq!(marker(200, &long), None);
    assert_eq!(
        marker(
            200,
            "<html><p>hello</p><img src=/cdn-cgi/image/x.png></html>"
        ),
        None
    );
    assert_eq!(marker(200, ""), None);
    for status in [301, 404, 410, 429, 500] {
        assert_eq!(
            marker(status, "<title>Just a moment...</title> captcha"),
            None
        );
    }
}

#[test]
fn a_mark_inside_an_advertisement_s_url_on_a_large_page_is_no_wall() {
    let advertisement = "<iframe src=\"https://ads.example/show?next=https%3A%2F%2Fpub.example%2F%3F__cf_chl_tk%3Dabc\"></iframe>";
    let words = "<p>Words of an article that goes on.</p>".repeat(10_000);
    assert_eq!(
        marker(
            200,
            &format!("<html><body>{words}{advertisement}</body></html>")
        ),
        None
    );
    let early = format!("<html><body>{advertisement}{words}</body></html>");
    assert!(early.len() > 390_000);
    assert_eq!(marker(200, &early), None);
    // In the text of the page it is one, however large the page; on a small page it is one
    // anywhere.
    assert_eq!(
        marker(
            200,
            &format!("<html><title>Just a moment...</title>{words}")
        ),
        Some("<title>just a moment")
    );
    assert_eq!(
        marker(200, &format!("<html>{advertisement}</html>")),
        Some("cf_chl_")
    );
}

#[test]
fn an_article_page_of_atypon_is_no_wall() {
    let page = "<meta name=\"dc.Title\" content=\"Reeds\"><meta name=\"dc.Identifier\" scheme=\"doi\" content=\"10.1/a\"><div id=\"px-captcha\">";
    assert_eq!(marker(200, page), None);
    assert_eq!(
        marker(
            200,
            "<meta name=\"publication_doi\" content=\"10.1/a\"><p>verify you are human</p>"
        ),
        None
    );
    assert_eq!(
        marker(
            200,
            "<meta name=\"pbContext\" content=\"x\"><div id=\"px-captcha\">"
        ),
        Some("px-captcha")
    );
}
