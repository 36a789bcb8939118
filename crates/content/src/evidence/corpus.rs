//! Comparison of papers with the works of other papers: first pages written for this test, and real
//! papers from a directory (`cargo xtask real-papers DIR`).

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::file_identity::look_inside;
use super::*;
use crate::identifier::Identifier;

/// A paper as its registry describes it.
#[derive(Clone, Debug, Deserialize)]
struct RegisteredPaper {
    doi: String,
    title: String,
    #[serde(default)]
    journal: Option<String>,
    #[serde(default)]
    file: String,
}

impl RegisteredPaper {
    fn work(&self) -> Work {
        let mut work = Work::new(Identifier::parse(&self.doi).unwrap());
        work.title = titles::clean(&self.title);
        work
    }
}

/// The text around a DOI on the first pages of several publishers; `{}` stands for the DOI.
const SHAPES: [&str; 9] = [
    "ORIGINAL RESEARCH published: 3 May 2019 doi: {}",
    "Nucleic acids and beyond, 2016, Vol. 44, Database issue 1-8 doi: {}",
    "Cite this article: Journal of Reeds 3, 12 (2020). https://doi.org/{}",
    "Citation: Rivers A, Brook B (2014) PLACE 9(3): e91. doi:{}",
    "This is an open access article, available from https://doi.org/{}",
    "Available online at www.sciencereads.example https://doi.org/{}",
    "RESEARCH ARTICLE Open Access",
    "Letters to nature of wetlands. Contents lists available. {} Received 5 March",
    "Data availability: all data are in the repository, https://doi.org/10.5061/dryad.83xq",
];

const SUBJECTS: [&str; 8] = [
    "sediment transport",
    "nitrogen uptake",
    "bird migration",
    "protein folding",
    "lithium electrodes",
    "larval settlement",
    "visual attention",
    "grain storage",
];
const ASPECTS: [&str; 6] = [
    "seasonal variation of",
    "a mechanistic model of",
    "long term trends in",
    "genetic control of",
    "remote sensing of",
    "clinical relevance of",
];
const PLACES: [&str; 5] = [
    "in alpine catchments",
    "under drought",
    "in coastal populations",
    "at low temperature",
    "among urban residents",
];

/// Words of a page that belong to no particular paper.
const WORDS: &str = "The measurement of the content was done at every station and the results of \
    the investigation were compared with those that are known from the literature. We conclude that \
    the method is of general use, and that further observations are needed for the understanding of \
    the processes. Abstract Background Methods Results Conclusion Keywords Introduction Received in \
    revised form and accepted for publication by the editor of the journal.";

/// Invents papers in the journals of eight publishers, with their first pages.
fn written() -> Vec<(RegisteredPaper, FileIdentity)> {
    let mut papers = Vec::new();
    for number in 0..SUBJECTS.len() * ASPECTS.len() * PLACES.len() {
        let subject = SUBJECTS[number % SUBJECTS.len()];
        let aspect = ASPECTS[number / SUBJECTS.len() % ASPECTS.len()];
        let place = PLACES[number / SUBJECTS.len() / ASPECTS.len() % PLACES.len()];
        let journal = number / 8;
        let known = RegisteredPaper {
            doi: format!("10.5555/journal.{journal:04}.{number:07}"),
            title: format!("On the {aspect} {subject} {place}"),
            journal: Some(journal.to_string()),
            file: String::new(),
        };
        let printed = SHAPES[number % SHAPES.len()].replace("{}", &known.doi);
        let page = format!("{printed} {} A. Rivers, B. Brook {WORDS}", known.title);
        let inside = FileIdentity {
            first_page: Some(page),
            ..FileIdentity::default()
        };
        papers.push((known, inside));
    }
    papers
}

/// The number of own papers refused, and of other works' papers accepted.
#[derive(Debug, Default, PartialEq, Eq)]
struct RefusalCount {
    own: usize,
    own_without_evidence: usize,
    own_refused: usize,
    foreign: usize,
    foreign_kept: usize,
    /// Papers accepted because the file seems to name the work.
    foreign_named: usize,
}

