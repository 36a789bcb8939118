//! Comparison of a PDF's own statements with the work that it was downloaded for.
//!
//! Publishers put DOI and title into the metadata of a file (XMP, Info), and the DOI on its first
//! page. A file with another DOI and another title is another work's file. A differing title alone
//! proves nothing: Info titles are often "Microsoft Word - ...". A title of few words proves
//! nothing either: "Introduction" stands on many pages. Most files contain no evidence at all.

mod codespaces;
#[cfg(test)]
mod corpus;
mod examiner;
mod file_identity;
mod forms;
mod packed_pdf;
mod weight;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub(crate) use examiner::EvidenceExaminer;
pub(crate) use file_identity::FileIdentity;

use crate::identifier::Doi;
use crate::titles::{self, Likeness};
use crate::work::Work;

/// The part of a file that identifies the file as the work's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Evidence {
    /// No evidence, or the file was not examined.
    #[default]
    None,
    /// The metadata of the file names the work.
    Metadata,
    /// The first page of the file names the work.
    Text,
}

/// The result of comparing a file with its work, see [`weigh`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EvidenceFinding {
    /// The file may belong to the work, with this evidence.
    Accepted(Evidence),
    /// The file belongs to another work.
    WrongWork {
        /// The contradicting statement of the file, for people.
        detail: String,
    },
}

/// Compares the [`FileIdentity`] of a file with its [`Work`].
pub(crate) fn weigh(inside: &FileIdentity, work: &Work) -> EvidenceFinding {
    let doi = work.identifiers.doi.as_ref();
    let page = inside.first_page.as_deref().unwrap_or_default();
    let title = work.title.as_deref();
    // A work may itself be a corrigendum.
    let is_part = is_a_part(page) && !title.is_some_and(is_a_part);
    // An article that comments on a work prints the title and the DOI of that work, so these do not
    // prove that the file is the work.
    let is_about_work = title.is_some_and(|title| titles::is_commented_in(title, page));
    let page_dois = dois_in(page);
    if doi.is_some_and(|doi| inside.metadata_dois.contains(doi)) && !is_part {
        return EvidenceFinding::Accepted(Evidence::Metadata);
    }
    if doi.is_some_and(|doi| {
        page_dois.iter().any(|found| is_same(&found.doi, doi)) || is_broken_in(doi, page)
    }) && !is_part
        && !is_about_work
    {
        return EvidenceFinding::Accepted(Evidence::Text);
    }
    let in_metadata = match (title, inside.title.as_deref()) {
        // If a title has few words, all of them must match: "Introduction to Zoology" is another
        // title than "Introduction".
        (Some(title), Some(text))
            if !titles::is_telling(title) && !titles::is_equal(title, text) =>
        {
            Likeness::Different
        }
        (Some(title), Some(text)) => titles::compare(title, text),
        _ => Likeness::Unclear,
    };
    let in_text = title.map_or(Likeness::Unclear, |title| titles::find_in(title, page));
    let is_telling = title.is_some_and(titles::is_telling) && !is_part;
    if is_telling
        && in_metadata == Likeness::Same
        && inside.title.as_deref().is_some_and(titles::is_telling)
    {
        return EvidenceFinding::Accepted(Evidence::Metadata);
    }
    // If a page has several DOIs, the file's own is not known.
    let stated = match (&inside.metadata_dois[..], &page_dois[..]) {
        ([first, ..], _) => Some((first.to_string(), "its metadata")),
        ([], [only]) if only.is_own => Some((only.doi.clone(), "its first page")),
        _ => None,
    };
    // The words of a title may be scattered over any page on the same subject. Against another DOI
    // they must stand together.
    let names_another = doi.is_some() && stated.is_some();
    let stands_there = title.is_some_and(|title| titles::stands_in(title, page));
    // A comment contains all words of the title that it discusses.
    let is_strewn = || {
        title.is_some_and(|title| {
            !titles::is_about_another(title) && titles::has_most_words_of(title, page)
        })
    };
    if is_telling && !is_about_work && (stands_there || (!names_another && is_strewn())) {
        return EvidenceFinding::Accepted(Evidence::Text);
    }
    let Some(doi) = doi else {
        return EvidenceFinding::Accepted(Evidence::None);
    };
    let is_different = in_text == Likeness::Different || in_metadata == Likeness::Different;
    // Without a title to compare, a readable page of the work would name its DOI.
    let is_nameless = title.is_none() && titles::is_readable(page);
    let is_missing = title.is_some_and(|title| titles::is_missing_from(title, page));
    match stated {
        Some((stated, place)) if is_different || (is_nameless && !is_version(&stated, doi)) => {
            wrong_work(&format!("{place} names {stated}, and {doi} was wanted"))
        }
        _ if is_missing && in_metadata != Likeness::Same => {
            wrong_work(&format!("its first page has neither {doi} nor the title"))
        }
        _ => EvidenceFinding::Accepted(Evidence::None),
    }
}

