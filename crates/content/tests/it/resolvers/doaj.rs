use docstokg_content::resolver::{Applicability, Doaj, IdentifierNeed, Resolver};

use crate::scripted_web::{
    Script, ask, assert_bad_answers_have_reasons, fixture, settings, show, work,
};

const API: &str = "https://doaj.org/api/v4/search/articles/";

#[test]
fn a_stated_pdf_is_the_file_and_every_other_link_a_page() {
    let web = Script::new().on(API, 200, fixture("doaj/search.json"));
    let shown = show(&ask(&Doaj::new(settings()), &["10.1000/bees"], &web)[0]);
    assert_eq!(
        web.asked(),
        [format!("{API}doi:%2210.1000/bees%22?page=1&pageSize=5")]
    );
    assert_eq!(
        shown,
        "Pdf https://journal.example/article/download/17\n\
         Landing http://journal.example/article/view/17\n\
         learned 'Bees of the Alps' 2021"
    );
}

#[test]
fn an_article_of_another_doi_is_not_the_work() {
    let web = Script::new().on(API, 200, fixture("doaj/search.json"));
    assert_eq!(
        show(&ask(&Doaj::new(settings()), &["10.1000/ants"], &web)[0]),
        "not found: DOAJ does not know it\nlearned "
    );
}

#[test]
fn a_doi_cannot_end_the_quoted_query() {
    let web = Script::new().on(API, 200, fixture("doaj/search.json"));
    ask(&Doaj::new(settings()), &["10.1000/a\"b<c>"], &web);
    assert_eq!(
        web.asked(),
        [format!(
            "{API}doi:%2210.1000/a%5C%22b%3Cc%3E%22?page=1&pageSize=5"
        )]
    );
}

#[test]
fn nonsense_has_reasons() {
    let doaj = Doaj::new(settings());
    assert_bad_answers_have_reasons(&doaj, "10.1000/bees", API);
    assert_eq!(
        doaj.applies(&work("pmid:1")),
        Applicability::No(&[IdentifierNeed::Doi])
    );
}
