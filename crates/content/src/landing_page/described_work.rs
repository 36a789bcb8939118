//! The title, the year and the identifiers that a page gives of its work.

use scraper::Html;
use serde_json::Value;
use url::Url;

use super::platforms::looks_like_pdf;
use super::{DescribedFile, MetaTag, each};
use crate::identifier::{Doi, Identifier};
use crate::location::LocationOffer;
use crate::titles;
use crate::work::LearnedMetadata;

/// Metas whose content is the DOI, most reliable first.
const DOI_METAS: [&str; 9] = [
    "citation_doi",
    "prism.doi",
    "bepress_citation_doi",
    "publication_doi",
    "dc.identifier.doi",
    "dcterms.identifier.doi",
    "dc.identifier",
    "dcterms.identifier",
    "doi",
];

/// Metas whose content is the publisher's own id of the article.
const ID_METAS: [&str; 5] = [
    "citation_pii",
    "citation_id",
    "dc.identifier",
    "dcterms.identifier",
    "citation_article_id",
];

/// Types of JSON-LD objects that describe an article.
const ARTICLE_TYPES: [&str; 8] = [
    "ScholarlyArticle",
    "MedicalScholarlyArticle",
    "Article",
    "Chapter",
    "Thesis",
    "Report",
    "Book",
    "CreativeWork",
];

/// Keys of JSON-LD objects whose value describes other works.
const OTHER_WORKS: [&str; 12] = [
    "citation",
    "isPartOf",
    "hasPart",
    "mentions",
    "about",
    "publisher",
    "author",
    "review",
    "relatedLink",
    "significantLink",
    "isBasedOn",
    "subjectOf",
];

/// Reads the [`LearnedMetadata`] of the work from the page.
pub(super) fn learned(metas: &[MetaTag], linked_data: &[Value], page: &Url) -> LearnedMetadata {
    let first = |names: &[&str]| {
        names
            .iter()
            .find_map(|name| {
                metas
                    .iter()
                    .find(|meta| meta.name == *name && !meta.content.is_empty())
            })
            .map(|meta| meta.content.as_str())
    };
    let title = first(&[
        "citation_title",
        "dc.title",
        "dcterms.title",
        "prism.title",
        "bepress_citation_title",
        "eprints.title",
    ]);
    let mut learned = LearnedMetadata {
        title: title.and_then(titles::clean),
        ..LearnedMetadata::default()
    };
    let date = first(&[
        "citation_publication_date",
        "citation_date",
        "citation_year",
        "citation_online_date",
        "dc.date",
        "prism.publicationdate",
    ]);
    learned.year = date.and_then(|date| {
        date.split(|c: char| !c.is_ascii_digit())
            .find(|part| part.len() == 4)?
            .parse()
            .ok()
    });
    if let Some(doi) = doi(metas, linked_data).or_else(|| Doi::in_url(page)) {
        learned
            .identifiers
            .insert(doi.arxiv().map_or(Identifier::Doi(doi), Identifier::Arxiv));
    }
    learned.identifiers.arxiv = learned
        .identifiers
        .arxiv
        .take()
        .or_else(|| first(&["citation_arxiv_id"])?.parse().ok());
    learned.identifiers.pmid = first(&["citation_pmid"]).and_then(|text| text.parse().ok());
    learned
}

/// Returns the first valid [`Doi`]: an invalid `citation_doi` does not hide a valid DOI elsewhere.
fn doi(metas: &[MetaTag], linked_data: &[Value]) -> Option<Doi> {
    let stated = |name: &&str| {
        let of_name = metas.iter().filter(|meta| meta.name == **name);
        // Metas with the scheme DOI come first, then those without a scheme. Other schemes are
        // other names.
        let (mut said, silent): (Vec<_>, Vec<_>) = of_name
            .filter(|meta| meta.may_be_doi())
            .partition(|meta| !meta.scheme.is_empty());
        said.extend(silent);
        said.into_iter()
            .find_map(|meta| meta.content.parse::<Doi>().ok())
    };
    DOI_METAS
        .iter()
        .find_map(stated)
        .or_else(|| linked_data.iter().find_map(doi_of_article))
}

