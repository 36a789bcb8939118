//! Reads a publisher's page for everything that leads to the article's file, and for nothing else.
//!
//! Pages are made for people, and say where the file is in a dozen ways, several of them wrong. What the page states about
//! itself (metas, `Link` headers, JSON-LD) comes first; links in its text count only where they name the work, because most
//! PDF links of a page lead to other files. Pure: nothing is fetched here.

use http::HeaderMap;
use scraper::{ElementRef, Html, Selector};
use serde_json::Value;
use url::Url;

use crate::location::{Location, Offers, is_link};
use crate::titles::{self, Likeness};
use crate::work::{Learned, Work};

mod about;
mod anchors;
mod blocks;
mod bounds;
mod labels;
mod link_header;
mod own;
mod platforms;
mod tree;

use own::{Carries, Own};
use platforms::looks_like_pdf;

/// One candidate location that a page points to.
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
    /// Candidate locations, best first, each once.
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

/// A meta of a page.
#[derive(Debug)]
struct Meta {
    /// Its name, or property where it has no name, in lower case.
    name: String,
    /// What its content is, where that is said, in lower case.
    scheme: String,
    content: String,
}

impl Meta {
    /// Tells whether its content may be a DOI: nothing says that it is another name.
    fn may_be_doi(&self) -> bool {
        self.scheme.is_empty() || ["doi", "uri", "url"].iter().any(|scheme| self.scheme.contains(scheme))
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

/// Keys of JSON-LD objects under which other works are described.
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

/// Reads a page. The URL is the one that answered, after redirects; `work` is what is known of the work that led there.
#[must_use]
pub fn extract(html: &str, page: &Url, headers: &HeaderMap, work: Option<&Work>) -> Page {
    let document = tree::build(html);
    let base = each(&document, "base[href]")
        .first()
        .and_then(|base| page.join(base.attr("href")?.trim()).ok())
        .filter(is_link)
        .unwrap_or_else(|| page.clone());
    let metas = metas(&document);
    let linked_data = about::linked_data(&document);
    let learned = about::learned(&metas, &linked_data, page);
    let next = next_hop(&document, &base).filter(|next| next != page);
    if work.is_some_and(|work| is_about_another(&learned, work)) {
        // Neither its files nor what it says are this work's.
        return Page { next, ..Page::default() };
    }
    let own = Own::new(page, &learned, &about::stated_ids(&metas), work);
    let mut found = Found { page, base: &base, candidates: Vec::new() };
    found.stated(&document, &metas, headers, &linked_data);
    let names_pdf = found.candidates.iter().any(|candidate| candidate.offers == Offers::Pdf);
    let links = anchors::collect(&document, &base, &own);
    for url in links.named {
        found.add(url.as_str(), Offers::Pdf, "anchor");
    }
    found.embedded(&document, &own, names_pdf);
    if found.candidates.iter().all(|candidate| candidate.offers != Offers::Pdf)
        && let Some(url) = links.doubtful
    {
        found.add(url.as_str(), Offers::Pdf, "anchor");
    }
    let plausible = || about::describes_an_article(&metas, &linked_data) || is_mentioned(&document, work);
    if !names_pdf
        && found.candidates.iter().all(|candidate| candidate.offers != Offers::Pdf)
        && let Some(url) = links.labelled.filter(|_| plausible())
    {
        found.add(url.as_str(), Offers::Pdf, "labelled_anchor");
    }
    Page { candidates: found.candidates, next, learned }
}

/// Tells whether a URL says that it leads to a supplement, a figure, a review or the like of a work, not to the work.
pub(crate) fn names_another_file(url: &Url) -> bool {
    titles::words(url.path()).iter().any(|word| labels::is_other_file(word))
}

/// Tells whether a page describes another work than the one that led there: another DOI and another title.
fn is_about_another(learned: &Learned, work: &Work) -> bool {
    let (Some(stated), Some(known)) = (&learned.identifiers.doi, &work.identifiers.doi) else { return false };
    let (Some(title), Some(wanted)) = (&learned.title, &work.title) else { return false };
    stated != known && titles::compare(title, wanted) == Likeness::Different
}

/// Tells whether a page that describes no article in its metas is about the work all the same: it names its DOI or title.
/// Where nothing is known of the work but this page, it is.
fn is_mentioned(document: &Html, work: Option<&Work>) -> bool {
    let Some(work) = work else { return true };
    let (doi, title) = (&work.identifiers.doi, &work.title);
    if doi.is_none() && title.is_none() {
        return true;
    }
    let text = document.root_element().text().collect::<Vec<_>>().join(" ").to_lowercase();
    doi.as_ref().is_some_and(|doi| text.contains(doi.as_str())) || title.as_ref().is_some_and(|title| titles::find_in(title, &text) == Likeness::Same)
}

/// Collects places, each once, in order.
struct Found<'a> {
    page: &'a Url,
    base: &'a Url,
    candidates: Vec<Candidate>,
}

impl Found<'_> {
    /// Takes what the page states about itself.
    fn stated(&mut self, document: &Html, metas: &[Meta], headers: &HeaderMap, linked_data: &[Value]) {
        for (name, offers) in FILE_METAS {
            for meta in metas.iter().filter(|meta| meta.name == name) {
                self.add(&meta.content, offers, name);
            }
        }
        for link in each(document, "link[href]") {
            let rel = link.attr("rel").unwrap_or_default().to_ascii_lowercase();
            let pdf = link.attr("type").is_some_and(|kind| kind.to_ascii_lowercase().contains("application/pdf"));
            if pdf && rel.split_ascii_whitespace().any(|word| matches!(word, "alternate" | "item")) {
                self.add(link.attr("href").unwrap_or_default(), Offers::Pdf, "link_alternate");
            }
        }
        for item in link_header::pdf_items(headers) {
            self.add(&item, Offers::Pdf, "link_header");
        }
        for meta in metas.iter().filter(|meta| matches!(meta.name.as_str(), "dc.identifier" | "dcterms.identifier")) {
            if meta.content.contains("://") && looks_like_pdf(&meta.content) {
                self.add(&meta.content, Offers::Pdf, "dc.identifier");
            }
        }
        for script in each(document, r#"script[type="application/json"]"#) {
            let text = script.text().collect::<String>();
            if text.contains("pdfDownload")
                && let Some(link) = serde_json::from_str(&text).ok().as_ref().and_then(platforms::science_direct)
            {
                self.add(&link, Offers::Pdf, "embedded_json");
            }
        }
        for value in linked_data {
            content_urls(value, &mut |text, offers| self.add(text, offers, "json_ld"));
        }
    }

