//! Reads a publisher's page for everything that leads to the file.
//!
//! Pages are made for people, and say where the file is in a dozen ways, several of them wrong. All signals are collected
//! and ranked by how often they are right; whoever fetches tries them in order. Pure: nothing is fetched here.

use http::HeaderMap;
use scraper::{ElementRef, Html, Selector};
use serde_json::Value;
use url::Url;

use crate::identifier::{Doi, Identifier};
use crate::location::{Location, Offers, is_link};
use crate::work::Learned;

mod anchors;
mod link_header;

/// One place that a page points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Where.
    pub url: Url,
    /// What it promises.
    pub offers: Offers,
    /// Which signal said so.
    pub signal: &'static str,
}

/// What a page says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Places, best first, each once.
    pub candidates: Vec<Candidate>,
    /// Where the page sends browsers on to, by refresh or by a form.
    pub next: Option<Url>,
    /// What it says about the work.
    pub learned: Learned,
}

impl Page {
    /// Returns the places that the page at `at` names, in the form that robots should use.
    pub(crate) fn places<'a>(candidates: Vec<Candidate>, at: &'a Url, arxiv: &'a Url) -> impl Iterator<Item = Location> + 'a {
        candidates.into_iter().map(move |found| Location::new(found.url, found.offers, "landing_page").referer(at.clone()).rewritten(arxiv))
    }
}

/// Meta names whose content is a file, in the order of their reliability.
const FILE_METAS: [(&str, Offers); 6] = [
    ("citation_pdf_url", Offers::Pdf),
    ("citation_xml_url", Offers::Xml),
    ("citation_fulltext_html_url", Offers::Html),
    ("bepress_citation_pdf_url", Offers::Pdf),
    ("eprints.document_url", Offers::Pdf),
    ("wkhealth_pdf_url", Offers::Pdf),
];

/// Reads a page. The URL is the one that answered, after redirects.
#[must_use]
pub fn extract(html: &str, page: &Url, headers: &HeaderMap) -> Page {
    let document = Html::parse_document(html);
    let base = each(&document, "base[href]")
        .first()
        .and_then(|base| page.join(base.attr("href")?.trim()).ok())
        .filter(is_link)
        .unwrap_or_else(|| page.clone());
    let metas = metas(&document);
    let mut found = Found { page, base: &base, candidates: Vec::new() };

    for (name, offers) in FILE_METAS {
        for (_, content) in metas.iter().filter(|(known, _)| known == name) {
            found.add(content, offers, name);
        }
    }
    for link in each(&document, "link[href]") {
        let rel = link.attr("rel").unwrap_or_default().to_ascii_lowercase();
        let pdf = link.attr("type").is_some_and(|kind| kind.to_ascii_lowercase().contains("application/pdf"));
        if pdf && rel.split_ascii_whitespace().any(|word| matches!(word, "alternate" | "item")) {
            found.add(link.attr("href").unwrap_or_default(), Offers::Pdf, "link_alternate");
        }
    }
    for item in link_header::pdf_items(headers) {
        found.add(&item, Offers::Pdf, "link_header");
    }
    for (_, content) in metas.iter().filter(|(name, _)| matches!(name.as_str(), "dc.identifier" | "dcterms.identifier")) {
        if content.contains("://") && anchors::looks_like_pdf(content) {
            found.add(content, Offers::Pdf, "dc.identifier");
        }
    }
    for script in each(&document, r#"script[type="application/ld+json"]"#) {
        if let Ok(value) = serde_json::from_str::<Value>(&script.text().collect::<String>()) {
            content_urls(&value, &mut |text, offers| found.add(text, offers, "json_ld"));
        }
    }
    for embedded in each(&document, "embed[src], iframe[src], object[data]") {
        let source = embedded.attr("src").or_else(|| embedded.attr("data")).unwrap_or_default();
        if anchors::looks_like_pdf(source) || embedded.attr("type") == Some("application/pdf") {
            found.add(source, Offers::Pdf, "embedded");
        }
    }
    for anchor in anchors::ranked(&document, &base) {
        found.add(&anchor, Offers::Pdf, "anchor");
    }

    let next = next_hop(&document, &base).filter(|next| next != page);
    Page { candidates: found.candidates, next, learned: learned(&metas) }
}

/// Collects places, each once, in order.
struct Found<'a> {
    page: &'a Url,
    base: &'a Url,
    candidates: Vec<Candidate>,
}

