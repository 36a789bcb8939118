use docstokg_content::resolver::{
    Applicability, Figshare, IdentifierNeed, LookupOutcome, Resolver,
};
use url::Url;

use crate::scripted_web::{
    Script, ask, assert_bad_answers_have_reasons, fixture, resolve, settings, show, work,
};

const API: &str = "https://api.figshare.com/v2/articles/";

#[test]
fn the_only_pdf_of_an_item_is_taken_and_external_links_are_not() {
    for (id, asked) in [
        ("10.6084/m9.figshare.9123456", "9123456"),
        ("10.6084/m9.figshare.9123456.v2", "9123456/versions/2"),
        (
            "https://figshare.com/articles/preprint/How_libraries/9123456",
            "9123456",
        ),
        (
            "https://library.figshare.com/articles/preprint/2020_x/9123456/2",
            "9123456/versions/2",
        ),
    ] {
        let web = Script::new().on(API, 200, fixture("figshare/article.json"));
        let shown = show(&ask(&Figshare::new(settings()), &[id], &web)[0]);
        assert_eq!(web.asked(), [format!("{API}{asked}")], "{id}");
        assert_eq!(
            shown,
            "Pdf https://ndownloader.figshare.com/files/16500002 [CC BY 4.0] \
             Md5(\"92eb5ffee6ae2fec3ad71c777531578f\")\n\
             learned doi:10.6084/m9.figshare.9123456.v2 'How libraries lend instruments' 2021"
        );
    }
}

#[test]
fn an_item_that_belongs_to_an_article_is_not_the_article() {
    let mut article = work("10.1000/instruments");
    article.record_links =
        vec![Url::parse("https://figshare.com/articles/preprint/x/9123456").unwrap()];
    let ask = |article| {
        let web = Script::new().on(API, 200, fixture("figshare/article.json"));
        resolve(&Figshare::new(settings()), &[article], &web).remove(0)
    };
    assert_eq!(
        show(&ask(article.clone())),
        "not found: figshare: the record belongs to the work and is not the work itself\nlearned "
    );
    article.identifiers.doi = Some("10.1000/unrelated".parse().unwrap());
    let LookupOutcome::Found(found) = ask(article) else {
        panic!("a place to try")
    };
    assert!(found.locations[0].needs_evidence);
}

#[test]
fn all_files_of_an_item_are_known_before_one_is_chosen() {
    let web = Script::new()
        .on(
            &format!("{API}9200001/files"),
            200,
            fixture("figshare/many_files.json"),
        )
        .on(API, 200, fixture("figshare/many.json"));
    let shown = show(
        &ask(
            &Figshare::new(settings()),
            &["10.6084/m9.figshare.9200001"],
            &web,
        )[0],
    );
    assert_eq!(
        web.asked(),
        [
            format!("{API}9200001"),
            format!("{API}9200001/files?page_size=200")
        ]
    );
    assert!(
        shown.starts_with(
            "not found: figshare has the item, but it has several PDFs, and none stands out"
        ),
        "{shown}"
    );
}

#[test]
fn embargoed_confidential_and_other_items_are_not_found() {
    let whole = String::from_utf8(fixture("figshare/article.json")).unwrap();
    for (from, to, why) in [
        (
            "\"is_embargoed\": false",
            "\"is_embargoed\": true",
            "it is under embargo",
        ),
        (
            "\"is_confidential\": false",
            "\"is_confidential\": true",
            "it is confidential",
        ),
        (
            "\"download_disabled\": false",
            "\"download_disabled\": true",
            "its files cannot be downloaded",
        ),
        (
            "\"defined_type_name\": \"preprint\"",
            "\"defined_type_name\": \"dataset\"",
            "it is not a text (type: dataset)",
        ),
    ] {
        let web = Script::new().on(API, 200, whole.replace(from, to));
        let shown = show(
            &ask(
                &Figshare::new(settings()),
                &["10.6084/m9.figshare.9123456"],
                &web,
            )[0],
        );
        assert!(
            shown.starts_with(&format!("not found: figshare has the item, but {why}")),
            "{shown}"
        );
    }
}

#[test]
fn nonsense_has_reasons() {
    let figshare = Figshare::new(settings());
    assert_bad_answers_have_reasons(&figshare, "10.6084/m9.figshare.9123456", API);
    for id in [
        "10.1000/a",
        // A collection of items.
        "10.6084/m9.figshare.c.123",
        "https://figshare.com/s/0123456789",
        "https://notfigshare.com/articles/x/1",
    ] {
        assert_eq!(
            figshare.applies(&work(id)),
            Applicability::No(&[IdentifierNeed::OwnRecord]),
            "{id}"
        );
    }
}