    /// Takes files that the page shows in a frame, where they are its own.
    fn embedded(&mut self, document: &Html, own: &Own, names_pdf: bool) {
        let mut blocks = blocks::Blocks::default();
        for embedded in each(document, "embed[src], iframe[src], object[data]") {
            let source = embedded.attr("src").or_else(|| embedded.attr("data")).unwrap_or_default();
            let Ok(url) = self.base.join(source.trim()) else { continue };
            let pdf = looks_like_pdf(source) || embedded.attr("type") == Some("application/pdf");
            let named = own.carried_by(&url) != Carries::Nothing;
            let foreign = blocks.around(embedded) == blocks::Block::Foreign;
            if pdf && !foreign && !anchors::is_something_else(&url, "", own) && (named || (own.is_home(&url) && !names_pdf)) {
                self.add(source, Offers::Pdf, "embedded");
            }
        }
    }

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

/// Returns the metas of a page in document order.
fn metas(document: &Html) -> Vec<Meta> {
    each(document, "meta[content]")
        .into_iter()
        .filter_map(|meta| {
            let name = meta.attr("name").or_else(|| meta.attr("property"))?.trim().to_ascii_lowercase();
            let scheme = meta.attr("scheme").unwrap_or_default().trim().to_ascii_lowercase();
            Some(Meta { name, scheme, content: meta.attr("content")?.trim().to_owned() })
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
                if format.contains("pdf") || (format.is_empty() && looks_like_pdf(url)) {
                    add(url, Offers::Pdf);
                } else if format.contains("xml") && !format.contains("html") {
                    add(url, Offers::Xml);
                }
            }
            let own = object.iter().filter(|(key, _)| !OTHER_WORKS.contains(&key.as_str()));
            own.for_each(|(_, item)| content_urls(item, add));
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
