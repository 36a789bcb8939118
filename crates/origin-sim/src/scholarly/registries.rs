//! The registries of DOIs: Crossref and `DataCite`, and doi.org with redirects to publishers.

use serde_json::{Value, json};

use super::decoded_request::{self, DecodedRequest};
use super::paper::{Agency, Paper};
use super::world::ScholarlyWorld;
use crate::ledger::Arrival;
use crate::reply::ScriptedReply;

pub(super) fn crossref(world: &ScholarlyWorld, arrival: &Arrival) -> ScriptedReply {
    let asked = DecodedRequest::of(arrival);
    let path = asked.path.strip_prefix("/v1").unwrap_or(&asked.path);
    let reply = match path.strip_prefix("/works/") {
        Some(doi) => match world
            .with_doi(doi)
            .filter(|paper| paper.doi_of(Agency::Crossref).is_some())
        {
            Some(paper) => decoded_request::json(
                200,
                &json!({
                    "status": "ok",
                    "message-type": "work",
                    "message-version": "1.0.0",
                    "message": work(paper),
                }),
            ),
            None => decoded_request::text(404, "text/plain", "Resource not found."),
        },
        None if path == "/works" => list(world, &asked),
        None => decoded_request::text(404, "text/plain", "Resource not found."),
    };
    let (pool, rate) = if path == "/works" {
        ("polite-array", 3)
    } else {
        ("polite-single", 10)
    };
    let rate = (rate * u64::from(world.plan.scale.max(1))).to_string();
    reply
        .header("x-api-pool", pool)
        .header("x-rate-limit-limit", &rate)
        .header("x-rate-limit-interval", "1s")
        .header("x-concurrency-limit", "3")
}

fn list(world: &ScholarlyWorld, asked: &DecodedRequest) -> ScriptedReply {
    let rows = asked
        .get("rows")
        .and_then(|rows| rows.parse().ok())
        .unwrap_or(20);
    let dois = asked
        .get("filter")
        .unwrap_or_default()
        .split(',')
        .filter_map(|filter| filter.strip_prefix("doi:"));
    let papers = dois
        .filter_map(|doi| world.with_doi(doi))
        .filter(|paper| paper.doi_of(Agency::Crossref).is_some());
    let items: Vec<Value> = papers
        .take(rows)
        .map(|paper| selected(work(paper), asked))
        .collect();
    let query = json!({"start-index": 0, "search-terms": null});
    let message = json!({
        "facets": {},
        "total-results": items.len(),
        "items-per-page": rows,
        "query": query,
        "items": items,
    });
    decoded_request::json(
        200,
        &json!({
            "status": "ok",
            "message-type": "work-list",
            "message-version": "1.0.0",
            "message": message,
        }),
    )
}

fn selected(mut work: Value, asked: &DecodedRequest) -> Value {
    if let (Some(select), Some(fields)) = (asked.get("select"), work.as_object_mut()) {
        fields.retain(|name, _| select.split(',').any(|wanted| wanted == name));
    }
    work
}

fn work(paper: &Paper) -> Value {
    let doi = paper.doi_of(Agency::Crossref).unwrap_or_default();
    let home = paper.home;
    let mut links: Vec<Value> = Vec::new();
    if let Some(copy) = home
        .filter(|home| home.mining)
        .and_then(|home| paper.copy_at(home))
    {
        links.push(link(&copy.url(), "application/pdf", "text-mining"));
        links.push(link(&copy.url(), "unspecified", "similarity-checking"));
    }
    // DOIs are printed in the publisher's spelling.
    let printed = if paper.number.is_multiple_of(5) {
        doi.to_ascii_uppercase()
    } else {
        doi.to_owned()
    };
    let created = format!("{}-03-01T00:00:00Z", paper.year);
    let mut work = json!({
        "DOI": printed,
        "URL": format!("https://doi.org/{doi}"),
        "type": "journal-article",
        "title": [paper.title],
        "container-title": ["A Journal"],
        "publisher": home.map(|home| home.name),
        "prefix": home.map(|home| home.prefix),
        "issued": {"date-parts": [[paper.year, 3, 1]]},
        "created": {"date-parts": [[paper.year, 3, 1]], "date-time": created},
        "author": authors(paper),
        "resource": {"primary": {"URL": paper.home_page()}},
        "is-referenced-by-count": paper.number % 40,
        "reference-count": 12,
        "score": 1.0,
        "source": "Crossref",
    });
    if !links.is_empty() {
        let licence = json!({
            "URL": "https://creativecommons.org/licenses/by/4.0/",
            "delay-in-days": 0,
            "content-version": "vor",
        });
        work["link"] = links.into();
        work["license"] = json!([licence]);
    }
    if let Some((id, _)) = &paper.arxiv {
        work["relation"] =
            json!({"has-preprint": [{"id-type": "arxiv", "id": id, "asserted-by": "subject"}]});
    }
    work
}

fn authors(paper: &Paper) -> Vec<Value> {
    let authors = paper.authors().into_iter();
    let named = authors.map(|(given, family)| match given {
        "" => json!({"name": family, "sequence": "first", "affiliation": []}),
        _ => json!({"given": given, "family": family, "sequence": "first", "affiliation": []}),
    });
    named.collect()
}

fn link(url: &str, kind: &str, application: &str) -> Value {
    json!({
        "URL": url,
        "content-type": kind,
        "content-version": "vor",
        "intended-application": application,
    })
}

pub(super) fn datacite(world: &ScholarlyWorld, arrival: &Arrival) -> ScriptedReply {
    let asked = DecodedRequest::of(arrival);
    let paper = asked
        .path
        .strip_prefix("/dois/")
        .and_then(|doi| world.with_doi(doi))
        .filter(|paper| paper.doi_of(Agency::DataCite).is_some());
    let Some(paper) = paper else {
        let title = "The resource you are looking for doesn't exist.";
        return decoded_request::json(404, &json!({"errors": [{"status": "404", "title": title}]}));
    };
    let doi = paper.doi_of(Agency::DataCite).unwrap_or_default();
    // Many repositories never declare the address of the file.
    let content = paper
        .copies
        .first()
        .filter(|_| paper.number.is_multiple_of(2))
        .map(|copy| json!([copy.url()]));
    let attributes = json!({
        "doi": doi,
        "url": paper.home_page(),
        "contentUrl": content,
        "titles": [{"title": paper.title}],
        "publicationYear": paper.year,
        "types": {"resourceTypeGeneral": "Preprint"},
        "rightsList": [{
            "rightsUri": "https://creativecommons.org/licenses/by/4.0/legalcode",
            "rightsIdentifier": "cc-by-4.0",
        }],
        "relatedIdentifiers": [],
    });
    decoded_request::json(
        200,
        &json!({"data": {"id": doi, "type": "dois", "attributes": attributes}}),
    )
}

pub(super) fn doi_org(world: &ScholarlyWorld, arrival: &Arrival) -> ScriptedReply {
    let asked = DecodedRequest::of(arrival);
    match world
        .with_doi(asked.path.trim_start_matches('/'))
        .and_then(Paper::home_page)
    {
        Some(page) => ScriptedReply::redirect(302, &page).header("vary", "Accept"),
        None => decoded_request::page(
            404,
            "<html><head><title>Error: DOI Not Found</title></head>\
             <body><h1>DOI Not Found</h1></body></html>",
        ),
    }
}
