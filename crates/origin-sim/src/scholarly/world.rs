//! All works of the simulated web, with the indexes by which services find them.

use std::collections::HashMap;

use bytes::Bytes;

use super::deposits::{self, Deposit};
use super::file::{self, TextVersion};
use super::hosts::Publisher;
use super::paper::{Case, Central, Copy, Paper};
use super::{Faults, LibraryPlan};

/// The works of a [`LibraryPlan`], with their indexes.
#[derive(Debug)]
pub(super) struct ScholarlyWorld {
    pub(super) plan: LibraryPlan,
    pub(super) papers: Vec<Paper>,
    pub(super) deposits: Vec<Deposit>,
    by_doi: HashMap<String, usize>,
    by_arxiv: HashMap<String, usize>,
    by_pmid: HashMap<u64, usize>,
    by_pmcid: HashMap<u64, usize>,
    by_openalex: HashMap<u64, usize>,
}

impl ScholarlyWorld {
    pub(super) fn generate(plan: &LibraryPlan) -> Self {
        let mut random = fastrand::Rng::with_seed(plan.seed);
        let mut cases: Vec<Case> = (0..plan.works)
            .map(|number| Case::of(number, plan.faults))
            .collect();
        random.shuffle(&mut cases);
        let mut counts: HashMap<Case, usize> = HashMap::new();
        let mut papers = Vec::with_capacity(plan.works);
        for (number, case) in cases.into_iter().enumerate() {
            let nth = counts.entry(case).or_default();
            papers.push(Paper::generate(
                number,
                *nth,
                case,
                plan.faults,
                &mut random,
            ));
            *nth += 1;
        }
        let known = || {
            papers
                .iter()
                .enumerate()
                .filter(|(_, paper)| paper.case != Case::Unknown)
        };
        Self {
            plan: plan.clone(),
            deposits: deposits::generate(plan.works, plan.deposits),
            by_doi: known()
                .filter_map(|(at, paper)| Some((paper.doi.as_ref()?.0.clone(), at)))
                .collect(),
            by_arxiv: known()
                .filter_map(|(at, paper)| Some((paper.arxiv.as_ref()?.0.to_ascii_lowercase(), at)))
                .collect(),
            by_pmid: known()
                .filter_map(|(at, paper)| Some((paper.pmid?, at)))
                .collect(),
            by_pmcid: known()
                .filter_map(|(at, paper)| Some((paper.central?.pmcid, at)))
                .collect(),
            by_openalex: known()
                .filter_map(|(at, paper)| Some((paper.openalex?, at)))
                .collect(),
            papers,
        }
    }

    pub(super) fn has_faults(&self) -> bool {
        self.plan.faults == Faults::Usual
    }

    pub(super) fn with_doi(&self, doi: &str) -> Option<&Paper> {
        self.by_doi
            .get(&doi.trim().to_ascii_lowercase())
            .map(|at| &self.papers[*at])
    }

    /// Finds a [`Paper`] by its arXiv id, with or without a version. Returns `None` if the paper
    /// does not have the version.
    pub(super) fn with_arxiv(&self, id: &str) -> Option<&Paper> {
        let id = id.trim().to_ascii_lowercase();
        let versioned = id
            .rsplit_once('v')
            .and_then(|(base, version)| Some((base, version.parse::<u32>().ok()?)));
        let (base, version) =
            versioned.map_or((id.as_str(), None), |(base, version)| (base, Some(version)));
        let paper = self.by_arxiv.get(base).map(|at| &self.papers[*at])?;
        let newest = paper.arxiv.as_ref().map_or(0, |(_, newest)| *newest);
        version
            .is_none_or(|version| (1..=newest).contains(&version))
            .then_some(paper)
    }

    pub(super) fn with_pmid(&self, pmid: &str) -> Option<&Paper> {
        self.by_pmid
            .get(&pmid.trim().parse().ok()?)
            .map(|at| &self.papers[*at])
    }

    /// Finds a [`Paper`] by its PMC id, with or without the letters.
    pub(super) fn with_pmcid(&self, pmcid: &str) -> Option<(&Paper, Central)> {
        let digits = pmcid
            .trim()
            .trim_start_matches(|c: char| c.is_ascii_alphabetic());
        let paper = self
            .by_pmcid
            .get(&digits.parse().ok()?)
            .map(|at| &self.papers[*at])?;
        Some((paper, paper.central?))
    }

    pub(super) fn with_openalex(&self, id: &str) -> Option<&Paper> {
        let digits = id
            .trim()
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .trim_start_matches(['W', 'w']);
        self.by_openalex
            .get(&digits.parse().ok()?)
            .map(|at| &self.papers[*at])
    }

    /// Finds the [`Paper`] whose page or file at a publisher has this path.
    pub(super) fn at(&self, publisher: &Publisher, path: &str) -> Option<&Paper> {
        let mut parts = path.trim_start_matches('/').split('/');
        let number = parts.find_map(|part| part.trim_end_matches(".pdf").parse::<usize>().ok())?;
        let paper = self.papers.get(number)?;
        (paper.home == Some(publisher) || paper.copy_at(publisher).is_some()).then_some(paper)
    }

    pub(super) fn pdf(&self, paper: &Paper, version: TextVersion) -> Bytes {
        file::pdf(self.plan.seed, paper.number, version, &self.plan.file_bytes)
    }

    /// Returns the complete bytes of a copy's file; faults of the transfer are added elsewhere.
    pub(super) fn file(&self, paper: &Paper, copy: &Copy) -> Bytes {
        let whole = self.pdf(paper, copy.version);
        if copy.trouble == super::paper::Trouble::Spoilt {
            file::spoilt(&whole)
        } else {
            whole
        }
    }

    pub(super) fn jats(&self, paper: &Paper, central: Central) -> Bytes {
        let doi = paper.doi.as_ref().map_or("", |(doi, _)| doi);
        file::jats(
            self.plan.seed,
            paper.number,
            &paper.title,
            doi,
            central.pmcid,
        )
    }
}
