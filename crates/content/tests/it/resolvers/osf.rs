use std::sync::Arc;

use docstokg_content::resolver::settings::Settings;
use docstokg_content::resolver::{Applicability, IdentifierNeed, Osf, Resolver, osf};
use docstokg_content::work::Work;
use docstokg_lookup::credentials::SourceCredentials;
use url::Url;

use crate::scripted_web::{
    Script, ask, assert_bad_answers_have_reasons, fixture, resolve, settings, show, work,
};

const API: &str = "https://api.osf.io/v2/preprints/";

const FILE: &str = "Pdf https://osf.io/download/64b0000000000000000000aa/ \
     Sha256(\"ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb\")\n\
     learned 'Reading aloud and remembering' 2023";

#[test]
fn the_primary_file_of_a_preprint_is_taken() {
    for (id, asked) in [
        ("10.31234/osf.io/k3m7p", "k3m7p"),
        ("10.31234/osf.io/k3m7p_v1", "k3m7p_v1"),
        ("https://osf.io/preprints/psyarxiv/k3m7p_v2/", "k3m7p_v2"),
        ("https://osf.io/preprints/k3m7p", "k3m7p"),
        ("https://osf.io/k3m7p/", "k3m7p"),
    ] {
        let web = Script::new().on(API, 200, fixture("osf/preprint.json"));
        assert_eq!(show(&ask(&Osf::new(settings()), &[id], &web)[0]), FILE);
        assert_eq!(web.asked(), [format!("{API}{asked}/?embed=primary_file")]);
    }
}

#[test]
fn a_preprint_of_a_published_article_is_tied_by_the_doi_that_it_states() {
    let found = |doi: &str| -> Work {
        let mut work = work(doi);
        work.record_links = vec![Url::parse("https://osf.io/preprints/psyarxiv/k3m7p").unwrap()];
        work
    };
    let answer = |work: Work| {
        let web = Script::new().on(API, 200, fixture("osf/preprint.json"));
        show(&resolve(&Osf::new(settings()), &[work], &web)[0])
    };
    assert_eq!(answer(found("10.1000/aloud")), FILE);
    let mut other = found("10.1000/other");
    assert!(answer(other.clone()).ends_with("learned "));
    other.title = Some("A grammar of extinct river languages".to_owned());
    assert_eq!(
        answer(other),
        "not found: OSF: the record has another title\nlearned "
    );
}

#[test]
fn withdrawn_unpublished_and_other_files_are_not_found() {
    let whole = String::from_utf8(fixture("osf/preprint.json")).unwrap();
    for (from, to, why) in [
        (
            "\"date_withdrawn\": null",
            "\"date_withdrawn\": \"2024-01-01T00:00:00\"",
            "it was withdrawn",
        ),
        (
            "\"is_published\": true",
            "\"is_published\": false",
            "it is not published",
        ),
        (
            "\"aloud.pdf\"",
            "\"aloud.docx\"",
            "its file is not a PDF (aloud.docx)",
        ),
        ("\"embeds\"", "\"none\"", "its file is not public"),
        (
            "\"id\": \"k3m7p_v2\"",
            "\"id\": \"zzzzz_v2\"",
            "another preprint",
        ),
    ] {
        let web = Script::new().on(API, 200, whole.replace(from, to));
        let shown = show(&ask(&Osf::new(settings()), &["10.31234/osf.io/k3m7p"], &web)[0]);
        assert!(
            shown.starts_with("not found: OSF") && shown.contains(why),
            "{shown}"
        );
    }
}

#[test]
fn the_token_goes_to_the_api_and_nowhere_else() {
    let settings = Arc::new(Settings {
        credentials: SourceCredentials::default().with(&osf::TOKEN, "osf-token-1"),
        ..Settings::default()
    });
    let sent = |url: &str| settings.secret_headers(&Url::parse(url).unwrap()).len();
    assert_eq!(sent("https://api.osf.io/v2/preprints/k3m7p/"), 1);
    assert_eq!(sent("https://osf.io/download/64b0000000000000000000aa/"), 0);
    assert_eq!(sent("https://files.osf.io/v1/"), 0);
}

#[test]
fn nonsense_has_reasons() {
    let osf = Osf::new(settings());
    assert_bad_answers_have_reasons(&osf, "10.31234/osf.io/k3m7p", API);
    for id in [
        "10.1000/a",
        // A project.
        "10.17605/osf.io/k3m7p",
        "https://osf.io/search/",
        "https://osf.io/k3m7p/wiki/home/",
    ] {
        assert_eq!(
            osf.applies(&work(id)),
            Applicability::No(&[IdentifierNeed::OwnRecord]),
            "{id}"
        );
    }
}
