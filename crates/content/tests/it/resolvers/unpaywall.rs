use std::sync::Arc;

use docstokg_content::resolver::settings::Settings;
use docstokg_content::resolver::{Applicability, IdentifierNeed, Resolver, Unpaywall};
use docstokg_lookup::credentials::SourceCredentials;

use crate::scripted_web::{
    Script, ask, assert_bad_answers_have_reasons, fixture, settings, show, work,
};

const API: &str = "https://api.unpaywall.org/v2";

#[test]
fn files_come_before_pages_and_walled_publishers_after_repositories() {
    let web = Script::new().on(API, 200, fixture("unpaywall/record.json"));
    let outcomes = ask(&Unpaywall::new(settings()), &["10.1000/A#b"], &web);
    assert_eq!(
        web.asked(),
        [format!("{API}/10.1000/a%23b?email=reader%40library.edu")]
    );
    insta::assert_snapshot!(show(&outcomes[0]));
}

#[test]
fn closed_works_and_unknown_dois_are_clean_misses() {
    let closed = Script::new().on(API, 200, fixture("unpaywall/closed.json"));
    assert_eq!(
        show(&ask(&Unpaywall::new(settings()), &["10.1000/a"], &closed)[0]),
        "not found: Unpaywall knows no open copy\nlearned 'Closed'"
    );
    let unknown = Script::new().on(API, 404, "{\"error\":true}");
    assert_eq!(
        show(&ask(&Unpaywall::new(settings()), &["10.1000/a"], &unknown)[0]),
        "not found: Unpaywall does not know it (404)\nlearned "
    );
}

#[test]
fn a_refused_address_is_not_repeated() {
    let web = Script::new().on(API, 422, fixture("unpaywall/bad_email.json"));
    let shown = show(&ask(&Unpaywall::new(settings()), &["10.1000/a"], &web)[0]);
    assert!(
        shown.starts_with("http_status Some(422) None: api.unpaywall.org answered 422")
            && shown.contains("not ***"),
        "{shown}"
    );
}

#[test]
fn without_a_real_address_it_is_unavailable() {
    let with = |mail: Option<&str>| {
        let credentials = match mail {
            Some(mail) => SourceCredentials::default().with_mailto(mail),
            None => SourceCredentials::default(),
        };
        Unpaywall::new(Arc::new(Settings {
            credentials,
            ..Settings::default()
        }))
        .unavailable()
    };
    assert!(with(None).is_some_and(|why| why.contains("needs an e-mail address")));
    assert!(with(Some("  ")).is_some_and(|why| why.contains("needs an e-mail address")));
    for made_up in [
        "me@example.com",
        "me@mail.example.org",
        "me@x.test",
        "me",
        "@library.edu",
        "me@localhost",
    ] {
        assert!(
            with(Some(made_up)).is_some_and(|why| why.contains("made-up")),
            "{made_up}"
        );
    }
    assert_eq!(with(Some("reader@library.edu")), None);
    assert_eq!(
        Unpaywall::new(settings()).applies(&work("2101.00001")),
        Applicability::No(&[IdentifierNeed::Doi])
    );
}

#[test]
fn nonsense_has_reasons() {
    assert_bad_answers_have_reasons(&Unpaywall::new(settings()), "10.1000/a", API);
}