impl RefusalCount {
    fn take(&mut self, is_own: bool, finding: &EvidenceFinding) {
        let without = *finding == EvidenceFinding::Accepted(Evidence::None);
        let is_refused = matches!(finding, EvidenceFinding::WrongWork { .. });
        if is_own {
            self.own += 1;
            self.own_refused += usize::from(is_refused);
            self.own_without_evidence += usize::from(without);
        } else {
            self.foreign += 1;
            self.foreign_kept += usize::from(!is_refused);
            self.foreign_named += usize::from(!is_refused && !without);
        }
    }
}

/// Compares papers with works: each with those of its journal, and with every `step`-th of all.
fn compare(
    papers: &[(RegisteredPaper, FileIdentity)],
    step: usize,
    mut shown: impl FnMut(&RegisteredPaper, &RegisteredPaper, &EvidenceFinding),
) -> [RefusalCount; 2] {
    let (mut across, mut within) = (RefusalCount::default(), RefusalCount::default());
    for (number, (wanted, _)) in papers.iter().enumerate() {
        let work = wanted.work();
        for (other, (known, inside)) in papers.iter().enumerate() {
            let is_own = number == other;
            let is_of_journal = known.journal.is_some() && known.journal == wanted.journal;
            if !is_of_journal && !is_own && (number + other) % step != 0 {
                continue;
            }
            let finding = weigh(inside, &work);
            across.take(is_own, &finding);
            if is_of_journal {
                within.take(is_own, &finding);
            }
            shown(wanted, known, &finding);
        }
    }
    [across, within]
}

#[test]
fn foreign_papers_are_refused_across_and_within_journals_and_own_ones_are_not() {
    let papers = written();
    assert!(papers.len() > 200);
    for count in compare(&papers, 7, |_, _, _| {}) {
        assert_eq!(
            (count.own_refused, count.own_without_evidence),
            (0, 0),
            "{count:?}"
        );
        assert!(50 * count.foreign_kept <= count.foreign, "{count:?}");
    }
}

/// A work without a known title is distinguished by its DOI, if the page states a DOI.
#[test]
fn a_page_that_states_another_doi_is_refused_without_a_title_too() {
    for (known, inside) in written() {
        let mut own = known.work();
        own.title = None;
        assert!(
            matches!(weigh(&inside, &own), EvidenceFinding::Accepted(_)),
            "{inside:?}"
        );
        let page = inside.first_page.as_deref().unwrap();
        let mut other = Work::new(Identifier::parse("10.5555/journal.0001.9999999").unwrap());
        other.title = None;
        assert_eq!(
            matches!(weigh(&inside, &other), EvidenceFinding::WrongWork { .. }),
            page.contains(&known.doi),
            "{page}"
        );
    }
}

/// Reads a directory with papers and `index.json`, a list of `file`, `doi`, `title` and `journal`.
fn real(directory: &Path) -> Vec<(RegisteredPaper, FileIdentity)> {
    let index = std::fs::read_to_string(directory.join("index.json")).unwrap();
    let index: Vec<RegisteredPaper> = serde_json::from_str(&index).unwrap();
    let looked = index.into_iter().map(|known| {
        let inside = look_inside(&directory.join(&known.file));
        (known, inside)
    });
    looked.collect()
}

#[test]
#[ignore = "needs a directory of papers: cargo xtask real-papers DIR"]
#[expect(clippy::print_stderr, reason = "figures for the person who runs it")]
fn real_papers_are_told_apart() {
    let directory = std::env::var("DOCSTOKG_PAPERS").expect("DOCSTOKG_PAPERS names a directory");
    let papers = real(Path::new(&directory));
    let mut evidence: BTreeMap<String, usize> = BTreeMap::new();
    let counts = compare(&papers, 1, |wanted, known, finding| {
        let is_own = wanted.doi == known.doi;
        if is_own {
            *evidence.entry(format!("{finding:?}")).or_default() += 1;
        }
        let is_refused = matches!(finding, EvidenceFinding::WrongWork { .. });
        if is_own == is_refused && wanted.journal == known.journal {
            eprintln!("{} for {}: {finding:?}", known.file, wanted.doi);
        }
    });
    eprintln!("own: {evidence:?}");
    for (name, count) in ["all", "within journals"].iter().zip(&counts) {
        eprintln!("{name}: {count:?}");
    }
    for count in counts {
        assert_eq!(count.own_refused, 0);
        assert!(50 * count.foreign_kept <= count.foreign, "{count:?}");
    }
}
