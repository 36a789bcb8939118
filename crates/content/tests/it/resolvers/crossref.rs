use std::sync::Arc;

use docstokg_content::resolver::{
    Applicability, Crossref, IdentifierNeed, Resolver, WorkLookupStep, credentials,
};
use docstokg_lookup::message::LookupResponse;
use docstokg_lookup::source_spec::SourceCredential;
use http::{HeaderMap, StatusCode};

use crate::scripted_web::{
    Script, ask, assert_bad_answers_have_reasons, finish, fixture, settings, show, work,
};

const API: &str = "https://api.crossref.org/works";
const DATACITE: &str = "https://api.datacite.org/dois";

#[test]
fn links_for_mining_are_ranked_and_those_for_others_dropped() {
    let web = Script::new().on(API, 200, fixture("crossref/work.json"));
    let outcomes = ask(&Crossref::new(settings()), &["10.1000/a"], &web);
    assert_eq!(
        web.asked(),
        [format!("{API}/10.1000/a?mailto=reader%40library.edu")]
    );
    insta::assert_snapshot!(show(&outcomes[0]));
}

#[test]
fn a_doi_that_crossref_does_not_know_is_asked_of_datacite() {
    let web = Script::new().on(API, 404, "Resource not found.").on(
        DATACITE,
        200,
        fixture("crossref/datacite.json"),
    );
    let outcomes = ask(&Crossref::new(settings()), &["10.5281/zenodo.1"], &web);
    assert_eq!(web.asked()[1], format!("{DATACITE}/10.5281/zenodo.1"));
    insta::assert_snapshot!(show(&outcomes[0]));
    let nobody = Script::new()
        .on(API, 404, "Resource not found.")
        .on(DATACITE, 404, "{}");
    assert_eq!(
        show(&ask(&Crossref::new(settings()), &["10.1000/a"], &nobody)[0]),
        "not found: DataCite does not know it (404)\nlearned "
    );
}

#[test]
fn several_dois_are_one_list_and_what_it_lacks_goes_to_datacite() {
    let web = Script::new()
        .on(&format!("{API}?"), 200, fixture("crossref/list.json"))
        .on(API, 200, fixture("crossref/work.json"))
        .on(DATACITE, 404, "");
    let outcomes = ask(
        &Crossref::new(settings()),
        &["10.1000/a", "10.1000/b", "10.1000/c,d"],
        &web,
    );
    assert_eq!(
        web.asked(),
        [
            format!(
                "{API}?filter=doi%3A10.1000%2Fa%2Cdoi%3A10.1000%2Fb&rows=2&select=DOI%2Ctitle%2Cissued%2Clink%2Clicense%2Cresource%2Crelation%2Cauthor%2Ccontainer-title%2Cpublisher%2Cvolume%2Cissue%2Cpage%2Carticle-number%2CISSN%2Ctype%2Cabstract%2Cpublished&mailto=reader%40library.edu"
            ),
            format!("{DATACITE}/10.1000/b"),
            format!("{API}/10.1000/c%2Cd?mailto=reader%40library.edu"),
        ]
    );
    assert_eq!(web.kinds(), [Some("list"), None, None]);
    assert_eq!(
        show(&outcomes[0]),
        "Pdf https://pub.example/a.pdf [publishedVersion]\nlearned doi:10.1000/a"
    );
    assert!(show(&outcomes[1]).starts_with("not found: DataCite"));
}

#[test]
fn a_list_that_fails_fails_all_its_works_and_nobody_else_is_asked() {
    for (status, body, reason) in [
        (429, "", "rate_limited"),
        (500, "", "http_status"),
        (200, "{}", "json_error"),
        (200, "<html>", "json_error"),
    ] {
        let web = Script::new().on(API, status, body);
        let outcomes = ask(
            &Crossref::new(settings()),
            &["10.1000/a", "10.1000/b"],
            &web,
        );
        assert!(
            outcomes
                .iter()
                .all(|outcome| show(outcome).starts_with(reason))
        );
        assert_eq!(web.asked().len(), 1);
    }
}

