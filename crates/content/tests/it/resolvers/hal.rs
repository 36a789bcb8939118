use docstokg_content::resolver::{Applicability, Hal, IdentifierNeed, LookupOutcome, Resolver};
use url::Url;

use crate::scripted_web::{
    Script, ask, assert_bad_answers_have_reasons, fixture, resolve, settings, show, work,
};

const API: &str = "https://api.archives-ouvertes.fr/search/";

const FILE: &str = "Pdf https://hal.science/hal-01234567/file/tides.pdf [http://creativecommons.org/licenses/by/]\n\
     learned doi:10.1000/tides 'Tides of a small estuary' 2019";

#[test]
fn the_main_file_of_the_document_with_the_doi_is_taken() {
    let web = Script::new().on(API, 200, fixture("hal/search.json"));
    assert_eq!(
        show(&ask(&Hal::new(settings()), &["10.1000/tides"], &web)[0]),
        FILE
    );
    assert!(
        web.asked()[0].starts_with(&format!(
            "{API}?q=doiId_s%3A%2210.1000%2Ftides%22&fl=halId_s"
        )),
        "{:?}",
        web.asked()
    );
}

#[test]
fn documents_are_found_by_their_own_ids() {
    for id in [
        "https://hal.science/hal-01234567v2",
        "https://hal.science/hal-01234567/document",
        "https://hal.univ-town.example/hal-01234567",
    ] {
        let web = Script::new().on(API, 200, fixture("hal/search.json"));
        assert_eq!(
            show(&ask(&Hal::new(settings()), &[id], &web)[0]),
            FILE,
            "{id}"
        );
        assert!(
            web.asked()[0].starts_with(&format!("{API}?q=halId_s%3A%22hal-01234567%22&")),
            "{:?}",
            web.asked()
        );
    }
}

#[test]
fn a_document_that_states_no_doi_has_to_prove_itself() {
    let mut work = work("10.1000/elsewhere");
    work.record_links = vec![Url::parse("https://hal.science/hal-01234567").unwrap()];
    let bare = String::from_utf8(fixture("hal/search.json"))
        .unwrap()
        .replace("\"doiId_s\": \"10.1000/TIDES\", ", "");
    let web = Script::new().on(API, 200, bare);
    let LookupOutcome::Found(found) = resolve(&Hal::new(settings()), &[work], &web).remove(0)
    else {
        panic!("a place to try")
    };
    assert!(found.locations[0].needs_evidence);
    assert_eq!(web.asked().len(), 2, "by DOI, then by id");
}

#[test]
fn notices_closed_files_and_unknown_works_are_clean_misses() {
    let miss = |body: String| {
        let web = Script::new().on(API, 200, body);
        show(&ask(&Hal::new(settings()), &["10.1000/tides"], &web)[0])
            .lines()
            .next()
            .unwrap()
            .to_owned()
    };
    let document = |fields: &str| {
        format!(
            "{{\"response\":{{\"docs\":[{{\"halId_s\":\"hal-01234567\",\"uri_s\":\"https://hal.science/hal-01234567\",\"doiId_s\":\"10.1000/tides\",{fields}}}]}}}}"
        )
    };
    assert_eq!(
        miss(String::from_utf8(fixture("hal/none.json")).unwrap()),
        "not found: HAL does not know it"
    );
    assert_eq!(
        miss(document(
            "\"submitType_s\":\"notice\",\"openAccess_bool\":true"
        )),
        "not found: HAL has the document, but it has no file there"
    );
    assert_eq!(
        miss(document(
            "\"openAccess_bool\":false,\"fileMain_s\":\"https://hal.science/hal-01234567/document\""
        )),
        "not found: HAL has the document, but its file is not open"
    );
    assert_eq!(
        miss(document("\"submitType_s\":\"file\"")),
        "Pdf https://hal.science/hal-01234567/document"
    );
}

#[test]
fn nonsense_has_reasons() {
    let hal = Hal::new(settings());
    assert_bad_answers_have_reasons(&hal, "10.1000/tides", API);
    for id in [
        "pmid:1",
        "https://hal.science/search/index",
        "https://example.org/hal-01234567",
    ] {
        assert_eq!(
            hal.applies(&work(id)),
            Applicability::No(&[IdentifierNeed::Doi, IdentifierNeed::OwnRecord]),
            "{id}"
        );
    }
}
