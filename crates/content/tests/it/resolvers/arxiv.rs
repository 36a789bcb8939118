use docstokg_content::reason::Reason;
use docstokg_content::request_failure::RequestFailure;
use docstokg_content::resolver::{Applicability, Arxiv, IdentifierNeed, Resolver};

use crate::scripted_web::{Script, ask, fixture, resolve, settings, show, work};

const API: &str = "https://export.arxiv.org/api/query";

#[test]
fn several_ids_are_one_request_and_each_has_its_file() {
    let web = Script::new().on(API, 200, fixture("arxiv/feed.xml"));
    let outcomes = ask(
        &Arxiv::new(settings()),
        &["2002.00741v1", "math/0309136", "2101.99999"],
        &web,
    );
    assert_eq!(
        web.asked(),
        [format!(
            "{API}?id_list=2002.00741v1%2Cmath%2F0309136%2C2101.99999&max_results=3"
        )]
    );
    let shown: Vec<String> = outcomes.iter().map(show).collect();
    insta::assert_snapshot!(shown.join("\n--\n"));
}

#[test]
fn arxiv_location_follows_from_the_id_when_the_api_fails() {
    let place = "Pdf https://export.arxiv.org/pdf/2002.00741\nlearned ";
    let page: &[u8] = b"<html><p>unclosed";
    for (status, body) in [
        (429, b"Rate exceeded.".as_slice()),
        (503, b""),
        (200, b""),
        (200, page),
        (200, &fixture("arxiv/empty.xml")),
        (200, b"<feed><entry>"),
        (200, b"<other/>"),
        (200, b"\xff\xfe<feed/>"),
    ] {
        let web = Script::new().on(API, status, body.to_vec());
        assert_eq!(
            show(&ask(&Arxiv::new(settings()), &["2002.00741"], &web)[0]),
            place,
            "{status} {}",
            String::from_utf8_lossy(body)
        );
    }
    let web = Script::new().failing(API, RequestFailure::new(Reason::Timeout, "slow", None));
    assert_eq!(
        show(&ask(&Arxiv::new(settings()), &["2002.00741"], &web)[0]),
        place
    );
}

#[test]
fn a_complaint_is_about_the_only_id_and_about_none_of_several() {
    for status in [200, 400] {
        let web = Script::new().on(API, status, fixture("arxiv/error.xml"));
        assert_eq!(
            show(&ask(&Arxiv::new(settings()), &["2002.0074"], &web)[0]),
            "not found: arXiv says: incorrect id format for 2002.0074\nlearned "
        );
        assert!(
            ask(&Arxiv::new(settings()), &["2002.0074", "2002.0075"], &web)
                .iter()
                .all(|outcome| show(outcome).starts_with("Pdf "))
        );
    }
}

#[test]
fn arxiv_sends_no_request_for_a_known_file() {
    let mut known = work("hep-th/9901001v3");
    known.title = Some("Known".to_owned());
    let web = Script::new();
    assert_eq!(
        show(&resolve(&Arxiv::new(settings()), &[known], &web)[0]),
        "Pdf https://export.arxiv.org/pdf/hep-th/9901001v3\nlearned "
    );
    assert!(web.asked().is_empty());
    assert_eq!(
        Arxiv::new(settings()).applies(&work("10.1000/a")),
        Applicability::No(&[IdentifierNeed::ArxivId])
    );
}
