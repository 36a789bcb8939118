//! arXiv: the Atom API, the files and the abstract pages.

use super::decoded_request::{self, DecodedRequest};
use super::file::{self, TextVersion, escaped};
use super::hosts::ARXIV;
use super::paper::Paper;
use super::world::ScholarlyWorld;
use crate::ledger::Arrival;
use crate::reply::ScriptedReply;

/// Number of works of a feed, unless the request has another number.
const DEFAULT_RESULTS: usize = 10;

pub(super) fn answer(world: &ScholarlyWorld, arrival: &Arrival) -> ScriptedReply {
    let asked = DecodedRequest::of(arrival);
    if asked.path == "/api/query" {
        return feed(world, &asked);
    }
    let found = |prefix: &str| {
        asked
            .path
            .strip_prefix(prefix)
            .and_then(|id| world.with_arxiv(id.trim_end_matches(".pdf")))
    };
    if let Some(paper) = found("/pdf/") {
        return file::serve(
            arrival,
            &world.pdf(paper, TextVersion::Submitted),
            "application/pdf",
        );
    }
    match found("/abs/") {
        Some(paper) => abstract_page(paper),
        None => decoded_request::page(
            404,
            "<html><head><title>Not found</title></head><body>No such paper</body></html>",
        ),
    }
}

fn abstract_page(paper: &Paper) -> ScriptedReply {
    let (id, _) = paper.arxiv.clone().unwrap_or_default();
    let title = escaped(&paper.title);
    let metas = format!(
        "<meta name=\"citation_title\" content=\"{title}\">\
         <meta name=\"citation_arxiv_id\" content=\"{id}\">\
         <meta name=\"citation_pdf_url\" content=\"http://{ARXIV}/pdf/{id}\">"
    );
    decoded_request::page(
        200,
        format!(
            "<!DOCTYPE html><html><head><title>{title}</title>{metas}</head>\
             <body><h1>{title}</h1></body></html>"
        ),
    )
}

fn feed(world: &ScholarlyWorld, asked: &DecodedRequest) -> ScriptedReply {
    let ids: Vec<&str> = asked
        .get("id_list")
        .unwrap_or_default()
        .split(',')
        .filter(|id| !id.is_empty())
        .collect();
    let most = asked
        .get("max_results")
        .and_then(|most| most.parse().ok())
        .unwrap_or(DEFAULT_RESULTS);
    let entries: Vec<String> = ids
        .iter()
        .filter_map(|id| world.with_arxiv(id))
        .take(most)
        .map(entry)
        .collect();
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<feed xmlns=\"http://www.w3.org/2005/Atom\" \
         xmlns:opensearch=\"http://a9.com/-/spec/opensearch/1.1/\" \
         xmlns:arxiv=\"http://arxiv.org/schemas/atom\">\n\
         <id>http://arxiv.org/api/query</id><title>arXiv Query</title>\
         <updated>2026-10-01T00:00:00Z</updated>\
         <opensearch:totalResults>{count}</opensearch:totalResults>\
         <opensearch:startIndex>0</opensearch:startIndex>\
         <opensearch:itemsPerPage>{most}</opensearch:itemsPerPage>\n{}</feed>\n",
        entries.join("\n"),
        count = entries.len(),
    );
    decoded_request::text(200, "application/atom+xml", text)
}

fn entry(paper: &Paper) -> String {
    let (id, version) = paper.arxiv.clone().unwrap_or_default();
    let published = paper
        .home
        .and(paper.doi.as_ref())
        .map(|(doi, _)| format!("<arxiv:doi>{}</arxiv:doi>", escaped(doi)))
        .unwrap_or_default();
    let authors = paper.authors().into_iter();
    let authors: Vec<String> = authors
        .map(|(given, family)| {
            let name = format!("{given} {family}");
            format!("<author><name>{}</name></author>", escaped(name.trim()))
        })
        .collect();
    let authors = authors.concat();
    format!(
        "<entry><id>http://arxiv.org/abs/{id}v{version}</id><title>{}</title>\
         <updated>{year}-03-01T00:00:00Z</updated><published>{year}-03-01T00:00:00Z</published>\
         <summary>An abstract.</summary>{authors}\
         <link rel=\"alternate\" type=\"text/html\" href=\"http://{ARXIV}/abs/{id}v{version}\"/>\
         <link rel=\"related\" type=\"application/pdf\" title=\"pdf\" \
         href=\"http://{ARXIV}/pdf/{id}v{version}\"/>{published}</entry>",
        escaped(&paper.title),
        year = paper.year,
    )
}
