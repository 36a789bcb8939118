use docstokg_content::resolver::{Applicability, EuropePmc, IdentifierNeed, Resolver};

use crate::scripted_web::{
    Script, ask, assert_bad_answers_have_reasons, fixture, settings, show, work,
};

const API: &str = "https://www.ebi.ac.uk/europepmc/webservices/rest/search";

#[test]
fn the_right_result_is_taken_and_its_open_texts_listed() {
    let web = Script::new().on(API, 200, fixture("europe_pmc/search.json"));
    let outcomes = ask(&EuropePmc::new(settings()), &["10.1000/a"], &web);
    assert_eq!(
        web.asked(),
        [format!(
            "{API}?query=DOI%3A%2210.1000%2Fa%22&format=json&resultType=core&pageSize=5&email=reader%40library.edu"
        )]
    );
    insta::assert_snapshot!(show(&outcomes[0]));
}

#[test]
fn every_kind_of_identifier_has_its_query() {
    for (id, query) in [
        ("PMC123.2", "PMCID%3APMC123"),
        ("pmid:77", "EXT_ID%3A77+AND+SRC%3AMED"),
    ] {
        let web = Script::new().on(API, 200, fixture("europe_pmc/search.json"));
        let outcomes = ask(&EuropePmc::new(settings()), &[id], &web);
        assert!(
            web.asked()[0].contains(&format!("query={query}&")),
            "{:?}",
            web.asked()
        );
        assert!(show(&outcomes[0]).starts_with("Pdf "));
    }
    assert_eq!(
        EuropePmc::new(settings()).applies(&work("W1")),
        Applicability::No(&[
            IdentifierNeed::PmcId,
            IdentifierNeed::PubMedId,
            IdentifierNeed::Doi
        ])
    );
}

#[test]
fn no_result_another_result_and_a_closed_one_are_clean_misses() {
    let miss = |body: Vec<u8>, id: &str| {
        show(
            &ask(
                &EuropePmc::new(settings()),
                &[id],
                &Script::new().on(API, 200, body),
            )[0],
        )
    };
    assert_eq!(
        miss(fixture("europe_pmc/none.json"), "10.1000/a"),
        "not found: Europe PMC does not know it\nlearned "
    );
    assert_eq!(
        miss(fixture("europe_pmc/search.json"), "10.1000/zzz"),
        "not found: Europe PMC does not know it\nlearned "
    );
    assert_eq!(
        miss(fixture("europe_pmc/sparse.json"), "10.1000/a"),
        "not found: Europe PMC knows the work, but has no open full text\nlearned doi:10.1000/a"
    );
}

#[test]
fn nonsense_has_reasons() {
    assert_bad_answers_have_reasons(&EuropePmc::new(settings()), "10.1000/a", API);
}
