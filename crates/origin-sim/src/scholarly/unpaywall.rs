//! Unpaywall: open copies of the works that Crossref lists.

use serde_json::{Value, json};

use super::decoded_request::{self, DecodedRequest};
use super::hosts::ARXIV_PAGES;
use super::paper::{Agency, Copy, CopyMention, Paper};
use super::world::ScholarlyWorld;
use crate::ledger::Arrival;
use crate::reply::ScriptedReply;

pub(super) fn answer(world: &ScholarlyWorld, arrival: &Arrival) -> ScriptedReply {
    let asked = DecodedRequest::of(arrival);
    let complaint = |status: u16, message: &str| {
        decoded_request::json(
            status,
            &json!({"HTTP_status_code": status, "error": true, "message": message}),
        )
    };
    let Some(doi) = asked.path.strip_prefix("/v2/") else {
        return complaint(404, "Not found");
    };
    match asked.get("email") {
        Some(email) if email.contains('@') && !email.ends_with("@example.com") => {}
        _ => {
            return complaint(
                422,
                "Please use your own email address in API calls. \
                 See http://unpaywall.org/products/api",
            );
        }
    }
    match world
        .with_doi(doi)
        .filter(|paper| paper.doi_of(Agency::Crossref).is_some())
    {
        Some(paper) => decoded_request::json(200, &record(paper)),
        None => complaint(
            404,
            &format!("'{doi}' isn't in Unpaywall. See http://unpaywall.org/products/api"),
        ),
    }
}

fn record(paper: &Paper) -> Value {
    let doi = paper.doi_of(Agency::Crossref).unwrap_or_default();
    let mut copies: Vec<Value> = paper
        .copies
        .iter()
        .filter(|copy| copy.unpaywall != CopyMention::No)
        .map(of_copy)
        .collect();
    if let Some((id, _)) = &paper.arxiv {
        let (page, file) = (
            format!("http://{ARXIV_PAGES}/abs/{id}"),
            format!("http://{ARXIV_PAGES}/pdf/{id}"),
        );
        copies.push(copy(
            &file,
            Some(&file),
            &page,
            "repository",
            "submittedVersion",
        ));
    }
    if let Some(best) = copies.first_mut() {
        best["is_best"] = true.into();
    }
    let status = if copies.is_empty() { "closed" } else { "green" };
    json!({
        "doi": doi,
        "doi_url": format!("https://doi.org/{doi}"),
        "title": paper.title,
        "genre": "journal-article",
        "is_paratext": false,
        "published_date": format!("{}-03-01", paper.year),
        "year": paper.year,
        "journal_name": "A Journal",
        "journal_issns": null,
        "journal_issn_l": null,
        "journal_is_oa": false,
        "journal_is_in_doaj": false,
        "publisher": paper.home.map(|home| home.name),
        "is_oa": !copies.is_empty(),
        "oa_status": status,
        "has_repository_copy": copies.iter().any(|copy| copy["host_type"] == "repository"),
        "best_oa_location": copies.first(),
        "first_oa_location": copies.first(),
        "oa_locations": copies,
        "oa_locations_embargoed": [],
        "updated": "2026-08-01T00:00:00",
        "data_standard": 2,
        "z_authors": null,
    })
}

fn of_copy(found: &Copy) -> Value {
    let (file, page) = (found.url(), found.page_url());
    let host = if found.page.starts_with("/record/") {
        "repository"
    } else {
        "publisher"
    };
    match found.unpaywall {
        CopyMention::File => copy(&file, Some(&file), &page, host, found.version.word()),
        _ => copy(&page, None, &page, host, found.version.word()),
    }
}

fn copy(url: &str, file: Option<&str>, page: &str, host: &str, version: &str) -> Value {
    json!({
        "url": url,
        "url_for_pdf": file,
        "url_for_landing_page": page,
        "host_type": host,
        "is_best": false,
        "license": null,
        "version": version,
        "oa_date": null,
        "evidence": "open (via page says license)",
        "pmh_id": null,
        "endpoint_id": null,
        "repository_institution": null,
        "updated": "2026-08-01T00:00:00",
    })
}
