use docstokg_content::identifier::Identifier;
use docstokg_content::resolver::{LookupOutcome, TitleSearch};
use docstokg_content::work::Work;

use crate::scripted_web::{Script, assert_bad_answers_have_reasons, resolve, settings};

const CROSSREF: &str = "https://api.crossref.org/works?";
const OPENALEX: &str = "https://api.openalex.org/works?";
const TITLE: &str = "Growth of reed beds along the shores of shallow lakes";

fn wanted(year: Option<i32>, author: Option<&str>) -> Work {
    let mut work = Work::new(Identifier::parse(&format!("title:{TITLE}")).unwrap());
    work.year = year;
    work.first_author = author.map(str::to_owned);
    work
}

/// A list of Crossref with these titles, years and families.
fn crossref(items: &[(&str, &str, i32, &str)]) -> String {
    let item = |(doi, title, year, family): &(&str, &str, i32, &str)| {
        serde_json::json!({
            "DOI": doi, "title": [title], "issued": {"date-parts": [[year, 5]]},
            "author": [{"family": family, "given": "A.", "sequence": "first"}],
        })
    };
    let items: Vec<_> = items.iter().map(item).collect();
    serde_json::json!({"status": "ok", "message": {"items": items}}).to_string()
}

fn openalex(title: &str, year: i32, author: &str) -> String {
    serde_json::json!({"meta": {}, "results": [{
        "id": "https://openalex.org/W42", "doi": "https://doi.org/10.5555/jw.42", "title": title,
        "publication_year": year, "authorships": [{"author": {"display_name": author}}],
        "ids": {"pmid": "https://pubmed.ncbi.nlm.nih.gov/31000001"},
    }]})
    .to_string()
}

fn search(work: &Work, web: &Script) -> String {
    let resolver = TitleSearch::new(settings());
    let outcomes = resolve(&resolver, std::slice::from_ref(work), web);
    match &outcomes[0] {
        LookupOutcome::Found(found) => {
            assert!(found.locations.is_empty());
            found.learned.matched_by.clone().unwrap_or_default()
        }
        LookupOutcome::NotFound { detail, .. } => format!("not found: {detail}"),
        LookupOutcome::Failed(failure) => format!("failed: {}", failure.reason),
    }
}

#[test]
fn a_title_is_found_with_evidence_and_at_openalex_only_if_crossref_has_none() {
    let other = (
        "10.5555/other",
        "Growth of algae along the shores of shallow lakes",
        2019,
        "Holm",
    );
    let own = ("10.5555/jw.42", TITLE, 2019, "Holm");
    let web = Script::new().on(CROSSREF, 200, crossref(&[other, own]));
    let work = wanted(Some(2019), Some("Holm, A."));
    assert_eq!(
        search(&work, &web),
        "found by its title at Crossref as doi:10.5555/jw.42: same title, year and first author"
    );
    let requested = web.asked();
    assert_eq!(requested.len(), 1, "{requested:?}");
    assert!(
        requested[0].contains("query.bibliographic=growth+of+reed+beds")
            && requested[0].contains("holm+a+2019"),
        "{requested:?}"
    );
    let web = Script::new().on(CROSSREF, 200, crossref(&[other])).on(
        OPENALEX,
        200,
        openalex(TITLE, 2020, "Anna Holm"),
    );
    assert_eq!(
        search(&work, &web),
        "found by its title at OpenAlex as doi:10.5555/jw.42: same title, year and first author"
    );
    let web = Script::new().on(CROSSREF, 200, crossref(&[other])).on(
        OPENALEX,
        200,
        openalex(TITLE, 2019, "Bert Berg"),
    );
    assert_eq!(
        search(&work, &web),
        "not found: Crossref knows no work with this title; OpenAlex knows no work with this title"
    );
}

#[test]
fn several_works_with_one_title_are_not_mixed_up() {
    let one = ("10.5555/a", TITLE, 2019, "Holm");
    let two = ("10.5555/b", TITLE, 2019, "Berg");
    let unrelated = openalex("Another title of another work", 2019, "Anna Holm");
    let web = Script::new()
        .on(CROSSREF, 200, crossref(&[one, two]))
        .on(OPENALEX, 200, unrelated);
    assert!(search(&wanted(None, None), &web).starts_with(
        "not found: Crossref knows several works with this title, by different authors"
    ));
    assert!(search(&wanted(None, Some("B. Berg")), &web).contains("doi:10.5555/b"));
}

#[test]
fn a_search_that_the_day_cannot_pay_is_not_sent() {
    let empty = crossref(&[]);
    let unrelated = openalex("Another title of another work", 2019, "Anna Holm");
    let web = Script::new().on(CROSSREF, 200, empty).with(
        OPENALEX,
        200,
        unrelated,
        &[("x-ratelimit-remaining", "9")],
        OPENALEX,
    );
    let resolver = TitleSearch::new(settings());
    for asked in [2, 3] {
        resolve(&resolver, &[wanted(None, None)], &web);
        assert_eq!(web.asked().len(), asked);
    }
}

#[test]
fn bad_answers_have_reasons() {
    let id = format!("title:{TITLE}");
    assert_bad_answers_have_reasons(&TitleSearch::new(settings()), &id, CROSSREF);
}
