//! Deposits: records of repositories with any number of files of any kind.
//!
//! A record may have twenty files, and be a dataset, a poster, or the supplement of an article. A
//! file is taken for the work under two conditions:
//!
//! - The record is the requested one, or declares that it is the same work.
//! - One of its files stands out as the article.
//!
//! Everything else is reported as "not found": a wrong file is worse than no file.

use std::collections::VecDeque;

use url::Url;

use super::{BatchStep, LookupOutcome, ResolverId, Step, WorkLookupStep, WorkMention, each};
use crate::identifier::Doi;
use crate::landing_page::is_other_file_name;
use crate::location::{CandidateLocation, LocationChecksum, LocationOffer};
use crate::titles::{self, Likeness};
use crate::work::Work;

/// Maximum number of records of one work that a repository is queried for.
const MAX_RECORDS: usize = 3;

/// Looks up works, each by the records that mention the work.
pub(super) fn resolve<'a, R: PartialEq + Send + 'a>(
    works: &'a [Work],
    record_of: fn(WorkMention<'a>) -> Option<R>,
    look_up: impl Fn(R, WorkMention<'a>, &'a Work) -> WorkLookupStep<'a> + Copy + Send + 'a,
) -> BatchStep<'a> {
    each(works, |work| {
        let mut records: VecDeque<(R, WorkMention<'a>)> = VecDeque::new();
        for mention in work.mentions() {
            let record = record_of(mention);
            let record = record.filter(|record| records.iter().all(|(known, _)| known != record));
            records.extend(record.map(|record| (record, mention)));
            if records.len() == MAX_RECORDS {
                break;
            }
        }
        let unknown = LookupOutcome::not_found("no record of it is known");
        first_found(records, unknown, move |record, mention| {
            look_up(record, mention, work)
        })
    })
}

/// Looks up the records of a work, the certain records first, until a record has the file. `last`
/// is the outcome of the previous record.
fn first_found<'a, R: Send + 'a>(
    mut records: VecDeque<(R, WorkMention<'a>)>,
    last: LookupOutcome,
    look_up: impl Fn(R, WorkMention<'a>) -> WorkLookupStep<'a> + Send + 'a,
) -> WorkLookupStep<'a> {
    let Some((record, mention)) = records.pop_front() else {
        return Step::Done(last);
    };
    look_up(record, mention).then(move |outcome| {
        if matches!(outcome, LookupOutcome::Found(_)) {
            Step::Done(outcome)
        } else {
            first_found(records, outcome, look_up)
        }
    })
}

/// A file of a deposit.
pub(super) struct DepositedFile {
    pub(super) name: String,
    pub(super) url: Url,
    pub(super) size: Option<u64>,
    pub(super) checksum: Option<LocationChecksum>,
}

/// The relation of a record to the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkTie {
    /// The record is the requested one by its DOI or URL, or declares the DOI of the work as its
    /// own.
    Same,
    /// Another resolver named the record: its file must contain evidence that it is the work.
    Unproven,
}

/// The identity that a record declares.
pub(super) struct DeclaredIdentity<'a> {
    /// The DOIs of the same work: the record's own, and those of other copies.
    pub(super) dois: Vec<Doi>,
    /// The DOIs of works that the record belongs to, as a supplement or a dataset does.
    pub(super) belongs_to: Vec<Doi>,
    pub(super) title: Option<&'a str>,
}

/// Returns the [`WorkTie`] of a record to the work, or the reason why there is no relation.
pub(super) fn tie(
    mention: WorkMention<'_>,
    work: &Work,
    stated: &DeclaredIdentity<'_>,
) -> Result<WorkTie, String> {
    let doi = work.identifiers.doi.as_ref();
    if let WorkMention::Written(_) = mention {
        return Ok(WorkTie::Same);
    }
    if doi.is_some_and(|doi| stated.dois.iter().any(|own| own.is_version_of(doi))) {
        return Ok(WorkTie::Same);
    }
    if let WorkMention::Doi(asked) = mention {
        return Err(format!("the record is not the one of {asked}"));
    }
    if doi.is_some_and(|doi| stated.belongs_to.contains(doi)) {
        return Err("the record belongs to the work and is not the work itself".to_owned());
    }
    match (stated.title, &work.title) {
        (Some(own), Some(wanted)) if titles::compare(own, wanted) == Likeness::Different => {
            Err("the record has another title".to_owned())
        }
        _ => Ok(WorkTie::Unproven),
    }
}

/// Returns an id without the version at its end, `.v2` or `_v2`.
pub(super) fn without_version(id: &str) -> &str {
    let bare = id.trim_end_matches(|c: char| c.is_ascii_digit());
    if bare.len() == id.len() {
        return id;
    }
    bare.strip_suffix(".v")
        .or_else(|| bare.strip_suffix("_v"))
        .unwrap_or(id)
}

/// Words in the name of a file that identify the article.
const ARTICLE_WORDS: [&str; 10] = [
    "accepted",
    "article",
    "fulltext",
    "manuscript",
    "paper",
    "postprint",
    "preprint",
    "proof",
    "published",
    "thesis",
];

/// Words in the name of a file that describes the other files.
const ABOUT_FILES: [&str; 8] = [
    "agreement",
    "changelog",
    "codebook",
    "dictionary",
    "licence",
    "license",
    "questionnaire",
    "readme",
];

