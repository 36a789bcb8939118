//! Reads a publisher's page for everything that leads to the article's file, and for nothing else.
//!
//! Pages are made for people, and say where the file is in a dozen ways, several of them wrong.
//! What the page states about itself (metas, `Link` headers, JSON-LD) comes first; links in its
//! text count only where they name the work, because most PDF links of a page lead to other files.
//! Pure: nothing is fetched here.

use http::HeaderMap;
use scraper::{ElementRef, Html, Selector};
use serde_json::Value;
use url::Url;

use crate::location::{Location, Offers, is_link};
use crate::resolver::landing;
use crate::titles::{self, Likeness};
use crate::work::{Learned, Work};

mod about;
mod anchors;
mod blocks;
mod bounds;
mod labels;
mod link_header;
mod link_words;
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
    /// The signal is weak, or the page states another file: it is kept only if the file itself says
    /// that it is the work's.
    pub needs_evidence: bool,
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
    /// It was not read to its end: that would have cost more than a page is worth.
    pub is_cut: bool,
}

impl Page {
    /// Returns the places that the page at `at` names, in the form that robots should use.
    pub(crate) fn places<'a>(
        candidates: Vec<Candidate>,
        at: &'a Url,
        arxiv: &'a Url,
    ) -> impl Iterator<Item = Location> + 'a {
        candidates.into_iter().map(move |found| {
            let place = Location::new(found.url, found.offers, landing::ID)
                .referer(at.clone())
                .rewritten(arxiv);
            place.needing_evidence(found.needs_evidence)
        })
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
        self.scheme.is_empty()
            || ["doi", "uri", "url"]
                .iter()
                .any(|scheme| self.scheme.contains(scheme))
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

/// Reads a page. The URL is the one that answered, after redirects; `work` is what is known of the
/// work that led there.
#[must_use]
pub fn extract(html: &str, page: &Url, headers: &HeaderMap, work: Option<&Work>) -> Page {
    let (document, is_cut) = tree::build(html);
    let base = each(&document, "base[href]")
        .first()
        .and_then(|base| page.join(base.attr("href")?.trim()).ok())
        .filter(is_link)
        .unwrap_or_else(|| page.clone());
    let metas = metas(&document);
    let linked_data = about::linked_data(&document);
    let mut learned = about::learned(&metas, &linked_data, page);
    let next = next_hop(&document, &base, &metas).filter(|next| next != page);
    if work.is_some_and(|work| is_about_another(&learned, work)) {
        // Neither its files nor what it says are this work's.
        return Page {
            next,
            is_cut,
            ..Page::default()
        };
    }
    let own = Own::new(page, &learned, &about::stated_ids(&metas), work);
    let mut found = Found {
        page,
        base: &base,
        own: &own,
        candidates: Vec::new(),
    };
    found.stated(&document, &metas);
    found.described(&document, headers, &linked_data);
    let states_pdf = found.has_pdf();
    let links = anchors::collect(&document, &base, &own, states_pdf);
    for url in links.named {
        found.add(url.as_str(), Offers::Pdf, "anchor", states_pdf);
    }
    let is_its_page =
        is_its_page(&learned, work, &metas, &linked_data) || is_mentioned(&document, work);
    found.embedded(&document, is_its_page);
    if !found.has_pdf()
        && let Some((url, is_labelled)) = links.doubtful
    {
        found.add(
            url.as_str(),
            Offers::Pdf,
            "anchor",
            !(is_labelled && is_its_page),
        );
    }
    if !found.has_pdf()
        && let Some(url) = links.labelled.filter(|_| is_its_page)
    {
        found.add(url.as_str(), Offers::Pdf, "labelled_anchor", false);
    }
    if work.is_some_and(|work| states_another_doi(&learned, work)) {
        // It may be another version's page. Its title must not become the measure of its own files.
        let is_version = work.is_some_and(|work| is_version_of(&learned, work));
        learned.title = None;
        found
            .candidates
            .iter_mut()
            .for_each(|candidate| candidate.needs_evidence |= !is_version);
    }
    Page {
        candidates: found.candidates,
        next,
        learned,
        is_cut,
    }
}

