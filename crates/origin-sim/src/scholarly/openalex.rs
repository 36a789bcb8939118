//! `OpenAlex`: single works, lists by filter and search with cursors, topics.

use serde_json::{Value, json};

use super::asked::{self, Asked};
use super::hosts::ARXIV_PAGES;
use super::paper::{Agency, Copy, Mention, Paper, TOPICS};
use super::world::World;
use crate::ledger::Arrival;
use crate::reply::Reply;

/// Most works of one page.
const MAX_PER_PAGE: usize = 100;
/// Works of a page, unless asked for more.
const PER_PAGE: usize = 25;
/// Most values of one filter.
const MAX_VALUES: usize = 100;
/// How cursors begin. They are not for reading.
const CURSOR: &str = "IlsxMDAuMCwgJ2h0dHBz";

pub(super) fn answer(world: &World, arrival: &Arrival) -> Reply {
    let asked = Asked::of(arrival);
    match asked.path.as_str() {
        "/works" => list(world, &asked),
        "/topics" => topics(world, &asked),
        "/rate-limit" => asked::json(
            200,
            &json!({"rate_limit": {"daily_budget_usd": 0.1, "daily_remaining_usd": 0.1, "resets_in_seconds": 3600}}),
        ),
        path => match path.strip_prefix("/works/") {
            Some(id) => single(world, id, &asked),
            None => missing(),
        },
    }
}

fn missing() -> Reply {
    asked::json(
        404,
        &json!({"error": "Not Found", "message": "the requested entity does not exist"}),
    )
}

fn refused(message: &str) -> Reply {
    asked::json(
        400,
        &json!({"error": "Invalid query parameters error.", "message": message}),
    )
}

fn single(world: &World, id: &str, asked: &Asked) -> Reply {
    let id = id
        .trim_start_matches("https://openalex.org/")
        .trim_start_matches("http://openalex.org/");
    let doi = ["doi:", "https://doi.org/", "http://doi.org/"]
        .iter()
        .find_map(|prefix| id.strip_prefix(prefix));
    let found = match (doi, id.split_once(':')) {
        (Some(doi), _) => world.with_doi(doi),
        (None, Some(("pmid", id))) => world.with_pmid(id),
        (None, Some(("pmcid", id))) => world.with_pmcid(id).map(|(paper, _)| paper),
        (None, Some(_)) => None,
        (None, None) => world.with_openalex(id),
    };
    found
        .and_then(work)
        .map_or_else(missing, |work| asked::json(200, &selected(work, asked)))
}

/// Keeps the fields that were selected.
fn selected(mut work: Value, asked: &Asked) -> Value {
    if let (Some(select), Some(fields)) = (asked.get("select"), work.as_object_mut()) {
        fields.retain(|name, _| select.split(',').any(|wanted| wanted.trim() == name));
    }
    work
}

fn list(world: &World, asked: &Asked) -> Reply {
    let filters = match asked
        .get("filter")
        .map(|text| {
            text.split(',')
                .map(Filter::parse)
                .collect::<Result<Vec<_>, _>>()
        })
        .transpose()
    {
        Ok(filters) => filters.unwrap_or_default(),
        Err(message) => return refused(&message),
    };
    let per_page = asked
        .get("per_page")
        .or_else(|| asked.get("per-page"))
        .map_or(Ok(PER_PAGE), str::parse);
    let Some(per_page) = per_page
        .ok()
        .filter(|count| (1..=MAX_PER_PAGE).contains(count))
    else {
        return refused("per-page parameter must be between 1 and 100");
    };
    let start = match (
        asked.get("cursor"),
        asked.get("page").map(str::parse::<usize>),
    ) {
        (Some("*"), _) | (None, None) => Some(0),
        (Some(cursor), _) => cursor
            .strip_prefix(CURSOR)
            .and_then(|rest| rest.trim_end_matches('=').parse().ok()),
        (None, Some(page)) => page
            .ok()
            .filter(|page| *page > 0)
            .map(|page| (page - 1) * per_page),
    };
    let Some(start) = start else {
        return refused("cursor or page is not valid");
    };
    let search = asked.get("search").map(str::to_ascii_lowercase);
    let fits = |paper: &&Paper| {
        let title = paper.title.to_ascii_lowercase();
        let found = search
            .as_ref()
            .is_none_or(|search| search.split_whitespace().all(|word| title.contains(word)));
        found && paper.openalex.is_some() && filters.iter().all(|filter| filter.fits(paper))
    };
    let known: Vec<&Paper> = world.papers.iter().filter(fits).collect();
    let results: Vec<Value> = known
        .iter()
        .skip(start)
        .take(per_page)
        .filter_map(|paper| work(paper))
        .map(|work| selected(work, asked))
        .collect();
    let mut meta = json!({"count": known.len(), "db_response_time_ms": 12, "page": null, "per_page": per_page, "groups_count": null});
    match asked.get("cursor") {
        Some(_) if start + results.len() < known.len() => {
            meta["next_cursor"] = format!("{CURSOR}{}==", start + results.len()).into()
        }
        Some(_) => meta["next_cursor"] = Value::Null,
        None => meta["page"] = (start / per_page + 1).into(),
    }
    asked::json(
        200,
        &json!({"meta": meta, "results": results, "group_by": []}),
    )
}