impl Found<'_> {
    fn add(&mut self, text: &str, offers: Offers, signal: &'static str) {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') || text.eq_ignore_ascii_case("null") {
            return;
        }
        let Ok(mut url) = self.base.join(text) else { return };
        url.set_fragment(None);
        if !is_link(&url) {
            return;
        }
        // Old templates print http on pages that are served by https.
        if self.page.scheme() == "https" && url.scheme() == "http" && url.host() == self.page.host() {
            let _ = url.set_scheme("https");
        }
        if url != *self.page && self.candidates.iter().all(|known| known.url != url) {
            self.candidates.push(Candidate { url, offers, signal });
        }
    }
}

/// Returns elements in document order.
fn each<'a>(document: &'a Html, selector: &str) -> Vec<ElementRef<'a>> {
    Selector::parse(selector).map(|selector| document.select(&selector).collect()).unwrap_or_default()
}

/// Returns metas by lower-case name, or property where they have no name.
fn metas(document: &Html) -> Vec<(String, String)> {
    each(document, "meta[content]")
        .into_iter()
        .filter_map(|meta| {
            let name = meta.attr("name").or_else(|| meta.attr("property"))?;
            Some((name.trim().to_ascii_lowercase(), meta.attr("content")?.trim().to_owned()))
        })
        .collect()
}

/// Walks a JSON-LD tree for media objects that are a PDF or full text.
fn content_urls(value: &Value, add: &mut impl FnMut(&str, Offers)) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| content_urls(item, add)),
        Value::Object(object) => {
            if let Some(url) = object.get("contentUrl").and_then(Value::as_str) {
                let format = ["encodingFormat", "fileFormat"].iter().find_map(|key| object.get(*key)?.as_str()).unwrap_or_default();
                if format.contains("pdf") || (format.is_empty() && anchors::looks_like_pdf(url)) {
                    add(url, Offers::Pdf);
                } else if format.contains("xml") && !format.contains("html") {
                    add(url, Offers::Xml);
                }
            }
            object.values().for_each(|item| content_urls(item, add));
        }
        _ => {}
    }
}

/// Returns where a refresh or the hidden field of a redirect form leads.
fn next_hop(document: &Html, base: &Url) -> Option<Url> {
    let refresh = each(document, "meta[http-equiv][content]")
        .into_iter()
        .filter(|meta| meta.attr("http-equiv").is_some_and(|what| what.trim().eq_ignore_ascii_case("refresh")))
        .find_map(|meta| {
            let content = meta.attr("content")?;
            let at = content.to_ascii_lowercase().find("url")?;
            let target = content.get(at + 3..)?.trim_start().strip_prefix('=')?.trim();
            Some(target.trim_matches(['\'', '"']).to_owned())
        });
    let form = || {
        let field = each(document, "input[value]")
            .into_iter()
            .find(|field| field.attr("name").is_some_and(|name| name.eq_ignore_ascii_case("redirectURL")))?;
        let value = field.attr("value")?;
        let decoded = percent_encoding::percent_decode_str(value).decode_utf8_lossy().into_owned();
        Some(if value.contains("://") { value.to_owned() } else { decoded })
    };
    let mut next = base.join(refresh.or_else(form)?.trim()).ok()?;
    next.set_fragment(None);
    is_link(&next).then_some(next)
}

/// Reads what the metas say about the work.
fn learned(metas: &[(String, String)]) -> Learned {
    let first = |names: &[&str]| {
        names.iter().find_map(|name| metas.iter().find(|(known, content)| known == name && !content.is_empty())).map(|(_, content)| content.as_str())
    };
    let mut learned = Learned { title: first(&["citation_title", "dc.title"]).map(str::to_owned), ..Learned::default() };
    let date = first(&["citation_publication_date", "citation_date", "citation_year", "citation_online_date", "dc.date", "prism.publicationdate"]);
    learned.year = date.and_then(|date| date.split(|c: char| !c.is_ascii_digit()).find(|part| part.len() == 4)?.parse().ok());
    if let Some(doi) = first(&["citation_doi", "prism.doi", "dc.identifier"]).and_then(|text| text.parse::<Doi>().ok()) {
        learned.identifiers.insert(doi.arxiv().map_or(Identifier::Doi(doi), Identifier::Arxiv));
    }
    learned.identifiers.arxiv = learned.identifiers.arxiv.take().or_else(|| first(&["citation_arxiv_id"])?.parse().ok());
    learned.identifiers.pmid = first(&["citation_pmid"]).and_then(|text| text.parse().ok());
    learned
}