/// Tells whether the DOI of a page differs from that of the work only at its end, as those of
/// versions do, or the titles are the same.
fn is_version_of(learned: &Learned, work: &Work) -> bool {
    let (Some(stated), Some(known)) = (&learned.identifiers.doi, &work.identifiers.doi) else {
        return true;
    };
    let same = stated
        .as_str()
        .bytes()
        .zip(known.as_str().bytes())
        .take_while(|(one, other)| one == other)
        .count();
    let registrant = known.as_str().find('/').unwrap_or(0);
    let same_title = matches!((&learned.title, &work.title), (Some(one), Some(other)) if titles::compare(one, other) == Likeness::Same);
    same_title
        || same > registrant + 8
        || same == known.as_str().len()
        || same == stated.as_str().len()
}

fn states_another_doi(learned: &Learned, work: &Work) -> bool {
    matches!((&learned.identifiers.doi, &work.identifiers.doi), (Some(stated), Some(known)) if stated != known)
}

/// Tells whether a page says in its metas that it is the work's: by its DOI or title, or, where
/// neither is known, by describing an article at all.
fn is_its_page(
    learned: &Learned,
    work: Option<&Work>,
    metas: &[Meta],
    linked_data: &[Value],
) -> bool {
    let known = work.map(|work| (work.identifiers.doi.as_ref(), work.title.as_deref()));
    let Some((doi, title)) = known.filter(|(doi, title)| doi.is_some() || title.is_some()) else {
        return about::describes_an_article(metas, linked_data);
    };
    let same_title = || matches!((title, &learned.title), (Some(known), Some(stated)) if titles::compare(known, stated) == Likeness::Same);
    (doi.is_some() && learned.identifiers.doi.as_ref() == doi) || same_title()
}

/// Tells whether a URL says that it leads to a supplement, a figure, a review or the like of a
/// work, not to the work.
pub(crate) fn names_another_file(url: &Url) -> bool {
    is_other_file_name(url.path())
}

/// Tells whether the name of a file says that it is a supplement, a figure, a review or the like.
pub(crate) fn is_other_file_name(name: &str) -> bool {
    titles::words(name)
        .iter()
        .any(|word| labels::is_other_file(word))
}

/// Tells whether a page describes another work than the one that led there: another DOI and another
/// title.
fn is_about_another(learned: &Learned, work: &Work) -> bool {
    let (Some(title), Some(wanted)) = (&learned.title, &work.title) else {
        return false;
    };
    states_another_doi(learned, work) && titles::compare(title, wanted) == Likeness::Different
}

/// Tells whether a page that describes no article in its metas is about the work all the same: it
/// names its DOI or title. Where nothing is known of the work but this page, it is.
fn is_mentioned(document: &Html, work: Option<&Work>) -> bool {
    let Some(work) = work else { return true };
    let (doi, title) = (&work.identifiers.doi, &work.title);
    if doi.is_none() && title.is_none() {
        return true;
    }
    let text = document
        .root_element()
        .text()
        .collect::<Vec<_>>()
        .join(" ")
        .to_lowercase();
    doi.as_ref().is_some_and(|doi| text.contains(doi.as_str()))
        || title
            .as_ref()
            .is_some_and(|title| titles::find_in(title, &text) == Likeness::Same)
}

/// A file that a page describes beside itself.
struct Described {
    url: String,
    /// What it is called there.
    name: String,
    offers: Offers,
    signal: &'static str,
}

/// Collects places, each once, in order.
struct Found<'a> {
    page: &'a Url,
    base: &'a Url,
    own: &'a Own,
    candidates: Vec<Candidate>,
}