fn wrong_work(why: &str) -> EvidenceFinding {
    EvidenceFinding::WrongWork {
        detail: format!("the file is another work's: {why}"),
    }
}

/// Tells whether a DOI in a file is that of another version of a [`Doi`].
fn is_version(stated: &str, doi: &Doi) -> bool {
    stated
        .parse::<Doi>()
        .is_ok_and(|stated| stated.is_version_of(doi))
}

/// Words at the beginning of a page that identify a part of a work, such as a supplement.
const PART_WORDS: [&str; 5] = [
    "supplement",
    "supporting information",
    "electronic supplementary",
    "additional file",
    "appendix",
];
/// The number of characters at the beginning of a page that are searched for [`PART_WORDS`].
const PAGE_BEGINNING_CHARS: usize = 200;

/// Tells whether a page begins like a supplement or a correction, which also prints the title of
/// its work.
fn is_a_part(page: &str) -> bool {
    let beginning: String = page
        .chars()
        .take(PAGE_BEGINNING_CHARS)
        .collect::<String>()
        .to_lowercase();
    let words = titles::words(&beginning).join(" ");
    PART_WORDS.iter().any(|part| words.starts_with(part))
        || titles::is_about_another(&beginning)
        || words.contains("supplementary information for")
        || words.contains("supporting information for")
}

/// Words before a DOI that assign the DOI to something else: data, another version, or a corrected
/// or commented work. "Cite this article" and "Available online" precede a paper's own DOI.
const OF_SOMETHING_ELSE: [&str; 14] = [
    "dataset",
    "data set",
    "data availab",
    "data are",
    "data is",
    "data deposit",
    "supplement",
    "published version",
    "original version",
    "archived",
    "deposited",
    "correction to",
    "comment on",
    "reply to",
];
/// The number of characters before a DOI that are searched for [`OF_SOMETHING_ELSE`].
const DOI_CONTEXT_CHARS: usize = 120;

/// A DOI on a page.
#[derive(Debug, PartialEq, Eq)]
struct PageDoi {
    doi: String,
    /// No word before the DOI assigns the DOI to something else.
    is_own: bool,
}

/// Tells whether a page contains a DOI broken by white space, as at the end of a line.
fn is_broken_in(doi: &Doi, page: &str) -> bool {
    let doi = doi.as_str().to_lowercase();
    let mut squeezed = String::new();
    // The positions after which white space was removed.
    let mut gaps = BTreeSet::new();
    for word in page.to_lowercase().split_whitespace() {
        squeezed.push_str(word);
        gaps.insert(squeezed.len());
    }
    squeezed.match_indices(&doi).any(|(at, _)| {
        let end = at + doi.len();
        let next = squeezed[end..].chars().next();
        // A digit may continue a longer DOI on the next line.
        let is_apart = gaps.contains(&end) && !next.is_some_and(|next| next.is_ascii_digit());
        is_apart || is_end(&doi, &squeezed[end..])
    })
}

/// Returns the DOIs in a text as [`PageDoi`]s, each once. The text right after a DOI may be stuck
/// to its end.
fn dois_in(text: &str) -> Vec<PageDoi> {
    let lower = text.to_lowercase();
    let mut found: Vec<PageDoi> = Vec::new();
    for (at, _) in lower.match_indices("10.") {
        let boundary = lower[..at]
            .chars()
            .next_back()
            .is_none_or(|before| !before.is_alphanumeric() && before != '.');
        let rest = &lower[at..];
        let end = rest
            .find(|c: char| c.is_whitespace() || c.is_control() || "\"'<>|".contains(c))
            .unwrap_or(rest.len());
        if boundary
            && let Some(Ok(doi)) = Doi::read_bare(&rest[..end])
            && !found.iter().any(|known| known.doi == doi.as_str())
        {
            let mut context: Vec<char> =
                lower[..at].chars().rev().take(DOI_CONTEXT_CHARS).collect();
            context.reverse();
            let context: String = context.into_iter().collect();
            // A DOI without digits belongs to a journal.
            let is_own = doi
                .as_str()
                .split_once('/')
                .is_some_and(|(_, suffix)| suffix.bytes().any(|byte| byte.is_ascii_digit()))
                && !OF_SOMETHING_ELSE.iter().any(|word| context.contains(word));
            found.push(PageDoi {
                doi: doi.to_string(),
                is_own,
            });
        }
    }
    found
}

