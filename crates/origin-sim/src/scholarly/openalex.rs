//! `OpenAlex`: single works, topics, and lists of works by filter or search, with cursors.

use serde_json::{Value, json};

use super::decoded_request::{self, DecodedRequest};
use super::paper::{Paper, TOPICS};
use super::world::ScholarlyWorld;
use crate::ledger::Arrival;
use crate::reply::ScriptedReply;

mod filter;
mod work;

use filter::Filter;
use work::work;

/// Maximum number of works on one page.
const MAX_PER_PAGE: usize = 100;
/// Default number of works on one page.
const PER_PAGE: usize = 25;
/// Prefix of cursors, chosen so that clients cannot interpret a cursor.
const CURSOR: &str = "IlsxMDAuMCwgJ2h0dHBz";

pub(super) fn answer(world: &ScholarlyWorld, arrival: &Arrival) -> ScriptedReply {
    let asked = DecodedRequest::of(arrival);
    match asked.path.as_str() {
        "/works" => list(world, &asked),
        "/topics" => topics(world, &asked),
        "/rate-limit" => decoded_request::json(
            200,
            &json!({"rate_limit": {
                "daily_budget_usd": 0.1,
                "daily_remaining_usd": 0.1,
                "resets_in_seconds": 3600,
            }}),
        ),
        path => match path.strip_prefix("/works/") {
            Some(id) => single(world, id, &asked),
            None => missing(),
        },
    }
}

fn missing() -> ScriptedReply {
    decoded_request::json(
        404,
        &json!({"error": "Not Found", "message": "the requested entity does not exist"}),
    )
}

fn refused(message: &str) -> ScriptedReply {
    decoded_request::json(
        400,
        &json!({"error": "Invalid query parameters error.", "message": message}),
    )
}

fn single(world: &ScholarlyWorld, id: &str, asked: &DecodedRequest) -> ScriptedReply {
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
    found.and_then(work).map_or_else(missing, |work| {
        decoded_request::json(200, &selected(work, asked))
    })
}

/// Returns a work with only those fields that the request selects.
fn selected(mut work: Value, asked: &DecodedRequest) -> Value {
    if let (Some(select), Some(fields)) = (asked.get("select"), work.as_object_mut()) {
        fields.retain(|name, _| select.split(',').any(|wanted| wanted.trim() == name));
    }
    work
}

fn list(world: &ScholarlyWorld, asked: &DecodedRequest) -> ScriptedReply {
    let (filters, per_page, start) = match read_list(asked) {
        Ok(list) => list,
        Err(message) => return refused(&message),
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
    let mut meta = json!({
        "count": known.len(),
        "db_response_time_ms": 12,
        "page": null,
        "per_page": per_page,
        "groups_count": null,
    });
    match asked.get("cursor") {
        Some(_) if start + results.len() < known.len() => {
            meta["next_cursor"] = format!("{CURSOR}{}==", start + results.len()).into();
        }
        Some(_) => meta["next_cursor"] = Value::Null,
        None => meta["page"] = (start / per_page + 1).into(),
    }
    decoded_request::json(
        200,
        &json!({"meta": meta, "results": results, "group_by": []}),
    )
}

/// Reads from a request the [`Filter`]s of a list, the number of works per page, and the index of
/// the page's first work.
fn read_list(asked: &DecodedRequest) -> Result<(Vec<Filter>, usize, usize), String> {
    let filters = asked.get("filter").map(|text| {
        text.split(',')
            .map(Filter::parse)
            .collect::<Result<Vec<_>, _>>()
    });
    let filters = filters.transpose()?.unwrap_or_default();
    let per_page = asked
        .get("per_page")
        .or_else(|| asked.get("per-page"))
        .map_or(Ok(PER_PAGE), str::parse);
    let per_page = per_page
        .ok()
        .filter(|count| (1..=MAX_PER_PAGE).contains(count))
        .ok_or("per-page parameter must be between 1 and 100")?;
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
    let start = start.ok_or("cursor or page is not valid")?;
    Ok((filters, per_page, start))
}

fn topics(world: &ScholarlyWorld, asked: &DecodedRequest) -> ScriptedReply {
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
        json!({
            "id": format!("https://openalex.org/{id}"),
            "display_name": name,
            "works_count": count,
        })
    };
    let results: Vec<Value> = TOPICS
        .iter()
        .enumerate()
        .filter(|(_, (_, name))| fits(name))
        .map(topic)
        .collect();
    let meta = json!({"count": results.len(), "page": 1, "per_page": PER_PAGE});
    decoded_request::json(
        200,
        &json!({"meta": meta, "results": results, "group_by": []}),
    )
}