#[test]
fn a_work_without_fields_is_a_clean_miss() {
    let web = Script::new().on(
        API,
        200,
        "{\"message\":{\"DOI\":\"10.1000/a\",\"title\":null,\"link\":null,\"resource\":{\"primary\":{\"URL\":\"null\"}}}}",
    );
    assert_eq!(
        show(&ask(&Crossref::new(settings()), &["10.1000/a"], &web)[0]),
        "not found: Crossref knows the work, but no link to its files\nlearned doi:10.1000/a"
    );
    assert_eq!(
        Crossref::new(settings()).applies(&work("pmid:1")),
        Applicability::No(&[IdentifierNeed::Doi])
    );
}

#[test]
fn nonsense_has_reasons() {
    assert_bad_answers_have_reasons(&Crossref::new(settings()), "10.1000/a", API);
}

fn credential(key: &str) -> &'static SourceCredential {
    credentials().find(|known| known.key == key).unwrap()
}

#[test]
fn links_of_text_mining_services_are_taken_with_their_credentials_only() {
    let body = r#"{"status":"ok","message":{"DOI":"10.1016/j.a.1","title":["A"],"link":[
        {"URL":"https://api.elsevier.com/content/article/PII:S1?httpAccept=text/xml","content-type":"text/xml","intended-application":"text-mining"},
        {"URL":"https://api.wiley.com/onlinelibrary/tdm/v1/articles/10.1002%2Fa","content-type":"application/pdf","intended-application":"text-mining"}]}}"#;
    let web = Script::new().on(API, 200, body);
    let shown = show(&ask(&Crossref::new(settings()), &["10.1016/j.a.1"], &web)[0]);
    assert!(
        !shown.contains("api.elsevier.com") && !shown.contains("api.wiley.com"),
        "{shown}"
    );
    let mut with = (*settings()).clone();
    with.credentials = with
        .credentials
        .with(credential("elsevier_api_key"), "elsevier-key-1")
        .with(credential("wiley_tdm_token"), "wiley-token-1");
    let shown = show(
        &ask(
            &Crossref::new(Arc::new(with.clone())),
            &["10.1016/j.a.1"],
            &web,
        )[0],
    );
    assert!(
        shown.contains(
            "Pdf https://api.elsevier.com/content/article/PII:S1?httpAccept=application/pdf"
        ) && shown.contains("api.wiley.com"),
        "{shown}"
    );
    let names = |url: &str| {
        with.secret_headers(&url.parse().unwrap())
            .into_iter()
            .map(|(name, _)| name.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(names("https://api.elsevier.com/x"), ["x-els-apikey"]);
    assert_eq!(names("https://api.wiley.com/x"), ["wiley-tdm-client-token"]);
    for elsewhere in [
        "http://api.elsevier.com/x",
        "https://api.elsevier.com.evil.example/",
        "https://www.sciencedirect.com/x",
        "https://wiley.com/",
    ] {
        assert!(names(elsewhere).is_empty(), "{elsewhere}");
    }
}

/// The table of a look-up by itself: what Crossref says of a DOI decides what comes next.
#[test]
fn each_response_gives_the_next_step() {
    let (resolver, works) = (Crossref::new(settings()), [work("10.1000/a")]);
    let next = |status: u16, body: &'static str| {
        let mut steps = finish(resolver.begin(&works), &Script::new());
        let Some(WorkLookupStep::Request(pending)) = steps.pop() else {
            panic!("one work is looked up by a request")
        };
        let url = pending.request.url.clone();
        let status = StatusCode::from_u16(status).unwrap();
        let response = LookupResponse::new(url, status, HeaderMap::new(), body.into());
        match pending.next(Ok(response)) {
            WorkLookupStep::Request(pending) => pending.request.url.to_string(),
            WorkLookupStep::Done(outcome) => show(&outcome),
            WorkLookupStep::Parse(_) => "a page".to_owned(),
        }
    };
    let record = r#"{"message": {"DOI": "10.1000/a"}}"#;
    for (status, body, wanted) in [
        (
            404,
            "Resource not found.",
            "https://api.datacite.org/dois/10.1000/a",
        ),
        (
            200,
            record,
            "not found: Crossref knows the work, but no link to its files\nlearned ",
        ),
        (200, "{}", "json_error Some(200) None"),
        (500, "down", "http_status Some(500) None"),
    ] {
        let came = next(status, body);
        assert!(came.starts_with(wanted), "{status} {body}: {came}");
    }
}