fn topics(world: &World, asked: &Asked) -> Reply {
    let search = asked.get("search").unwrap_or_default().to_ascii_lowercase();
    let fits = |name: &str| {
        search
            .split_whitespace()
            .all(|word| name.to_ascii_lowercase().contains(word))
    };
    let topic = |(at, (id, name)): (usize, &(&str, &str))| {
        let count = world
            .papers
            .iter()
            .filter(|paper| paper.openalex.is_some() && paper.topic == at)
            .count();
        json!({"id": format!("https://openalex.org/{id}"), "display_name": name, "works_count": count})
    };
    let results: Vec<Value> = TOPICS
        .iter()
        .enumerate()
        .filter(|(_, (_, name))| fits(name))
        .map(topic)
        .collect();
    asked::json(
        200,
        &json!({"meta": {"count": results.len(), "page": 1, "per_page": PER_PAGE}, "results": results, "group_by": []}),
    )
}

/// One condition of a list.
struct Filter {
    field: String,
    values: Vec<String>,
}

impl Filter {
    fn parse(text: &str) -> Result<Self, String> {
        let (field, values) = text
            .split_once(':')
            .ok_or_else(|| format!("{text} is not a filter"))?;
        let values: Vec<String> = values
            .split('|')
            .map(|value| value.trim().to_ascii_lowercase())
            .collect();
        if values.len() > MAX_VALUES {
            return Err(format!("Maximum number of values exceeded for {field}"));
        }
        let known = [
            "doi",
            "pmid",
            "ids.pmid",
            "pmcid",
            "ids.pmcid",
            "openalex",
            "ids.openalex",
            "topics.id",
            "primary_topic.id",
            "is_oa",
            "open_access.is_oa",
            "has_doi",
            "type",
            "publication_year",
            "from_publication_date",
            "to_publication_date",
            "title.search",
            "display_name.search",
            "default.search",
            "title_and_abstract.search",
        ];
        let field = field.trim().to_owned();
        if known.contains(&field.as_str()) {
            Ok(Self { field, values })
        } else {
            Err(format!("{field} is not a valid field"))
        }
    }

    fn fits(&self, paper: &Paper) -> bool {
        let year = |date: &str| date.get(..4).and_then(|year| year.parse::<i32>().ok());
        self.values.iter().any(|value| match self.field.as_str() {
            "doi" => paper
                .doi
                .as_ref()
                .is_some_and(|(doi, _)| value.trim_start_matches("https://doi.org/") == doi),
            "pmid" | "ids.pmid" => paper.pmid.is_some_and(|id| *value == id.to_string()),
            "pmcid" | "ids.pmcid" => paper.central.is_some_and(|central| {
                value.trim_start_matches("pmc") == central.pmcid.to_string()
            }),
            "openalex" | "ids.openalex" => paper
                .openalex
                .is_some_and(|id| value.rsplit('/').next() == Some(&format!("w{id}"))),
            "topics.id" | "primary_topic.id" => {
                value.rsplit('/').next() == Some(&TOPICS[paper.topic].0.to_ascii_lowercase())
            }
            "is_oa" | "open_access.is_oa" => *value == is_open(paper).to_string(),
            "has_doi" => *value == paper.doi.is_some().to_string(),
            "type" => value == "article",
            "publication_year" => in_years(paper.year, value),
            "from_publication_date" => year(value).is_some_and(|first| paper.year >= first),
            "to_publication_date" => year(value).is_some_and(|last| paper.year <= last),
            _ => value
                .split_whitespace()
                .all(|word| paper.title.to_ascii_lowercase().contains(word)),
        })
    }
}

