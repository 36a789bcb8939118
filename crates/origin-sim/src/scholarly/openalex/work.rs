//! A work in the form of the catalogue.

use serde_json::{Value, json};

use super::super::hosts::ARXIV_PAGES;
use super::super::paper::{Agency, Copy, CopyMention, Paper, TOPICS};

/// Returns a [`Paper`] as JSON; `None` if the catalogue does not list it.
pub(super) fn work(paper: &Paper) -> Option<Value> {
    let id = format!("https://openalex.org/W{}", paper.openalex?);
    let doi = paper
        .doi
        .as_ref()
        .map(|(doi, _)| format!("https://doi.org/{doi}"));
    let locations = locations(paper, &id);
    let best = locations
        .iter()
        .find(|location| location["is_oa"] == true)
        .cloned();
    let title = (paper.number % 23 != 7).then_some(&paper.title);
    let crossref = paper.doi_of(Agency::Crossref).is_some();
    let (topic, topic_name) = TOPICS[paper.topic];
    Some(json!({
        "id": id,
        "doi": doi,
        "title": title,
        "display_name": title,
        "publication_year": paper.year,
        "publication_date": format!("{}-03-01", paper.year),
        "language": if paper.number.is_multiple_of(11) { None } else { Some("en") },
        "type": "article",
        "ids": ids(paper, &id, doi.as_deref()),
        "indexed_in": if crossref { json!(["crossref"]) } else { json!(["datacite"]) },
        "primary_location": locations.first(),
        "best_oa_location": best,
        "locations_count": locations.len(),
        "locations": locations,
        "open_access": open_access(paper, best.as_ref()),
        "authorships": authorships(paper),
        "biblio": {"volume": (paper.number % 30 + 1).to_string(), "issue": null,
                   "first_page": "1", "last_page": "9"},
        "topics": [{
            "id": format!("https://openalex.org/{topic}"),
            "display_name": topic_name,
            "score": 0.98,
        }],
        "has_fulltext": is_open(paper),
        "has_content": {"pdf": false, "grobid_xml": false},
        "content_urls": null,
        "is_retracted": false,
        "is_paratext": false,
        "cited_by_count": paper.number % 40,
        "updated_date": "2026-09-01T00:00:00",
        "abstract_inverted_index": {"About": [0], "the": [1, 3], "work": [2], "itself": [4]},
    }))
}

fn authorships(paper: &Paper) -> Vec<Value> {
    let authors = paper.authors().into_iter();
    let named = authors.map(|(given, family)| {
        let name = format!("{given} {family}");
        json!({"author": {"display_name": name.trim(), "orcid": null}, "raw_author_name": name.trim()})
    });
    named.collect()
}

pub(super) fn is_open(paper: &Paper) -> bool {
    paper.arxiv.is_some()
        || paper.central.is_some()
        || paper
            .copies
            .iter()
            .any(|copy| copy.openalex != CopyMention::No)
}

/// Lists the locations of a [`Paper`]: at its publisher, in repositories, on arXiv.
fn locations(paper: &Paper, id: &str) -> Vec<Value> {
    let mut locations: Vec<Value> = Vec::new();
    if paper.home.is_some_and(|home| paper.copy_at(home).is_none()) {
        locations.push(location(&WorkLocation {
            id,
            page: paper.home_page(),
            file: None,
            version: None,
            kind: "journal",
        }));
    }
    locations.extend(
        paper
            .copies
            .iter()
            .filter(|copy| copy.openalex != CopyMention::No)
            .map(|copy| of_copy(id, copy)),
    );
    if let Some((arxiv, _)) = &paper.arxiv {
        // Half of the locations name only the page.
        let file = paper
            .number
            .is_multiple_of(2)
            .then(|| format!("http://{ARXIV_PAGES}/pdf/{arxiv}"));
        locations.push(location(&WorkLocation {
            id: &format!("pmh:oai:arXiv.org:{arxiv}"),
            page: Some(format!("http://{ARXIV_PAGES}/abs/{arxiv}")),
            file,
            version: Some("submittedVersion"),
            kind: "repository",
        }));
    }
    locations
}

fn open_access(paper: &Paper, best: Option<&Value>) -> Value {
    let url = best.map(|best| {
        if best["pdf_url"].is_null() {
            best["landing_page_url"].clone()
        } else {
            best["pdf_url"].clone()
        }
    });
    let crossref = paper.doi_of(Agency::Crossref).is_some();
    let status = match (best, crossref) {
        (None, _) if paper.central.is_none() => "closed",
        (Some(best), true) if best["source"]["type"] == "journal" => "gold",
        _ => "green",
    };
    json!({
        "is_oa": is_open(paper),
        "oa_status": status,
        "oa_url": url,
        "any_repository_has_fulltext": status == "green",
    })
}

fn ids(paper: &Paper, id: &str, doi: Option<&str>) -> Value {
    let mut ids = json!({"openalex": id});
    if let Some(doi) = doi {
        ids["doi"] = doi.into();
    }
    if let Some(pmid) = paper.pmid {
        ids["pmid"] = format!("https://pubmed.ncbi.nlm.nih.gov/{pmid}").into();
    }
    if let Some(central) = paper.central {
        // Both spellings occur in the real catalogue.
        let pmcid = central.pmcid;
        ids["pmcid"] = if paper.number.is_multiple_of(2) {
            format!("https://www.ncbi.nlm.nih.gov/pmc/articles/{pmcid}").into()
        } else {
            format!("PMC{pmcid}").into()
        };
    }
    ids
}

fn of_copy(id: &str, copy: &Copy) -> Value {
    let kind = if copy.page.starts_with("/record/") {
        "repository"
    } else {
        "journal"
    };
    location(&WorkLocation {
        id,
        page: Some(copy.page_url()),
        file: (copy.openalex == CopyMention::File).then(|| copy.url()),
        version: Some(copy.version.word()),
        kind,
    })
}

/// A location of a work. Open if the location has a version.
struct WorkLocation<'a> {
    id: &'a str,
    page: Option<String>,
    file: Option<String>,
    version: Option<&'static str>,
    kind: &'static str,
}

fn location(location: &WorkLocation<'_>) -> Value {
    let version = location.version;
    let open = version.is_some();
    json!({
        "id": location.id,
        "is_oa": open,
        "landing_page_url": location.page,
        "pdf_url": location.file,
        "source": {
            "id": "https://openalex.org/S100",
            "display_name": "A Source",
            "issn_l": null,
            "is_oa": open,
            "is_in_doaj": false,
            "type": location.kind,
        },
        "license": if open { Some("cc-by") } else { None },
        "license_id": null,
        "version": version,
        "is_accepted": version.is_some_and(|version| version != "submittedVersion"),
        "is_published": version == Some("publishedVersion"),
    })
}
