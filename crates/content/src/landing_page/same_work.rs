//! Comparison of a page with the work that led to it: the same work, a version, or another work.

use scraper::Html;
use serde_json::Value;

use super::described_work;
use super::metas::MetaTag;
use crate::titles::{self, Likeness};
use crate::work::{LearnedMetadata, Work};

/// Tells whether the DOI of a page differs from that of the [`Work`] only in its version, or the
/// titles are equal.
pub(super) fn is_version_of(learned: &LearnedMetadata, work: &Work) -> bool {
    let (Some(stated), Some(known)) = (&learned.identifiers.doi, &work.identifiers.doi) else {
        return true;
    };
    is_same_title(learned.title.as_deref(), work.title.as_deref()) || stated.is_version_of(known)
}

pub(super) fn states_another_doi(learned: &LearnedMetadata, work: &Work) -> bool {
    match (&learned.identifiers.doi, &work.identifiers.doi) {
        (Some(stated), Some(known)) => stated != known,
        _ => false,
    }
}

/// Tells whether the metas of a page identify the page as the work's, by its DOI or title. If
/// neither is known, any page that describes an article counts.
pub(super) fn is_its_page(
    learned: &LearnedMetadata,
    work: Option<&Work>,
    metas: &[MetaTag],
    linked_data: &[Value],
) -> bool {
    let known = work.map(|work| (work.identifiers.doi.as_ref(), work.title.as_deref()));
    let Some((doi, title)) = known.filter(|(doi, title)| doi.is_some() || title.is_some()) else {
        return described_work::describes_an_article(metas, linked_data);
    };
    let same_title = || is_same_title(title, learned.title.as_deref());
    (doi.is_some() && learned.identifiers.doi.as_ref() == doi) || same_title()
}

/// Tells whether a page describes another work than the given [`Work`]: another DOI and another
/// title.
pub(super) fn is_about_another(learned: &LearnedMetadata, work: &Work) -> bool {
    let (Some(title), Some(wanted)) = (&learned.title, &work.title) else {
        return false;
    };
    states_another_doi(learned, work) && titles::compare(title, wanted) == Likeness::Different
}

/// Maximum number of bytes of a page's text that are searched. A page names its work at its
/// beginning, and each word costs an allocation.
const MAX_SEARCHED_TEXT_BYTES: usize = 256 << 10;

/// Tells whether a page without article metas is about the work: its text contains the DOI or
/// title. If nothing is known of the work, the page counts as the work's.
pub(super) fn is_mentioned(document: &Html, work: Option<&Work>) -> bool {
    let Some(work) = work else { return true };
    let (doi, title) = (&work.identifiers.doi, &work.title);
    if doi.is_none() && title.is_none() {
        return true;
    }
    let mut text = String::new();
    for piece in document.root_element().text() {
        let mut room = MAX_SEARCHED_TEXT_BYTES
            .saturating_sub(text.len())
            .min(piece.len());
        if room == 0 && !piece.is_empty() {
            break;
        }
        while !piece.is_char_boundary(room) {
            room -= 1;
        }
        text.push_str(&piece[..room]);
        text.push(' ');
    }
    let text = text.to_lowercase();
    doi.as_ref().is_some_and(|doi| text.contains(doi.as_str()))
        || title
            .as_ref()
            .is_some_and(|title| titles::find_in(title, &text) == Likeness::Same)
}

fn is_same_title(one: Option<&str>, other: Option<&str>) -> bool {
    one.zip(other)
        .is_some_and(|(one, other)| titles::compare(one, other) == Likeness::Same)
}
