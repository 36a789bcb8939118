//! What a PDF says about itself, compared with the work it was downloaded for.
//!
//! Publishers put the DOI and the title into the file's metadata (XMP, the Info dictionary) and the DOI on its first page.
//! A file that names another DOI and has another title is another work's file. A differing title alone proves nothing
//! (Info titles are often "Microsoft Word - ..."), and most files say nothing at all; both is recorded as what it is.

mod examiner;
mod inside;
mod weight;

use serde::{Deserialize, Serialize};

pub(crate) use examiner::Examiner;
pub use examiner::THREAD_NAME;
pub(crate) use inside::Inside;

use crate::identifier::Doi;
use crate::titles::{self, Likeness};
use crate::work::Work;

/// What the file itself says for being the right one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// Nothing, or it was not looked at.
    #[default]
    None,
    /// Its metadata names the work.
    Metadata,
    /// Its first page names the work.
    Text,
}

/// What looking inside a file came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// Nothing speaks against it, and this speaks for it.
    Accepted(Evidence),
    /// It is another work's file.
    WrongWork {
        /// What it says, for people.
        detail: String,
    },
}

/// Compares what a file says about itself with the work.
pub(crate) fn weigh(inside: &Inside, work: &Work) -> Finding {
    let doi = work.identifiers.doi.as_ref();
    let same_title = |text: &Option<String>| match (&work.title, text) {
        (Some(title), Some(text)) => titles::compare(title, text),
        _ => Likeness::Unclear,
    };
    let in_text = match (&work.title, &inside.first_page) {
        (Some(title), Some(text)) => titles::find_in(title, text),
        _ => Likeness::Unclear,
    };
    let in_metadata = same_title(&inside.title);
    if doi.is_some_and(|doi| inside.metadata_dois.contains(doi)) || in_metadata == Likeness::Same {
        return Finding::Accepted(Evidence::Metadata);
    }
    let page_dois = inside.first_page.as_deref().map(dois_in).unwrap_or_default();
    if doi.is_some_and(|doi| page_dois.iter().any(|found| is_same(found, doi))) || in_text == Likeness::Same {
        return Finding::Accepted(Evidence::Text);
    }
    let Some(doi) = doi else { return Finding::Accepted(Evidence::None) };
    // Of several DOIs on a page none is known to be its own.
    let stated = match (&inside.metadata_dois[..], &page_dois[..]) {
        ([first, ..], _) => Some((first.to_string(), "its metadata")),
        ([], [only]) => Some((only.clone(), "its first page")),
        _ => None,
    };
    let is_different = in_text == Likeness::Different || in_metadata == Likeness::Different;
    match stated {
        Some((stated, place)) if is_different => {
            Finding::WrongWork { detail: format!("the file is another work's: {place} names {stated}, and {doi} was wanted") }
        }
        _ => Finding::Accepted(Evidence::None),
    }
}

/// Returns the DOIs that a text names, each once. What stands right behind one may be stuck to it.
fn dois_in(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let mut found: Vec<String> = Vec::new();
    for (at, _) in lower.match_indices("10.") {
        let boundary = lower[..at].chars().next_back().is_none_or(|before| !before.is_alphanumeric() && before != '.');
        let rest = &lower[at..];
        let end = rest.find(|c: char| c.is_whitespace() || c.is_control() || "\"'<>|".contains(c)).unwrap_or(rest.len());
        if boundary
            && let Some(Ok(doi)) = Doi::read_bare(&rest[..end])
            && !found.iter().any(|known| known == doi.as_str())
        {
            found.push(doi.to_string());
        }
    }
    found
}

/// Tells whether a DOI found in a text is the one: lines of a PDF run into each other, so more may be stuck to its end.
fn is_same(found: &str, doi: &Doi) -> bool {
    found.strip_prefix(doi.as_str()).is_some_and(|behind| !behind.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identifier::Identifier;

    fn work(title: Option<&str>) -> Work {
        let mut work = Work::new(Identifier::parse("10.1000/right.1").unwrap());
        work.title = title.map(str::to_owned);
        work
    }

    fn page(text: &str) -> String {
        format!("{text} words of a page that go on and on about one thing or another until there are more than twenty of them here")
    }

    const TITLE: &str = "Assessment of virus infection in pathogen-free chickens";

    #[test]
    fn a_doi_or_title_of_the_work_is_evidence() {
        let named = Inside { metadata_dois: vec!["10.1000/right.1".parse().unwrap()], ..Inside::default() };
        assert_eq!(weigh(&named, &work(None)), Finding::Accepted(Evidence::Metadata));
        let titled = Inside { title: Some("Assessment of Virus Infection in Pathogen-Free Chickens".into()), ..Inside::default() };
        assert_eq!(weigh(&titled, &work(Some(TITLE))), Finding::Accepted(Evidence::Metadata));
        let printed = Inside { first_page: Some(page("doi:10.1000/right.1Received May")), ..Inside::default() };
        assert_eq!(weigh(&printed, &work(None)), Finding::Accepted(Evidence::Text));
        let printed = Inside { first_page: Some(page(TITLE)), title: Some("Microsoft Word - final3.doc".into()), ..Inside::default() };
        assert_eq!(weigh(&printed, &work(Some(TITLE))), Finding::Accepted(Evidence::Text));
    }

    #[test]
    fn another_doi_with_another_title_is_another_work() {
        let inside = Inside { metadata_dois: vec!["10.1000/other".parse().unwrap()], title: Some("Grants manual".into()), ..Inside::default() };
        assert!(matches!(weigh(&inside, &work(Some(TITLE))), Finding::WrongWork { detail } if detail.contains("10.1000/other")));
        let inside = Inside { first_page: Some(page("Grants manual of the commission https://doi.org/10.1000/other")), ..Inside::default() };
        assert!(matches!(weigh(&inside, &work(Some(TITLE))), Finding::WrongWork { detail } if detail.contains("first page")));
        // The metadata is a template's; the page decides.
        let inside =
            Inside { metadata_dois: vec!["10.1000/other".parse().unwrap()], title: Some("Journal template".into()), first_page: Some(page(TITLE)) };
        assert_eq!(weigh(&inside, &work(Some(TITLE))), Finding::Accepted(Evidence::Text));
    }

    #[test]
    fn less_than_that_is_no_contradiction() {
        let other = || vec!["10.1000/other".parse().unwrap()];
        for inside in [
            // A title alone.
            Inside { title: Some("Microsoft Word - paper.docx".into()), first_page: Some(page("something else")), ..Inside::default() },
            // A DOI alone.
            Inside { metadata_dois: other(), ..Inside::default() },
            // Several DOIs on the page: references.
            Inside { first_page: Some(page("10.1000/one 10.1000/two")), ..Inside::default() },
            Inside::default(),
        ] {
            assert_eq!(weigh(&inside, &work(Some(TITLE))), Finding::Accepted(Evidence::None), "{inside:?}");
        }
        // A version or preprint has another DOI and the same title.
        let preprint = Inside { metadata_dois: other(), title: Some(TITLE.into()), ..Inside::default() };
        assert_eq!(weigh(&preprint, &work(Some(TITLE))), Finding::Accepted(Evidence::Metadata));
        let untitled = Inside { metadata_dois: other(), title: Some("Grants manual".into()), ..Inside::default() };
        assert_eq!(weigh(&untitled, &work(None)), Finding::Accepted(Evidence::None));
    }
}