/// Returns the [`Doi`] of the article in a JSON-LD tree, and not of works that the article cites.
fn doi_of_article(value: &Value) -> Option<Doi> {
    match value {
        Value::Array(items) => items.iter().find_map(doi_of_article),
        Value::Object(object) => {
            let kinds = object.get("@type").map(texts).unwrap_or_default();
            if kinds.iter().any(|kind| ARTICLE_TYPES.contains(kind)) {
                let mut names = ["identifier", "doi", "sameAs", "@id", "url"]
                    .iter()
                    .filter_map(|key| object.get(*key))
                    .flat_map(texts);
                if let Some(doi) = names.find_map(|text| text.parse::<Doi>().ok()) {
                    return Some(doi);
                }
            }
            ["@graph", "mainEntity", "mainEntityOfPage"]
                .iter()
                .find_map(|key| object.get(*key).and_then(doi_of_article))
        }
        _ => None,
    }
}

/// Collects the media of the article in a JSON-LD tree, and not those of other works or
/// organisations.
pub(super) fn media_of_article(value: &Value, described: &mut Vec<DescribedFile>) {
    match value {
        Value::Array(items) => items
            .iter()
            .for_each(|item| media_of_article(item, described)),
        Value::Object(object) => {
            let kinds = object.get("@type").map(texts).unwrap_or_default();
            if kinds.iter().any(|kind| ARTICLE_TYPES.contains(kind)) {
                media(value, described);
            } else {
                let further = ["@graph", "mainEntity", "mainEntityOfPage"]
                    .iter()
                    .filter_map(|key| object.get(*key));
                further.for_each(|item| media_of_article(item, described));
            }
        }
        _ => {}
    }
}

/// Collects the media objects in an article's JSON-LD that are a PDF or full text.
fn media(value: &Value, described: &mut Vec<DescribedFile>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| media(item, described)),
        Value::Object(object) => {
            let text = |key: &str| object.get(key).and_then(Value::as_str).unwrap_or_default();
            let url = text("contentUrl");
            let format = if text("encodingFormat").is_empty() {
                text("fileFormat")
            } else {
                text("encodingFormat")
            };
            let offers = if format.contains("pdf") || (format.is_empty() && looks_like_pdf(url)) {
                Some(LocationOffer::Pdf)
            } else if format.contains("xml") && !format.contains("html") {
                Some(LocationOffer::Xml)
            } else {
                None
            };
            if let Some(offers) = offers.filter(|_| !url.is_empty()) {
                let is_article = object
                    .get("@type")
                    .map(texts)
                    .unwrap_or_default()
                    .iter()
                    .any(|kind| ARTICLE_TYPES.contains(kind));
                let name = if is_article {
                    String::new()
                } else {
                    format!("{} {}", text("name"), text("description"))
                };
                described.push(DescribedFile {
                    url: url.to_owned(),
                    name,
                    offers,
                    signal: "json_ld",
                });
            }
            object
                .iter()
                .filter(|(key, _)| !OTHER_WORKS.contains(&key.as_str()))
                .for_each(|(_, item)| media(item, described));
        }
        _ => {}
    }
}

/// Returns the texts of a JSON-LD value: itself, its items, or the `value` of an identifier object.
fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        Value::Object(object) => ["value", "@id"]
            .iter()
            .filter_map(|key| object.get(*key)?.as_str())
            .collect(),
        _ => Vec::new(),
    }
}

/// Returns the publisher's own ids in the metas of the page.
pub(super) fn stated_ids(metas: &[MetaTag]) -> Vec<String> {
    metas
        .iter()
        .filter(|meta| ID_METAS.contains(&meta.name.as_str()) && !meta.content.contains("://"))
        .map(|meta| meta.content.clone())
        .collect()
}

/// Tells whether the page describes an article, in its metas or in its JSON-LD.
pub(super) fn describes_an_article(metas: &[MetaTag], linked_data: &[Value]) -> bool {
    metas.iter().any(|meta| {
        [
            "citation_",
            "dc.",
            "dcterms.",
            "prism.",
            "eprints.",
            "bepress_",
        ]
        .iter()
        .any(|prefix| meta.name.starts_with(prefix))
            || (meta.name == "og:type" && meta.content.eq_ignore_ascii_case("article"))
    }) || linked_data
        .iter()
        .any(|value| doi_of_article(value).is_some())
}

/// Reads the JSON-LD of a page. Invalid blocks are skipped.
pub(super) fn linked_data(document: &Html) -> Vec<Value> {
    let scripts = each(document, r#"script[type="application/ld+json"]"#);
    scripts
        .into_iter()
        .filter_map(|script| serde_json::from_str(&script.text().collect::<String>()).ok())
        .collect()
}