/// Returns the file of the article: the only PDF, or the only PDF whose name identifies the
/// article.
pub(super) fn article(
    files: Vec<DepositedFile>,
    title: Option<&str>,
) -> Result<DepositedFile, String> {
    let count = files.len();
    let mut texts: Vec<DepositedFile> = files
        .into_iter()
        .filter(|file| is_pdf(&file.name))
        .collect();
    let pdfs: Vec<String> = texts.iter().map(|file| file.name.clone()).collect();
    texts.retain(|file| !is_another(stem(&file.name), title));
    if texts.len() > 1 {
        texts.retain(|file| is_named_as_article(stem(&file.name), title));
        if texts.len() != 1 {
            return Err("it has several PDFs, and none stands out as the article".to_owned());
        }
    }
    texts.pop().ok_or_else(|| match (count, &pdfs[..]) {
        (0, _) => "it has no files".to_owned(),
        (1, []) => "its file is not a PDF".to_owned(),
        (_, []) => format!("none of its {count} files is a PDF"),
        (_, [only]) => {
            format!("its only PDF, '{only}', has the name of something beside the article")
        }
        (_, several) => format!(
            "its {} PDFs have the names of things beside the article",
            several.len()
        ),
    })
}

/// Tells whether a name ends like that of a PDF.
pub(super) fn is_pdf(name: &str) -> bool {
    name.to_ascii_lowercase().ends_with(".pdf")
}

fn stem(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

/// Tells whether a name identifies a file other than the article. Words of the title do not count:
/// a review has "review" in its name.
fn is_another(stem: &str, title: Option<&str>) -> bool {
    let of_title = title.map(titles::words).unwrap_or_default();
    titles::words(stem)
        .into_iter()
        .filter(|word| !of_title.contains(word))
        .any(|word| is_other_file_name(&word) || ABOUT_FILES.contains(&word.as_str()))
}

fn is_named_as_article(stem: &str, title: Option<&str>) -> bool {
    let has_title = title.is_some_and(|title| {
        titles::is_telling(title) && titles::compare(stem, title) == Likeness::Same
    });
    has_title
        || titles::words(stem)
            .iter()
            .any(|word| ARTICLE_WORDS.contains(&word.as_str()))
}

/// Creates a [`CandidateLocation`] for the article of a record.
pub(super) fn location(
    file: DepositedFile,
    resolver: ResolverId,
    tie: WorkTie,
) -> CandidateLocation {
    let mut location = CandidateLocation::new(file.url, LocationOffer::Pdf, resolver)
        .needing_evidence(tie == WorkTie::Unproven);
    location.size = file.size;
    location.checksum = file.checksum;
    location
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(names: &[&str], title: Option<&str>) -> Result<String, String> {
        let file = |name: &&str| DepositedFile {
            name: (*name).to_owned(),
            url: Url::parse("https://x.example/f").unwrap(),
            size: None,
            checksum: None,
        };
        article(names.iter().map(file).collect(), title).map(|file| file.name)
    }

    #[test]
    fn the_only_pdf_is_the_article_unless_its_name_says_otherwise() {
        assert_eq!(chosen(&["data.csv", "x1.PDF"], None).unwrap(), "x1.PDF");
        for names in [
            &["data.csv"][..],
            &[],
            &["README.pdf", "data.csv"],
            &["supplementary_material.pdf"],
            &["a.pdf", "b.pdf"],
            &["paper_part1.pdf", "paper_part2.pdf"],
        ] {
            assert!(chosen(names, None).is_err(), "{names:?}");
        }
    }

    #[test]
    fn words_of_the_title_do_not_make_a_file_something_else() {
        let title = Some("A review of the literature on urban heat islands");
        let name = "heat_islands_review.pdf";
        assert_eq!(chosen(&[name, "data.csv"], title).unwrap(), name);
        assert_eq!(
            chosen(&[name], None).unwrap_err(),
            "its only PDF, 'heat_islands_review.pdf', has the name of something beside the article"
        );
        assert_eq!(
            chosen(&["data.csv"], title).unwrap_err(),
            "its file is not a PDF"
        );
    }

    #[test]
    fn one_of_several_pdfs_stands_out_by_its_name() {
        assert_eq!(
            chosen(&["figures.pdf", "manuscript-final.pdf", "b.pdf"], None).unwrap(),
            "manuscript-final.pdf"
        );
        let title = Some("Urban heat islands and the design of streets");
        assert_eq!(
            chosen(
                &["Urban_heat_islands_and_the_design_of_streets.pdf", "b.pdf"],
                title
            )
            .unwrap(),
            "Urban_heat_islands_and_the_design_of_streets.pdf"
        );
    }

    #[test]
    fn versions_are_taken_off_and_nothing_else() {
        for (id, bare) in [
            ("10.6084/m9.figshare.123.v2", "10.6084/m9.figshare.123"),
            ("10.31234/osf.io/abcde_v1", "10.31234/osf.io/abcde"),
            ("10.5281/zenodo.123", "10.5281/zenodo.123"),
            ("abcv2", "abcv2"),
        ] {
            assert_eq!(without_version(id), bare);
        }
    }
}
