//! Collects the candidate locations of a page from the ways in which a page names its files.

use http::HeaderMap;
use scraper::Html;
use serde_json::Value;
use url::Url;

use super::metas::MetaTag;
use super::own_work_names::{LinkCertainty, OwnNames};
use super::platforms::{self, looks_like_pdf};
use super::{PageCandidate, anchors, blocks, described_work, each, link_header};
use crate::location::{LocationOffer, is_link};

/// Names of metas whose content is a file with its [`LocationOffer`], most reliable first.
const FILE_METAS: [(&str, LocationOffer); 6] = [
    ("citation_pdf_url", LocationOffer::Pdf),
    ("citation_xml_url", LocationOffer::Xml),
    ("citation_fulltext_html_url", LocationOffer::Html),
    ("bepress_citation_pdf_url", LocationOffer::Pdf),
    ("eprints.document_url", LocationOffer::Pdf),
    ("wkhealth_pdf_url", LocationOffer::Pdf),
];

/// A file that a page describes in addition to itself.
pub(super) struct DescribedFile {
    pub(super) url: String,
    /// The name of the file in this description.
    pub(super) name: String,
    pub(super) offers: LocationOffer,
    pub(super) signal: &'static str,
}

/// Collects candidate locations, each once, in the order of their discovery.
pub(super) struct CandidateCollector<'a> {
    pub(super) page: &'a Url,
    pub(super) base: &'a Url,
    pub(super) own: &'a OwnNames,
    pub(super) candidates: Vec<PageCandidate>,
}

impl CandidateCollector<'_> {
    pub(super) fn has_pdf(&self) -> bool {
        self.candidates
            .iter()
            .any(|candidate| candidate.offers == LocationOffer::Pdf)
    }

    /// Adds the locations that the metas of the page declare as the article's file.
    pub(super) fn stated(&mut self, document: &Html, metas: &[MetaTag]) {
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
                self.add(&meta.content, LocationOffer::Pdf, "dc.identifier", false);
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
                self.add(&link, LocationOffer::Pdf, "embedded_json", false);
            }
        }
    }

    /// Adds the files in `link` elements, in `Link` headers and in JSON-LD. These also describe
    /// supplements and guidelines.
    pub(super) fn described(
        &mut self,
        document: &Html,
        headers: &HeaderMap,
        linked_data: &[Value],
    ) {
        let mut described: Vec<DescribedFile> = Vec::new();
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
                described.push(DescribedFile {
                    url,
                    name,
                    offers: LocationOffer::Pdf,
                    signal: "link_alternate",
                });
            }
        }
        let items = link_header::pdf_items(headers);
        described.extend(items.into_iter().map(|url| DescribedFile {
            url,
            name: String::new(),
            offers: LocationOffer::Pdf,
            signal: "link_header",
        }));
        for value in linked_data {
            described_work::media_of_article(value, &mut described);
        }
        let states_pdf = self.has_pdf();
        for DescribedFile {
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
                    self.own.is_home(&url) || self.own.carried_by(&url) != LinkCertainty::Nothing;
                self.add(&text, offers, signal, states_pdf || !is_own);
            }
        }
    }

    /// Adds links that count only if there is nothing better:
    ///
    /// - a link that names the work together with something else
    /// - on the work's own page, a link with only the label of the file
    pub(super) fn less_certain(
        &mut self,
        doubtful: Option<(Url, bool)>,
        labelled: Option<Url>,
        is_its_page: bool,
    ) {
        if !self.has_pdf()
            && let Some((url, is_labelled)) = doubtful
        {
            let needs_evidence = !(is_labelled && is_its_page);
            self.add(url.as_str(), LocationOffer::Pdf, "anchor", needs_evidence);
        }
        if !self.has_pdf()
            && let Some(url) = labelled.filter(|_| is_its_page)
        {
            self.add(url.as_str(), LocationOffer::Pdf, "labelled_anchor", false);
        }
    }

    /// Adds files that the page embeds in a frame, if the files belong to the page.
    pub(super) fn embedded(&mut self, document: &Html, is_its_page: bool) {
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
            let named = own.carried_by(&url) != LinkCertainty::Nothing;
            let foreign = blocks.around(embedded) == blocks::LinkBlock::Foreign;
            if pdf
                && !foreign
                && !anchors::is_something_else(&url, "", own)
                && (named || (own.is_home(&url) && !names_pdf))
            {
                self.add(
                    source,
                    LocationOffer::Pdf,
                    "embedded",
                    names_pdf || !(named || is_its_page),
                );
            }
        }
    }

    pub(super) fn add(
        &mut self,
        text: &str,
        offers: LocationOffer,
        signal: &'static str,
        needs_evidence: bool,
    ) {
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
        // Old templates print `http` on pages that are served by `https`.
        if self.page.scheme() == "https" && url.scheme() == "http" && url.host() == self.page.host()
        {
            let _ = url.set_scheme("https");
        }
        if url != *self.page && self.candidates.iter().all(|known| known.url != url) {
            self.candidates.push(PageCandidate {
                url,
                offers,
                signal,
                needs_evidence,
            });
        }
    }
}