/// Reads `2020`, `2019-2021`, `2019-`, `-2021`, `>2018` and `<2022`.
fn in_years(year: i32, value: &str) -> bool {
    let number = |text: &str, otherwise: i32| {
        if text.is_empty() {
            Some(otherwise)
        } else {
            text.trim().parse().ok()
        }
    };
    if let Some(after) = value.strip_prefix('>') {
        return number(after, i32::MAX).is_some_and(|after| year > after);
    }
    if let Some(before) = value.strip_prefix('<') {
        return number(before, i32::MIN).is_some_and(|before| year < before);
    }
    let (first, last) = value.split_once('-').unwrap_or((value, value));
    matches!((number(first, i32::MIN), number(last, i32::MAX)), (Some(first), Some(last)) if (first..=last).contains(&year))
}

fn is_open(paper: &Paper) -> bool {
    paper.arxiv.is_some()
        || paper.central.is_some()
        || paper.copies.iter().any(|copy| copy.openalex != Mention::No)
}

/// Writes a work; `None` when it is not in the catalogue.
fn work(paper: &Paper) -> Option<Value> {
    let id = format!("https://openalex.org/W{}", paper.openalex?);
    let doi = paper
        .doi
        .as_ref()
        .map(|(doi, _)| format!("https://doi.org/{doi}"));
    let mut locations: Vec<Value> = Vec::new();
    if paper.home.is_some_and(|home| paper.copy_at(home).is_none()) {
        locations.push(location(
            &id,
            paper.home_page().as_deref(),
            None,
            false,
            None,
            "journal",
        ));
    }
    locations.extend(
        paper
            .copies
            .iter()
            .filter(|copy| copy.openalex != Mention::No)
            .map(|copy| of_copy(&id, copy)),
    );
    if let Some((arxiv, _)) = &paper.arxiv {
        let (page, oai) = (
            format!("http://{ARXIV_PAGES}/abs/{arxiv}"),
            format!("pmh:oai:arXiv.org:{arxiv}"),
        );
        // Half of them name the page alone.
        let file = paper
            .number
            .is_multiple_of(2)
            .then(|| format!("http://{ARXIV_PAGES}/pdf/{arxiv}"));
        locations.push(location(
            &oai,
            Some(&page),
            file.as_deref(),
            true,
            Some("submittedVersion"),
            "repository",
        ));
    }
    let best = locations
        .iter()
        .find(|location| location["is_oa"] == true)
        .cloned();
    let oa_url = best.as_ref().map(|best| {
        if best["pdf_url"].is_null() {
            best["landing_page_url"].clone()
        } else {
            best["pdf_url"].clone()
        }
    });
    let title = (paper.number % 23 != 7).then_some(&paper.title);
    let crossref = paper.doi_of(Agency::Crossref).is_some();
    let status = match (&best, crossref) {
        (None, _) if paper.central.is_none() => "closed",
        (Some(best), true) if best["source"]["type"] == "journal" => "gold",
        _ => "green",
    };
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
        "open_access": {"is_oa": is_open(paper), "oa_status": status, "oa_url": oa_url, "any_repository_has_fulltext": status == "green"},
        "authorships": [],
        "topics": [{"id": format!("https://openalex.org/{}", TOPICS[paper.topic].0), "display_name": TOPICS[paper.topic].1, "score": 0.98}],
        "has_fulltext": is_open(paper),
        "has_content": {"pdf": false, "grobid_xml": false},
        "content_urls": null,
        "is_retracted": false,
        "is_paratext": false,
        "cited_by_count": paper.number % 40,
        "updated_date": "2026-09-01T00:00:00",
        "abstract_inverted_index": null,
    }))
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
        // It is written in both ways.
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
    let file = (copy.openalex == Mention::File).then(|| copy.url());
    let kind = if copy.page.starts_with("/record/") {
        "repository"
    } else {
        "journal"
    };
    location(
        id,
        Some(&copy.page_url()),
        file.as_deref(),
        true,
        Some(copy.version.word()),
        kind,
    )
}

fn location(
    id: &str,
    page: Option<&str>,
    file: Option<&str>,
    open: bool,
    version: Option<&str>,
    kind: &str,
) -> Value {
    json!({
        "id": id,
        "is_oa": open,
        "landing_page_url": page,
        "pdf_url": file,
        "source": {"id": "https://openalex.org/S100", "display_name": "A Source", "issn_l": null, "is_oa": open, "is_in_doaj": false, "type": kind},
        "license": if open { Some("cc-by") } else { None },
        "license_id": null,
        "version": version,
        "is_accepted": version.is_some_and(|version| version != "submittedVersion"),
        "is_published": version == Some("publishedVersion"),
    })
}