/// Tells whether a DOI found in a text is the given DOI or another version of it. Lines of a PDF
/// run into each other, so text may be stuck to its end.
fn is_same(found: &str, doi: &Doi) -> bool {
    let behind = found.strip_prefix(doi.as_str());
    is_version(found, doi) || behind.is_some_and(|behind| is_end(doi.as_str(), behind))
}

/// Minimum number of letters after a DOI that count as the next word of the text, not as the rest
/// of a longer DOI.
const STUCK_LETTERS: usize = 4;

/// Tells whether a DOI ends before the text right after it. The DOIs of figures, supplements and
/// sections continue that of their work.
fn is_end(doi: &str, behind: &str) -> bool {
    let word = behind.trim_start_matches('.');
    let letters = word.chars().take_while(|c| c.is_alphabetic()).count();
    let is_word = letters >= STUCK_LETTERS && doi.ends_with(|c: char| c.is_ascii_digit());
    let goes_on = |c: char| c.is_alphanumeric() || "-_/:(+<#".contains(c);
    is_word || !word.starts_with(goes_on)
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
        format!(
            "{text} words of a page that go on and on about one thing or another until there are more than twenty of them here"
        )
    }

    const TITLE: &str = "Assessment of virus infection in pathogen-free chickens";

    #[test]
    fn a_doi_or_title_of_the_work_is_evidence() {
        let named = FileIdentity {
            metadata_dois: vec!["10.1000/right.1".parse().unwrap()],
            ..FileIdentity::default()
        };
        assert_eq!(
            weigh(&named, &work(None)),
            EvidenceFinding::Accepted(Evidence::Metadata)
        );
        let titled = FileIdentity {
            title: Some("Assessment of Virus Infection in Pathogen-Free Chickens".into()),
            ..FileIdentity::default()
        };
        assert_eq!(
            weigh(&titled, &work(Some(TITLE))),
            EvidenceFinding::Accepted(Evidence::Metadata)
        );
        let printed = FileIdentity {
            first_page: Some(page("doi:10.1000/right.1Received May")),
            ..FileIdentity::default()
        };
        assert_eq!(
            weigh(&printed, &work(None)),
            EvidenceFinding::Accepted(Evidence::Text)
        );
        let printed = FileIdentity {
            first_page: Some(page(TITLE)),
            title: Some("Microsoft Word - final3.doc".into()),
            ..FileIdentity::default()
        };
        assert_eq!(
            weigh(&printed, &work(Some(TITLE))),
            EvidenceFinding::Accepted(Evidence::Text)
        );
    }

    #[test]
    fn another_doi_with_another_title_is_another_work() {
        let inside = FileIdentity {
            metadata_dois: vec!["10.1000/other".parse().unwrap()],
            title: Some("Grants manual".into()),
            ..FileIdentity::default()
        };
        assert!(
            matches!(weigh(&inside, &work(Some(TITLE))), EvidenceFinding::WrongWork { detail } if detail.contains("10.1000/other"))
        );
        let inside = FileIdentity {
            first_page: Some(page(
                "Grants manual of the commission https://doi.org/10.1000/other.7",
            )),
            ..FileIdentity::default()
        };
        assert!(
            matches!(weigh(&inside, &work(Some(TITLE))), EvidenceFinding::WrongWork { detail } if detail.contains("first page"))
        );
        // The metadata is a template's, so the page decides.
        let inside = FileIdentity {
            metadata_dois: vec!["10.1000/other".parse().unwrap()],
            title: Some("Journal template".into()),
            first_page: Some(page(TITLE)),
        };
        assert_eq!(
            weigh(&inside, &work(Some(TITLE))),
            EvidenceFinding::Accepted(Evidence::Text)
        );
    }

    #[test]
    fn a_doi_that_goes_on_is_that_of_something_else() {
        let doi: Doi = "10.1000/right.1".parse().unwrap();
        for same in [
            "10.1000/right.1",
            "10.1000/right.1.v2",
            "10.1000/right.1/v2",
            "10.1000/right.1received",
            "10.1000/right.1.received",
            "10.1000/right.1,received",
        ] {
            assert!(is_same(same, &doi), "{same}");
        }
        for other in [
            "10.1000/right.12",
            "10.1000/right.1a",
            "10.1000/right.1.2",
            "10.1000/right.1.g001",
            "10.1000/right.1/fig-2",
            "10.1000/right.1-suppl",
            "10.1000/right",
        ] {
            assert!(!is_same(other, &doi), "{other}");
            let page = page(&format!("of {} and", other.replace("right", "right ")));
            // Without white space, a letter after the DOI may begin the next word.
            assert!(
                other.ends_with('a') || !is_broken_in(&doi, &page),
                "{other}"
            );
        }
        for own in [
            "doi: 10.1000/ right.1 Received",
            "10.1000/ right.1 J. Smith",
            "10.1000/right. 1 by",
        ] {
            assert!(is_broken_in(&doi, &page(own)), "{own}");
        }
        assert!(!is_broken_in(&doi, &page("10.1000/ right.1 2")));
    }

    #[test]
    fn a_comment_on_a_work_is_not_the_work() {
        for about in ["Comment on", "Reply to", "Correction to:", "Erratum:"] {
            let about = format!("{about} {TITLE}");
            let inside = FileIdentity {
                metadata_dois: vec!["10.1000/other".parse().unwrap()],
                title: Some(about.clone()),
                first_page: Some(page(&format!(
                    "Journal 3, 2019. {about} doi:10.1000/right.1"
                ))),
            };
            assert!(
                matches!(
                    weigh(&inside, &work(Some(TITLE))),
                    EvidenceFinding::WrongWork { .. }
                ),
                "{about}"
            );
            let wanted = weigh(&inside, &work(Some(&about)));
            assert!(matches!(wanted, EvidenceFinding::Accepted(_)), "{about}");
            let original = FileIdentity {
                metadata_dois: vec!["10.1000/other".parse().unwrap()],
                title: Some(TITLE.to_owned()),
                first_page: Some(page(TITLE)),
            };
            assert!(
                matches!(
                    weigh(&original, &work(Some(&about))),
                    EvidenceFinding::WrongWork { .. }
                ),
                "{about}"
            );
        }
    }

    #[test]
    fn another_doi_or_title_alone_does_not_contradict_the_work() {
        let other = || vec!["10.1000/other".parse().unwrap()];
        for inside in [
            // Only a title.
            FileIdentity {
                title: Some("Microsoft Word - paper.docx".into()),
                first_page: Some(page("something else")),
                ..FileIdentity::default()
            },
            // Only a DOI.
            FileIdentity {
                metadata_dois: other(),
                ..FileIdentity::default()
            },
            // Several DOIs on the page, as in references.
            FileIdentity {
                first_page: Some(page("10.1000/one 10.1000/two")),
                ..FileIdentity::default()
            },
            FileIdentity::default(),
        ] {
            assert_eq!(
                weigh(&inside, &work(Some(TITLE))),
                EvidenceFinding::Accepted(Evidence::None),
                "{inside:?}"
            );
        }
        // A version or preprint has another DOI and the same title.
        let preprint = FileIdentity {
            metadata_dois: other(),
            title: Some(TITLE.into()),
            ..FileIdentity::default()
        };
        assert_eq!(
            weigh(&preprint, &work(Some(TITLE))),
            EvidenceFinding::Accepted(Evidence::Metadata)
        );
        let untitled = FileIdentity {
            metadata_dois: other(),
            title: Some("Grants manual".into()),
            ..FileIdentity::default()
        };
        assert_eq!(
            weigh(&untitled, &work(None)),
            EvidenceFinding::Accepted(Evidence::None)
        );
    }

    #[test]
    fn a_correction_is_no_paper_except_where_it_is_the_work() {
        for kind in ["Corrigendum", "Erratum", "Correction to:"] {
            let inside = FileIdentity {
                first_page: Some(page(&format!("{kind} {TITLE} doi:10.1000/right.1"))),
                ..FileIdentity::default()
            };
            assert_eq!(
                weigh(&inside, &work(Some(TITLE))),
                EvidenceFinding::Accepted(Evidence::None),
                "{kind} of the work"
            );
            assert_eq!(
                weigh(&inside, &work(Some(&format!("{kind} {TITLE}")))),
                EvidenceFinding::Accepted(Evidence::Text),
                "{kind} that was wanted"
            );
        }
    }
}