impl Found<'_> {
    fn has_pdf(&self) -> bool {
        self.candidates
            .iter()
            .any(|candidate| candidate.offers == Offers::Pdf)
    }

    /// Takes what the page states as the article's file.
    fn stated(&mut self, document: &Html, metas: &[Meta]) {
        for (name, offers) in FILE_METAS {
            for meta in metas.iter().filter(|meta| meta.name == name) {
                self.add(&meta.content, offers, name, false);
            }
        }
        for meta in metas
            .iter()
            .filter(|meta| matches!(meta.name.as_str(), "dc.identifier" | "dcterms.identifier"))
        {
            if meta.content.contains("://") && looks_like_pdf(&meta.content) {
                self.add(&meta.content, Offers::Pdf, "dc.identifier", false);
            }
        }
        for script in each(document, r#"script[type="application/json"]"#) {
            let text = script.text().collect::<String>();
            if text.contains("pdfDownload")
                && let Some(link) = serde_json::from_str(&text)
                    .ok()
                    .as_ref()
                    .and_then(platforms::science_direct)
            {
                self.add(&link, Offers::Pdf, "embedded_json", false);
            }
        }
    }

    /// Takes the files that the page describes beside itself: in `link` elements, `Link` headers
    /// and JSON-LD. Supplements and guidelines are described there, too.
    fn described(&mut self, document: &Html, headers: &HeaderMap, linked_data: &[Value]) {
        let mut described: Vec<Described> = Vec::new();
        for link in each(document, "link[href]") {
            let rel = link.attr("rel").unwrap_or_default().to_ascii_lowercase();
            let pdf = link
                .attr("type")
                .is_some_and(|kind| kind.to_ascii_lowercase().contains("application/pdf"));
            if pdf
                && rel
                    .split_ascii_whitespace()
                    .any(|word| matches!(word, "alternate" | "item"))
            {
                let (url, name) = (
                    link.attr("href").unwrap_or_default().to_owned(),
                    link.attr("title").unwrap_or_default().to_owned(),
                );
                described.push(Described {
                    url,
                    name,
                    offers: Offers::Pdf,
                    signal: "link_alternate",
                });
            }
        }
        let items = link_header::pdf_items(headers);
        described.extend(items.into_iter().map(|url| Described {
            url,
            name: String::new(),
            offers: Offers::Pdf,
            signal: "link_header",
        }));
        for value in linked_data {
            about::media_of_article(value, &mut described);
        }
        let states_pdf = self.has_pdf();
        for Described {
            url: text,
            name,
            offers,
            signal,
        } in described
        {
            let Ok(url) = self.base.join(text.trim()) else {
                continue;
            };
            if !anchors::is_something_else(&url, &name, self.own) {
                let is_own =
                    self.own.is_home(&url) || self.own.carried_by(&url) != Carries::Nothing;
                self.add(&text, offers, signal, states_pdf || !is_own);
            }
        }
    }

    /// Takes files that the page shows in a frame, where they are its own.
    fn embedded(&mut self, document: &Html, is_its_page: bool) {
        let (own, names_pdf) = (self.own, self.has_pdf());
        let mut blocks = blocks::Blocks::default();
        for embedded in each(document, "embed[src], iframe[src], object[data]") {
            let source = embedded
                .attr("src")
                .or_else(|| embedded.attr("data"))
                .unwrap_or_default();
            let Ok(url) = self.base.join(source.trim()) else {
                continue;
            };
            let pdf = looks_like_pdf(source) || embedded.attr("type") == Some("application/pdf");
            let named = own.carried_by(&url) != Carries::Nothing;
            let foreign = blocks.around(embedded) == blocks::Block::Foreign;
            if pdf
                && !foreign
                && !anchors::is_something_else(&url, "", own)
                && (named || (own.is_home(&url) && !names_pdf))
            {
                self.add(
                    source,
                    Offers::Pdf,
                    "embedded",
                    names_pdf || !(named || is_its_page),
                );
            }
        }
    }

    fn add(&mut self, text: &str, offers: Offers, signal: &'static str, needs_evidence: bool) {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') || text.eq_ignore_ascii_case("null") {
            return;
        }
        let Ok(mut url) = self.base.join(text) else {
            return;
        };
        url.set_fragment(None);
        if !is_link(&url) {
            return;
        }
        // Old templates print http on pages that are served by https.
        if self.page.scheme() == "https" && url.scheme() == "http" && url.host() == self.page.host()
        {
            let _ = url.set_scheme("https");
        }
        if url != *self.page && self.candidates.iter().all(|known| known.url != url) {
            self.candidates.push(Candidate {
                url,
                offers,
                signal,
                needs_evidence,
            });
        }
    }
}

