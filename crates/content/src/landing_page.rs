//! Reads a publisher's page for the links to the article's file, and for no other links.
//!
//! Pages name the file in a dozen ways, several of them wrong. Declarations of the page (metas,
//! `Link` headers, JSON-LD) come first. Links in its text count only if they name the work, because
//! most PDF links of a page lead to other files. Pure: nothing is fetched here.

use std::time::Duration;

use http::HeaderMap;
use scraper::{ElementRef, Html, Selector};
use url::Url;

use crate::location::{CandidateLocation, LocationOffer, is_link};
use crate::resolver::landing;
use crate::titles;
use crate::work::{LearnedMetadata, Work};

mod anchors;
mod blocks;
mod bounds;
mod candidate_collector;
mod described_work;
mod labels;
mod link_header;
mod link_words;
mod metas;
mod own_work_names;
mod platforms;
mod processor;
mod same_work;
mod tree;

use candidate_collector::{CandidateCollector, DescribedFile};
use metas::{MetaTag, metas, next_hop};
use own_work_names::OwnNames;
use processor::ProcessorDeadline;
use same_work::{is_about_another, is_its_page, is_mentioned, is_version_of, states_another_doi};

/// Maximum number of bytes of a page that are kept: the readable part in an encoding of two bytes
/// per letter, and a few more to show that the page is longer.
pub(crate) const MAX_BYTES: u64 = 2 * bounds::MAX_PAGE_BYTES as u64 + 64;

/// Maximum processor time for a page until its last link is read.
const TIME_LIMIT: Duration = Duration::from_millis(200);

/// A candidate location in a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageCandidate {
    /// The URL of the location.
    pub url: Url,
    /// The kind of content that the page promises.
    pub offers: LocationOffer,
    /// The name of the signal in the page.
    pub signal: &'static str,
    /// The signal is weak, or the page declares another file: the file is kept only with
    /// [`Evidence`](crate::evidence::Evidence) that it belongs to the work.
    pub needs_evidence: bool,
}

/// The result of reading a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageContents {
    /// The [`PageCandidate`]s, best first, each once.
    pub candidates: Vec<PageCandidate>,
    /// The URL to which the page redirects browsers, by a refresh or by a form.
    pub next: Option<Url>,
    /// The metadata of the work on the page.
    pub learned: LearnedMetadata,
    /// The page was not read to its end, because the limits were reached.
    pub is_cut: bool,
}

impl PageContents {
    /// Returns the locations that the page at `at` names, in their canonical form for robots.
    pub(crate) fn places<'a>(
        candidates: Vec<PageCandidate>,
        at: &'a Url,
        arxiv: &'a Url,
    ) -> impl Iterator<Item = CandidateLocation> + 'a {
        candidates.into_iter().map(move |found| {
            let place = CandidateLocation::new(found.url, found.offers, landing::ID)
                .referer(at.clone())
                .rewritten(arxiv);
            place.needing_evidence(found.needs_evidence)
        })
    }
}

/// Reads a page. `page` is the URL of the response after redirects; `work` is the [`Work`] that led
/// to the page, if known.
#[must_use]
pub fn extract(html: &str, page: &Url, headers: &HeaderMap, work: Option<&Work>) -> PageContents {
    let deadline = ProcessorDeadline::after(TIME_LIMIT);
    let (document, mut is_cut) = tree::build(html);
    let base = each(&document, "base[href]")
        .first()
        .and_then(|base| page.join(base.attr("href")?.trim()).ok())
        .filter(is_link)
        .unwrap_or_else(|| page.clone());
    let metas = metas(&document);
    let linked_data = described_work::linked_data(&document);
    let mut learned = described_work::learned(&metas, &linked_data, page);
    let next = next_hop(&document, &base, &metas).filter(|next| next != page);
    if work.is_some_and(|work| is_about_another(&learned, work)) {
        // The page belongs to another work, so neither its files nor its metadata count.
        return PageContents {
            next,
            is_cut,
            ..PageContents::default()
        };
    }
    let own = OwnNames::new(page, &learned, &described_work::stated_ids(&metas), work);
    let mut found = CandidateCollector {
        page,
        base: &base,
        own: &own,
        candidates: Vec::new(),
    };
    found.stated(&document, &metas);
    found.described(&document, headers, &linked_data);
    let states_pdf = found.has_pdf();
    let links = anchors::collect(&document, &base, &own, states_pdf, deadline);
    is_cut |= links.is_cut;
    for url in links.named {
        found.add(url.as_str(), LocationOffer::Pdf, "anchor", states_pdf);
    }
    let is_its_page =
        is_its_page(&learned, work, &metas, &linked_data) || is_mentioned(&document, work);
    found.embedded(&document, is_its_page);
    found.less_certain(links.doubtful, links.labelled, is_its_page);
    if work.is_some_and(|work| states_another_doi(&learned, work)) {
        // The page may belong to another version, whose title must not be compared with its own
        // files.
        let is_version = work.is_some_and(|work| is_version_of(&learned, work));
        learned.title = None;
        found
            .candidates
            .iter_mut()
            .for_each(|candidate| candidate.needs_evidence |= !is_version);
    }
    PageContents {
        candidates: found.candidates,
        next,
        learned,
        is_cut,
    }
}

/// Tells whether a URL names a supplement, a figure, a review or the like of a work, and not the
/// work.
pub(crate) fn names_another_file(url: &Url) -> bool {
    is_other_file_name(url.path())
}

/// Tells whether the name of a file is that of a supplement, a figure, a review or the like.
pub(crate) fn is_other_file_name(name: &str) -> bool {
    titles::words(name)
        .iter()
        .any(|word| labels::is_other_file(word))
}

/// Returns the elements that a selector matches, in document order.
fn each<'a>(document: &'a Html, selector: &str) -> Vec<ElementRef<'a>> {
    Selector::parse(selector)
        .map(|selector| document.select(&selector).collect())
        .unwrap_or_default()
}
