//! Services often name the PDF itself as the landing page of a work.

use docstokg_origin_sim::ScriptedReply;

use crate::odd_responses::{asked, found_at, get, page, world};
use crate::run_world::pdf;

const PLACE: &str = "http://svc.example/article/7";

fn json(text: String) -> ScriptedReply {
    ScriptedReply::ok(text).header("content-type", "application/json")
}

/// Returns what each service says about a work whose landing page is `PLACE`.
fn records() -> Vec<(&'static str, &'static str, String)> {
    let openalex = format!(
        r#"{{"id":"https://openalex.org/W1","doi":"https://doi.org/10.5555/a","title":"A","locations":[
            {{"is_oa":true,"landing_page_url":"{PLACE}","pdf_url":null}}]}}"#
    );
    let crossref = format!(
        r#"{{"message":{{"DOI":"10.5555/a","title":["A"],"resource":{{"primary":{{"URL":"{PLACE}"}}}}}}}}"#
    );
    let datacite =
        format!(r#"{{"data":{{"attributes":{{"titles":[{{"title":"A"}}],"url":"{PLACE}"}}}}}}"#);
    let doaj = format!(
        r#"{{"results":[{{"bibjson":{{"title":"A","identifier":[{{"type":"doi","id":"10.5555/a"}}],
            "link":[{{"type":"fulltext","url":"{PLACE}"}}]}}}}]}}"#
    );
    let unpaywall = format!(
        r#"{{"doi":"10.5555/a","is_oa":true,"title":"A","oa_locations":[
            {{"url_for_pdf":null,"url":"{PLACE}","url_for_landing_page":"{PLACE}"}}]}}"#
    );
    let europe_pmc = format!(
        r#"{{"resultList":{{"result":[{{"id":"1","source":"MED","doi":"10.5555/a","title":"A",
            "fullTextUrlList":{{"fullTextUrl":[{{"availabilityCode":"OA","documentStyle":"html","url":"{PLACE}"}}]}}}}]}}}}"#
    );
    vec![
        ("openalex", "/openalex/", openalex),
        ("crossref", "/crossref/", crossref),
        ("crossref", "/datacite/", datacite),
        ("doaj", "/doaj/", doaj),
        ("unpaywall", "/unpaywall/", unpaywall),
        ("europe_pmc", "/europe_pmc/", europe_pmc),
    ]
}

#[test]
fn a_landing_page_that_is_the_pdf_is_kept_whichever_service_names_it() {
    for (resolver, prefix, record) in records() {
        let world = world(move |path, _| match path {
            "/article/7" => pdf(path),
            path if path.starts_with(prefix) => json(record.clone()),
            _ => ScriptedReply::status(404),
        });
        let (saved, _) = get(&world, "10.5555/a");
        assert_eq!(
            (&saved["classification"], &saved["resolver"]),
            (&"pdf".into(), &resolver.into()),
            "{prefix}: {saved}"
        );
        assert_eq!(saved["url"], PLACE, "{prefix}");
        assert!(asked(&world, "/article/7") <= 2, "{prefix}");
    }
}

#[test]
fn a_landing_page_that_is_a_pdf_larger_than_any_page_is_kept() {
    let world = world(|path, _| match path {
        "/article/7" => {
            let large = vec![b' '; 9 << 20];
            ScriptedReply::ok(docstokg_origin_sim::pdf::carrying(&large))
        }
        path if path.starts_with("/crossref/") => json(records()[1].2.clone()),
        _ => ScriptedReply::status(404),
    });
    let (saved, _) = get(&world, "10.5555/a");
    assert_eq!(saved["classification"], "pdf", "{saved}");
}

#[test]
fn a_page_that_names_its_own_address_as_the_file_is_asked_once() {
    let world = world(|path, _| match path {
        "/article/7" => page(&format!(
            r#"<meta name="citation_pdf_url" content="{PLACE}">"#
        )),
        path if path.starts_with("/crossref/") => json(records()[1].2.clone()),
        _ => ScriptedReply::status(404),
    });
    let (record, _) = get(&world, "10.5555/a");
    assert_eq!(record["reason"], "html_only", "{record}");
    assert_eq!(asked(&world, "/article/7"), 1);
}

#[test]
fn a_page_that_another_service_calls_a_file_is_fetched_as_one_at_once() {
    let world = world(|path, _| match path {
        "/article/7" => pdf(path),
        path if path.starts_with("/openalex/") => json(records()[0].2.clone()),
        path if path.starts_with("/unpaywall/") => found_at("/article/7"),
        _ => ScriptedReply::status(404),
    });
    let (saved, _) = get(&world, "10.5555/a");
    assert_eq!(saved["classification"], "pdf", "{saved}");
    assert_eq!(asked(&world, "/article/7"), 1);
}

#[test]
fn a_doi_that_doi_org_does_not_know_is_not_called_a_page() {
    let openalex = r#"{"id":"https://openalex.org/W1","doi":"https://doi.org/10.5555/a","title":"A","locations":[
        {"is_oa":true,"landing_page_url":"http://svc.example/doi/10.5555/a","pdf_url":null}]}"#;
    let world = world(move |path, _| match path {
        path if path.starts_with("/openalex/") => json(openalex.to_owned()),
        _ => ScriptedReply::status(404),
    });
    let (record, _) = get(&world, "10.5555/a");
    assert_eq!(record["reason"], "not_found", "{record}");
}