/// Returns elements in document order.
fn each<'a>(document: &'a Html, selector: &str) -> Vec<ElementRef<'a>> {
    Selector::parse(selector)
        .map(|selector| document.select(&selector).collect())
        .unwrap_or_default()
}

/// Returns the metas of a page in document order.
fn metas(document: &Html) -> Vec<Meta> {
    each(document, "meta[content]")
        .into_iter()
        .filter_map(|meta| {
            let name = meta
                .attr("name")
                .or_else(|| meta.attr("property"))?
                .trim()
                .to_ascii_lowercase();
            let scheme = meta
                .attr("scheme")
                .unwrap_or_default()
                .trim()
                .to_ascii_lowercase();
            Some(Meta {
                name,
                scheme,
                content: meta.attr("content")?.trim().to_owned(),
            })
        })
        .collect()
}

/// A refresh after more seconds than this is a page that is read meanwhile.
const LONGEST_REFRESH: u32 = 10;
/// A page with more text than this is no stub.
const LONGEST_STUB: usize = 2_000;

/// Returns where a refresh or the hidden field of a redirect form leads, on a stub that only sends
/// browsers on.
fn next_hop(document: &Html, base: &Url, metas: &[Meta]) -> Option<Url> {
    let refresh = each(document, "meta[http-equiv][content]")
        .into_iter()
        .filter(|meta| {
            meta.attr("http-equiv")
                .is_some_and(|what| what.trim().eq_ignore_ascii_case("refresh"))
        })
        .find_map(|meta| {
            let content = meta.attr("content")?;
            let seconds = content
                .trim_start()
                .split(|c: char| !c.is_ascii_digit())
                .next()
                .and_then(|text| text.parse().ok())
                .unwrap_or(0);
            let at = content.to_ascii_lowercase().find("url")?;
            let target = content
                .get(at + 3..)?
                .trim_start()
                .strip_prefix('=')?
                .trim();
            (seconds <= LONGEST_REFRESH).then(|| target.trim_matches(['\'', '"']).to_owned())
        });
    let is_stub = || {
        let text = document
            .root_element()
            .text()
            .map(|text| text.trim().len())
            .sum::<usize>();
        let asks_password = !each(document, r#"input[type="password"]"#).is_empty();
        !asks_password
            && text <= LONGEST_STUB
            && !metas.iter().any(|meta| meta.name.starts_with("citation_"))
    };
    let form = || {
        let field = each(document, "input[value]")
            .into_iter()
            .find(|field| {
                field
                    .attr("name")
                    .is_some_and(|name| name.eq_ignore_ascii_case("redirectURL"))
            })
            .filter(|_| is_stub())?;
        let value = field.attr("value")?;
        let decoded = percent_encoding::percent_decode_str(value)
            .decode_utf8_lossy()
            .into_owned();
        Some(if value.contains("://") {
            value.to_owned()
        } else {
            decoded
        })
    };
    let mut next = base.join(refresh.or_else(form)?.trim()).ok()?;
    next.set_fragment(None);
    is_link(&next).then_some(next)
}
